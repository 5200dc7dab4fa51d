// Options: manifest default, flags of all layers, mode, call, then what the environment forces.
#include "backend/compile/options.h"

#include "backend/catalog.h"
#include "config/config.h"
#include "config/toml.h"
#include "core/error.h"

#include <set>

namespace tenon {

namespace {

/// What a backend name takes: the options and modes of this manifest, and those that plugins for
/// other devices have beside them, which mean nothing here.
class Known {
 public:
  explicit Known(const BackendManifest& manifest)
      : manifest_(manifest), siblings_(siblings_of(manifest)) {}

  const BackendManifest& manifest() const { return manifest_; }
  const BackendOption* find_option(const std::string& name) const {
    const BackendOption* found = nullptr;
    for_each([&](const BackendManifest& m) { found = found ? found : m.find_option(name); });
    return found;
  }
  const BackendMode* find_mode(const std::string& name) const {
    const BackendMode* found = nullptr;
    for_each([&](const BackendManifest& m) { found = found ? found : m.find_mode(name); });
    return found;
  }
  std::vector<std::string> option_names() const {
    std::set<std::string> names;
    for_each([&](const BackendManifest& m) {
      for (const BackendOption& o : m.options) names.insert(o.name);
    });
    return {names.begin(), names.end()};
  }
  std::vector<std::string> mode_names() const {
    std::set<std::string> names{"default"};
    for_each([&](const BackendManifest& m) {
      for (const BackendMode& mode : m.modes) names.insert(mode.name);
    });
    return {names.begin(), names.end()};
  }
  template <class F>
  void for_each(F&& f) const {
    f(manifest_);
    for (const BackendChoice& sibling : siblings_) f(sibling.manifest());
  }

 private:
  const BackendManifest& manifest_;
  std::vector<BackendChoice> siblings_;
};

OptionValue value_of(const config::TomlNode& node, const std::string& key) {
  using Kind = config::TomlNode::Kind;
  switch (node.kind) {
    case Kind::boolean:
      return node.boolean;
    case Kind::integer:
      return node.integer;
    case Kind::floating:
      return node.floating;
    case Kind::text:
      return node.text;
    case Kind::array: {
      std::vector<std::string> items;
      for (const config::TomlNode& item : node.items) {
        require(item.kind == Kind::text, ErrorCode::config,
                "option {} has an item that is not a text; expected items such as \"1\"", key);
        items.push_back(item.text);
      }
      return items;
    }
    default:
      fail(ErrorCode::config,
           "option {} is a table or a date; expected a bool, number, text or list", key);
  }
}

void set(tn_options& out, const Known& known, const std::string& key, const OptionValue& value) {
  const BackendManifest& manifest = known.manifest();
  const BackendOption* option = known.find_option(key);
  std::vector<std::string> names = option ? std::vector<std::string>() : known.option_names();
  require(option, ErrorCode::config, "backend {} has no option '{}'; {}", manifest.name, key,
          names.empty() ? "it has none; leave the option out, or name another backend"
                        : "the nearest are " + nearest_names(key, names));
  std::string problem = option_problem(*option, value);
  require(problem.empty(), ErrorCode::config, "option {}.{}: {}", manifest.name, key, problem);
  if (manifest.find_option(key)) out.values[key] = value;
}

void set_mode(tn_options& out, const Known& known, const std::string& name) {
  if (name.empty() || name == "default") return;
  const BackendManifest& manifest = known.manifest();
  require(known.find_mode(name), ErrorCode::config,
          "backend {} has no mode '{}'; the nearest are {}", manifest.name, name,
          nearest_names(name, known.mode_names()));
  if (const BackendMode* mode = manifest.find_mode(name))
    for (const auto& [key, value] : mode->values) out.values[key] = value;
}

enum class Flags { below_the_call, forced };

// What the layers of the flags say. They were checked against the option that has this name by
// precedence; a shadowed backend may declare another one.
void set_from_flags(tn_options& out, const Known& known, Flags wanted) {
  const BackendManifest& manifest = known.manifest();
  for (const BackendOption& option : manifest.options) {
    for (const config::Source& source : config::explain(manifest.name + "." + option.name)) {
      bool forced = source.layer == "force";
      if (source.layer != "default" && forced == (wanted == Flags::forced))
        set(out, known, option.name, source.value);
    }
  }
}

config::FlagType flag_type(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return config::FlagType::bool_;
    case OptionType::integer:
      return config::FlagType::int_;
    case OptionType::floating:
      return config::FlagType::float_;
    case OptionType::string:
      return config::FlagType::string_;
    case OptionType::enumeration:
      return config::FlagType::choice_;
    case OptionType::list:
      return config::FlagType::list_;
  }
  return config::FlagType::string_;
}

std::string joined(const std::vector<std::string>& choices) {
  std::string out;
  for (const std::string& choice : choices) out += (out.empty() ? "" : "|") + choice;
  return out;
}

// The texts lie in the manifest and in `choices`.
config::FlagDef flag_of(const BackendManifest& manifest, const BackendOption& option,
                        const std::string& choices) {
  config::FlagDef def{
      .module = manifest.name,
      .name = option.name,
      .type = flag_type(option.type),
      .scope = option.affects_cache ? config::Scope::compile : config::Scope::runtime,
      .doc = option.doc,
      .choices = choices,
      .option_default = option.default_value};
  if (option.min) def.min = *option.min;
  if (option.max) def.max = *option.max;
  if (option.env != config::variable_name("TENON_", manifest.name, option.name))
    def.env = option.env;
  return def;
}

// All at once: what waits for a backend's options is judged when they are declared.
void declare(const Known& known) {
  std::vector<const BackendOption*> options;
  known.for_each([&](const BackendManifest& m) {
    for (const BackendOption& option : m.options)
      if (known.find_option(option.name) == &option) options.push_back(&option);
  });
  std::vector<std::string> choices;
  for (const BackendOption* option : options) choices.push_back(joined(option->choices));
  std::vector<config::FlagDef> rows;
  for (size_t i = 0; i < choices.size(); ++i)
    rows.push_back(flag_of(known.manifest(), *options[i], choices[i]));
  config::declare_options(known.manifest().name, rows);
}

}  // namespace

void declare_options(const BackendManifest& manifest) { declare(Known(manifest)); }

tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request) {
  config::require_option_names();
  Known known(manifest);
  declare(known);
  tn_options out;
  for (const BackendOption& option : manifest.options)
    out.values[option.name] = option.default_value;
  set_from_flags(out, known, Flags::below_the_call);
  set_mode(out, known, request.mode);
  config::TomlNode given = config::parse_toml(request.options_toml, "options of compile()");
  for (const config::TomlMember& member : given.members)
    set(out, known, member.name, value_of(member.node, member.name));
  set_from_flags(out, known, Flags::forced);
  return out;
}

}  // namespace tenon
