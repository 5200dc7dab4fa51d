// `tenon graph`: prints or draws the graph of a model.
#include "graph/graph.h"

#include "aot/lower.h"
#include "cli/graph_file.h"
#include "cli/graphviz.h"
#include "cli/output.h"
#include "graph/dot.h"
#include "graph/json.h"
#include "graph/print.h"

namespace tenon::cli {

namespace {

struct GraphOptions {
  std::string model, stage = "captured", format = "text", output;
  ModelOptions archive;
};

std::string drawn(const Graph& graph, const std::string& format) {
  if (format == "json") return to_json(graph) + "\n";
  if (format == "dot") return to_dot(graph);
  if (format == "svg") return svg_of_dot(to_dot(graph));
  return to_text(graph);
}

int show_graph(const GraphOptions& options, const Globals& globals) {
  std::shared_ptr<Graph> graph = load_graph(options.model, options.archive);
  if (options.stage == "decomposed")
    graph = lower_inference(*graph, {.decomposes = decomposition_set("core_aten", {})}).graph;
  write_output(options.output, drawn(*graph, globals.json ? "json" : options.format));
  return 0;
}

Action build(CLI::App& app) {
  auto options = std::make_shared<GraphOptions>();
  app.add_option("MODEL", options->model, "a model (.pt2) or a graph (.tng, .tng.json)")
      ->required();
  app.add_option("--stage", options->stage, "captured, or decomposed into core ops")
      ->check(CLI::IsMember({"captured", "decomposed"}));
  app.add_option("--format", options->format, "text, json, dot, or svg by Graphviz")
      ->check(CLI::IsMember({"text", "json", "dot", "svg"}));
  app.add_option("-o,--output", options->output, "the file to write instead of stdout");
  add_archive_options(app, options->archive);
  return [options](const Globals& globals) { return show_graph(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_graph{
    .name = "graph",
    .summary = "prints or draws the graph of a model",
    .example = "tenon graph resnet18.pt2 --stage decomposed --format svg -o resnet18.svg",
    .build = build};

}  // namespace tenon::cli
