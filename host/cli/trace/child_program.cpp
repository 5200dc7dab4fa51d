// Starting a program and waiting for it.
#include "cli/trace/child_program.h"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

extern char** environ;

namespace tenon::cli {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> out = changes;
  for (char** variable = environ; *variable; ++variable) {
    std::string_view ours(*variable);
    std::string_view name = ours.substr(0, ours.find('=') + 1);
    bool is_changed = std::ranges::any_of(changes, [&](auto& c) { return c.starts_with(name); });
    if (!is_changed) out.emplace_back(ours);
  }
  return out;
}

}  // namespace

int run_child_program(std::vector<std::string> command,
                      const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment_with(environment);
  std::vector<char*> argv = pointers_to(command), envp = pointers_to(variables);
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), envp.data()) != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tenon::cli
