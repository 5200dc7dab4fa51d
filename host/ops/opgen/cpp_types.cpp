// Tables from schema types, default values and words to C++ text.
#include "ops/opgen/cpp_types.h"

#include <tenon/dtype.h>

#include <algorithm>
#include <array>

namespace tenon::opgen {

namespace {

// An empty text: no such C++ type.
struct TypeRow {
  BaseType base;
  std::string_view plain, optional, list, optional_list, result;
};
constexpr TypeRow type_rows[] = {
    // An undefined tensor stands for None and for the holes of `Tensor?[]`.
    {BaseType::tensor, "const Tensor&", "const Tensor&", "TensorList", "", "Tensor"},
    {BaseType::scalar, "Number", "std::optional<Number>", "DoubleList", "OptDoubleList", "Number"},
    {BaseType::integer, "int64_t", "std::optional<int64_t>", "IntList", "OptIntList", "int64_t"},
    {BaseType::sym_int, "SymInt", "std::optional<SymInt>", "SymIntList", "OptSymIntList", "SymInt"},
    {BaseType::floating, "double", "std::optional<double>", "DoubleList", "OptDoubleList",
     "double"},
    {BaseType::sym_float, "SymFloat", "std::optional<SymFloat>", "", "", ""},
    {BaseType::boolean, "bool", "std::optional<bool>", "BoolList", "", "bool"},
    {BaseType::sym_bool, "SymBool", "", "", "", ""},
    {BaseType::string, "std::string_view", "std::optional<std::string_view>", "StringList", "", ""},
    {BaseType::scalar_type, "Dtype", "std::optional<Dtype>", "", "", ""},
    {BaseType::layout, "std::optional<Layout>", "std::optional<Layout>", "", "", ""},
    {BaseType::device, "Device", "std::optional<Device>", "", "", ""},
    {BaseType::memory_format, "MemoryFormat", "std::optional<MemoryFormat>", "", "", ""},
};

// Enumerators by their numbers; those of Dtype come from its own table.
struct EnumeratorRow {
  BaseType base;
  int64_t number;
  std::string_view text;
};
constexpr EnumeratorRow enumerator_rows[] = {
    {BaseType::layout, 0, "Layout::strided"},
    {BaseType::layout, 1, "Layout::sparse"},
    {BaseType::memory_format, 0, "MemoryFormat::contiguous"},
    {BaseType::memory_format, 1, "MemoryFormat::preserve"},
    {BaseType::memory_format, 2, "MemoryFormat::channels_last"},
    {BaseType::memory_format, 3, "MemoryFormat::channels_last_3d"},
    {BaseType::device, 0, "Device(DeviceType::cpu)"},
    {BaseType::device, 1, "Device(DeviceType::cuda)"},
    {BaseType::device, 2, "Device(DeviceType::meta)"},
};

// Keywords of C++20, sorted; `self`-like names are free.
constexpr std::array<std::string_view, 97> keywords = {
    "alignas",       "alignof",     "and",
    "and_eq",        "asm",         "auto",
    "bitand",        "bitor",       "bool",
    "break",         "case",        "catch",
    "char",          "char16_t",    "char32_t",
    "char8_t",       "class",       "co_await",
    "co_return",     "co_yield",    "compl",
    "concept",       "const",       "const_cast",
    "consteval",     "constexpr",   "constinit",
    "continue",      "decltype",    "default",
    "delete",        "do",          "double",
    "dynamic_cast",  "else",        "enum",
    "explicit",      "export",      "extern",
    "false",         "float",       "for",
    "friend",        "goto",        "if",
    "inline",        "int",         "long",
    "mutable",       "namespace",   "new",
    "noexcept",      "not",         "not_eq",
    "nullptr",       "operator",    "or",
    "or_eq",         "private",     "protected",
    "public",        "register",    "reinterpret_cast",
    "requires",      "return",      "short",
    "signed",        "sizeof",      "static",
    "static_assert", "static_cast", "struct",
    "switch",        "template",    "this",
    "thread_local",  "throw",       "true",
    "try",           "typedef",     "typeid",
    "typename",      "union",       "unsigned",
    "using",         "virtual",     "void",
    "volatile",      "wchar_t",     "while",
    "xor",           "xor_eq"};

const TypeRow* find_type(BaseType base) {
  for (const TypeRow& row : type_rows)
    if (row.base == base) return &row;
  return nullptr;
}

// Literals of schemas are literals of C++ but for lists, words and None.
std::string braced(std::string list) {
  list.front() = '{';
  list.back() = '}';
  for (std::string_view word : {"True", "False"})
    for (size_t at; (at = list.find(word)) != std::string::npos;)
      list.replace(at, word.size(), word == "True" ? "true" : "false");
  return list;
}

std::string word_text(const SchemaArg& arg) {
  int64_t number = arg.default_value.integer;
  if (arg.type.base == BaseType::scalar_type)
    for (const detail::DtypeRow& row : detail::dtype_rows)
      if (static_cast<int64_t>(row.dtype) == number) return "Dtype::" + identifier(row.name);
  for (const EnumeratorRow& row : enumerator_rows)
    if (row.base == arg.type.base && row.number == number) return std::string(row.text);
  fail("argument {} {}: default {} has no C++ form; add it to opgen's table", arg.type, arg.name,
       arg.default_value.text);
}

}  // namespace

std::string param_type(const SchemaType& type) {
  const TypeRow* row = find_type(type.base);
  if (!row || (type.optional_element && type.base != BaseType::tensor)) return "";
  if (type.is_list) return std::string(type.optional ? row->optional_list : row->list);
  return std::string(type.optional ? row->optional : row->plain);
}

std::string result_type(const SchemaType& type) {
  const TypeRow* row = find_type(type.base);
  if (type.is_list)
    return type.base == BaseType::tensor && !type.optional ? "std::vector<Tensor>" : "";
  bool is_tensor = type.base == BaseType::tensor;
  return row && (is_tensor || !type.optional) ? std::string(row->result) : "";
}

std::string default_text(const SchemaArg& arg) {
  const DefaultValue& value = arg.default_value;
  switch (value.kind) {
    case DefaultValue::Kind::none:
      return param_type(arg.type).starts_with("std::optional") ? "std::nullopt" : "{}";
    case DefaultValue::Kind::boolean:
      return value.boolean ? "true" : "false";
    case DefaultValue::Kind::word:
      return word_text(arg);
    case DefaultValue::Kind::ints:
    case DefaultValue::Kind::floats:
    case DefaultValue::Kind::bools:
      return braced(to_text(value));
    default:
      return to_text(value);
  }
}

std::string identifier(std::string_view name) {
  bool taken = std::find(keywords.begin(), keywords.end(), name) != keywords.end();
  return std::string(name) + (taken ? "_" : "");
}

bool constructs_from_number(std::string_view param_type) {
  constexpr std::string_view types[] = {"Number",
                                        "SymInt",
                                        "SymFloat",
                                        "SymBool",
                                        "std::optional<Number>",
                                        "std::optional<SymInt>",
                                        "std::optional<SymFloat>",
                                        "std::optional<int64_t>",
                                        "std::optional<double>",
                                        "std::optional<bool>"};
  return std::find(std::begin(types), std::end(types), param_type) != std::end(types);
}

bool takes_numbers(std::string_view param_type) {
  constexpr std::string_view types[] = {"int64_t",    "double",     "IntList",
                                        "OptIntList", "DoubleList", "OptDoubleList"};
  return constructs_from_number(param_type) ||
         std::find(std::begin(types), std::end(types), param_type) != std::end(types);
}

}  // namespace tenon::opgen
