// `tenon graph`: prints or draws the graph of a model.
#include "graph/graph.h"

#include "aot/lower.h"
#include "cli/graph_file.h"
#include "cli/graphviz.h"
#include "cli/output.h"
#include "config/flags.h"
#include "formats/graph_json.h"
#include "graph/text/dot.h"
#include "graph/text/print.h"
#include "partition/split.h"

#include <filesystem>

namespace tenon::cli {

namespace {

struct GraphOptions {
  std::string model, stage = "captured", format = "text", output, picture;
  ModelOptions archive;
};

std::string drawn(const Graph& graph, const std::string& format) {
  if (format == "json") return formats::to_json(graph) + "\n";
  if (format == "dot") return to_dot(graph);
  if (format == "svg") return picture_of_dot(to_dot(graph), "svg");
  return to_text(graph);
}

// Draws into a file. Where the name has no extension, functorch.torch_compile_graph_format gives
// it; dot and raw need no Graphviz, other formats are what its program makes of them.
std::string draw(const Graph& graph, std::string name) {
  const std::string& usual = config::flags().functorch.torch_compile_graph_format;
  require(usual.find('/') == usual.npos, ErrorCode::config,
          "functorch.torch_compile_graph_format is \"{}\"; expected an extension, such as svg",
          usual);
  if (!std::filesystem::path(name).has_extension()) name += "." + usual;
  std::string format = std::filesystem::path(name).extension().string().substr(1);
  bool plain = format == "dot" || format == "raw";
  write_output(name, plain ? to_dot(graph) : picture_of_dot(to_dot(graph), format));
  return name;
}

// The joint graph of a model whose weights are trained, or one of its halves.
std::shared_ptr<Graph> training_stage(const Graph& captured, const std::string& stage) {
  Lowered joint = lower_training(captured, {});
  require(joint.derivative.has_value(),
          "no result of this model needs a gradient: no input is marked requires_grad; stages "
          "joint, forward and backward are those of models with weights to train");
  if (stage == "joint") return joint.graph;
  TrainingHalves halves = partition::split(joint, "min_cut");
  return stage == "forward" ? halves.forward.graph : halves.backward.graph;
}

std::shared_ptr<Graph> graph_of_stage(std::shared_ptr<Graph> graph, const std::string& stage) {
  if (stage == "captured") return graph;
  if (stage == "decomposed")
    return lower_inference(*graph, {.decomposes = decomposition_set("core_aten", {})}).graph;
  return training_stage(*graph, stage);
}

int show_graph(const GraphOptions& options, const Globals& globals) {
  std::shared_ptr<Graph> graph =
      graph_of_stage(load_graph(options.model, options.archive), options.stage);
  if (!options.picture.empty()) {
    std::string file = draw(*graph, options.picture);
    if (globals.json) return print_json({{"schema", 1}, {"file", file}}), 0;
    return print("drawn in " + file + "\n"), 0;
  }
  write_output(options.output, drawn(*graph, globals.json ? "json" : options.format));
  return 0;
}

Action build(Options& app) {
  auto options = std::make_shared<GraphOptions>();
  app.add_option("MODEL", options->model, "a model (.pt2) or a graph (.tng, .tng.json)").required();
  app.add_option("--stage", options->stage,
                 "captured; decomposed into core ops; joint: with the gradients; forward or "
                 "backward: the halves that the partitioner makes")
      .one_of({"captured", "decomposed", "joint", "forward", "backward"});
  app.add_option("--format", options->format, "text, json, dot, or svg through Graphviz")
      .one_of({"text", "json", "dot", "svg"});
  app.add_option("-o,--output", options->output, "the file to write instead of stdout");
  app.add_option("--draw", options->picture,
                 "draws into a file, whose extension says how: dot, raw, svg, png, ...; without "
                 "one functorch.torch_compile_graph_format does");
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
