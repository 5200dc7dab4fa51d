// One file checked in a child process.
#include "cli/check_isolated.h"

#include "core/error.h"
#include "debug/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace

IsolatedRun check_isolated(const std::string& file, const std::string& backend,
                           const std::vector<std::string>& arguments) {
  std::vector<std::string> line{"tenon", "check", file, "--json", "-q"};
  if (!backend.empty()) line.push_back("--backend=" + backend);
  line.insert(line.end(), arguments.begin(), arguments.end());
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  const ChildFile files[] = {{ends[1], STDOUT_FILENO}};
  pid_t child = start_self(line, files);
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
  Json document = formats::json_or_null(text);
  if (document.is_object() && document.find("cases"))
    for (const Json& result : document["cases"]) run.cases.push_back(result);
  else
    run.error =
        message("the child process ended with status {} and no results", WEXITSTATUS(status));
  return run;
}

}  // namespace tenon::cli
