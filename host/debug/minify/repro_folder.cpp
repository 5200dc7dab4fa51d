// Writing the folder.
#include "debug/minify/repro_folder.h"

#include "backend/backend.h"
#include "backend/carried_plugins.h"
#include "config/config.h"
#include "core/cpu_level.h"
#include "core/error.h"
#include "core/shell_word.h"
#include "core/version.h"

#include <filesystem>
#include <fstream>

namespace tenon {

namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(static_cast<bool>(out), ErrorCode::bad_file,
          "{} cannot be written; choose another --output", path.string());
}

// The folder may go to another machine: plugins that are not installed with Tenon go with it.
std::string command_of(const ReproRun& run, const std::string& folder) {
  std::string out = "#!/bin/sh\n# Status 9: the results are wrong.\ncd \"$(dirname \"$0\")\" &&\n";
  out += "exec tenon minify . --judge";
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out += message(" {} {}", name, shell_word(value));
  };
  add("--backend", run.backend);
  add("--mode", run.mode);
  if (run.grad) out += " --grad";
  return out + carried_plugin_words(folder, run.backend, run.plugins) + " \"$@\"\n";
}

std::string plugin_of(const std::string& backend) {
  BackendInfo info = backend_info(backend);
  return info.plugin;
}

}  // namespace

void write_repro_folder(const std::string& folder, const Candidate& candidate,
                        const Failure& failure, const ReproRun& run) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  require(!failed, ErrorCode::bad_file, "{} cannot be made: {}; choose another --output", folder,
          failed.message());
  write_candidate(candidate, folder);
  fs::path path(folder);
  write_file(path / "flags.toml", config::save_portable());
  write_file(path / "error.txt",
             message("{}: {}\nTenon {}, CPU level {}, backend {} of plugin {}, made-up inputs of "
                     "seed 0\n",
                     name_of(failure.kind), failure.text, version, name_of(cpu_level()),
                     run.backend, plugin_of(run.backend)));
  write_file(path / "command.sh", command_of(run, folder));
}

}  // namespace tenon
