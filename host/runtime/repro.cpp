// Writing of repros.
#include "runtime/repro.h"

#include "config/config.h"
#include "graph/text/print.h"
#include "report/dumps.h"
#include "report/events.h"
#include "report/log.h"

namespace tenon {

namespace {

std::string with_options(const ReproCompile& compile) {
  if (compile.options_toml.empty()) return "";
  return message("\n[{}]\n{}", compile.backend, compile.options_toml);
}

std::string command(const ReproCompile& compile) {
  return message(
      "#!/bin/sh\ncd \"$(dirname \"$0\")\" &&\ntenon run repro.tng --backend {}{} --config "
      "flags.toml\n",
      compile.backend, compile.mode.empty() ? "" : " --mode " + compile.mode);
}

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
  report::write_dump(folder, "repro.tng", to_text(graph));
  report::write_dump(folder, "flags.toml", config::save_portable() + with_options(compile));
  report::write_dump(folder, "command.sh", command(compile));
  if (!error.empty()) report::write_dump(folder, "error.txt", std::string(error) + "\n");
  report::counter("runtime.repros").add();
  report::log(report::LogLevel::info, "runtime", "a repro of compilation {} is in {}",
              compile.compile_id, folder);
  return folder;
} catch (const std::exception& failed) {
  report::log_line(report::LogLevel::warning, "runtime",
                   std::string("no repro was written: ") + failed.what());
  return "";
}

std::shared_ptr<Artifact> with_repro(ReproStage stage, const Graph& graph,
                                     const ReproCompile& repro,
                                     FunctionRef<std::shared_ptr<Artifact>()> compile) {
  if (wants_repro(stage, 3)) write_graph_repro(graph, repro, "");
  try {
    return compile();
  } catch (const std::exception& error) {
    if (wants_repro(stage, 1)) write_graph_repro(graph, repro, error.what());
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
