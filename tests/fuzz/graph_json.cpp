// Graphs as JSON (.tng.json): what is taken is printed so that it reads back as the same graph.
#include "harness/graph_checks.h"
#include "harness/run_checks.h"

using namespace tenon;

TENON_FUZZ_TARGET(graph_json) {
  std::shared_ptr<Graph> graph;
  if (!fuzz::accepts(fuzz::file_errors, [&] { graph = formats::parse_graph_json(input); })) return;
  fuzz::check_graph(*graph);
  fuzz::check_runs(to_text(*graph));
}
