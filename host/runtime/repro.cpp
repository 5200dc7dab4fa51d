// Writing of repros.
#include "runtime/repro.h"

#include "backend/backend.h"
#include "backend/carried_plugins.h"
#include "backend/life/crash_report.h"
#include "config/config.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/once.h"
#include "formats/tensors.h"
#include "graph/text/print.h"
#include "report/dumps.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/start_minifier.h"

#include <tenon/autograd.h>

#include <unistd.h>

#include <limits>

namespace tenon {

namespace {

std::string with_options(const ReproCompile& compile) {
  if (compile.options_toml.empty()) return "";
  return message("\n[{}]\n{}", compile.backend, compile.options_toml);
}

// Run in `folder`, which the plugins go to.
std::string command(const std::string& folder, const ReproCompile& compile, std::string_view verb,
                    std::string_view more = "") {
  return message(
      "#!/bin/sh\ncd \"$(dirname \"$0\")\" &&\nexec tenon {} --backend {}{}{}{} \"$@\"\n", verb,
      compile.backend, compile.mode.empty() ? "" : " --mode '" + compile.mode + "'", more,
      carried_plugin_words(folder, compile.backend));
}
constexpr std::string_view runs_again = "run repro.tng --config flags.toml";
constexpr std::string_view judges_again = "minify . --judge";  // status 9 where results are wrong

// In a copy of the crashing process: nothing that was open is touched, and stderr is told directly.
void leave_graph(const PluginCompile& compile, std::string_view signal) {
  const CompileRequest& request = compile.request;
  ReproCompile repro{request.compile_id, std::string(compile.backend), request.mode,
                     request.options_toml};
  std::string what = message("{} in the compile of backend {} of plugin {}, {}", signal,
                             compile.backend, compile.plugin, place_text(request));
  std::string folder = write_graph_repro(*request.graph, repro, what);
  if (folder.empty()) return;
  std::string told = message("  the graph is in {}; see tenon minify --help\n", folder);
  [[maybe_unused]] ssize_t n = ::write(STDERR_FILENO, told.data(), told.size());
}

const struct FillSlot {
  FillSlot() { leave_graph_slot = &leave_graph; }
} fill_slot;

}  // namespace

bool wants_repro(ReproStage stage, int64_t level) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  bool watched = flags.repro_after == (stage == ReproStage::dynamo ? "dynamo" : "aot");
  bool on_failure = level == 1 && flags.repro_level == 2;
  return watched && (flags.repro_level == level || on_failure);
}

std::string write_graph_repro(const Graph& graph, const ReproCompile& compile,
                              std::string_view error) noexcept try {
  std::string folder = report::dump_folder(compile.compile_id);
  if (folder.empty()) return "";
  constexpr PrintOptions whole{.inline_elements = std::numeric_limits<size_t>::max()};
  report::write_dump(folder, "repro.tng", to_text(graph, whole));
  report::write_dump(folder, "flags.toml", config::save_portable() + with_options(compile));
  report::write_dump(folder, "command.sh", command(folder, compile, runs_again));
  report::write_dump(folder, "minify.sh",
                     minifier_command(compile, minifies_gradients(graph), folder));
  if (!error.empty()) report::write_dump(folder, "error.txt", std::string(error) + "\n");
  report::counter("runtime.repros").add();
  return folder;
} catch (const std::exception& failed) {
  report::log_line(report::LogLevel::warning, "runtime",
                   std::string("no repro was written: ") + failed.what());
  return "";
}

namespace {

/// Whether there are some.
bool write_inputs(const std::string& folder, std::span<detail::TensorHead* const> inputs) {
  NoGradGuard no_history;
  formats::NamedTensors values;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) values.tensors[message("in.{}", i)] = share(inputs[i]).detach();
  if (!values.tensors.empty()) formats::write_tensors(folder + "/inputs.safetensors", values);
  return !values.tensors.empty();
}

}  // namespace

void leave_repro(const Graph& graph, const ReproCompile& compile, std::string_view error,
                 std::span<detail::TensorHead* const> inputs) noexcept try {
  std::string folder = write_graph_repro(graph, compile, error);
  if (folder.empty()) return;
  report::log(report::LogLevel::warning, "runtime", "a repro of compilation {} is in {}",
              compile.compile_id, folder);
  int64_t level = config::flags().dynamo.repro_level;
  bool has_gradients = minifies_gradients(graph);
  bool has_inputs = write_inputs(folder, inputs);
  if (level == 4)
    report::write_dump(folder, "command.sh",
                       command(folder, compile, judges_again, has_gradients ? " --grad" : ""));
  else if (has_inputs)
    report::write_dump(folder, "command.sh",
                       command(folder, compile, runs_again, " --inputs inputs.safetensors"));
  if (level == 2 || level == 4) run_minifier(folder, compile, has_gradients);
} catch (const std::exception& failed) {
  report::log_line(report::LogLevel::warning, "runtime",
                   std::string("a repro has no inputs: ") + failed.what());
}

namespace {

/// Code whose first failing call leaves a repro.
class WatchedArtifact final : public Artifact {
 public:
  WatchedArtifact(std::shared_ptr<Graph> graph, std::shared_ptr<Artifact> inner, ReproCompile repro)
      : graph_(std::move(graph)), inner_(std::move(inner)), repro_(std::move(repro)) {
    guards = inner_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    try {
      inner_->call(inputs, syms, outputs, steal);
    } catch (const std::exception& error) {
      std::span<detail::TensorHead* const> left = inputs;
      if (steal) left = {};  // they may be gone
      told_.run([&] { leave_repro(*graph_, repro_, error.what(), left); });
      throw;
    }
  }
  std::string describe(int32_t what) const override { return inner_->describe(what); }
  SavedArtifact save() const override { return inner_->save(); }

 private:
  std::shared_ptr<Graph> graph_;
  std::shared_ptr<Artifact> inner_;
  ReproCompile repro_;
  Once told_;
};

}  // namespace

std::shared_ptr<Artifact> with_repro(ReproStage stage, const std::shared_ptr<Graph>& graph,
                                     const ReproCompile& repro,
                                     FunctionRef<std::shared_ptr<Artifact>()> compile) {
  if (wants_repro(stage, 3)) write_graph_repro(*graph, repro, "");
  bool on_failure = wants_repro(stage, 1);
  try {
    std::shared_ptr<Artifact> artifact = compile();
    bool watches = on_failure && stage == ReproStage::aot;
    return watches ? std::make_shared<WatchedArtifact>(graph, std::move(artifact), repro)
                   : artifact;
  } catch (const std::exception& error) {
    if (on_failure) leave_repro(*graph, repro, error.what());
    throw;
  }
}

void write_execution_record(const Graph& graph, std::string_view compile_id,
                            std::string_view error) noexcept try {
  std::string folder = report::dump_folder(compile_id);
  report::write_dump(folder, "replay.tng", to_text(graph));
  report::write_dump(folder, "flags.toml", config::save_portable());
  report::write_dump(folder, "error.txt", std::string(error) + "\n");
  report::log(report::LogLevel::warning, "runtime",
              "what led to the error is in {}/replay.tng; see tenon replay --help", folder);
} catch (const std::exception& failed) {
  report::log_line(report::LogLevel::warning, "runtime",
                   std::string("no execution record was written: ") + failed.what());
}

}  // namespace tenon
