// Options: manifest default, then flags of all layers, then the mode, then the call.
#include "backend/options.h"

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

}  // namespace

tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request) {
  tn_options out;
  for (const BackendOption& option : manifest.options)
    out.values[option.name] = option.default_value;
  if (!request.mode.empty() && request.mode != "default") {
    const BackendMode* mode = manifest.find_mode(request.mode);
    require(mode, ErrorCode::config, "backend {} has no mode '{}'", manifest.name, request.mode);
    for (const auto& [key, value] : mode->values) out.values[key] = value;
  }
  config::TomlNode given = config::parse_toml(request.options_toml, "options of compile()");
  for (const config::TomlMember& member : given.members)
    set(out, manifest, member.name, value_of(member.node, member.name));
  return out;
}

}  // namespace tenon
