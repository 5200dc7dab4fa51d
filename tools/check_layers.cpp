// Checks who includes whom: prints each include that the map of rooms forbids, and why.
//
//   check_layers SOURCE_DIR
//
// The rules, for files below SOURCE_DIR:
//   host/<room>/       sees itself and the rooms to its left in `rooms`, every public header and
//                      the plugin ABI. config sees core/error.h, core/edit_distance.h,
//                      core/own_file.h, core/path_writers.h, core/threads/cancellation_off.h and
//                      core/utf8.h only and is seen by all rooms; report sees core and config and
//                      is seen by all rooms but those. formats stands beside them: it sees core to
//                      graph, all from cache on see it.
//   host/include/      public headers: the standard library, other public headers, the plugin ABI.
//   plugin-api/        its own headers and the C or C++ standard library.
//   plugins/<name>/    the plugin ABI, its own files, third-party libraries and the libraries of
//                      codegen/. Never another plugin.
//   codegen/<name>/    the plugin ABI, its own files, third-party libraries, other libraries of
//                      codegen/. Never a plugin.
//   codegen/loopir/    the plugin ABI, its own files and the standard library: no code generator.
// Libraries that only one file may see stand in `confined`.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr std::string_view rooms[] = {
    "core",      "ops",     "graph", "cache",   "autograd", "nn",   "guards", "capture", "aot",
    "partition", "backend", "saved", "runtime", "compile",  "tape", "model",  "debug",   "cli"};

// A library's headers, the file or room that may see them ("" for none), and what to do instead.
struct Confined {
  std::string_view prefix, allowed, advice;
};
constexpr Confined confined[] = {
    {"boost/", "host/backend/life/load.cpp", "Boost stays in host/backend/life/load.cpp"},
    {"spdlog/", "host/report/log.cpp", "log through report/log.h"},
    {"toml++/", "host/config/toml.cpp", "read TOML through config/toml.h"},
    {"toml.hpp", "host/config/toml.cpp", "read TOML through config/toml.h"},
    {"CLI/", "host/cli/", "the command line belongs to host/cli"},
    {"llvm", "", "LLVM belongs to plugins"},
    {"dnnl", "", "oneDNN belongs to plugins"},
    {"oneapi/", "", "oneDNN belongs to plugins"},
    {"cuda", "", "CUDA belongs to plugins"},
    {"cublas", "", "CUDA belongs to plugins"},
    {"cudnn", "", "CUDA belongs to plugins"},
    {"lapacke", "", "LAPACK belongs to plugins"},
};

constexpr std::string_view c_headers[] = {"stdint.h", "stddef.h", "stdbool.h", "string.h",
                                          "stdlib.h", "math.h",   "stdio.h",   "limits.h",
                                          "assert.h", "float.h",  "inttypes.h"};

struct Include {
  std::string name;
  bool quoted;
};

struct Checker {
  fs::path root;
  int found = 0;
  int files = 0;

  void check_tree();
  void check_file(const fs::path& path);
  std::string why_forbidden(const std::string& file, const Include& include) const;
  std::string in_host(const std::string& file, const Include& include) const;
  std::string in_room(std::string_view room, const Include& include) const;
  std::string in_formats(std::string_view room, std::string_view target) const;
  std::string in_plugin(const std::string& file, const Include& include) const;
  bool is_public(std::string_view name) const;
  bool is_plugin_api(std::string_view name) const;
};

std::optional<size_t> rank(std::string_view room) {
  const auto* at = std::find(std::begin(rooms), std::end(rooms), room);
  if (at == std::end(rooms)) return std::nullopt;
  return static_cast<size_t>(at - std::begin(rooms));
}

std::string first_folder(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

bool has_folder(std::string_view path) { return path.find('/') != std::string_view::npos; }

bool is_standard(std::string_view name) {
  if (name.find_first_of("./") == std::string_view::npos) return true;
  return std::find(std::begin(c_headers), std::end(c_headers), name) != std::end(c_headers);
}

std::optional<Include> parse_include(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string_view::npos || !line.substr(at).starts_with("include")) return std::nullopt;
  size_t open = line.find_first_of("\"<", at);
  if (open == std::string_view::npos) return std::nullopt;
  size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return Include{std::string(line.substr(open + 1, close - open - 1)), line[open] == '"'};
}

// The room of "host/a/b/c.cpp" is a; a file right in host/ has none, which is an error.
std::string room_of(std::string_view file) {
  std::string_view inside = file.substr(std::string_view("host/").size());
  return has_folder(inside) ? first_folder(inside) : "";
}

bool Checker::is_plugin_api(std::string_view name) const {
  return name.starts_with("tenon/") && fs::exists(root / "plugin-api/include" / name);
}

// Generated public headers exist in the build tree only: any tenon/ header counts.
bool Checker::is_public(std::string_view name) const { return name.starts_with("tenon/"); }

std::string Checker::in_room(std::string_view room, const Include& include) const {
  std::string target = has_folder(include.name) ? first_folder(include.name) : std::string(room);
  if (room == "config") {
    bool own = target == "config" || include.name == "core/error.h" ||
               include.name == "core/edit_distance.h" || include.name == "core/own_file.h" ||
               include.name == "core/path_writers.h" ||
               include.name == "core/threads/cancellation_off.h" || include.name == "core/utf8.h";
    if (own || include.name == "tenon/config.h" || include.name == "tenon/error.h") return "";
    return "config sees core/error.h, core/edit_distance.h, core/own_file.h, core/path_writers.h, "
           "core/threads/cancellation_off.h and core/utf8.h only, since every room sees config";
  }
  if (is_public(include.name) || target == "config") return "";
  if (room == "report")
    return target == "core" || target == "report" ? "" : "report sees core and config only";
  if (target == "report") return room == "core" ? "core does not see report" : "";
  if (room == "formats" || target == "formats") return in_formats(room, target);
  std::optional<size_t> from = rank(room), to = rank(target);
  if (!from) return "host/" + std::string(room) + " is not a room; rooms stand in check_layers.cpp";
  if (!to) return "\"" + target + "\" is not a room of the host";
  if (*to <= *from) return "";
  return target + " stands to the right of " + std::string(room) +
         "; use a function-pointer slot that " + std::string(room) + " declares";
}

std::string Checker::in_formats(std::string_view room, std::string_view target) const {
  if (room == target) return "";
  bool is_left = room == "formats" ? rank(target) <= rank("graph") : rank(room) > rank("graph");
  return is_left ? "" : "formats sees core, ops and graph, and is seen by the rooms behind these";
}

std::string Checker::in_host(const std::string& file, const Include& include) const {
  for (const Confined& rule : confined) {
    if (!include.name.starts_with(rule.prefix)) continue;
    bool allowed = !rule.allowed.empty() && file.starts_with(rule.allowed);
    return allowed ? "" : std::string(rule.advice);
  }
  bool named_by_folder = include.quoted && has_folder(include.name);
  if (file.starts_with("host/include/")) {
    if (is_public(include.name) || is_standard(include.name)) return "";
    return "public headers include the standard library and other public headers only";
  }
  if (include.name.find("..") != std::string::npos) return "name the room: \"room/file.h\"";
  bool top_level = include.quoted && !has_folder(include.name);
  if (top_level && fs::exists((root / file).parent_path() / include.name)) return "";
  if (top_level && !fs::exists(root / "host" / include.name))
    return "no such file in this folder; name the room: \"room/file.h\"";
  bool ours = named_by_folder || top_level || is_public(include.name);
  return ours ? in_room(room_of(file), include) : "";
}

// Files of a plugin and of a library that plugins share.
std::string Checker::in_plugin(const std::string& file, const Include& include) const {
  if (include.name.starts_with("tenon/"))
    return "plugins see <tenon/plugin.h> and <tenon/plugin.hpp>, not the host";
  fs::path place = (root / first_folder(file)).lexically_normal();  // plugins or codegen
  std::string name = first_folder(file.substr(file.find('/') + 1));
  if (include.quoted) {
    fs::path own = place / name;
    for (const fs::path& from : {(root / file).parent_path(), own, place}) {
      fs::path found = (from / include.name).lexically_normal();
      if (found.string().starts_with(own.string() + "/") && fs::exists(found)) return "";
    }
    return "a plugin's or library's own files lie in its folder";
  }
  if (name == "loopir" && !is_standard(include.name))
    return "loopir serves every code generator and knows none";
  bool of_plugin = fs::exists(root / "plugins" / include.name);
  if (!of_plugin || (place.filename() == "plugins" && first_folder(include.name) == name))
    return "";
  return "plugins are seen by nobody; put what they share into codegen/";
}

std::string Checker::why_forbidden(const std::string& file, const Include& include) const {
  if (file.starts_with("host/")) return in_host(file, include);
  if (is_plugin_api(include.name)) return "";
  fs::path beside = ((root / file).parent_path() / include.name).lexically_normal();
  if (file.starts_with("plugin-api/")) {
    // A template's project writes the header of its options.
    bool own = (include.quoted && fs::exists(beside)) || include.name.starts_with("TEMPLATE_NAME");
    return own || is_standard(include.name) ? "" : "the plugin ABI includes nothing but itself";
  }
  return in_plugin(file, include);
}

void Checker::check_file(const fs::path& path) {
  std::string file = path.lexically_relative(root).generic_string();
  std::ifstream in(path);
  ++files;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::optional<Include> include = parse_include(line);
    if (!include) continue;
    std::string why = why_forbidden(file, *include);
    if (why.empty()) continue;
    ++found;
    std::printf("%s:%d: includes %s: %s\n", file.c_str(), number, include->name.c_str(),
                why.c_str());
  }
}

void Checker::check_tree() {
  for (const char* folder : {"host", "plugin-api", "codegen", "plugins"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      std::string extension = entry.path().extension().string();
      bool source = extension == ".h" || extension == ".hpp" || extension == ".cpp" ||
                    extension == ".c" || extension == ".def" || extension == ".inc";
      bool test = entry.path().lexically_relative(root).generic_string().find("/tests/") !=
                  std::string::npos;
      if (source && !test && entry.is_regular_file()) check_file(entry.path());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !fs::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: check_layers SOURCE_DIR\n");
    return 2;
  }
  Checker checker{fs::canonical(argv[1])};
  checker.check_tree();
  std::printf("%d files, %d forbidden includes\n", checker.files, checker.found);
  return checker.found == 0 && checker.files > 0 ? 0 : 1;
}
