// Conversion of arguments between the host's values and those of the ABI.
#include "backend/abi/abi_args.h"

#include "backend/abi/status.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op_table.h"

#include <bit>
#include <cstring>

namespace tenon {

// ---- to the ABI

tn_arg empty_arg(uint32_t count) {
  tn_arg a;
  std::memset(&a, 0, sizeof a);
  a.kind = TN_ARG_NONE;
  a.count = count;
  return a;
}

namespace {

// Values whose payload is a number of the ABI as it stands.
uint32_t enum_kind(Tag tag) {
  switch (tag) {
    case Tag::dtype:
      return TN_ARG_DTYPE;
    case Tag::layout:
      return TN_ARG_LAYOUT;
    case Tag::memory_format:
      return TN_ARG_MEMORY_FORMAT;
    default:
      return TN_ARG_NONE;
  }
}

tn_arg list_arg(const Value& v, StringLists& strings) {
  tn_arg a = empty_arg(v.count);
  switch (v.tag) {
    case Tag::ints:
      a.kind = TN_ARG_INTS;
      a.u.ints = v.as<int64_t>();
      break;
    case Tag::floats:
      a.kind = TN_ARG_FLOATS;
      a.u.floats = v.as<double>();
      break;
    case Tag::bools:
      a.kind = TN_ARG_BOOLS;
      a.u.bools = v.as<uint8_t>();
      break;
    case Tag::string:
      a.kind = TN_ARG_STRING;
      a.u.str = {v.as<char>(), v.count};
      break;
    case Tag::strings: {
      auto& list = strings.emplace_back();
      for (uint32_t i = 0; i < v.count; ++i) list.push_back(str_of(v.as<std::string_view>()[i]));
      a.kind = TN_ARG_STRINGS;
      a.u.strings = list.data();
      break;
    }
    default:
      break;
  }
  return a;
}

}  // namespace

tn_arg plain_arg(const Value& v, StringLists& strings) {
  tn_arg a = empty_arg(v.count);
  switch (v.tag) {
    case Tag::integer:
      a.kind = TN_ARG_INT;
      a.u.i = v.number().to_int();
      return a;
    case Tag::floating:
      a.kind = TN_ARG_FLOAT;
      a.u.f = v.number().to_double();
      return a;
    case Tag::boolean:
      a.kind = TN_ARG_BOOL;
      a.u.i = v.number().to_bool();
      return a;
    case Tag::dtype:
    case Tag::layout:
    case Tag::memory_format:
      a.kind = enum_kind(v.tag);
      a.u.i = static_cast<int64_t>(v.payload);
      return a;
    case Tag::device:
      a.kind = TN_ARG_DEVICE;
      a.u.device[0] = static_cast<int32_t>(v.device().type);
      a.u.device[1] = v.device().index;
      return a;
    default:
      return list_arg(v, strings);
  }
}

uint32_t AbiArguments::add(const Tensor& t) {
  if (!t.defined()) return TN_NO_VALUE;
  values_.push_back(t.head());
  return static_cast<uint32_t>(values_.size() - 1);
}

AbiArguments::AbiArguments(const Value* args, uint32_t n_args) {
  for (uint32_t i = 0; i < n_args; ++i) {
    const Value& v = args[i];
    tn_arg a = empty_arg(v.count);
    if (v.tag == Tag::tensor) {
      a.kind = TN_ARG_VALUE;
      a.u.value = add(*v.as<Tensor>());
    } else if (v.tag == Tag::tensors) {
      auto& ids = id_lists_.emplace_back();
      for (uint32_t k = 0; k < v.count; ++k) ids.push_back(add(v.as<Tensor>()[k]));
      a.kind = TN_ARG_VALUES;
      a.u.values = ids.data();
    } else {
      a = plain_arg(v, string_lists_);
    }
    args_.push_back(a);
  }
}

// ---- from the ABI

HostArguments::HostArguments(const tn_arg* args, uint32_t n_args, tn_tensor* const* values)
    : tensors_(values) {
  held_.reserve(n_args);
  for (uint32_t i = 0; i < n_args; ++i) values_.push_back(convert(args[i]));
}

Value HostArguments::convert(const tn_arg& a) {
  switch (a.kind) {
    case TN_ARG_NONE:
      return {};
    case TN_ARG_VALUE:
      return Value::of(held_.emplace_back(
          a.u.value == TN_NO_VALUE ? Tensor() : share_tensor(tensors_[a.u.value])));
    case TN_ARG_INT:
      return Value::of(a.u.i);
    case TN_ARG_FLOAT:
      return Value::of(a.u.f);
    case TN_ARG_BOOL:
      return Value::of(a.u.i != 0);
    case TN_ARG_STRING:
      return Value::of(view_of(a.u.str));
    case TN_ARG_DTYPE:
      return Value::make(Tag::dtype, static_cast<uint64_t>(a.u.i));
    case TN_ARG_LAYOUT:
      return Value::make(Tag::layout, static_cast<uint64_t>(a.u.i));
    case TN_ARG_MEMORY_FORMAT:
      return Value::make(Tag::memory_format, static_cast<uint64_t>(a.u.i));
    case TN_ARG_DEVICE:
      return Value::of(Device(static_cast<DeviceType>(a.u.device[0]), a.u.device[1]));
    case TN_ARG_SYMINT:
    case TN_ARG_SYMINTS:
    case TN_ARG_SYMFLOAT:
    case TN_ARG_SYMBOOL:
      return convert_dims(a);
    default:
      return convert_list(a);
  }
}

Value HostArguments::convert_list(const tn_arg& a) {
  switch (a.kind) {
    case TN_ARG_VALUES: {
      auto& list = lists_.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i)
        list.push_back(a.u.values[i] == TN_NO_VALUE ? Tensor()
                                                    : share_tensor(tensors_[a.u.values[i]]));
      return Value::of(TensorList(list));
    }
    case TN_ARG_INTS:
      return Value::of(IntList(a.u.ints, a.count));
    case TN_ARG_FLOATS:
      return Value::of(DoubleList(a.u.floats, a.count));
    case TN_ARG_BOOLS:
      return Value::pointer(Tag::bools, a.u.bools, a.count);
    case TN_ARG_STRINGS: {
      auto& list = strings_.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) list.push_back(view_of(a.u.strings[i]));
      return Value::of(StringList(list));
    }
    default:
      fail(ErrorCode::unsupported, "run_op: argument kind {} is unknown", a.kind);
  }
}

Value HostArguments::convert_dims(const tn_arg& a) {
  bool is_list = a.kind == TN_ARG_SYMINTS;
  auto& list = ints_.emplace_back();
  for (const tn_dim& dim : std::span(is_list ? a.u.syms : &a.u.sym, is_list ? a.count : 1)) {
    require(dim.expr == TN_EXPR_STATIC,
            "run_op: a symbolic argument must be evaluated first, with sym->eval");
    list.push_back(dim.value);
  }
  if (is_list) return Value::of(IntList(list));
  if (a.kind == TN_ARG_SYMFLOAT) return Value::of(std::bit_cast<double>(list[0]));
  return a.kind == TN_ARG_SYMBOOL ? Value::of(list[0] != 0) : Value::of(list[0]);
}

void HostArguments::add_defaults(const OpEntry& op) {
  for (size_t i = values_.size(); i < op.n_args; ++i) {
    const SchemaArg& arg = op.schema.args[i];
    require(arg.has_default() || arg.type.optional, "run_op: {} needs the argument {}", op.name,
            arg.name);
    values_.push_back(arg.has_default() ? default_of(op, i) : Value());
  }
}

}  // namespace tenon
