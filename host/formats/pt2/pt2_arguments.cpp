// Arguments of .pt2 nodes, bound by name to the schema of the op.
#include "formats/pt2/pt2_import_parts.h"

#include "core/tensor/tensor_impl.h"
#include "ops/op_ids.h"

#include <algorithm>

namespace tenon::formats {

namespace {

[[noreturn]] void fail_argument(const SchemaArg& arg, std::string_view found) {
  fail(ErrorCode::bad_file, "argument {} is of type {}, found {}", arg.name, to_text(arg.type),
       found);
}

std::string_view kind_name(Pt2Kind kind) {
  constexpr std::string_view names[] = {
      "nothing",       "a tensor", "a symbol",        "an integer",
      "a real number", "a bool",   "a string",        "a complex number",
      "a dtype",       "a layout", "a memory format", "a device",
      "a graph",       "an op",    "a list",          "a dict"};
  return names[static_cast<size_t>(kind)];
}

// Decompositions of calls on complex tensors write real numbers as complex ones.
bool is_real_of_complex(const Pt2Argument& value) {
  return value.kind == Pt2Kind::complex && value.imaginary == 0;
}

bool is_plain_number(const Pt2Argument& value) {
  return value.kind == Pt2Kind::integer || value.kind == Pt2Kind::real ||
         value.kind == Pt2Kind::boolean || is_real_of_complex(value);
}

Number plain_number(const Pt2Argument& value) {
  if (value.kind == Pt2Kind::integer) return Number(value.integer);
  if (value.kind == Pt2Kind::real || is_real_of_complex(value)) return Number(value.real);
  return Number(value.boolean);
}

const NamedValue& named(const Pt2Scope& scope, const std::string& name) {
  auto found = scope.find(name);
  require(found != scope.end(), ErrorCode::bad_file, "{} is used before it is defined", name);
  return found->second;
}

Value symbol_value(const NamedValue& symbol) {
  return symbol.id == no_value ? Value::of(symbol.number) : Value::ref(symbol.id);
}

bool takes_number(BaseType base, const Pt2Argument& value) {
  switch (base) {
    case BaseType::scalar:
      return true;
    case BaseType::integer:
    case BaseType::sym_int:
      return value.kind == Pt2Kind::integer;
    case BaseType::floating:
    case BaseType::sym_float:
      return value.kind == Pt2Kind::real || value.kind == Pt2Kind::integer;
    case BaseType::boolean:
    case BaseType::sym_bool:
      return value.kind == Pt2Kind::boolean;
    default:
      return false;
  }
}

bool is_real(BaseType base) { return base == BaseType::floating || base == BaseType::sym_float; }

bool takes_symbol(BaseType base, ValueKind kind) {
  if (base == BaseType::scalar) return kind != ValueKind::tensor;
  if (is_real(base)) return kind == ValueKind::sym_float || kind == ValueKind::sym_int;
  if (base == BaseType::boolean || base == BaseType::sym_bool) return kind == ValueKind::sym_bool;
  return (base == BaseType::integer || base == BaseType::sym_int) && kind == ValueKind::sym_int;
}

// Which schema argument each given one is; by position for scalar functions, and where no name is
// given.
size_t index_of(const OpEntry& op, const Pt2Node& node, size_t position) {
  const Pt2NamedArgument& given = node.inputs[position];
  if (node.kind == Pt2TargetKind::scalar_function || given.name.empty()) {
    require(position < op.n_args, ErrorCode::bad_file, "{} takes {} arguments, found {}",
            node.target, op.n_args, node.inputs.size());
    return position;
  }
  int index = op.schema.find_arg(given.name);
  require(index >= 0, ErrorCode::bad_file, "{} has no argument {}; its schema is {}", node.target,
          given.name, to_text(op.schema));
  return static_cast<size_t>(index);
}

// A number never widens a tensor of its category, a 0-dim tensor widens one without dimensions. So
// the tensor that stands for the number is as exact as the number where that makes no difference,
// and else has the dtype of the result.
Dtype dtype_of(ValueKind number, const Promotion& operands) {
  Dtype exact = number == ValueKind::sym_float ? Dtype::f64
                : number == ValueKind::sym_int ? Dtype::i64
                                               : Dtype::bool_;
  Promotion as_number = operands, as_tensor = operands;
  as_number.add(number == ValueKind::sym_float ? Number(0.0)
                : number == ValueKind::sym_int ? Number(0)
                                               : Number(false));
  as_tensor.add(make_fake(contiguous_meta({}, exact)));
  return as_tensor.result() == as_number.result() ? exact : as_number.result();
}

}  // namespace

std::vector<Value> Pt2Arguments::bind(const OpEntry& op, const Pt2Node& node, const Pt2Scope& scope,
                                      std::optional<Dtype> complex) {
  complex_ = complex.value_or(Dtype::c64);
  makes_complex_ = complex && std::ranges::none_of(node.inputs, [&](const Pt2NamedArgument& a) {
                     return a.value.kind == Pt2Kind::tensor &&
                            is_complex(graph_.value(named(scope, a.value.text).id).meta.dtype);
                   });
  node_ = &node;
  refs_.clear();
  ints_.clear();
  floats_.clear();
  bools_.clear();
  strings_.clear();
  std::vector<Value> args(op.n_args);
  std::vector<bool> given(op.n_args);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    size_t index = index_of(op, node, i);
    require(!given[index], ErrorCode::bad_file, "argument {} is given twice", node.inputs[i].name);
    given[index] = true;
    args[index] = convert(op.schema.args[index], node.inputs[i].value, scope);
  }
  for (size_t i = 0; i < op.n_args; ++i) {
    if (given[i]) continue;
    require(op.schema.args[i].has_default(), ErrorCode::bad_file,
            "argument {} is missing and has no default; the schema is {}", op.schema.args[i].name,
            to_text(op.schema));
    args[i] = default_of(op, i);
  }
  return args;
}

Promotion Pt2Arguments::operands(const Pt2Scope& scope) const {
  Promotion dtypes;
  for (const Pt2NamedArgument& given : node_->inputs) {
    if (given.value.kind != Pt2Kind::tensor) continue;
    const GraphValue& value = graph_.value(named(scope, given.value.text).id);
    if (value.kind == ValueKind::tensor) dtypes.add(make_fake(value.meta));
  }
  return dtypes;
}

Value Pt2Arguments::convert(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope) {
  if (value.kind == Pt2Kind::none) {
    if (!arg.type.optional && !arg.has_default() && arg.type.base <= BaseType::memory_format)
      fail_argument(arg, "nothing");
    return {};
  }
  if (arg.type.is_list) return list(arg, value, scope);
  switch (arg.type.base) {
    case BaseType::tensor:
      return tensor(arg, value, scope);
    case BaseType::string:
      if (value.kind == Pt2Kind::string) return Value::of(std::string_view(value.text));
      break;
    case BaseType::scalar_type:
      if (value.kind == Pt2Kind::dtype) return Value::of(value.dtype);
      break;
    case BaseType::layout:
      if (value.kind == Pt2Kind::layout) return Value::of(Layout::strided);
      break;
    case BaseType::memory_format:
      if (value.kind == Pt2Kind::memory_format) return Value::of(value.memory_format);
      break;
    case BaseType::device:
      // The program runs where its weights are, wherever it was exported.
      if (value.kind == Pt2Kind::device) return Value::of(device_);
      break;
    default:
      return number(arg, value, scope);
  }
  fail_argument(arg, kind_name(value.kind));
}

Value Pt2Arguments::tensor(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope) {
  bool stays_complex = value.kind == Pt2Kind::complex && (value.imaginary != 0 || makes_complex_);
  if (is_plain_number(value) && !stays_complex) {
    Tensor number = wrapped_number_tensor(plain_number(value));
    return Value::ref(graph_.add_constant(std::move(number), ""));
  }
  if (stays_complex)
    return Value::ref(graph_.add_constant(complex_number_tensor(value, complex_), ""));
  if (value.kind == Pt2Kind::symbol) return tensor_of(named(scope, value.text), scope);
  if (value.kind != Pt2Kind::tensor) fail_argument(arg, kind_name(value.kind));
  return Value::ref(named(scope, value.text).id);
}

Value Pt2Arguments::tensor_of(const NamedValue& symbol, const Pt2Scope& scope) {
  GraphValue made;
  made.meta = contiguous_meta({}, dtype_of(symbol.kind, operands(scope)));
  Value args[] = {symbol_value(symbol), Value::of(made.meta.dtype), {}, {}, {}};
  NodeId node = graph_.add_node(OpId::aten_scalar_tensor_default, args, {made});
  return Value::ref(graph_.node(node).first_result);
}

Value Pt2Arguments::number(const SchemaArg& arg, const Pt2Argument& value,
                           const Pt2Scope& scope) const {
  if (value.kind == Pt2Kind::symbol) {
    const NamedValue& symbol = named(scope, value.text);
    if (!takes_symbol(arg.type.base, symbol.kind)) fail_argument(arg, "a symbol of another type");
    return symbol_value(symbol);
  }
  if (value.kind == Pt2Kind::complex &&
      !(value.imaginary == 0 && arg.type.base == BaseType::scalar))
    fail(ErrorCode::unsupported,
         "argument {}: expected a real number, found a complex one; make it a tensor of the model, "
         "as torch.tensor(1j) does, and export it again",
         arg.name);
  if (!is_plain_number(value) || !takes_number(arg.type.base, value))
    fail_argument(arg, kind_name(value.kind));
  if (is_real(arg.type.base)) return Value::of(plain_number(value).to_double());
  return Value::of(plain_number(value));
}

// ---- lists

Value Pt2Arguments::list(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope) {
  BaseType base = arg.type.base;
  if (base == BaseType::tensor) return refs(arg, value, scope);
  if (base == BaseType::integer || base == BaseType::sym_int) return integers(arg, value, scope);
  if (value.kind != Pt2Kind::list) fail_argument(arg, kind_name(value.kind));
  for (const Pt2Argument& item : value.items) {
    bool is_text = base == BaseType::string && item.kind == Pt2Kind::string;
    if (!is_text && !(is_plain_number(item) && takes_number(base, item)))
      fail_argument(arg, message("{} in the list", kind_name(item.kind)));
  }
  if (base == BaseType::string) {
    auto& texts = strings_.emplace_back();
    for (const Pt2Argument& item : value.items) texts.push_back(item.text);
    return Value::of(StringList(texts));
  }
  if (base == BaseType::boolean || base == BaseType::sym_bool) {
    auto& bools = bools_.emplace_back();
    for (const Pt2Argument& item : value.items) bools.push_back(item.boolean);
    return Value::pointer(Tag::bools, bools.data(), bools.size());
  }
  auto& reals = floats_.emplace_back();
  for (const Pt2Argument& item : value.items) reals.push_back(plain_number(item).to_double());
  return Value::of(DoubleList(reals));
}

Value Pt2Arguments::refs(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope) {
  auto& ids = refs_.emplace_back();
  if (value.kind == Pt2Kind::tensor) {
    ids.push_back(named(scope, value.text).id);
  } else {
    if (value.kind != Pt2Kind::list) fail_argument(arg, kind_name(value.kind));
    for (const Pt2Argument& item : value.items) {
      bool hole = item.kind == Pt2Kind::none && arg.type.optional_element;
      if (!hole && item.kind != Pt2Kind::tensor)
        fail_argument(arg, message("{} in the list", kind_name(item.kind)));
      ids.push_back(hole ? no_value : named(scope, item.text).id);
    }
  }
  return Value::pointer(Tag::refs, ids.data(), ids.size());
}

// A bare number stands for a list of the schema's length.
Value Pt2Arguments::integers(const SchemaArg& arg, const Pt2Argument& value,
                             const Pt2Scope& scope) {
  auto integer = [&](const Pt2Argument& item) -> SymInt {
    if (item.kind == Pt2Kind::integer) return SymInt(item.integer);
    if (item.kind != Pt2Kind::symbol) fail_argument(arg, kind_name(item.kind));
    const NamedValue& symbol = named(scope, item.text);
    if (symbol.kind != ValueKind::sym_int) fail_argument(arg, "a symbol that is not an integer");
    return symbol.number.sym_int();
  };
  auto& ints = ints_.emplace_back();
  if (value.kind == Pt2Kind::list)
    for (const Pt2Argument& item : value.items) ints.push_back(integer(item));
  else
    ints.assign(static_cast<size_t>(std::max(arg.type.list_size, 1)), integer(value));
  return Value::of(SymIntList(List<SymInt>(ints)));
}

}  // namespace tenon::formats
