// `tenon graph`: prints or draws the graph of a model, or what makes two graphs differ.
#include "graph/graph.h"

#include "backend/backend.h"
#include "cli/graph/graph_stages.h"
#include "cli/graph_file.h"
#include "cli/graphviz.h"
#include "cli/output.h"
#include "config/flags.h"
#include "core/joined.h"
#include "formats/graph_json.h"
#include "graph/text/diff.h"
#include "graph/text/dot.h"
#include "graph/text/print.h"

#include <algorithm>
#include <filesystem>

namespace tenon::cli {

namespace {

struct GraphOptions {
  std::string model, other, format = "text", output, picture, backend;
  std::vector<std::string> stages;
  bool diff = false, grad = false;
  ModelOptions archive;
};

std::string drawn(const Graph& graph, const std::string& format) {
  if (format == "json") return formats::to_json(graph) + "\n";
  if (format == "dot") return to_dot(graph);
  if (format == "svg") return picture_of_dot(to_dot(graph), "svg");
  return to_text(graph);
}

bool is_plain(std::string_view format) { return format == "dot" || format == "raw"; }

// What the program of Graphviz draws.
constexpr std::string_view picture_formats[] = {
    "bmp", "eps", "fig", "gif", "jpe",  "jpeg", "jpg",  "json", "pdf",  "pic", "plain",
    "png", "ps",  "ps2", "svg", "svgz", "tif",  "tiff", "vml",  "webp", "xdot"};

std::string format_of(const std::string& name) {
  std::string extension = std::filesystem::path(name).extension().string();
  return extension.empty() ? "" : extension.substr(1);
}

// The file to draw into. Where the name has no extension, functorch.torch_compile_graph_format gives
// it.
std::string picture_name(std::string name) {
  const std::string& usual = config::flags().functorch.torch_compile_graph_format;
  require(usual.find('/') == usual.npos, ErrorCode::config,
          "functorch.torch_compile_graph_format is \"{}\"; expected an extension, such as svg",
          usual);
  if (!std::filesystem::path(name).has_extension()) name += "." + usual;
  std::string format = format_of(name);
  bool is_known =
      is_plain(format) || std::ranges::find(picture_formats, format) != std::end(picture_formats);
  require(is_known, "{}: there is no format {} to draw in; known are dot, raw, {}", name, format,
          joined(picture_formats));
  return name;
}

// dot and raw need no Graphviz, other formats are what its program makes of them.
void draw(const Graph& graph, const std::string& name) {
  std::string format = format_of(name), dot = to_dot(graph);
  write_output(name, is_plain(format) ? dot : picture_of_dot(dot, format));
}

int show_fused(const GraphOptions& options, const Globals& globals) {
  require(!options.diff && options.picture.empty() && options.format == "text",
          "--stage fused: loops are text, not a graph; leave out --diff, --draw and --format");
  std::string text =
      fused_text(load_graph(options.model, options.archive), options.backend, options.grad);
  if (globals.json) return print_json({{"schema", 1}, {"loops", text}}), 0;
  write_output(options.output, text);
  return 0;
}

// As diff(1) has it, the status is 1 where there is a difference.
int show_difference(const GraphOptions& options, const std::vector<std::string>& stages,
                    const Globals& globals) {
  std::shared_ptr<Graph> first = load_graph(options.model, options.archive), second = first;
  if (!options.other.empty()) second = load_graph(options.other, options.archive);
  std::string last = stages.back();
  std::vector<DiffLine> lines = difference(*graph_of_stage(first, stages.front(), options.backend),
                                           *graph_of_stage(second, last, options.backend));
  if (globals.json) {
    constexpr const char* kinds[] = {"in_both", "removed", "added", "left_out"};
    Json document{{"schema", 1}, {"equal", lines.empty()}, {"lines", Json::Array{}}};
    for (const DiffLine& line : lines)
      document["lines"].items().push_back(
          {{"kind", kinds[static_cast<size_t>(line.kind)]}, {"text", line.text}});
    print_json(document);
  } else {
    write_output(options.output, lines.empty() ? "no difference\n" : to_text(lines));
  }
  return lines.empty() ? 0 : 1;
}

// The stages of --stage: one, or the two that --diff compares.
std::vector<std::string> stages_of(const GraphOptions& options) {
  std::vector<std::string> stages = split_commas(options.stages);
  for (const std::string& stage : stages) require_stage(stage);
  require(options.diff || options.other.empty(),
          "{}: a second graph is for --diff, which compares it with the first", options.other);
  require(stages.size() <= (options.diff ? 2u : 1u),
          "--stage names {} stages; expected one, or two with --diff", stages.size());
  bool one_graph = options.diff && options.other.empty();
  require(!one_graph || !stages.empty(),
          "--diff needs a second graph, or a stage to compare the captured one with: tenon graph A "
          "B --diff, or tenon graph A --stage decomposed --diff");
  if (stages.empty() || (one_graph && stages.size() == 1))
    stages.insert(stages.begin(), "captured");
  return stages;
}

int show_graph(const GraphOptions& options, const Globals& globals) {
  if (!options.backend.empty()) backend_info(options.backend);
  std::vector<std::string> stages = stages_of(options);
  bool is_fused = stages.front() == "fused" || stages.back() == "fused";
  require(is_fused || !options.grad,
          "--grad is for --stage fused; joint, forward and backward are stages of their own");
  if (is_fused) return show_fused(options, globals);
  if (options.diff) return show_difference(options, stages, globals);
  std::string file = options.picture.empty() ? "" : picture_name(options.picture);
  std::shared_ptr<Graph> graph =
      graph_of_stage(load_graph(options.model, options.archive), stages.front(), options.backend);
  if (!file.empty()) {
    draw(*graph, file);
    if (globals.json) return print_json({{"schema", 1}, {"file", file}}), 0;
    return print("drawn in " + file + "\n"), 0;
  }
  bool to_stdout = options.output.empty() || options.output == "-";
  write_output(options.output, drawn(*graph, globals.json ? "json" : options.format));
  if (globals.json && !to_stdout) print_json({{"schema", 1}, {"file", options.output}});
  return 0;
}

Action build_graph(Options& app) {
  auto options = std::make_shared<GraphOptions>();
  app.add_option("MODEL", options->model, "a model (.pt2) or a graph (.tng, .tng.json)").required();
  app.add_option("OTHER", options->other, "with --diff: the graph to compare with");
  app.add_option("--stage", options->stages,
                 "captured; decomposed: lowered, into core ops unless a backend is named; joint: "
                 "with the gradients; forward or backward: the halves that the partitioner makes; "
                 "fused: the loops that the backend makes; with --diff: one or two of them")
      .one_at_a_time();
  app.add_option("--backend", options->backend,
                 "the stages of this backend, by its manifest and the flags");
  app.add_flag("--grad", options->grad, "with --stage fused: of a training step, half by half");
  app.add_flag("--diff", options->diff,
               "what makes two graphs, or two stages of one, differ; names of values do not count");
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
    .build = build_graph};

}  // namespace tenon::cli
