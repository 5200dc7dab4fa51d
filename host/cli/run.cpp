// `tenon run`: one model, once or several times, with given or made-up inputs.
#include "cli/model_options.h"

#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/graph_runner.h"
#include "formats/tensors.h"

#include <tenon/ops/view.h>

#include <chrono>
#include <cmath>
#include <filesystem>

namespace tenon::cli {

namespace {

struct RunOptions {
  std::string model, backend, outputs;
  int repeat = 1;
  bool grad = false;
  InputOptions inputs;
  ModelOptions options;
};

using NamedOutputs = std::vector<std::pair<std::string, Tensor>>;

/// What one verb call found out.
struct RunReport {
  NamedOutputs outputs;
  std::vector<double> us;  ///< of each call
  double compile_ms = 0, load_ms = 0;
  std::string backend;
  /// With --json: who asks for them is told the times of `profile` too, instead of the log.
  Json stats;
};

template <class F>
double timed_us(F f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

RunReport run_archive(const RunOptions& options, const std::string& backend, bool with_stats) {
  LoadedModel model;
  double load_us =
      timed_us([&] { model = load_model(options.model, options.options, backend, options.grad); });
  std::vector<Tensor> leaves = make_leaves(model, options.inputs), outputs;
  model.runner->compile(leaves);
  RunReport report;
  NamedTensorMap gradients;
  auto once = [&] {
    outputs = options.grad ? model.runner->run_with_gradients(leaves, gradients)
                           : model.runner->run(leaves);
  };
  for (int i = 0; i < options.repeat; ++i) report.us.push_back(timed_us(once));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined()) report.outputs.push_back({message("out.{}", i), outputs[i]});
  for (const auto& [name, gradient] : gradients)
    report.outputs.push_back({"grad." + name, gradient});
  report.backend = model.runner->backend();
  report.load_ms = load_us / 1000;
  report.compile_ms = model.runner->compile_ms();
  if (with_stats) report.stats = stats_of(model.runner->describe(TN_DESC_STATS_JSON));
  return report;
}

RunReport run_graph(const RunOptions& options, const std::string& backend, bool with_stats) {
  GraphRunner runner(load_graph(options.model, options.options),
                     {backend, options.options.mode, "", false});
  std::vector<Tensor> inputs = runner.random_inputs(), outputs;
  fill_inputs(inputs, options.inputs, [&](const std::string& name) { return runner.find(name); });
  inputs = runner.placed(std::move(inputs));
  runner.compile();
  RunReport report;
  report.backend = backend;
  for (int i = 0; i < options.repeat; ++i)
    report.us.push_back(timed_us([&] { outputs = runner.run(inputs); }));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined()) report.outputs.push_back({message("out.{}", i), outputs[i]});
  report.compile_ms = runner.compile_ms();
  if (with_stats) report.stats = stats_of(runner.describe(TN_DESC_STATS_JSON));
  return report;
}

// What an op refuses while a backend compiles or runs the file is the file's fault, or that of the
// inputs; the plugin is whole.
template <class F>
RunReport blaming(const std::string& file, const F& body) {
  try {
    return body();
  } catch (const BackendError& error) {
    if (error.status() != TN_INVALID_ARGUMENT) throw;
    throw UserError(ErrorCode::bad_file, message("{}: {}", file, error.what()));
  } catch (const UserError& error) {
    bool is_named = std::string_view(error.what()).starts_with(file);
    if (error.code() != ErrorCode::bad_file || is_named) throw;
    throw UserError(ErrorCode::bad_file, message("{}: {}", file, error.what()));
  }
}

// Least, greatest and mean element, which show at a glance whether a result makes sense.
struct Summary {
  double least = 0, greatest = 0, mean = 0;
  size_t not_finite = 0;
};

Summary summary_of(const Tensor& t) {
  Tensor plain = is_complex(t.dtype()) ? view_as_real(t) : t;
  std::vector<double> values = plain.to(Dtype::f64).to_vector<double>();
  Summary s{INFINITY, -INFINITY, 0, 0};
  size_t n = 0;
  for (double v : values) {
    if (!std::isfinite(v)) {
      ++s.not_finite;
      continue;
    }
    s.least = std::min(s.least, v);
    s.greatest = std::max(s.greatest, v);
    s.mean += (v - s.mean) / static_cast<double>(++n);
  }
  if (n == 0) s.least = s.greatest = 0;
  return s;
}

Json to_json(const std::string& name, const Tensor& t) {
  Summary s = summary_of(t);
  Json out{{"name", name},
           {"dtype", std::string(name_of(t.dtype()))},
           {"sizes", Json::Array{}},
           {"min", s.least},
           {"max", s.greatest},
           {"mean", s.mean},
           {"not_finite", s.not_finite}};
  for (SymInt size : t.sizes()) out["sizes"].items().push_back(size.guard_int());
  return out;
}

void print_report(const RunReport& report, bool is_loaded) {
  for (const auto& [name, t] : report.outputs) {
    Summary s = summary_of(t);
    print(message("{}: {}, min {}, max {}, mean {}{}\n", name, symbolic_text(t), s.least,
                  s.greatest, s.mean,
                  s.not_finite ? message(", {} not finite", s.not_finite) : ""));
  }
  double best = *std::min_element(report.us.begin(), report.us.end());
  double took = is_loaded ? report.load_ms : report.compile_ms;
  print(message("backend {}: {} in {} ms, {} call{}, fastest {} us\n", report.backend,
                is_loaded ? "loaded" : "compiled", std::round(took * 100) / 100, report.us.size(),
                report.us.size() == 1 ? "" : "s", std::round(best * 10) / 10));
}

void save(const std::string& path, const NamedOutputs& outputs) {
  formats::NamedTensors content;
  for (const auto& [name, tensor] : outputs) content.tensors[name] = tensor;
  formats::write_tensors(path, content);
}

void check_extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  require(extension.empty() || extension == ".safetensors" || extension == ".npy",
          "--outputs {}: results are not written as {}; known are .safetensors and .npy", path,
          extension);
}

int run(const RunOptions& options, const Globals& globals) {
  check_extension(options.outputs);
  if (globals.json) leave_stdout_to_json();
  std::vector<std::string> given;
  if (!options.backend.empty()) given.push_back(options.backend);
  GraphFileKind kind = graph_file_kind(options.model);
  bool is_loaded = kind == GraphFileKind::compiled;
  require(!is_loaded || given.empty(), "{}: has code of its own backend; leave --backend out",
          options.model);
  std::string backend = is_loaded ? "" : backend_names(given)[0];
  bool is_archive = kind == GraphFileKind::archive || is_loaded;
  require(
      is_archive || !options.grad,
      "{}: only an archive (.pt2) names the parameters that gradients are for; leave --grad out",
      options.model);
  if (!is_loaded) require_no_device_for_graph(options.model, options.options);
  RunReport report = blaming(options.model, [&] {
    return is_archive ? run_archive(options, backend, globals.json)
                      : run_graph(options, backend, globals.json);
  });
  if (!options.outputs.empty()) save(options.outputs, report.outputs);
  if (!globals.json) {
    print_report(report, is_loaded);
    return 0;
  }
  Json document{{"schema", 1},
                {"model", options.model},
                {"backend", report.backend},
                {"compile_ms", report.compile_ms},
                {"load_ms", report.load_ms},
                {"us", report.us},
                {"outputs", Json::Array{}},
                {"fallback_ops", report.stats["extern_ops"]}};
  for (const auto& [name, tensor] : report.outputs)
    document["outputs"].items().push_back(to_json(name, tensor));
  print_json(document);
  return 0;
}

Action build_run(Options& app) {
  auto options = std::make_shared<RunOptions>();
  app.add_option("MODEL", options->model, "a .pt2 archive, a saved graph or a .tenon file")
      .required();
  app.add_option("--backend", options->backend, "the backend to compile with");
  app.add_option("--outputs", options->outputs, "write the results to this .safetensors or .npy");
  app.add_flag("--grad", options->grad,
               "also the gradients of the first result, a loss, with respect to the parameters");
  app.add_option("--repeat", options->repeat, "calls").within(1, 1 << 30);
  add_input_options(app, options->inputs);
  add_model_options(app, options->options);
  return [options](const Globals& globals) { return run(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_run{
    .name = "run",
    .summary = "runs a model",
    .example = "tenon run vit.pt2 --backend inductor --input x=f32[1,3,224,224]:rand",
    .build = build_run};

}  // namespace tenon::cli
