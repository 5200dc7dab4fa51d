// Operator schemas: ATen's schema text as a structure, its names, and the forms derived from it.
//
//     Schema s = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
//     Tensor"); s.canonical_name();               // "aten.add.Tensor" to_text(in_place_schema(s));
//     // "aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)"
//
// Used at run time by the op table and at build time by opgen, so that both derive the same texts.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// What stands before `[]` and `?`. Types after `generator` can be named, but no value carries
/// them.
enum class BaseType : uint8_t {
  tensor,
  scalar,
  integer,
  sym_int,
  floating,
  sym_float,
  boolean,
  sym_bool,
  string,
  scalar_type,
  layout,
  device,
  memory_format,
  graph,
  any,
  generator,
  storage,
  stream,
  qscheme,
  complex_number,
  dimname,
};

/// "Tensor", "Scalar", "int", ...: the name in schema texts.
std::string_view name_of(BaseType base);

struct SchemaType {
  BaseType base = BaseType::tensor;
  bool is_list = false;
  bool optional = false;          ///< the outermost `?`
  bool optional_element = false;  ///< `Tensor?[]`: the list may have holes
  int32_t list_size = -1;         ///< the 2 of `int[2]`
  friend bool operator==(const SchemaType&, const SchemaType&) = default;
};

/// `(a!)`, `(a|b)`, `(a -> *)`: which values share memory with this one.
struct AliasInfo {
  std::vector<std::string> before, after;  ///< `*` is kept as "*"; after is empty without `->`
  bool mutated = false;                    ///< `!`
  bool empty() const { return before.empty() && after.empty(); }
  friend bool operator==(const AliasInfo&, const AliasInfo&) = default;
};

/// The value of an argument left out. A single number given for `int[2]` is stored twice.
struct DefaultValue {
  /// `absent`: the argument is required. `word`: `contiguous_format`, `long`, `cpu`, ...; numbers
  /// given for such types become their word.
  enum class Kind : uint8_t {
    absent,
    none,
    integer,
    floating,
    boolean,
    text,
    word,
    ints,
    floats,
    bools
  };
  Kind kind = Kind::absent;
  int64_t integer = 0;  ///< of integer; of word the number of its enumerator
  double floating = 0;
  bool boolean = false;
  std::string text;  ///< of text and word
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<uint8_t> bools;  ///< 0 or 1; bytes, so that they can be borrowed as bools
  friend bool operator==(const DefaultValue&, const DefaultValue&) = default;
};

struct SchemaArg {
  std::string name;
  SchemaType type;
  AliasInfo alias;
  DefaultValue default_value;
  bool kwarg_only = false;
  bool mutated() const { return alias.mutated; }
  bool has_default() const { return default_value.kind != DefaultValue::Kind::absent; }
  friend bool operator==(const SchemaArg&, const SchemaArg&) = default;
};

struct SchemaReturn {
  std::string name;  ///< may be empty
  SchemaType type;
  AliasInfo alias;
  friend bool operator==(const SchemaReturn&, const SchemaReturn&) = default;
};

struct Schema {
  std::string ns, name, overload;  ///< overload is empty for the default one
  std::vector<SchemaArg> args;
  std::vector<SchemaReturn> returns;

  /// "aten.add.Tensor", "aten.relu.default": the name in files, the ABI and the command line.
  std::string canonical_name() const;
  /// True when the one result is a list.
  bool returns_list() const { return returns.size() == 1 && returns[0].type.is_list; }
  /// True when one of several results is a list, or a list is written. No node of a graph stands for
  /// such a call: its parts do.
  bool is_for_parts() const;
  /// Index of the argument called `arg`, or -1.
  int find_arg(std::string_view arg) const;
  /// Index of the argument that return `index` is: `Tensor(a!)` of `(Tensor(a!) self)`; or -1.
  int returned_arg(size_t index) const;
  friend bool operator==(const Schema&, const Schema&) = default;
};

/// Parses one schema; throws UserError with position and text. The namespace defaults to aten.
Schema parse_schema(std::string_view text);
/// The text with namespace, as parse_schema reads it.
std::string to_text(const Schema& schema);
std::string to_text(const SchemaType& type);
std::string to_text(const DefaultValue& value);

struct OpName {
  std::string ns, name, overload;
};
/// From "aten.add.Tensor", "aten.relu.default", "aten::add.Tensor" or "aten::relu".
OpName parse_op_name(std::string_view text);
std::string canonical_op_name(std::string_view ns, std::string_view name,
                              std::string_view overload);

/// `name_(Tensor(a!) self, ...) -> Tensor(a!)`. Throws unless argument 0 is a plain `Tensor` and
/// the result is one plain tensor.
Schema in_place_schema(const Schema& functional);
/// `name.out(..., *, Tensor(a!) out) -> Tensor(a!)`; overload "Tensor" and the default one give
/// "out", any other `x` gives "x_out". Several results are `out0`, `out1`, ... Where the functional
/// form takes dtype, layout, device and pin_memory, the out form does not: `out` decides. Throws
/// unless every result is a plain tensor.
Schema out_schema(const Schema& functional);

}  // namespace tenon
