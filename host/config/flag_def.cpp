// The table of flags, and values of each flag type: checking, parsing, printing.
#include "config/flag_def.h"

#include "core/error.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace tenon::config {

namespace {

using enum Status;

#define TENON_TEXT_OF(name_) TENON_TEXT(name_)
#define TENON_TEXT(name_) #name_
#define FLAG(name_, type_, default_, scope_, doc_, ...)                                           \
  FlagDef{.module = TENON_TEXT_OF(TENON_MODULE),                                                  \
          .name = #name_,                                                                         \
          .type = FlagType::type_##_,                                                             \
          .scope = Scope::scope_,                                                                 \
          .doc = doc_,                                                                            \
          .field = [](Flags& flags) -> void* { return &flags.TENON_MODULE.name_; } __VA_OPT__(, ) \
                                        __VA_ARGS__},

const std::vector<FlagDef>& table() {
  static const auto& rows = *new std::vector<FlagDef>{
#define TENON_MODULE dynamo
#include "config/dynamo.def"
#undef TENON_MODULE
#define TENON_MODULE functorch
#include "config/functorch.def"
#undef TENON_MODULE
#define TENON_MODULE compiler
#include "config/compiler.def"
#undef TENON_MODULE
#define TENON_MODULE shapes
#include "config/shapes.def"
#undef TENON_MODULE
#define TENON_MODULE capture
#include "config/capture.def"
#undef TENON_MODULE
#define TENON_MODULE guards
#include "config/guards.def"
#undef TENON_MODULE
#define TENON_MODULE compiled_autograd
#include "config/compiled_autograd.def"
#undef TENON_MODULE
#define TENON_MODULE plugins
#include "config/plugins.def"
#undef TENON_MODULE
#define TENON_MODULE logging
#include "config/logging.def"
#undef TENON_MODULE
  };
  return rows;
}
#undef FLAG

constexpr std::array<std::string_view, 9> modules = {
    "dynamo", "functorch",         "compiler", "shapes", "capture",
    "guards", "compiled_autograd", "plugins",  "logging"};

}  // namespace

std::string_view name_of(FlagType type) {
  constexpr std::string_view names[] = {"bool", "int", "float", "string", "choice", "list"};
  return names[static_cast<size_t>(type)];
}

std::string_view name_of(Status status) {
  constexpr std::string_view names[] = {"active", "pending", "no_effect"};
  return names[static_cast<size_t>(status)];
}

std::span<const FlagDef> flag_defs() { return table(); }
std::span<const std::string_view> module_names() { return modules; }

bool is_project_flag(const FlagDef& def) {
  return def.field ? def.project : def.type != FlagType::string_ && def.type != FlagType::list_;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Value read_field(const FlagDef& def, const Flags& flags) {
  const void* field = def.field(const_cast<Flags&>(flags));
  switch (def.type) {
    case FlagType::bool_:
      return *static_cast<const bool*>(field);
    case FlagType::int_:
      return *static_cast<const int64_t*>(field);
    case FlagType::float_:
      return *static_cast<const double*>(field);
    case FlagType::string_:
      return *static_cast<const std::string*>(field);
    case FlagType::choice_:
      return to_text(*static_cast<const Choice*>(field));
    case FlagType::list_:
      return *static_cast<const std::vector<std::string>*>(field);
  }
  return {};
}

// The part of .choices that equals `text`: it lives as long as the program.
static std::string_view choice_in_table(const FlagDef& def, std::string_view text) {
  for (std::string_view rest = def.choices; !rest.empty();) {
    size_t end = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, end) == text) return rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

void write_field(const FlagDef& def, Flags& flags, const Value& value) {
  void* field = def.field(flags);
  switch (def.type) {
    case FlagType::bool_:
      *static_cast<bool*>(field) = std::get<bool>(value);
      break;
    case FlagType::int_:
      *static_cast<int64_t*>(field) = std::get<int64_t>(value);
      break;
    case FlagType::float_:
      *static_cast<double*>(field) = std::get<double>(value);
      break;
    case FlagType::string_:
      *static_cast<std::string*>(field) = std::get<std::string>(value);
      break;
    case FlagType::choice_:
      *static_cast<Choice*>(field) = Choice(choice_in_table(def, std::get<std::string>(value)));
      break;
    case FlagType::list_:
      *static_cast<std::vector<std::string>*>(field) = std::get<std::vector<std::string>>(value);
      break;
  }
}

Value default_of(const FlagDef& def) {
  static const Flags& defaults = *new Flags();
  return def.field ? read_field(def, defaults) : def.option_default;
}

std::string variable_name(std::string_view prefix, std::string_view module, std::string_view flag) {
  std::string name = message("{}{}_{}", prefix, module, flag);
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::vector<std::string> keys_of(const FlagDef& def) {
  std::vector<std::string> keys = {def.key()};
  for (const std::string& alias : split(def.aliases, ' ')) {
    bool other_module = alias.find('.') != std::string::npos;
    keys.push_back(other_module ? alias : std::string(def.module) + "." + alias);
  }
  return keys;
}

std::string target_of(std::string_view key) {
  for (const FlagDef& def : flag_defs())
    if (!def.aliases.empty())
      for (const std::string& name : keys_of(def))
        if (name == key) return def.key();
  return std::string(key);
}

namespace {

std::vector<std::string> names_with(std::string_view prefix, const FlagDef& def) {
  std::vector<std::string> names;
  for (const std::string& key : keys_of(def)) {
    size_t dot = key.find('.');
    names.push_back(variable_name(prefix, key.substr(0, dot), key.substr(dot + 1)));
  }
  return names;
}

}  // namespace

std::vector<std::string> variables_of(const FlagDef& def) {
  std::vector<std::string> names = names_with("TENON_", def), theirs = split(def.env, ' ');
  names.insert(names.begin() + 1, theirs.begin(), theirs.end());
  return names;
}

std::vector<std::string> force_variables_of(const FlagDef& def) {
  return names_with("TENON_FORCE_", def);
}

std::string type_text(const FlagDef& def) {
  std::string text(name_of(def.type));
  if (def.type == FlagType::choice_) {
    text += ":";
    for (const std::string& choice : split(def.choices, '|')) text += " " + choice + " |";
    text.resize(text.size() - 2);
  }
  bool low = def.min > -1e300, high = def.max < 1e300;
  if (low && high)
    text += message(" from {} to {}", def.min, def.max);
  else if (low)
    text += message(" of at least {}", def.min);
  else if (high)
    text += message(" of at most {}", def.max);
  return text;
}

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<bool> parse_bool(std::string_view text) {
  std::string word = lower(text);
  if (word == "1" || word == "true" || word == "on" || word == "yes") return true;
  if (word == "0" || word == "false" || word == "off" || word == "no") return false;
  return std::nullopt;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char digits[] = "0123456789ABCDEF";
      out += "\\u00";
      out += digits[(c >> 4) & 15];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A choice written as a TOML bool or number, such as `optimize_ddp = false`, counts as its text;
// where true and false are choices, every spelling of a bool is one of them.
std::string choice_text(const FlagDef& def, const Value& value) {
  const auto* given = std::get_if<std::string>(&value);
  std::string text = given ? *given : value_text(value);
  if (!choice_in_table(def, text).empty() || choice_in_table(def, "true").empty()) return text;
  std::optional<bool> flag = parse_bool(text);
  return flag ? (*flag ? "true" : "false") : text;
}

void convert(const FlagDef& def, Value& value) {
  if (def.type == FlagType::float_) {
    if (auto* number = std::get_if<int64_t>(&value)) value = static_cast<double>(*number);
  } else if (def.type == FlagType::choice_) {
    value = choice_text(def, value);
  } else if (def.type == FlagType::list_) {
    if (auto* text = std::get_if<std::string>(&value)) value = std::vector<std::string>{*text};
  } else if (def.takes_bool) {
    if (auto* flag = std::get_if<bool>(&value)) value = *flag ? "true" : "false";
  }
}

bool holds(FlagType type, const Value& value) {
  switch (type) {
    case FlagType::bool_:
      return std::holds_alternative<bool>(value);
    case FlagType::int_:
      return std::holds_alternative<int64_t>(value);
    case FlagType::float_:
      return std::holds_alternative<double>(value);
    case FlagType::string_:
    case FlagType::choice_:
      return std::holds_alternative<std::string>(value);
    case FlagType::list_:
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

bool allowed(const FlagDef& def, const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value))
    return static_cast<double>(*number) >= def.min && static_cast<double>(*number) <= def.max;
  if (const auto* number = std::get_if<double>(&value))
    return !std::isnan(*number) && *number >= def.min && *number <= def.max;
  if (def.type != FlagType::choice_) return true;
  for (const std::string& choice : split(def.choices, '|')) {
    if (choice == std::get<std::string>(value)) return true;
  }
  return false;
}

}  // namespace

std::string value_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) {
    std::string text = message("{}", *number);
    bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
    return whole ? text + ".0" : text;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return in_quotes(*text);
  std::string out = "[";
  for (const std::string& item : std::get<std::vector<std::string>>(value)) {
    out += (out.size() > 1 ? ", " : "") + in_quotes(item);
  }
  return out + "]";
}

std::string fit_value(const FlagDef& def, Value& value) {
  Value converted = value;
  convert(def, converted);
  if (!holds(def.type, converted) || !allowed(def, converted))
    return message("{} expects {}, found {}; see `tenon config doc {}`", def.key(), type_text(def),
                   value_text(value), def.key());
  value = std::move(converted);
  return {};
}

Value value_of_text(const FlagDef& def, std::string_view text) {
  if (def.type == FlagType::bool_) {
    if (auto flag = parse_bool(text)) return *flag;
  } else if (def.type == FlagType::int_) {
    if (auto number = parse_number<int64_t>(text)) return *number;
  } else if (def.type == FlagType::float_) {
    if (auto number = parse_number<double>(text)) return *number;
  } else if (def.type == FlagType::list_) {
    return split(text, ',');
  }
  return std::string(text);
}

}  // namespace tenon::config
