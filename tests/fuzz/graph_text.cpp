// Graph texts (.tng): what is taken is printed so that it reads back as the same graph.
#include "harness/graph_checks.h"

using namespace tenon;

TENON_FUZZ_TARGET(graph_text) {
  std::shared_ptr<Graph> graph;
  if (fuzz::accepts(fuzz::file_errors, [&] { graph = parse_graph(input); }))
    fuzz::check_graph(*graph);
}
