// Types of arguments by the tags of their values, and of parameters by their C++ types.
#include "ops/argument_types.h"

#include <tenon/library.h>

namespace tenon {

using detail::OpParameter;

namespace {

bool is_number(Tag tag) { return tag >= Tag::integer && tag <= Tag::boolean; }
bool is_plain_list(Tag tag) {
  return tag == Tag::tensors || (tag >= Tag::ints && tag <= Tag::bools);
}

bool fits_one(BaseType base, Tag tag) {
  switch (base) {
    case BaseType::tensor:
      return tag == Tag::tensor;
    case BaseType::scalar:
    case BaseType::floating:
    case BaseType::sym_float:
      return is_number(tag);
    case BaseType::integer:
    case BaseType::sym_int:
      return tag == Tag::integer || tag == Tag::boolean;
    case BaseType::boolean:
    case BaseType::sym_bool:
      return tag == Tag::boolean;
    case BaseType::string:
      return tag == Tag::string;
    case BaseType::scalar_type:
      return tag == Tag::dtype;
    case BaseType::layout:
      return tag == Tag::layout;
    case BaseType::device:
      return tag == Tag::device;
    case BaseType::memory_format:
      return tag == Tag::memory_format;
    case BaseType::graph:
      return tag == Tag::graph;
    case BaseType::any:
      return true;
    default:
      return false;  // no value carries it
  }
}

bool fits_list(BaseType base, Tag tag) {
  switch (base) {
    case BaseType::tensor:
      return tag == Tag::tensors;
    case BaseType::scalar:
      return tag == Tag::ints || tag == Tag::floats || tag == Tag::bools;
    case BaseType::integer:
    case BaseType::sym_int:
      return tag == Tag::ints;
    case BaseType::floating:
    case BaseType::sym_float:
      return tag == Tag::floats;
    case BaseType::boolean:
    case BaseType::sym_bool:
      return tag == Tag::bools;
    case BaseType::string:
      return tag == Tag::strings;
    default:
      return fits_one(base, tag) || tag == Tag::opaque;
  }
}

}  // namespace

bool fits(const SchemaArg& arg, const Value& value) {
  const SchemaType& type = arg.type;
  if (value.is_none())
    return type.optional || type.base == BaseType::any ||
           arg.default_value.kind == DefaultValue::Kind::none;
  if (!type.is_list) return fits_one(type.base, value.tag);
  return fits_list(type.base, value.tag) || (value.count == 0 && is_plain_list(value.tag));
}

std::string type_text(const Value& value) {
  switch (value.tag) {
    case Tag::none:
      return "None";
    case Tag::tensor:
    case Tag::tensor_owned:
      return "Tensor";
    case Tag::tensors:
    case Tag::tensors_owned:
      return "Tensor[]";
    case Tag::integer:
      return "int";
    case Tag::floating:
      return "float";
    case Tag::boolean:
      return "bool";
    case Tag::ints:
      return "int[]";
    case Tag::floats:
      return "float[]";
    case Tag::bools:
      return "bool[]";
    case Tag::string:
      return "str";
    case Tag::strings:
      return "str[]";
    case Tag::dtype:
      return "ScalarType";
    case Tag::layout:
      return "Layout";
    case Tag::memory_format:
      return "MemoryFormat";
    case Tag::device:
      return "Device";
    default:
      return "another kind of value";
  }
}

void require_fit(std::string_view op, const SchemaArg& arg, const Value& value) {
  require(fits(arg, value), "{}: argument {} must be {}, found {}", op, arg.name, to_text(arg.type),
          type_text(value));
}

// ---- functions held against the schema

namespace {

bool takes(OpParameter parameter, const SchemaType& type) {
  const bool is_int = type.base == BaseType::integer || type.base == BaseType::sym_int;
  const bool is_float = type.base == BaseType::floating || type.base == BaseType::sym_float;
  const bool is_bool = type.base == BaseType::boolean || type.base == BaseType::sym_bool;
  const bool is_scalar = type.base == BaseType::scalar;
  if (type.is_list)
    return parameter == (type.base == BaseType::tensor ? OpParameter::tensors
                         : is_int                      ? OpParameter::integers
                         : is_float                    ? OpParameter::reals
                         : is_bool                     ? OpParameter::booleans
                                                       : parameter);
  switch (type.base) {
    case BaseType::tensor:
      return parameter == OpParameter::tensor;
    case BaseType::string:
      return parameter == OpParameter::text;
    case BaseType::scalar_type:
      return parameter == OpParameter::dtype;
    case BaseType::device:
      return parameter == OpParameter::device;
    case BaseType::memory_format:
      return parameter == OpParameter::memory_format;
    default:
      break;
  }
  if (!is_int && !is_float && !is_bool && !is_scalar) return true;
  switch (parameter) {
    case OpParameter::number:
      return true;
    case OpParameter::integer:
      return !is_float;
    case OpParameter::real:
      return !is_bool;
    case OpParameter::boolean:
      return is_bool || is_scalar;
    default:
      return false;
  }
}

std::string_view text_of(OpParameter parameter) {
  constexpr std::string_view texts[] = {
      "a Tensor",        "a list of Tensors", "an integer", "a real number",
      "a bool",          "a Number",          "a text",     "a list of integers",
      "a list of reals", "a list of bools",   "a Dtype",    "a Device",
      "a MemoryFormat"};
  return texts[static_cast<size_t>(parameter)];
}

}  // namespace

void require_parameters(const Schema& schema, std::string_view what,
                        std::span<const OpParameter> parameters) {
  const std::string op = schema.canonical_name();
  require(parameters.size() == schema.args.size(),
          "op {}: its {} takes {} arguments, its schema has {}", op, what, parameters.size(),
          schema.args.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const SchemaArg& arg = schema.args[i];
    require(takes(parameters[i], arg.type),
            "op {}: its {} takes {} as argument {}, which is {} in its schema", op, what,
            text_of(parameters[i]), arg.name, to_text(arg.type));
  }
}

}  // namespace tenon
