// The child: started by posix_spawn, watched until it ends or its time is over.
#include "backend/find/probe.h"

#include "backend/find/program.h"
#include "core/error.h"

#include <tenon/plugin.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

extern char** environ;

namespace tenon {

namespace {

constexpr std::chrono::seconds patience{10};
constexpr int usage_error = 2, refused = 4;  // exit statuses of the program

[[noreturn]] void cannot_probe(const std::string& path, const std::string& why) {
  throw BackendError(
      ErrorCode::plugin, TN_FAILED_PRECONDITION,
      message("{} cannot be loaded in a child process first, as plugins.probe = "
              "\"always\" asks: {}; set plugins.probe to \"never\" to load it anyway",
              path, why));
}

std::string program_for(const std::string& path) {
  ProgramTenon program = program_tenon();
  if (program.path.empty())
    cannot_probe(path, message("there is no program tenon beside {}", program.host));
  return program.path;
}

pid_t start(const std::string& program, const std::string& path, bool quarantine) {
  // The caller has judged the file already.
  std::vector<std::string> line{program,
                                "--set=plugins.probe=never",
                                "--set=plugins.trust=off",
                                "--set=plugins.allow_only=false",
                                message("--set=plugins.quarantine={}", quarantine),
                                "plugin",
                                "load",
                                path};
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_RDWR, 0);
  pid_t child = 0;
  int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) cannot_probe(path, message("{}: {}", program, std::strerror(error)));
  return child;
}

// The status of waitpid, or nothing when the time is over.
bool wait_for_end(pid_t child, int& status) {
  auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

ProbeEnd probe_plugin(const std::string& path, bool quarantine) {
  pid_t child = start(program_for(path), path, quarantine);
  int status = 0;
  if (!wait_for_end(child, status)) {
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return {true, message("without an answer for {} s", patience.count())};
  }
  if (WIFSIGNALED(status)) return {true, message("with signal {}", WTERMSIG(status))};
  int result = WEXITSTATUS(status);
  if (result == usage_error) cannot_probe(path, "the program tenon is of another version");
  bool in_order = result == 0 || result == refused;
  return {!in_order, message("with exit status {}", result)};
}

}  // namespace tenon
