// `tenon minify`: the smallest graph on which a backend still fails in the same way.
#include "debug/minify.h"
#include "cli/graph_file.h"
#include "cli/output.h"
#include "cli/temporary_folder.h"
#include "config/config.h"
#include "core/error.h"
#include "core/version.h"
#include "debug/child_process.h"
#include "debug/compare.h"
#include "debug/double_run.h"
#include "debug/graph_runner.h"
#include "graph/text/print.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

constexpr int wrong_status = 9;

struct MinifyOptions {
  std::string subject, output = "minified";
  ModelOptions model;
  std::string backend;
  double limit_s = 60;
  bool judges = false;
};

// A folder is that of a repro: its graph, and its flags.
std::string graph_in(const std::string& subject) {
  std::error_code failed;
  if (!fs::is_directory(subject, failed)) return subject;
  for (const char* name : {"graph.tng", "repro.tng", "replay.tng"})
    if (fs::path path = fs::path(subject) / name; fs::is_regular_file(path, failed)) {
      fs::path flags = fs::path(subject) / "flags.toml";
      if (fs::is_regular_file(flags, failed)) config::use_file(flags.string());
      return path.string();
    }
  fail("{} has no graph.tng, repro.tng or replay.tng; expected the folder of a repro, or a file",
       subject);
}

// ---- the child: runs the graph once and compares it with double precision

/// Integers are 0 or 1: positions in almost every table.
std::vector<Tensor> made_up_inputs(const GraphRunner& runner, const Graph& graph) {
  std::vector<Tensor> out = runner.random_inputs();
  for (size_t i = 0; i < out.size(); ++i) {
    bool is_tensor = graph.value(graph.inputs()[i]).kind == ValueKind::tensor;
    Dtype dtype = out[i].dtype();
    if (is_tensor && is_integral(dtype) && dtype != Dtype::bool_) out[i].remainder_(2);
  }
  return out;
}

/// The first output that is wrong where eager ops are right, as those that draw numbers never are;
/// empty: none is.
std::string difference(const std::vector<Tensor>& found, const std::vector<Tensor>& eager,
                       const std::vector<Tensor>& exact) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined() || !exact[i].defined()) continue;
    Comparison own = compare_tensors(found[i], exact[i], {.any_dtype = true});
    if (own.ok || !compare_tensors(eager[i], exact[i], {.any_dtype = true}).ok) continue;
    return message("output {}: max abs {}, max rel {}{}", i, own.max_abs, own.max_rel,
                   own.problem.empty() ? "" : "; " + own.problem);
  }
  return "";
}

/// What the inputs say of the symbols; nothing where data decides.
std::optional<std::vector<int64_t>> symbols_of(const Graph& graph,
                                               const std::vector<Tensor>& inputs) {
  std::vector<int64_t> out;
  for (const SymbolBinding& b : graph.symbols) {
    const GraphValue& value = graph.value(b.value);
    if (value.source != ValueSource::input) return std::nullopt;
    const Tensor& t = inputs[value.source_index];
    if (b.dim >= 0)
      out.push_back((b.stride ? t.stride(b.dim) : t.size(b.dim)).guard_int());
    else if (t.dtype() == Dtype::i64)
      out.push_back(t.to_vector<int64_t>().at(0));
    else
      return std::nullopt;
  }
  return out;
}

int judge(const MinifyOptions& options) {
  std::shared_ptr<Graph> graph = load_graph(graph_in(options.subject), options.model);
  GraphRunner runner(graph, {options.backend, options.model.mode, "", false});
  GraphRunner reference(graph, {"eager", "", "", false});
  std::vector<Tensor> inputs = made_up_inputs(runner, *graph);
  auto copies = [&] {
    std::vector<Tensor> out;
    for (const Tensor& t : inputs) out.push_back(t.clone());
    return out;
  };
  std::vector<Tensor> found = runner.run(copies());
  std::optional<std::vector<int64_t>> symbols = symbols_of(*graph, inputs);
  if (!symbols) return 0;
  std::string wrong =
      difference(found, reference.run(copies()), run_graph_in_double(*graph, copies(), *symbols));
  if (wrong.empty()) return 0;
  print_message("wrong: " + wrong);
  return wrong_status;
}

// ---- the parent

std::vector<std::string> child_arguments(const std::string& file, const MinifyOptions& options,
                                         const Globals& globals) {
  std::vector<std::string> out{"tenon", "minify", file, "--judge"};
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {name, value});
  };
  add("--backend", options.backend);
  add("--mode", options.model.mode);
  add("--config", globals.config_file);
  if (globals.threads) add("--threads", std::to_string(globals.threads));
  for (const std::string& s : globals.settings) add("--set", s);
  for (const std::string& s : globals.plugins) add("--plugin", s);
  for (const std::string& s : globals.plugin_path) add("--plugin-path", s);
  return out;
}

std::string last_line(std::string log) {
  while (log.ends_with('\n')) log.pop_back();
  size_t at = log.rfind("\ntenon: ");
  std::string line = at == log.npos ? log : log.substr(at + 1);
  return line.substr(0, line.find('\n'));
}

Failure failure_of(const ChildEnd& end) {
  if (end.timed_out) return {Failure::Kind::hang, "did not end in time"};
  if (end.signal)
    return {Failure::Kind::crash, message("signal {} ({})", end.signal, strsignal(end.signal))};
  if (end.exit_status == 0) return {};
  auto kind = end.exit_status == wrong_status ? Failure::Kind::wrong : Failure::Kind::error;
  return {kind, last_line(end.log)};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(static_cast<bool>(out), "{} cannot be written; choose another --output", path.string());
}

void write_folder(const Minified& result, const MinifyOptions& options) {
  fs::path folder = options.output;
  std::error_code failed;
  fs::create_directories(folder, failed);
  write_file(folder / "graph.tng", to_text(*result.graph));
  write_file(folder / "flags.toml", config::save_portable());
  write_file(folder / "error.txt", message("{}\nTenon {}, backend {}, inputs of seed 0\n",
                                           result.failure.text, version, options.backend));
  std::string backend = options.backend.empty() ? "" : " --backend " + options.backend;
  write_file(folder / "command.sh",
             "#!/bin/sh\n# Status 9: the numbers are wrong.\ncd \"$(dirname \"$0\")\" && tenon "
             "minify graph.tng --judge" +
                 backend + " --config flags.toml \"$@\"\n");
}

int run_minify(MinifyOptions options, const Globals& globals) {
  std::shared_ptr<const Graph> graph = load_graph(graph_in(options.subject), options.model);
  TemporaryFolder work("tenon-minify-");
  std::string file = (work.path / "graph.tng").string();
  auto judged = [&](const Graph& candidate) {
    write_file(file, to_text(candidate));
    return failure_of(
        watch_self(child_arguments(file, options, globals), options.limit_s, [](auto) {}));
  };
  size_t before = graph->nodes().size();
  Minified result = minify(graph, judged, [&](size_t nodes, size_t tries) {
    if (!globals.quiet) print_message(message("{} nodes after {} tries", nodes, tries));
  });
  if (!result.failure) {
    print(message("{}: {} nodes run without a failure; nothing to do\n", options.subject, before));
    return 0;
  }
  write_folder(result, options);
  size_t after = result.graph->nodes().size();
  if (globals.json)
    print_json({{"schema", 1},
                {"before", before},
                {"after", after},
                {"tries", result.tries},
                {"failure", result.failure.text},
                {"folder", options.output}});
  else
    print(message("{} of {} nodes fail alike: {}\n{}/command.sh runs them again\n", after, before,
                  result.failure.text, options.output));
  return 1;
}

Action build(Options& app) {
  auto options = std::make_shared<MinifyOptions>();
  app.add_option("MODEL", options->subject, "a graph, an archive, or the folder of a repro")
      .required();
  app.add_option("--backend", options->backend, "the backend that fails");
  app.add_option("--mode", options->model.mode, "a mode of the backend");
  app.add_option("--output,-o", options->output, "the folder for what is left");
  app.add_option("--time", options->limit_s, "seconds after which a run counts as hanging");
  app.add_flag("--judge", options->judges,
               "only run the graph and compare it with double precision");
  add_archive_options(app, options->model);
  return [options](const Globals& globals) {
    return options->judges ? judge(*options) : run_minify(*options, globals);
  };
}

}  // namespace

extern constinit const Verb verb_minify{
    .name = "minify",
    .summary = "the smallest graph on which a backend still fails in the same way",
    .example = "tenon minify bert.pt2 --backend mine -o smallest",
    .build = build};

}  // namespace tenon::cli
