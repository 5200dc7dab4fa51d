// draw_graph: writes a drawing of each graph into a file, then runs it node by node.
#include "svg.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

using namespace tenon::plugin;

extern char** environ;

namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& content) {
  if (path.has_parent_path()) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
  }
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  if (!out)
    throw error(TN_PERMISSION_DENIED,
                text("draw_graph: {} cannot be written; set draw_graph.name to a file in a folder "
                     "that can",
                     path.string()));
}

/// Runs `dot` of Graphviz on `in`; the exit status, or 127 where there is none.
int run_dot(const std::string& format, const std::string& in, const std::string& out) {
  std::string words[] = {"dot", "-T" + format, "-o", out, in};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void write_picture(const fs::path& path, const std::string& format, const std::string& dot) {
  fs::path source = path;
  source += ".dot";
  write_file(source, dot);
  int status = run_dot(format, source.string(), path.string());
  if (status == 0) {
    fs::remove(source);
    return;
  }
  std::string why = status == 127 ? "the program `dot` of Graphviz is not there"
                                  : text("the program `dot` ended with status {}", status);
  throw error(TN_FAILED_PRECONDITION,
              text("draw_graph: no picture in the format {}: {}; {} has the graph as DOT, and the "
                   "formats svg, dot and raw need no other program",
                   format, why, source.string()));
}

/// DOT without what its labels say of dtypes and sizes: those of edges, and the lines behind a name.
std::string without_meta(const std::string& dot) {
  std::string out;
  size_t end = 0;
  for (size_t from = 0; from < dot.size(); from = end + 1) {
    end = std::min(dot.find('\n', from), dot.size());
    std::string line = dot.substr(from, end - from);
    size_t label = line.find(" [label="), more = line.find("\\n");
    if (line.find(" -> ") < label && label != line.npos)
      line.replace(label, line.npos, ";");
    else if (more != line.npos)
      line.erase(more, line.find('"', more) - more);
    out += line + "\n";
  }
  return out;
}

class DrawGraph : public Backend {
 public:
  artifact compile(const tn_compile_request& request) {
    options given(request);
    fs::path path = given.get<std::string>("name");
    if (path.empty() || !path.has_filename())
      throw error(TN_INVALID_ARGUMENT,
                  "draw_graph: the option name is empty; expected the name of a file, such as "
                  "\"graph.svg\"");
    std::string format = path.extension().string();
    if (format.size() > 1)
      format.erase(0, 1);
    else
      format = given.config<std::string_view>("functorch.torch_compile_graph_format");
    path = unused(path.replace_extension(), format);
    draw(graph(request), path, format, given.get<bool>("clear_meta"));
    log(TN_LOG_INFO, "draw_graph", "graph {} is drawn in {}", sv(request.compile_id),
        path.string());
    return interpret(request.ctx, request.graph);
  }
  void reset() {
    std::lock_guard lock(guarding_names_);
    used_.clear();
  }

 private:
  static void draw(const graph& g, const fs::path& path, const std::string& format,
                   bool clear_meta) {
    if (format == "svg") return write_file(path, svg_of(g, clear_meta));
    std::string dot = g.dump(TN_DUMP_DOT);
    if (clear_meta) dot = without_meta(dot);
    if (format == "dot" || format == "raw") return write_file(path, dot);
    write_picture(path, format, dot);
  }
  // The second graph of a process goes beside the first one: graph.svg, graph_1.svg.
  fs::path unused(const fs::path& stem, const std::string& format) {
    std::lock_guard lock(guarding_names_);
    uint32_t n = used_[stem.string() + "." + format]++;
    return stem.string() + (n ? "_" + std::to_string(n) : "") + "." + format;
  }

  std::mutex guarding_names_;
  std::map<std::string, uint32_t> used_;
};

}  // namespace

TENON_PLUGIN_BACKENDS((DrawGraph, "draw_graph"))
