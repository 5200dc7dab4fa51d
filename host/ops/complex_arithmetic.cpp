// Complex arithmetic: operands are converted to dense complex128, combined, and stored.
#include "ops/complex_arithmetic.h"

#include "core/kernels/pointwise_loop.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <algorithm>
#include <complex>

namespace tenon {

namespace {

using Complex = std::complex<double>;
enum class Operation : uint8_t { add, sub, mul, abs };

Operation operation_of(const CallArgs& call, Dtype dtype) {
  const Schema& schema = call.op->schema;
  if (schema.ns == "aten" && schema.name == "add") return Operation::add;
  if (schema.ns == "aten" && schema.name == "sub") return Operation::sub;
  if (schema.ns == "aten" && (schema.name == "mul" || schema.name == "multiply"))
    return Operation::mul;
  if (schema.ns == "aten" && schema.name == "abs") return Operation::abs;
  fail(ErrorCode::unsupported,
       "{} does not compute on dtype {}; complex tensors know add, sub, mul, abs, conj, real and "
       "imag only",
       call.op->name, dtype);
}

Dtype real_part_of(Dtype dtype) {
  return dtype == Dtype::c32 ? Dtype::f16 : dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
}

/// The operand as dense complex128 values of the result's shape.
std::vector<Complex> values_of(const Value& v, const Tensor& out) {
  std::vector<Complex> values(static_cast<size_t>(out.numel().guard_int()));
  if (v.is_number()) {
    values.assign(values.size(), Complex(v.number().to_double()));
    return values;
  }
  const Tensor& t = *v.as<Tensor>();
  Dims from = broadcast_strides(t.sizes(), t.strides(), out.sizes()),
       dense = contiguous_strides(out.sizes());
  copy_strided({values.data(), Dtype::c128, reinterpret_cast<const int64_t*>(dense.data())},
               {t.head()->data, t.dtype(), reinterpret_cast<const int64_t*>(from.data())},
               {out.head()->sizes, static_cast<size_t>(out.dim())});
  return values;
}

}  // namespace

bool has_complex_input(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::tensor && is_complex(call.args[i].as<Tensor>()->dtype()))
      return true;
  return false;
}

TensorMeta complex_meta(const CallArgs& call) {
  uint32_t n_operands = std::min<uint32_t>(call.n_args, 2);  // alpha converts only
  Promotion promotion;
  promotion.add_all(call.args, n_operands);
  Dtype dtype = promotion.result();
  if (operation_of(call, dtype) == Operation::abs) dtype = real_part_of(dtype);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < n_operands; ++i)
    if (call.args[i].tag == Tag::tensor) tensors.push_back(*call.args[i].as<Tensor>());
  Dims sizes = broadcast_sizes(tensors);
  return {dtype, tensors[0].device(), sizes, pointwise_strides(list_of(sizes), tensors)};
}

void run_complex(const CallArgs& call) {
  TensorMeta meta = complex_meta(call);
  Operation operation = operation_of(call, meta.dtype);
  Tensor out = make_tensor(meta);
  std::vector<Complex> a = values_of(call.args[0], out), b;
  if (operation != Operation::abs) b = values_of(call.args[1], out);
  double alpha = call.n_args > 2 ? call.args[2].number().to_double() : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    switch (operation) {
      case Operation::add:
        a[i] += alpha * b[i];
        break;
      case Operation::sub:
        a[i] -= alpha * b[i];
        break;
      case Operation::mul:
        a[i] *= b[i];
        break;
      case Operation::abs:
        a[i] = std::abs(a[i]);
        break;
    }
  }
  Dims dense = contiguous_strides(out.sizes());
  copy_strided({out.head()->data, out.dtype(), out.head()->strides},
               {a.data(), Dtype::c128, reinterpret_cast<const int64_t*>(dense.data())},
               {out.head()->sizes, static_cast<size_t>(out.dim())});
  call.results[0] = Value::own(std::move(out));
}

}  // namespace tenon
