// Options: manifest default, flags of all layers, mode, call, then what the environment forces.
#include "backend/compile/options.h"

#include "config/config.h"
#include "config/toml.h"
#include "core/error.h"

namespace tenon {

namespace {

std::vector<std::string> option_names(const BackendManifest& manifest) {
  std::vector<std::string> names;
  for (const BackendOption& o : manifest.options) names.push_back(o.name);
  return names;
}

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
      for (const config::TomlNode& item : node.items) items.push_back(item.text);
      return items;
    }
    default:
      fail(ErrorCode::config,
           "option {} is a table or a date; expected a bool, number, text or list", key);
  }
}

void set(tn_options& out, const BackendManifest& manifest, const std::string& key,
         const OptionValue& value) {
  const BackendOption* option = manifest.find_option(key);
  require(option, ErrorCode::config, "backend {} has no option '{}'; the nearest are {}",
          manifest.name, key, nearest_names(key, option_names(manifest)));
  std::string problem = option_problem(*option, value);
  require(problem.empty(), ErrorCode::config, "option {}.{}: {}", manifest.name, key, problem);
  out.values[key] = value;
}

void set_mode(tn_options& out, const BackendManifest& manifest, const std::string& name) {
  if (name.empty() || name == "default") return;
  std::vector<std::string> known{"default"};
  for (const BackendMode& mode : manifest.modes) known.push_back(mode.name);
  const BackendMode* mode = manifest.find_mode(name);
  require(mode, ErrorCode::config, "backend {} has no mode '{}'; the nearest are {}", manifest.name,
          name, nearest_names(name, known));
  for (const auto& [key, value] : mode->values) out.values[key] = value;
}

enum class Flags { below_the_call, forced };

// What the layers of the flags say. They were checked against the option that has this name by
// precedence; a shadowed backend may declare another one.
void set_from_flags(tn_options& out, const BackendManifest& manifest, Flags wanted) {
  for (const BackendOption& option : manifest.options) {
    for (const config::Source& source : config::explain(manifest.name + "." + option.name)) {
      bool forced = source.layer == "force";
      if (source.layer != "default" && forced == (wanted == Flags::forced))
        set(out, manifest, option.name, source.value);
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

}  // namespace

void declare_options(const BackendManifest& manifest) {
  std::vector<std::string> choices;
  for (const BackendOption& option : manifest.options) choices.push_back(joined(option.choices));
  std::vector<config::FlagDef> rows;
  for (size_t i = 0; i < choices.size(); ++i)
    rows.push_back(flag_of(manifest, manifest.options[i], choices[i]));
  config::declare_options(manifest.name, rows);
}

tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request) {
  config::require_option_names();
  declare_options(manifest);
  tn_options out;
  for (const BackendOption& option : manifest.options)
    out.values[option.name] = option.default_value;
  set_from_flags(out, manifest, Flags::below_the_call);
  set_mode(out, manifest, request.mode);
  config::TomlNode given = config::parse_toml(request.options_toml, "options of compile()");
  for (const config::TomlMember& member : given.members)
    set(out, manifest, member.name, value_of(member.node, member.name));
  set_from_flags(out, manifest, Flags::forced);
  return out;
}

}  // namespace tenon
