// Flags in TOML files: what a file may hold, and which files are read.
#include "config/flag_warnings.h"
#include "config/folders.h"
#include "config/reading.h"
#include "core/error.h"

#include <algorithm>
#include <filesystem>
#include <map>

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

const FlagDef* known_flag(std::string_view key) {
  for (const FlagDef& def : flag_defs())
    if (def.key() == key) return &def;
  return nullptr;
}

// No flag takes a list of anything but strings. Options of backends are not known yet.
[[noreturn]] void fail_about_item(const Origin& origin, std::string_view key) {
  const FlagDef* def = known_flag(target_of(key));
  if (!def) fail_at(origin, message("{} has items that are not strings, which no flag takes", key));
  if (def->type != FlagType::list_)
    fail_at(origin, message("{} expects {}, found a list", key, type_text(*def)));
  fail_at(origin, message("{} expects a list of strings, found another kind of item", key));
}

// A list of strings; a table of strings becomes `key=value` items.
Value list_value(const TomlNode& node, const Origin& origin, std::string_view key) {
  std::vector<std::string> list;
  auto add = [&](std::string prefix, const TomlNode& item) {
    if (item.kind != TomlNode::Kind::text) fail_about_item(origin, key);
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
  return known_flag(message("{}.{}", module, name)) != nullptr;
}

// A flag and one of its other names in one file: nobody can say which was meant.
void require_one_name(const std::vector<Reading>& readings) {
  std::map<std::string, const Reading*> first;
  for (const Reading& reading : readings) {
    auto [known, is_new] = first.emplace(target_of(reading.key), &reading);
    if (!is_new && known->second->key != reading.key)
      fail_at(reading.origin, message("{} and {}, which line {} sets, are one flag; leave out one",
                                      reading.key, known->second->key, known->second->origin.line));
  }
}

// Whoever has a file of that name without [NAME] and [meta] did not write it for us, unless it
// begins with one of our flags outside a table.
bool is_ours(const TomlNode& root, const std::string& module) {
  return root.find(module) != nullptr || root.find("meta") != nullptr;
}

// Of NAME.toml in a folder.
std::vector<Reading> read_module_file(const std::string& path, const std::string& module,
                                      Layer layer, FlagWarnings& warnings) {
  TomlNode root = parse_toml(read_toml_file(path), path);
  bool ours = is_ours(root, module);
  for (const auto& [name, node] : root.members) {
    bool table = node.kind == TomlNode::Kind::table;
    if (!table && (ours || has_flag(module, name))) fail_outside_table(name, node, path);
    if (ours && name != module && name != "meta")
      fail_at(origin_of(path, node),
              message("[{}] stands in {}.toml, which holds the table [{}]", name, module, module));
    if (!ours && table && !misspelt(name, {module}).empty())
      warnings.add("table " + path, message("[{}] in {} is not read; is [{}] meant?", name,
                                            origin_of(path, node).text, module));
  }
  bool tolerate = ours && reads_meta(root, path);
  std::vector<Reading> out;
  const TomlNode* table = root.find(module);
  if (table && table->kind == TomlNode::Kind::table)
    read_table(module, *table, path, layer, tolerate, out);
  require_one_name(out);
  return out;
}

// A file that one of `modules` would have, but for a letter or two.
void look_for_misspelt_files(const fs::path& folder, const std::vector<std::string>& modules,
                             FlagWarnings& warnings) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string(), stem = at->path().stem().string();
    bool known = std::ranges::find(module_names(), stem) != module_names().end();
    std::string meant = name.ends_with(".toml") && !known ? misspelt(stem, modules) : "";
    if (!meant.empty())
      warnings.add("file " + at->path().string(),
                   message("{} is not read: there is no module {}; is {}.toml meant?",
                           at->path().string(), stem, meant));
  }
}

}  // namespace

std::vector<Reading> read_text(std::string_view toml, std::string_view source, Layer layer) {
  TomlNode root = parse_toml(toml, source);
  bool tolerate = reads_meta(root, source);
  std::vector<Reading> out;
  for (const auto& [name, node] : root.members) {
    if (node.kind != TomlNode::Kind::table) fail_outside_table(name, node, source);
    if (name != "meta") read_table(name, node, source, layer, tolerate, out);
  }
  require_one_name(out);
  return out;
}

std::vector<Reading> read_file(const std::string& path, Layer layer) {
  return read_text(read_toml_file(path), path, layer);
}

bool has_table_of(const std::string& path, const std::string& module) {
  return is_ours(parse_toml(read_toml_file(path), path), module);
}

std::vector<Reading> read_placed_file(const std::string& path, Layer layer) {
  std::string distrusted = layer == Layer::project ? why_not_trusted(path) : "";
  if (!distrusted.empty()) throw FileError(path, 0, 0, "is not read: " + distrusted);
  std::string module = fs::path(path).stem().string();
  FlagWarnings warnings;
  std::vector<Reading> readings = read_module_file(path, module, layer, warnings);
  if (!warnings.unsaid().empty()) throw FileError(path, 0, 0, warnings.unsaid().front());
  if (!has_table_of(path, module))
    throw FileError(path, 0, 0, message("is not read: it lacks the table [{}]", module));
  return readings;
}

std::vector<ConfigFile> config_files(const std::vector<std::string>& modules) {
  std::vector<ConfigFile> out;
  for (const auto& [layer, folder] : config_folders()) {
    for (const std::string& module : modules) {
      std::string path = (fs::path(folder) / (module + ".toml")).string();
      std::error_code error;
      if (!fs::is_regular_file(path, error)) continue;
      ConfigFile file{layer, module, path, layer == Layer::project ? why_not_trusted(path) : ""};
      out.push_back(std::move(file));
    }
  }
  return out;
}

std::vector<Reading> read_folders(const std::vector<std::string>& modules, FlagWarnings& warnings) {
  std::vector<Reading> out;
  for (const ConfigFile& file : config_files(modules)) {
    if (!file.distrusted.empty()) {
      warnings.add("trust " + file.distrusted,
                   message("the project file {} is ignored: {}", file.path, file.distrusted));
      continue;
    }
    for (Reading& reading : read_module_file(file.path, file.module, file.layer, warnings))
      out.push_back(std::move(reading));
  }
  for (const auto& [layer, folder] : config_folders())
    look_for_misspelt_files(folder, modules, warnings);
  return out;
}

}  // namespace tenon::config
