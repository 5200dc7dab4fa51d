// One file checked in a child process.
#include "cli/check_isolated.h"

#include "core/error.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace tenon::cli {

namespace {

std::string read_all(int file) {
  std::string text;
  char buffer[1 << 14];
  for (;;) {
    ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Starts this program with its stdout going into `write_end`.
pid_t start(const std::vector<std::string>& arguments, int write_end, int read_end) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, read_end);
  pid_t child = 0;
  int error = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  require(error == 0, "cannot start a child process: {}", std::strerror(error));
  return child;
}

}  // namespace

IsolatedRun check_isolated(const std::string& file, const std::string& backend,
                           const std::vector<std::string>& arguments) {
  std::vector<std::string> line{"tenon", "check", file, "--backend=" + backend, "--json", "-q"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  int ends[2];
  require(::pipe(ends) == 0, "cannot make a pipe: {}", std::strerror(errno));
  pid_t child = start(line, ends[1], ends[0]);
  ::close(ends[1]);
  std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = wait_for(child);
  IsolatedRun run;
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    run.error = message("crashed with signal {} ({})", signal, strsignal(signal));
    return run;
  }
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document.contains("cases"))
    for (const Json& result : document["cases"]) run.cases.push_back(result);
  else
    run.error =
        message("the child process ended with status {} and no results", WEXITSTATUS(status));
  return run;
}

}  // namespace tenon::cli
