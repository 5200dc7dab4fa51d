// The public functions on flags, and the texts of flags: saved, as C++, as files.
#include "config/config.h"

#include "config/folders.h"
#include "config/setting_text.h"
#include "config/store.h"
#include "core/error.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace fs = std::filesystem;

namespace tenon::config {

void (*declare_all_options_slot)() = nullptr;

void declare_all_options() {
  if (declare_all_options_slot) declare_all_options_slot();
  Store::instance().check_option_names();
}

// To declare all is a tenth of a first compile, and mostly no variable names a backend.
void require_option_names() {
  if (!Store::instance().option_names_checked() && has_variables_of_backends())
    declare_all_options();
}

// Options of backends are read from the manifests once a key asks for them.
void detail::know_module_of(std::string_view key) {
  bool has_module = key.find('.') != std::string_view::npos;
  if (has_module && !Store::instance().look_at_rows()->has_module_of(key)) declare_all_options();
}

void set(std::string_view key, Value value) {
  detail::know_module_of(key);
  Store::instance().apply({.layer = Layer::set,
                           .key = std::string(key),
                           .value = std::move(value),
                           .origin = {.text = "config::set"}});
}

void unset(std::string_view key) {
  detail::know_module_of(key);
  Store::instance().unset(key);
}
void reload() { Store::instance().reload(); }
void forget() { Store::instance().forget(); }
void use_file(const std::string& path) { Store::instance().use_file(path); }
void declare_options(std::string_view backend, std::span<const FlagDef> options) {
  Store::instance().declare_options(backend, options);
}

void presume(std::string_view key, Value value, std::string_view origin) {
  Store::instance().apply({.layer = Layer::program,
                           .key = std::string(key),
                           .value = std::move(value),
                           .tolerate_unknown = true,
                           .origin = {.text = std::string(origin)}});
}

void require_all_known() {
  if (Store::instance().has_unknown()) declare_all_options();
  Store::instance().require_all_known();
}

bool is_file_error(const Error& error) { return dynamic_cast<const FileError*>(&error) != nullptr; }

void set_from_command_line(std::string_view setting) {
  size_t equals = setting.find('=');
  require(equals != std::string_view::npos && equals > 0, ErrorCode::config,
          "--set {} has no value; write --set module.flag=value", setting);
  Store::instance().apply({.layer = Layer::command_line,
                           .key = std::string(setting.substr(0, equals)),
                           .value = std::string(setting.substr(equals + 1)),
                           .spelled = true,
                           .origin = {.text = message("--set {}", setting)}});
}

void load(std::string_view toml) {
  std::vector<Reading> readings = read_text(toml, "config::load", Layer::set);
  for (Reading& reading : readings) {
    reading.tolerate_unknown = true;
    detail::know_module_of(reading.key);
  }
  Store::instance().apply_all(std::move(readings));
}

namespace {

bool is_saved(const FlagInfo& flag, const std::vector<std::string>& ignored) {
  if (flag.value == flag.default_value) return false;
  return std::none_of(ignored.begin(), ignored.end(),
                      [&](const std::string& name) { return flag.key == "dynamo." + name; });
}

std::vector<FlagInfo> saved_flags() {
  auto ignored = get_as<std::vector<std::string>>("dynamo._save_config_ignore");
  std::vector<FlagInfo> out;
  for (FlagInfo& flag : list()) {
    if (is_saved(flag, ignored)) out.push_back(std::move(flag));
  }
  return out;
}

std::string toml_text(const std::vector<FlagInfo>& flags) {
  std::string out, table;
  for (const FlagInfo& flag : flags) {
    size_t dot = flag.key.find('.');
    if (flag.key.substr(0, dot) != table) {
      table = flag.key.substr(0, dot);
      out += message("{}[{}]\n", out.empty() ? "" : "\n", table);
    }
    out += message("{} = {}\n", flag.key.substr(dot + 1), value_text(flag.value));
  }
  return out;
}

std::string cpp_text(const Value& value) {
  if (std::holds_alternative<std::string>(value)) return "std::string(" + value_text(value) + ")";
  if (std::holds_alternative<int64_t>(value)) return "int64_t{" + value_text(value) + "}";
  if (!std::holds_alternative<std::vector<std::string>>(value)) return value_text(value);
  std::string text = value_text(value);
  return "std::vector<std::string>{" + text.substr(1, text.size() - 2) + "}";
}

}  // namespace

std::string save() { return toml_text(saved_flags()); }

std::string save_portable() {
  std::vector<FlagInfo> flags = saved_flags();
  std::erase_if(flags, [](const FlagInfo& f) { return f.key[f.key.find('.') + 1] == '_'; });
  return toml_text(flags);
}

std::string save_as_cpp() {
  std::string out;
  for (const FlagInfo& flag : saved_flags())
    out += message("tenon::config::set(\"{}\", {});\n", flag.key, cpp_text(flag.value));
  return out;
}

// FNV-1a over 128 bits: offset and prime of the published function.
std::string hash() {
  using Word = unsigned __int128;
  const Word prime = (Word{1} << 88) + 0x13b;
  Word state = (Word{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  const Flags& now = flags();
  std::vector<std::string> lines;
  for (const FlagDef& def : flag_defs()) {
    if (def.scope == Scope::compile && def.status != Status::no_effect)
      lines.push_back(message("{}={}\n", def.key(), value_text(read_field(def, now))));
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) {
    for (unsigned char c : line) state = (state ^ c) * prime;
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(state >> 64),
                static_cast<unsigned long long>(state));
  return text;
}

namespace {

std::string comment(std::string_view text) { return text.empty() ? "" : message("# {}\n", text); }

std::string status_text(const FlagDef& def) {
  if (def.status == Status::pending)
    return message("Accepted, without effect yet: it comes with {}.",
                   def.why.empty() ? "a later version" : def.why);
  if (def.status == Status::no_effect) return message("No effect: {}.", def.why);
  return def.read_only ? "Read-only." : "";
}

std::string project_text(const FlagDef& def) {
  return is_project_flag(def) ? "" : "Not obeyed in project folders.";
}

std::string other_names(const FlagDef& def) {
  std::string out;
  auto add = [&](std::string_view kind, std::string_view names) {
    if (!names.empty()) out += message("{}{} {}", out.empty() ? "" : "; ", kind, names);
  };
  add("environment also", def.env);
  add("alias", def.aliases);
  add("deprecated:", def.deprecated);
  return out;
}

std::string flag_text(const FlagDef& def) {
  std::string type = type_text(def);
  if (!def.seed.empty()) type += message("; {} under compiler.compat = \"seed\"", def.seed);
  return "\n" + comment(def.doc) + comment(type) + comment(other_names(def)) +
         comment(status_text(def)) + comment(project_text(def)) +
         message("# {} = {}\n", def.name, value_text(default_of(def)));
}

// Aside and renamed. A file or link of the aside's name was not made by this call: it is removed,
// never written through. What only some could read stays so.
void write_text(const fs::path& path, const std::string& text) {
  fs::path aside = path.string() + ".new";
  std::error_code error;
  fs::remove(aside, error);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(aside.c_str(), "wbxe"),
                                                       &std::fclose);
  bool written = file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  fs::file_status before = fs::status(path, error);
  if (written && fs::is_regular_file(before)) fs::permissions(aside, before.permissions(), error);
  written = file && std::fclose(file.release()) == 0 && written;
  error.clear();
  if (written) fs::rename(aside, path, error);
  if (!written || error)
    throw FileError(path.string(), 0, 0,
                    "cannot be written; are there room and rights in its folder?");
}

}  // namespace

std::string config_file_text(std::string_view module) {
  auto modules = module_names();
  bool is_backend = std::find(modules.begin(), modules.end(), module) == modules.end();
  std::string out = message(
      "# {} {}. Written by `tenon config write`.\n"
      "# Take the # away from a line to set the flag. Environment: {}<FLAG>.\n\n"
      "[meta]\nschema = 1\n\n[{}]\n",
      is_backend ? "Options of the backend" : "Flags of the module", module,
      variable_name("TENON_", module, ""), module);
  for (const FlagDef* def : Store::instance().look_at_rows()->defs_of(module))
    out += flag_text(*def);
  return out;
}

void write_config_files(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  declare_all_options();
  std::vector<std::string> modules = Store::instance().look()->backends();
  modules.insert(modules.begin(), module_names().begin(), module_names().end());
  for (const std::string& module : modules)
    write_text(fs::path(folder) / (module + ".toml"), config_file_text(module));
}

namespace {

void require_project_flag(std::string_view key) {
  auto table = Store::instance().look();
  const FlagDef& def = table->def(table->find(key, {}));
  require(is_project_flag(def), ErrorCode::config,
          "{} is not obeyed in project files, since it may name paths, files, backends or caches; "
          "leave out --project to set it for the user",
          def.key());
}

}  // namespace

std::string setting_file(std::string_view key, bool project) {
  if (project) require_project_flag(key);
  std::string module(key.substr(0, key.find('.')));
  Layer wanted = project ? Layer::project : Layer::user;
  for (const auto& [layer, folder] : config_folders()) {
    if (layer == wanted) return (fs::path(folder) / (module + ".toml")).string();
  }
  require(project, ErrorCode::config,
          "there is no user folder for flags; set XDG_CONFIG_HOME or HOME");
  return (fs::path("configs") / (module + ".toml")).string();
}

void write_setting(const std::string& path, std::string_view key, std::string_view text) {
  FlagInfo flag = info(key);
  size_t dot = flag.key.find('.');
  Value value = Store::instance().look()->parse(flag.key, text);
  std::error_code error;
  // A link to the file stays one.
  fs::path file = fs::exists(path, error) ? fs::canonical(path) : fs::path(path);
  std::string before = fs::exists(file, error) ? read_toml_file(path) : "";
  std::string after = with_setting(before, path, flag.key.substr(0, dot), flag.key.substr(dot + 1),
                                   value_text(value));
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  write_text(file, after);
}

namespace {

void require_module(const std::string& path) {
  std::string module = fs::path(path).stem().string();
  detail::know_module_of(module + ".");
  auto table = Store::instance().look_at_rows();
  const auto& modules = table->modules();
  if (modules.contains(module)) return;
  throw FileError(path, 0, 0,
                  message("is not read: there is no module and no backend {}; the nearest are {}",
                          module, nearest_names(module, {modules.begin(), modules.end()})));
}

}  // namespace

std::vector<std::string> check_file(const std::string& path) {
  std::optional<Layer> layer = layer_of_file(path);
  if (layer) require_module(path);
  std::vector<Reading> readings =
      layer ? read_placed_file(path, *layer) : read_file(path, Layer::file);
  for (const Reading& reading : readings) detail::know_module_of(reading.key);
  auto table = Store::instance().look();
  table->check(readings);
  std::vector<std::string> tolerated;
  for (const Reading& reading : readings) {
    if (!table->contains(reading.key)) tolerated.push_back(table->unknown_key(reading.key));
    if (layer != Layer::project || !table->contains(reading.key)) continue;
    const FlagDef& def = table->def(table->find(reading.key, reading.origin));
    if (!is_project_flag(def))
      fail_at(reading.origin,
              message("{} is not obeyed in project files, since it may name paths, files, backends "
                      "or caches",
                      def.key()));
  }
  return tolerated;
}

std::vector<ConfigFile> files_in_force() {
  declare_all_options();
  std::vector<std::string> modules;
  {
    auto table = Store::instance().look();
    modules.assign(table->modules().begin(), table->modules().end());
  }
  std::vector<ConfigFile> out = config_files(modules);
  for (ConfigFile& file : out)
    if (file.distrusted.empty() && !has_table_of(file.path, file.module))
      file.distrusted = message("it lacks the table [{}]", file.module);
  for (const std::string& path : Store::instance().files_of_command_line())
    out.push_back({Layer::file, "", path, ""});
  return out;
}

}  // namespace tenon::config
