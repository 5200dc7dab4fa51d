// Reads the TOML of a plugin's note into a PluginManifest.
#include "backend/find/manifest.h"

#include "config/toml.h"
#include "core/error.h"
#include "core/joined.h"
#include "core/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <new>
#include <span>

namespace tenon {
namespace {

using config::TomlNode;
using Kind = TomlNode::Kind;
using Texts = std::vector<std::string>;

constexpr std::array<std::string_view, 15> dtype_names = {
    "u8",  "i8",  "i16",  "i32",  "i64",  "f16",     "f32",      "f64",
    "c32", "c64", "c128", "bool", "bf16", "f8_e5m2", "f8_e4m3fn"};

/// A place in the text and what is wrong there; becomes P04.
struct ManifestError {
  uint32_t line, column;
  std::string text;
};

[[noreturn]] void complain(const TomlNode& at, std::string_view text) {
  throw ManifestError{at.line, at.column, shown(text)};
}

std::string_view type_name(Kind kind) {
  constexpr std::string_view names[] = {"a bool",         "an integer", "a float", "a string",
                                        "a date or time", "an array",   "a table"};
  return names[static_cast<size_t>(kind)];
}

bool is_name(std::string_view text) {
  auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && text.size() <= 48 && lower(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

/// A table whose keys are asked for one by one; what nobody asked for is unknown.
class Table {
 public:
  Table(const TomlNode& table, std::string name, Texts& unknown)
      : table_(table), name_(std::move(name)), unknown_(unknown) {}
  Table(const Table&) = delete;
  /// Tells of unknown keys, which is worth no more than a debug line: not while an error is on its
  /// way, and not without memory.
  ~Table() {
    if (std::uncaught_exceptions() > 0) return;
    try {
      for (const auto& [key, value] : table_.members)
        if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
          unknown_.push_back(name_of_key(key));
    } catch (const std::bad_alloc&) {
      unknown_.clear();
    }
  }

  const TomlNode* find(std::string_view key) {
    seen_.push_back(key);
    return table_.find(key);
  }
  const TomlNode& required(std::string_view key) {
    const TomlNode* node = find(key);
    if (!node) complain(table_, message("key {} is missing", name_of_key(key)));
    return *node;
  }
  std::string text(std::string_view key, std::string_view otherwise) {
    const TomlNode* node = find(key);
    return node ? as(*node, Kind::text, key, "a string").text : std::string(otherwise);
  }
  std::string required_text(std::string_view key) {
    return as(required(key), Kind::text, key, "a string").text;
  }
  std::string required_name(std::string_view key) {
    std::string name = required_text(key);
    if (!is_name(name))
      complain(*table_.find(key),
               message("{} is \"{}\"; expected a lower-case letter, then at most 47 lower-case "
                       "letters, digits or _",
                       name_of_key(key), name));
    return name;
  }
  bool flag(std::string_view key, bool otherwise) {
    const TomlNode* node = find(key);
    return node ? as(*node, Kind::boolean, key, "a bool").boolean : otherwise;
  }
  int64_t integer(std::string_view key, int64_t otherwise, int64_t least) {
    const TomlNode* node = find(key);
    if (!node) return otherwise;
    int64_t value = as(*node, Kind::integer, key, "an integer").integer;
    if (value < least)
      complain(*node, message("{} is {}; expected at least {}", name_of_key(key), value, least));
    return value;
  }
  std::optional<double> number(std::string_view key) {
    const TomlNode* node = find(key);
    if (!node) return std::nullopt;
    if (node->kind == Kind::integer) return static_cast<double>(node->integer);
    return as(*node, Kind::floating, key, "a number").floating;
  }
  std::string choice(std::string_view key, std::string_view otherwise,
                     std::span<const std::string_view> choices) {
    const TomlNode* node = find(key);
    if (!node) return std::string(otherwise);
    const std::string& value = as(*node, Kind::text, key, "a string").text;
    check_choice(*node, key, value, choices);
    return value;
  }
  Texts list(std::string_view key, Texts otherwise = {},
             std::span<const std::string_view> choices = {}) {
    const TomlNode* node = find(key);
    if (!node) return otherwise;
    constexpr std::string_view expected = "an array of strings";
    Texts out;
    for (const TomlNode& item : as(*node, Kind::array, key, expected).items) {
      out.push_back(as(item, Kind::text, key, expected).text);
      if (!choices.empty()) check_choice(item, key, out.back(), choices);
    }
    return out;
  }
  const TomlNode* table(std::string_view key) {
    const TomlNode* node = find(key);
    return node ? &as(*node, Kind::table, key, "a table") : nullptr;
  }
  /// f(const TomlNode&) for each [[key]].
  template <class F>
  void each(std::string_view key, F&& f) {
    const TomlNode* node = find(key);
    if (!node) return;
    if (node->kind != Kind::array)
      complain(*node, message("{} is {}; write [[{}]]", name_of_key(key), type_name(node->kind),
                              name_of_key(key)));
    for (const TomlNode& item : node->items) f(as(item, Kind::table, key, "tables"));
  }
  std::string name_of_key(std::string_view key) const {
    return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
  }
  Texts& unknown() { return unknown_; }

 private:
  const TomlNode& as(const TomlNode& node, Kind kind, std::string_view key,
                     std::string_view expected) const {
    if (node.kind != kind)
      complain(node,
               message("{} is {}; expected {}", name_of_key(key), type_name(node.kind), expected));
    return node;
  }
  void check_choice(const TomlNode& node, std::string_view key, const std::string& value,
                    std::span<const std::string_view> choices) const {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      complain(node, message("{} is \"{}\"; expected one of: {}", name_of_key(key), value,
                             joined(choices)));
  }

  const TomlNode& table_;
  std::string name_;
  Texts& unknown_;
  std::vector<std::string_view> seen_;
};

template <class T>
void refuse_twice(const TomlNode& at, const std::vector<T>& all, const std::string& name,
                  std::string_view what) {
  for (const T& other : all)
    if (other.name == name) complain(at, message("two {}s are named \"{}\"", what, name));
}

AbiVersion read_abi(const TomlNode& node, const std::string& text, std::string_view key) {
  AbiVersion v;
  const char *at = text.data(), *end = at + text.size();
  auto major = std::from_chars(at, end, v.major);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
    auto minor = std::from_chars(major.ptr + 1, end, v.minor);
    if (minor.ec == std::errc() && minor.ptr == end) return v;
  }
  complain(node, message("{} is \"{}\"; expected major.minor, such as \"1.0\"", key, text));
}

/// "tenon.cuda/1"; the version is 1 where it is left out.
ExtensionManifest read_requirement(const TomlNode& node, const std::string& text) {
  size_t slash = text.find('/');
  ExtensionManifest out{text.substr(0, slash), 1};
  bool good = !out.id.empty();
  if (slash != std::string::npos) {
    const char *from = text.data() + slash + 1, *end = text.data() + text.size();
    auto [ptr, ec] = std::from_chars(from, end, out.version);
    good = good && ec == std::errc() && ptr == end;
  }
  if (!good)
    complain(node, message("plugin.requires has \"{}\"; expected id/version, such as "
                           "\"tenon.cuda/1\"",
                           text));
  return out;
}

/// A text for people, which is shown in tables: one line without what steers terminals.
std::string prose(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return shown(text);
}

void read_plugin(const TomlNode& table, Texts& unknown, PluginManifest& out) {
  Table t(table, "plugin", unknown);
  out.name = t.required_name("name");
  std::string version = t.required_text("version");
  auto parsed = parse_version(version);
  if (!parsed)
    complain(*t.find("version"),
             message("plugin.version is \"{}\"; expected a version such as \"0.1.0\"", version));
  out.version = *parsed;
  out.abi = read_abi(t.required("abi"), t.required_text("abi"), "plugin.abi");
  out.abi_min = out.abi;
  if (const TomlNode* node = t.find("abi_min"))
    out.abi_min = read_abi(*node, t.text("abi_min", ""), "plugin.abi_min");
  if (out.abi_min > out.abi || out.abi_min.major != out.abi.major)
    complain(*t.find("abi_min"), message("plugin.abi_min is {}; expected at most plugin.abi, "
                                         "which is {}",
                                         out.abi_min, out.abi));
  out.description = prose(t.text("description", ""));
  out.license = prose(t.text("license", ""));
  for (const std::string& text : t.list("requires"))
    out.requires_.push_back(read_requirement(*t.find("requires"), text));
  out.needs_library = t.list("needs_library");
}

Texts strings_of(const TomlNode& array, const std::string& key) {
  Texts out;
  for (const TomlNode& item : array.items) {
    if (item.kind != Kind::text)
      complain(item, message("{} has {}; expected strings", key, type_name(item.kind)));
    out.push_back(item.text);
  }
  return out;
}

OptionValue read_value(const TomlNode& node, const BackendOption& option, const std::string& key) {
  OptionValue value;
  switch (node.kind) {
    case Kind::boolean:
      value = node.boolean;
      break;
    case Kind::integer:
      value = node.integer;
      break;
    case Kind::floating:
      value = node.floating;
      break;
    case Kind::text:
      value = node.text;
      break;
    case Kind::array:
      value = strings_of(node, key);
      break;
    default:
      complain(node,
               message("{} is {}; expected {}", key, type_name(node.kind), name_of(option.type)));
  }
  if (option.type == OptionType::floating && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (std::string problem = option_problem(option, value); !problem.empty())
    complain(node, message("{}: {}", key, problem));
  return value;
}

std::string upper_case(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

constexpr std::array<std::string_view, 6> option_types = {"bool",   "int",  "float",
                                                          "string", "enum", "list"};

BackendOption read_option(const TomlNode& table, const std::string& backend, Texts& unknown) {
  Table t(table, "backend.option", unknown);
  BackendOption out;
  out.name = t.required_name("name");
  t.required("type");
  std::string type = t.choice("type", "", option_types);
  out.type = static_cast<OptionType>(std::find(option_types.begin(), option_types.end(), type) -
                                     option_types.begin());
  out.doc = prose(t.text("doc", ""));
  out.env = t.text("env", upper_case("tenon_" + backend + "_" + out.name));
  if (!out.env.starts_with("TENON_"))
    complain(
        *t.find("env"),
        message("backend.option.env is \"{}\"; expected a name that begins with TENON_", out.env));
  out.affects_cache = t.flag("affects_cache", true);
  out.choices = t.list("choices");
  if (out.type == OptionType::enumeration && out.choices.empty())
    complain(table, message("option {} is an enum without choices", out.name));
  out.min = t.number("min");
  out.max = t.number("max");
  out.default_value = read_value(t.required("default"), out, "default of option " + out.name);
  return out;
}

AotSettings read_aot(const TomlNode& table, Texts& unknown) {
  static constexpr std::array<std::string_view, 2> partitioners = {"min_cut", "default"};
  static constexpr std::array<std::string_view, 4> sets = {"none", "core_aten", "inductor",
                                                           "random"};
  Table t(table, "backend.aot", unknown);
  AotSettings out;
  out.partitioner = t.choice("partitioner", out.partitioner, partitioners);
  if (const TomlNode* node = t.find("decompositions"); node && node->kind == Kind::array) {
    out.decompositions = "list";
    out.decompose = t.list("decompositions");
  } else {
    out.decompositions = t.choice("decompositions", out.decompositions, sets);
  }
  out.keep = t.list("keep");
  out.keep_inference_input_mutations = t.flag("keep_inference_input_mutations", false);
  out.debug_assert = t.flag("debug_assert", false);
  return out;
}

BackendMode read_mode(std::string_view name, const TomlNode& node, const BackendManifest& b) {
  BackendMode out{std::string(name), {}};
  std::string where = "backend.mode." + out.name;
  if (node.kind != Kind::table)
    complain(node, message("{} is {}; expected a table", where, type_name(node.kind)));
  for (const auto& [key, value] : node.members) {
    const BackendOption* option = b.find_option(key);
    if (!option) {
      Texts known;
      for (const BackendOption& o : b.options) known.push_back(o.name);
      complain(value, message("{} sets {}, which is not an option of backend {}; did you mean {}?",
                              where, key, b.name, nearest_names(key, known)));
    }
    out.values.emplace_back(key, read_value(value, *option, where + "." + option->name));
  }
  return out;
}

BackendManifest read_backend(const TomlNode& table, Texts& unknown) {
  static constexpr std::array<std::string_view, 2> stage_names = {"captured", "aot"};
  static constexpr std::array<std::string_view, 4> halves = {"forward", "backward", "inference",
                                                             "single_op"};
  Table t(table, "backend", unknown);
  BackendManifest out;
  out.name = t.required_name("name");
  out.description = prose(t.text("description", ""));
  out.tags = t.list("tags");
  out.devices = t.list("devices", out.devices);
  out.dtypes = t.list("dtypes", {}, dtype_names);
  out.stage = t.choice("stage", "captured", stage_names) == "aot" ? BackendStage::aot
                                                                  : BackendStage::captured;
  out.stages = t.list("stages", out.stages, halves);
  out.dynamic_shapes = t.flag("dynamic_shapes", out.dynamic_shapes);
  out.boxed = t.flag("boxed", out.boxed);
  out.threadsafe_compile = t.flag("threadsafe_compile", out.threadsafe_compile);
  out.serializable = t.flag("serializable", out.serializable);
  out.makes_code = t.flag("makes_code", out.makes_code);
  out.takes_cpu_values = t.flag("takes_cpu_values", out.takes_cpu_values);
  out.loads = t.list("loads");
  out.fallback = t.text("fallback", out.fallback);
  out.min_region_ops = t.integer("min_region_ops", out.min_region_ops, 1);
  if (const TomlNode* aot = t.table("aot")) out.aot = read_aot(*aot, unknown);
  t.each("option", [&](const TomlNode& option) {
    BackendOption read = read_option(option, out.name, unknown);
    refuse_twice(option, out.options, read.name, "option");
    out.options.push_back(std::move(read));
  });
  if (const TomlNode* modes = t.table("mode"))
    for (const auto& [name, node] : modes->members) out.modes.push_back(read_mode(name, node, out));
  return out;
}

DeviceManifest read_device(const TomlNode& table, Texts& unknown) {
  Table t(table, "device", unknown);
  return {t.required_name("type"), prose(t.text("description", ""))};
}

KernelsManifest read_kernels(const TomlNode& table, Texts& unknown) {
  Table t(table, "kernels", unknown);
  KernelsManifest out;
  out.device = t.required_name("device");
  out.description = prose(t.text("description", ""));
  t.required("ops");
  out.ops = t.list("ops");
  out.priority = t.integer("priority", 0, INT32_MIN);
  if (out.priority > INT32_MAX)
    complain(*t.find("priority"),
             message("priority is {}; expected at most {}", out.priority, INT32_MAX));
  return out;
}

OpManifest read_op(const TomlNode& table, Texts& unknown) {
  Table t(table, "op", unknown);
  OpManifest out{t.required_text("name"), prose(t.text("description", ""))};
  bool is_full = std::count(out.name.begin(), out.name.end(), '.') == 2;
  if (!is_full || out.name.starts_with("aten."))
    complain(
        *t.find("name"),
        message("op name is '{}'; expected \"namespace.name.overload\" outside of aten, such as "
                "\"my.swiglu.default\"",
                out.name));
  return out;
}

ExtensionManifest read_extension(const TomlNode& table, Texts& unknown) {
  Table t(table, "extension", unknown);
  std::string id = t.required_text("id");
  return {id, static_cast<uint32_t>(t.integer("version", 1, 1))};
}

void read_all(const TomlNode& table, Texts& unknown, PluginManifest& out) {
  Table t(table, "", unknown);
  t.required("manifest");
  int64_t format = t.integer("manifest", 1, 1);
  if (format != 1)
    complain(*t.find("manifest"), message("manifest is {}; this host reads format 1", format));
  t.required("plugin");
  read_plugin(*t.table("plugin"), unknown, out);
  t.each("backend", [&](const TomlNode& backend) {
    BackendManifest read = read_backend(backend, unknown);
    refuse_twice(backend, out.backends, read.name, "backend");
    out.backends.push_back(std::move(read));
  });
  t.each("device", [&](const TomlNode& d) { out.devices.push_back(read_device(d, unknown)); });
  t.each("kernels", [&](const TomlNode& k) { out.kernels.push_back(read_kernels(k, unknown)); });
  t.each("op", [&](const TomlNode& op) {
    OpManifest read = read_op(op, unknown);
    refuse_twice(op, out.ops, read.name, "op");
    out.ops.push_back(std::move(read));
  });
  t.each("extension",
         [&](const TomlNode& e) { out.extensions.push_back(read_extension(e, unknown)); });
}

}  // namespace

ManifestResult parse_manifest(std::string_view text, const std::string& path) {
  ManifestResult result;
  auto refuse = [&](uint32_t line, uint32_t column, std::string_view what) {
    result.diagnosis = {PluginFault::bad_manifest, path,
                        message("manifest line {}, column {}: {}", line, column, what),
                        "`tenon plugin check` says more"};
    result.unknown_keys.clear();  // keys after the error were not asked for yet
  };
  try {
    read_all(config::parse_toml(text, ""), result.unknown_keys, result.manifest);
  } catch (const config::FileError& e) {
    std::string_view what = e.what();
    refuse(e.line(), e.column(), what.substr(what.find(": this is") + 2));
  } catch (const ManifestError& e) {
    refuse(e.line, e.column, e.text);
  }
  return result;
}

}  // namespace tenon
