// Runs Graphviz' `dot` on files in a private folder.
#include "cli/graphviz.h"

#include "cli/temporary_folder.h"
#include "cli/trace/child_program.h"

#include <tenon/error.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon::cli {

namespace fs = std::filesystem;

std::string picture_of_dot(const std::string& dot, const std::string& format) {
  TemporaryFolder folder("tenon-dot-");
  fs::path in = folder.path / "graph.dot", out = folder.path / "picture";
  std::ofstream(in, std::ios::binary) << dot;
  int status = run_child_program({"dot", "-T" + format, "-o", out.string(), in.string()});
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
