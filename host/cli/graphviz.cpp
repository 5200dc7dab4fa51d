// Runs Graphviz' `dot` on files in a private folder.
#include "cli/graphviz.h"

#include "cli/temporary_folder.h"

#include <spawn.h>
#include <sys/wait.h>
#include <tenon/error.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

extern char** environ;

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

// The exit status, or 127 where the program could not be started.
int run_program(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

std::string picture_of_dot(const std::string& dot, const std::string& format) {
  TemporaryFolder folder("tenon-dot-");
  fs::path in = folder.path / "graph.dot", out = folder.path / "picture";
  std::ofstream(in, std::ios::binary) << dot;
  int status = run_program({"dot", "-T" + format, "-o", out.string(), in.string()});
  require(status != 127,
          "{} needs the program `dot` of Graphviz, which is not there; install graphviz, or use "
          "--format dot",
          format);
  require(status == 0,
          "the program `dot` ended with status {} for the format {}; the input is what the format "
          "dot shows",
          status, format);
  std::ostringstream text;
  text << std::ifstream(out, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace tenon::cli
