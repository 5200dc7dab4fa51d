// Complex constants among the arguments of nodes. Numbers of a graph are real, so such a constant is
// a tensor without dimensions, and an op whose schema says number is called in its form for tensors.
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <algorithm>

namespace tenon::formats {

namespace {

bool is_unreal(const Pt2Argument& value) {
  return value.kind == Pt2Kind::complex && value.imaginary != 0;
}

bool has_unreal(const Pt2Node& node) {
  return std::ranges::any_of(node.inputs, is_unreal, &Pt2NamedArgument::value);
}

template <class T>
void write_pair(const Tensor& t, double real, double imaginary) {
  T* parts = static_cast<T*>(impl_of(t)->data);
  parts[0] = static_cast<T>(real);
  parts[1] = static_cast<T>(imaginary);
}

Pt2Argument imaginary_part(const Pt2Argument& value) {
  Pt2Argument part = value;
  part.real = 0;
  return part;
}

Pt2Argument real_part(const Pt2Argument& value) {
  Pt2Argument part;
  part.kind = Pt2Kind::real;
  part.real = value.real;
  return part;
}

}  // namespace

const OpEntry* form_for_complex(const Pt2Node& node) {
  if (!has_unreal(node)) return nullptr;
  constexpr std::pair<OpId, OpId> forms[] = {
      {OpId::aten_pow_Tensor_Scalar, OpId::aten_pow_Tensor_Tensor},
      {OpId::aten_pow_Scalar, OpId::aten_pow_Tensor_Tensor},
      {OpId::aten_where_ScalarSelf, OpId::aten_where_self},
      {OpId::aten_where_ScalarOther, OpId::aten_where_self},
  };
  for (const auto& [number, tensor] : forms)
    if (node.op == name_of(number)) return &entry_of(tensor);
  constexpr std::string_view of_number = ".Scalar";
  std::string_view name = node.op;
  if (!name.ends_with(of_number)) return find_op(name);
  name.remove_suffix(of_number.size());
  const OpEntry* form = find_op(std::string(name) + ".Tensor");
  return form ? form : find_op(node.op);
}

Tensor complex_number_tensor(const Pt2Argument& value, Dtype dtype) {
  require(dtype == Dtype::c64 || dtype == Dtype::c128, ErrorCode::unsupported,
          "a complex constant gives a result of {}; only complex64 and complex128 are computed",
          dtype);
  Tensor t = make_tensor(IntList{}, dtype);
  if (dtype == Dtype::c64)
    write_pair<float>(t, value.real, value.imaginary);
  else
    write_pair<double>(t, value.real, value.imaginary);
  return t;
}

namespace {

const Pt2NamedArgument* argument(const Pt2Node& node, std::string_view name) {
  auto at = std::ranges::find(node.inputs, name, &Pt2NamedArgument::name);
  return at == node.inputs.end() ? nullptr : &*at;
}

// Ops that fill with a number, whose kernels take no complex one, as ops that copy or choose.
std::optional<Pt2Node> without_fill(const Pt2Node& node) {
  const Pt2NamedArgument *self = argument(node, "self"), *value = argument(node, "value"),
                         *mask = argument(node, "mask");
  if (!self || !value || !is_unreal(value->value)) return std::nullopt;
  Pt2Node out = node;
  if (node.op == name_of(OpId::aten_masked_fill_Scalar) && mask) {
    out.op = name_of(OpId::aten_where_self);
    out.inputs = {{"condition", mask->value}, {"self", value->value}, {"other", self->value}};
    return out;
  }
  if (node.op != name_of(OpId::aten_fill_Scalar) && node.op != name_of(OpId::aten_fill__Scalar))
    return std::nullopt;
  out.op = node.op == name_of(OpId::aten_fill_Scalar) ? name_of(OpId::aten_copy_default)
                                                      : name_of(OpId::aten_copy__default);
  out.inputs = {{"self", self->value}, {"src", value->value}};
  return out;
}

// Filled with the real part first: what creates tensors takes no tensor for the number.
std::vector<Pt2Node> filled_in_two_steps(const Pt2Graph& source, const Pt2Node& node) {
  const Pt2NamedArgument* number =
      argument(node, node.op == name_of(OpId::aten_scalar_tensor_default) ? "s" : "fill_value");
  if (!number || !is_unreal(number->value)) return {};
  require(node.outputs.size() == 1 && node.outputs[0].kind == Pt2Kind::tensor, ErrorCode::bad_file,
          "{}: expected one tensor as its result", node.target);
  Pt2Argument dtype;
  dtype.kind = Pt2Kind::dtype;
  dtype.dtype = source.tensors.at(node.outputs[0].text).dtype;
  Pt2Node real = node, sum = node;
  for (Pt2NamedArgument& a : real.inputs)
    if (a.name == number->name) a.value = real_part(a.value);
  std::erase_if(real.inputs, [](const Pt2NamedArgument& a) { return a.name == "dtype"; });
  real.inputs.push_back({"dtype", dtype, true});
  sum.op = name_of(OpId::aten_add_Tensor);
  sum.inputs = {{"self", node.outputs[0]}, {"other", imaginary_part(number->value)}};
  return {std::move(real), std::move(sum)};
}

}  // namespace

std::vector<Pt2Node> without_complex_numbers(const Pt2Graph& source, const Pt2Node& node) {
  if (!has_unreal(node)) return {};
  if (std::optional<Pt2Node> other = without_fill(node)) return {std::move(*other)};
  return filled_in_two_steps(source, node);
}

}  // namespace tenon::formats
