// Flags in TOML files: which folders are searched and what a file may hold.
#include "config/flag_warnings.h"
#include "config/reading.h"
#include "core/error.h"
#include "core/path_writers.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace tenon::config {

void fail_at(const Origin& origin, std::string_view what) {
  if (!origin.file.empty()) throw FileError(origin.file, origin.line, origin.column, what);
  fail(ErrorCode::config, "{} (set by {})", what, origin.text);
}

std::string_view name_of(Layer layer) {
  constexpr std::string_view names[] = {"default", "program",  "install",     "user",
                                        "project", "--config", "environment", "set",
                                        "--set",   "patch",    "options",     "force"};
  return names[static_cast<size_t>(layer)];
}

namespace {

Origin origin_of(std::string_view source, const TomlNode& node) {
  return {.text = message("{}:{}:{}", source, node.line, node.column),
          .file = std::string(source),
          .line = node.line,
          .column = node.column};
}

// A list of strings; a table of strings becomes `key=value` items.
Value list_value(const TomlNode& node, const Origin& origin, std::string_view key) {
  std::vector<std::string> list;
  auto add = [&](std::string prefix, const TomlNode& item) {
    if (item.kind != TomlNode::Kind::text)
      fail_at(origin, message("{} expects a list of strings, found another kind of item", key));
    list.push_back(std::move(prefix) + item.text);
  };
  for (const TomlNode& item : node.items) add("", item);
  for (const auto& [name, item] : node.members) add(name + "=", item);
  return list;
}

Value value_of(const TomlNode& node, const Origin& origin, std::string_view key) {
  switch (node.kind) {
    case TomlNode::Kind::boolean:
      return node.boolean;
    case TomlNode::Kind::integer:
      return node.integer;
    case TomlNode::Kind::floating:
      return node.floating;
    case TomlNode::Kind::text:
      return node.text;
    case TomlNode::Kind::date:
      break;
    case TomlNode::Kind::array:
    case TomlNode::Kind::table:
      return list_value(node, origin, key);
  }
  fail_at(origin, message("{} is a date; write a bool, number, string or list", key));
}

// [meta]: `schema` must be 1; true if `unknown_keys = "warn"`.
bool read_meta(const TomlNode& meta, std::string_view source) {
  bool warn = false;
  for (const auto& [name, node] : meta.members) {
    Origin origin = origin_of(source, node);
    if (name == "schema") {
      if (node.kind != TomlNode::Kind::integer || node.integer != 1)
        fail_at(origin,
                "meta.schema is not 1, the only version known here; was the file written "
                "by a newer Tenon?");
    } else if (name == "unknown_keys") {
      warn = node.text == "warn";
      if (!warn && node.text != "error")
        fail_at(origin, "meta.unknown_keys expects \"error\" or \"warn\"");
    } else {
      fail_at(origin, message("meta.{} does not exist; known are schema and unknown_keys", name));
    }
  }
  return warn;
}

bool reads_meta(const TomlNode& root, std::string_view source) {
  const TomlNode* meta = root.find("meta");
  return meta != nullptr && read_meta(*meta, source);
}

void read_table(const std::string& module, const TomlNode& table, std::string_view source,
                Layer layer, bool tolerate, std::vector<Reading>& out) {
  for (const auto& [name, node] : table.members) {
    Origin origin = origin_of(source, node);
    std::string key = module + "." + name;
    Value value = value_of(node, origin, key);
    out.push_back({.layer = layer,
                   .key = std::move(key),
                   .value = std::move(value),
                   .tolerate_unknown = tolerate,
                   .origin = std::move(origin)});
  }
}

[[noreturn]] void fail_outside_table(const std::string& name, const TomlNode& node,
                                     std::string_view source) {
  fail_at(origin_of(source, node),
          message("`{}` stands outside a table; write the table of its module above it, such as "
                  "[dynamo]",
                  name));
}

bool has_flag(std::string_view module, std::string_view name) {
  for (const FlagDef& def : flag_defs()) {
    if (def.module == module && def.name == name) return true;
  }
  return false;
}

// Of NAME.toml in a folder. Whoever has a file of that name without [NAME] and [meta] did not write
// it for us, unless it begins with one of our flags outside a table.
void read_module_file(const fs::path& path, const std::string& module, Layer layer,
                      std::vector<Reading>& out) {
  std::string source = path.string();
  TomlNode root = parse_toml(read_toml_file(source), source);
  bool ours = root.find(module) != nullptr || root.find("meta") != nullptr;
  for (const auto& [name, node] : root.members) {
    bool table = node.kind == TomlNode::Kind::table;
    if (!table && (ours || has_flag(module, name))) fail_outside_table(name, node, source);
    if (ours && name != module && name != "meta")
      fail_at(origin_of(source, node),
              message("[{}] stands in {}.toml, which holds the table [{}]", name, module, module));
  }
  bool tolerate = ours && reads_meta(root, source);
  const TomlNode* table = root.find(module);
  if (table && table->kind == TomlNode::Kind::table)
    read_table(module, *table, source, layer, tolerate, out);
}

// Whether nobody but root and this user could have written a file of the project folder, or the
// folder. The folder is searched for upwards, so it may be anybody's.
bool is_trusted(const fs::path& path, FlagWarnings& warnings) {
  std::error_code error;
  WriterFindings findings = PathWriters().of_found_file(fs::absolute(path, error).string());
  if (findings.refused.empty()) return true;
  const WriterFinding& first = findings.refused.front();
  warnings.add("trust " + first.reason,
               message("the project file {} is ignored: {}{}", path.string(), first.reason,
                       first.hint.empty() ? "" : "; " + first.hint));
  return false;
}

std::string environment_path(const char* name) {
  const char* text = secure_getenv(name);
  return text ? text : "";
}

std::string install_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&install_folder), &info) == 0 || !info.dli_fname) return "";
  std::error_code error;
  // A program that was found on the PATH knows itself by its bare name.
  bool bare = fs::path(info.dli_fname).parent_path().empty();
  fs::path library = fs::canonical(bare ? "/proc/self/exe" : info.dli_fname, error);
  return error ? "" : (library.parent_path().parent_path() / "etc" / "tenon").string();
}

std::string user_folder() {
  std::string base = environment_path("XDG_CONFIG_HOME");
  if (base.empty()) {
    std::string home = environment_path("HOME");
    if (home.empty()) return "";
    base = home + "/.config";
  }
  return base + "/tenon";
}

// The nearest configs/ or .tenon/ at the working directory or above it.
std::string project_folder() {
  if (process_is_secure()) return "";
  std::string named = environment_path("TENON_CONFIG_DIR");
  std::error_code error;
  if (!named.empty()) {
    require(fs::is_directory(named, error), ErrorCode::config,
            "TENON_CONFIG_DIR is {}, which is not a folder; name one that holds files such as "
            "dynamo.toml",
            named);
    return named;
  }
  for (fs::path at = fs::current_path(error); !at.empty(); at = at.parent_path()) {
    for (const char* name : {"configs", ".tenon"}) {
      if (fs::is_directory(at / name, error)) return (at / name).string();
    }
    if (at == at.root_path()) break;
  }
  return "";
}

}  // namespace

std::vector<std::pair<Layer, std::string>> config_folders() {
  std::vector<std::pair<Layer, std::string>> folders;
  auto add = [&](Layer layer, std::string folder) {
    if (!folder.empty()) folders.emplace_back(layer, std::move(folder));
  };
  add(Layer::install, install_folder());
  add(Layer::user, user_folder());
  add(Layer::project, project_folder());
  return folders;
}

std::vector<Reading> read_text(std::string_view toml, std::string_view source, Layer layer) {
  TomlNode root = parse_toml(toml, source);
  bool tolerate = reads_meta(root, source);
  std::vector<Reading> out;
  for (const auto& [name, node] : root.members) {
    if (node.kind != TomlNode::Kind::table) fail_outside_table(name, node, source);
    if (name != "meta") read_table(name, node, source, layer, tolerate, out);
  }
  return out;
}

std::vector<Reading> read_file(const std::string& path, Layer layer) {
  return read_text(read_toml_file(path), path, layer);
}

std::vector<Reading> read_folders(const std::vector<std::string>& modules, FlagWarnings& warnings) {
  std::vector<Reading> out;
  for (const auto& [layer, folder] : config_folders()) {
    for (const std::string& module : modules) {
      fs::path path = fs::path(folder) / (module + ".toml");
      std::error_code error;
      if (!fs::is_regular_file(path, error)) continue;
      if (layer == Layer::project && !is_trusted(path, warnings)) continue;
      read_module_file(path, module, layer, out);
    }
  }
  return out;
}

}  // namespace tenon::config
