// Values of a manifest apart from its TOML: versions, option values, look-ups, ABI negotiation.
#include "backend/find/manifest.h"
#include "core/error.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon {

std::strong_ordering operator<=>(const PluginVersion& a, const PluginVersion& b) {
  if (auto c = a.major <=> b.major; c != 0) return c;
  if (auto c = a.minor <=> b.minor; c != 0) return c;
  if (auto c = a.patch <=> b.patch; c != 0) return c;
  if (a.suffix.empty() || b.suffix.empty()) return a.suffix.empty() <=> b.suffix.empty();
  return a.suffix.compare(b.suffix) <=> 0;
}

std::optional<PluginVersion> parse_version(std::string_view text) {
  PluginVersion v;
  uint32_t* parts[] = {&v.major, &v.minor, &v.patch};
  const char *at = text.data(), *end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    auto [next, error] = std::from_chars(at, end, *parts[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  if (at == end) return v;
  if ((*at != '-' && *at != '+') || at + 1 == end) return std::nullopt;
  // What follows a plus is build data, which does not count.
  if (*at == '-') v.suffix = std::string(at + 1, std::find(at, end, '+'));
  return v;
}

std::string to_text(const PluginVersion& v) {
  std::string out = message("{}.{}.{}", v.major, v.minor, v.patch);
  return v.suffix.empty() ? out : out + "-" + v.suffix;
}

std::string to_text(const AbiVersion& v) { return message("{}.{}", v.major, v.minor); }

std::string_view name_of(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "bool";
    case OptionType::integer:
      return "int";
    case OptionType::floating:
      return "float";
    case OptionType::string:
      return "string";
    case OptionType::enumeration:
      return "enum";
    case OptionType::list:
      return "list";
  }
  return "";
}

static std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

namespace {

struct ValueText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    std::string out = message("{}", v);
    return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
  }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const std::vector<std::string>& v) const {
    std::string out = "[";
    for (const std::string& item : v) out += (out.size() > 1 ? ", " : "") + quoted(item);
    return out + "]";
  }
};

bool has_type(const OptionValue& value, OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return std::holds_alternative<bool>(value);
    case OptionType::integer:
      return std::holds_alternative<int64_t>(value);
    case OptionType::floating:
      return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
    case OptionType::string:
    case OptionType::enumeration:
      return std::holds_alternative<std::string>(value);
    case OptionType::list:
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

std::string range_problem(const BackendOption& option, double value) {
  if (option.min && !(value >= *option.min))
    return message("{} is {}; expected at least {}", option.name, value, *option.min);
  if (option.max && !(value <= *option.max))
    return message("{} is {}; expected at most {}", option.name, value, *option.max);
  return {};
}

}  // namespace

std::string to_text(const OptionValue& value) { return std::visit(ValueText{}, value); }

std::string option_problem(const BackendOption& option, const OptionValue& value) {
  if (!has_type(value, option.type))
    return message("{} is {}; expected {}", option.name, to_text(value), name_of(option.type));
  if (auto* v = std::get_if<int64_t>(&value)) return range_problem(option, double(*v));
  if (auto* v = std::get_if<double>(&value)) return range_problem(option, *v);
  if (option.type != OptionType::enumeration) return {};
  const auto& text = std::get<std::string>(value);
  const auto& choices = option.choices;
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return {};
  return message("{} is {}; expected one of {}", option.name, to_text(value),
                 to_text(OptionValue(choices)));
}

template <class T>
static const T* find_named(const std::vector<T>& all, std::string_view name) {
  auto found = std::find_if(all.begin(), all.end(), [&](const T& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool BackendManifest::serves(std::string_view device) const {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const std::string& d) { return d == "*" || d == device; });
}

const BackendOption* BackendManifest::find_option(std::string_view option) const {
  return find_named(options, option);
}

const BackendMode* BackendManifest::find_mode(std::string_view mode) const {
  return find_named(modes, mode);
}

const BackendManifest* PluginManifest::find_backend(std::string_view backend) const {
  return find_named(backends, backend);
}

Diagnosis check_abi(const PluginManifest& m, const std::string& path, AbiVersion host) {
  if (m.abi.major != host.major)
    return {PluginFault::abi_major, path,
            message("{} {} was built for plugin ABI {}, this host has {}", m.name, m.version, m.abi,
                    host),
            m.abi.major < host.major ? "rebuild the plugin with the plugin API of this host"
                                     : "update Tenon, or rebuild the plugin with its plugin API"};
  if (m.abi_min.minor > host.minor)
    return {PluginFault::abi_minor, path,
            message("{} {} needs plugin ABI {} or newer, this host has {}", m.name, m.version,
                    m.abi_min, host),
            "update Tenon"};
  return {};
}

}  // namespace tenon
