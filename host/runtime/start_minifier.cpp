// The child process that minifies, and its command line.
#include "runtime/start_minifier.h"

#include "backend/backend.h"
#include "backend/carried_plugins.h"
#include "backend/find/program.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "report/events.h"
#include "report/log.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

extern char** environ;

namespace tenon {

namespace {

// The child makes no repros of its own, whatever files and environment say.
std::vector<std::string> arguments(const ReproCompile& compile, bool grad,
                                   const std::string& folder) {
  std::vector<std::string> out{"minify", folder, "--backend", compile.backend};
  if (!compile.mode.empty()) out.insert(out.end(), {"--mode", compile.mode});
  if (grad) out.emplace_back("--grad");
  out.insert(out.end(), {"--output", folder + "/minified", "--set", "dynamo.repro_after=unset"});
  return out;
}

pid_t start(const std::string& program, const std::vector<std::string>& words) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  require(error == 0, "{}: {}", program, std::strerror(error));
  return child;
}

int end_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void minify(const std::string& folder, const ReproCompile& compile, bool grad) {
  require(backend_info(compile.backend).plugin != "program",
          "backend {} is a function of this program, which no other process has", compile.backend);
  ProgramTenon program = program_tenon();
  require(!program.path.empty(), "there is no program tenon beside {}", program.host);
  report::log(report::LogLevel::warning, "runtime",
              "the minifier works on {}; dynamo.repro_level = 1 only keeps the graph", folder);
  constexpr int found = 1, nothing_fails = 0;
  std::vector<std::string> words = arguments(compile, grad, folder);
  for (const std::string& plugin : carry_plugins(folder, compile.backend))
    words.insert(words.end(), {"--plugin", folder + "/" + plugin});
  int status = end_of(start(program.path, words));
  require(status == found || status == nothing_fails, "the minifier ended with status {}", status);
  report::counter("runtime.minified_repros").add();
  if (status == found)
    report::log(report::LogLevel::warning, "runtime",
                "the smallest graph that fails alike is in {}/minified", folder);
  else
    report::log(report::LogLevel::warning, "runtime",
                "the graph in {} does not fail in a process of its own, with made-up inputs",
                folder);
}

}  // namespace

bool minifies_gradients(const Graph& graph) {
  return !config::flags().dynamo.repro_forward_only && thread_modes.grad_enabled &&
         std::ranges::any_of(graph.inputs(),
                             [&](ValueId input) { return graph.value(input).flags.requires_grad; });
}

std::string minifier_command(const ReproCompile& compile, bool grad, const std::string& folder) {
  std::string out = "#!/bin/sh\ncd \"$(dirname \"$0\")\" &&\ntenon";
  for (const std::string& word : arguments(compile, grad, ".")) out += " " + word;
  return out + carried_plugin_words(folder, compile.backend) + "\n";
}

void run_minifier(const std::string& folder, const ReproCompile& compile, bool grad) noexcept try {
  minify(folder, compile, grad);
} catch (const std::exception& failed) {
  report::log_line(report::LogLevel::warning, "runtime",
                   message("{} was not minified: {}", folder, failed.what()));
}

}  // namespace tenon
