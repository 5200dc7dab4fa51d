// Schemas as text, and the names of ops and types.
#include "ops/schema.h"

#include <array>
#include <charconv>
#include <utility>

namespace tenon {

namespace {

using Kind = DefaultValue::Kind;

struct BaseRow {
  BaseType base;
  std::string_view name;
};
constexpr BaseRow base_rows[] = {
    {BaseType::tensor, "Tensor"},
    {BaseType::scalar, "Scalar"},
    {BaseType::integer, "int"},
    {BaseType::sym_int, "SymInt"},
    {BaseType::floating, "float"},
    {BaseType::sym_float, "SymFloat"},
    {BaseType::boolean, "bool"},
    {BaseType::sym_bool, "SymBool"},
    {BaseType::string, "str"},
    {BaseType::scalar_type, "ScalarType"},
    {BaseType::layout, "Layout"},
    {BaseType::device, "Device"},
    {BaseType::memory_format, "MemoryFormat"},
    {BaseType::graph, "Graph"},
    {BaseType::any, "Any"},
    {BaseType::generator, "Generator"},
    {BaseType::storage, "Storage"},
    {BaseType::stream, "Stream"},
    {BaseType::qscheme, "QScheme"},
    {BaseType::complex_number, "complex"},
    {BaseType::dimname, "Dimname"},
};

std::string alias_text(const AliasInfo& alias) {
  if (alias.empty()) return "";
  auto set = [](const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : "|") + name;
    return out;
  };
  std::string after = alias.after.empty() ? "" : " -> " + set(alias.after);
  return "(" + set(alias.before) + (alias.mutated ? "!" : "") + after + ")";
}

std::string typed(const SchemaType& type, const AliasInfo& alias) {
  std::string out(name_of(type.base));
  out += alias_text(alias);
  if (type.is_list) {
    if (type.optional_element) out += '?';
    out += type.list_size >= 0 ? message("[{}]", type.list_size) : "[]";
  }
  if (type.optional) out += '?';
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::string_view special = "\n\t\r\f\v\\\"", letters = "ntrfv\\\"";
  std::string out = "\"";
  for (char c : text) {
    size_t i = special.find(c);
    if (i == std::string_view::npos)
      out += c;
    else
      (out += '\\') += letters[i];
  }
  return out + '"';
}

std::string float_text(double value) {
  std::array<char, 40> buffer;
  auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string out(buffer.data(), end);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

template <class T, class F>
std::string list_text(const std::vector<T>& values, F&& element) {
  std::string out;
  for (T value : values) out += (out.empty() ? "" : ", ") + element(value);
  return "[" + out + "]";
}

}  // namespace

std::string_view name_of(BaseType base) {
  for (const BaseRow& row : base_rows)
    if (row.base == base) return row.name;
  fail_internal("a base type without a name");
}

std::string to_text(const SchemaType& type) { return typed(type, {}); }

std::string to_text(const DefaultValue& value) {
  auto bool_text = [](bool b) -> std::string { return b ? "True" : "False"; };
  switch (value.kind) {
    case Kind::absent:
      return "";
    case Kind::none:
      return "None";
    case Kind::integer:
      return std::to_string(value.integer);
    case Kind::floating:
      return float_text(value.floating);
    case Kind::boolean:
      return bool_text(value.boolean);
    case Kind::text:
      return in_quotes(value.text);
    case Kind::word:
      return value.text;
    case Kind::ints:
      return list_text(value.ints, [](int64_t v) { return std::to_string(v); });
    case Kind::floats:
      return list_text(value.floats, float_text);
    case Kind::bools:
      return list_text(value.bools, bool_text);
  }
  return "";
}

std::string to_text(const Schema& schema) {
  std::string out = schema.ns + "::" + schema.name;
  if (!schema.overload.empty()) out += "." + schema.overload;
  out += "(";
  bool kwarg_only = false;
  for (size_t i = 0; i < schema.args.size(); ++i) {
    const SchemaArg& arg = schema.args[i];
    if (i > 0) out += ", ";
    if (arg.kwarg_only && !std::exchange(kwarg_only, true)) out += "*, ";
    out += typed(arg.type, arg.alias) + " " + arg.name;
    if (arg.has_default()) out += "=" + to_text(arg.default_value);
  }
  out += ") -> ";
  std::string results;
  for (const SchemaReturn& result : schema.returns) {
    if (!results.empty()) results += ", ";
    results += typed(result.type, result.alias);
    if (!result.name.empty()) results += " " + result.name;
  }
  return schema.returns.size() == 1 ? out + results : out + "(" + results + ")";
}

std::string Schema::canonical_name() const { return canonical_op_name(ns, name, overload); }

std::string canonical_op_name(std::string_view ns, std::string_view name,
                              std::string_view overload) {
  std::string out(ns);
  out.append(".").append(name).append(".").append(overload.empty() ? "default" : overload);
  return out;
}

OpName parse_op_name(std::string_view text) {
  auto refuse = [&] {
    fail(
        "op name: expected ns.name.overload, such as aten.add.Tensor, found \"{}\"; write "
        "\"default\" for an overload without a name",
        text);
  };
  OpName out;
  size_t colons = text.find("::");
  size_t ns_end = colons == std::string_view::npos ? text.find('.') : colons;
  if (ns_end == std::string_view::npos) refuse();
  out.ns = text.substr(0, ns_end);
  std::string_view rest = text.substr(ns_end + (ns_end == colons ? 2 : 1));
  size_t dot = rest.find('.');
  if (dot == std::string_view::npos && colons == std::string_view::npos) refuse();
  out.name = rest.substr(0, dot);
  if (dot != std::string_view::npos) out.overload = rest.substr(dot + 1);
  bool dangling = dot != std::string_view::npos && out.overload.empty();
  if (out.ns.empty() || out.name.empty() || dangling || out.overload.find('.') != std::string::npos)
    refuse();
  if (out.overload == "default") out.overload.clear();
  return out;
}

}  // namespace tenon
