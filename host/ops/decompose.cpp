// Decompositions that follow from formulas.
//
// Problem: sets such as core_aten ask for a few primitive ops, and pointwise rows are formulas.
// Method: each primitive of the formula is an op of the table, so the program of the call is run
// with tensors in the place of elements: arguments are cast to the compute type, results to theirs.
// Numbers stay numbers where the op has a form that takes one. A row whose primitive is the op
// itself (lgamma) is not taken apart, nor one with so many that the parts would be no simpler (the
// series of special functions).
// Cost: one op a primitive.
#include "ops/decompose.h"

#include "core/error.h"
#include "core/scalar/scalar_program.h"
#include "ops/forms/complex_forms.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

constexpr size_t most_primitives = 24;

struct Primitive {
  std::string_view name;  ///< of the row, less the overload; empty: that of the code
  std::string_view tensor_form = "default";
  std::string_view number_form = {};  ///< takes a number as its second argument
};

/// Those whose row is not called like them, with overload `default`.
constexpr std::pair<ScalarCode, Primitive> primitives[] = {
    {ScalarCode::add, {"", "Tensor", "Scalar"}},
    {ScalarCode::sub, {"", "Tensor", "Scalar"}},
    {ScalarCode::mul, {"", "Tensor", "Scalar"}},
    {ScalarCode::div, {"", "Tensor", "Scalar"}},
    {ScalarCode::fmod, {"", "Tensor", "Scalar"}},
    {ScalarCode::eq, {"", "Tensor", "Scalar"}},
    {ScalarCode::ne, {"", "Tensor", "Scalar"}},
    {ScalarCode::lt, {"", "Tensor", "Scalar"}},
    {ScalarCode::le, {"", "Tensor", "Scalar"}},
    {ScalarCode::gt, {"", "Tensor", "Scalar"}},
    {ScalarCode::ge, {"", "Tensor", "Scalar"}},
    {ScalarCode::mod, {"remainder", "Tensor", "Scalar"}},
    {ScalarCode::pow, {"pow", "Tensor_Tensor", "Tensor_Scalar"}},
    {ScalarCode::copysign, {"copysign", "Tensor"}},
    {ScalarCode::truncdiv, {"div", "Tensor_mode"}},
    {ScalarCode::floordiv, {"div", "Tensor_mode"}},
    {ScalarCode::min, {"minimum"}},
    {ScalarCode::max, {"maximum"}},
    {ScalarCode::band, {"bitwise_and", "Tensor"}},
    {ScalarCode::bor, {"bitwise_or", "Tensor"}},
    {ScalarCode::bxor, {"bitwise_xor", "Tensor"}},
    {ScalarCode::bnot, {"bitwise_not"}},
    {ScalarCode::shl, {"bitwise_left_shift", "Tensor"}},
    {ScalarCode::shr, {"bitwise_right_shift", "Tensor"}},
    {ScalarCode::select, {"where", "self"}},
};

Primitive primitive_of(ScalarCode code) {
  auto found = std::ranges::find(primitives, code, &std::pair<ScalarCode, Primitive>::first);
  Primitive out = found == std::end(primitives) ? Primitive{} : found->second;
  if (out.name.empty()) out.name = info_of(code).name;
  return out;
}

const OpEntry* row_of(const Primitive& p, std::string_view form) {
  return form.empty() ? nullptr : find_op(message("aten.{}.{}", p.name, form));
}

// Calls a row with its leading arguments, the rest as by default; a rounding mode where given.
Tensor call(const OpEntry& op, std::span<const Value> leading, const char* rounding = nullptr) {
  std::vector<Value> args(leading.begin(), leading.end());
  for (size_t i = args.size(); i < op.n_args; ++i) {
    bool is_mode = rounding && op.schema.args[i].name == "rounding_mode";
    args.push_back(is_mode ? Value::of(rounding) : default_of(op, i));
  }
  Value result;
  dispatch(op, args.data(), op.n_args, &result, 1);
  return take<Tensor>(result);
}

/// A value of the program: a tensor, or a number of the compute type.
struct Part {
  Tensor tensor;
  Number number = 0;
};

class FormulaParts {
 public:
  explicit FormulaParts(const CallArgs& call) : formula_(formula_call(call)) {
    const ScalarProgram& program = *formula_.program;
    for (uint32_t i = 0; i < program.n_inputs; ++i) values_.push_back(input(i));
    for (const ScalarInstr& step : program.instr) values_.push_back(run(step));
  }

  /// Result `i` in the shape and type of the call's.
  Tensor result(size_t i) {
    const TensorMeta& meta = formula_.results[i];
    uint32_t value = formula_.program->outputs[i];
    Tensor t = tensor_of(values_[value]).to(meta.dtype);
    bool broadcast = t.dim() != static_cast<int64_t>(meta.sizes.size());
    for (size_t d = 0; !broadcast && d < meta.sizes.size(); ++d)
      broadcast = !sizes_match(t.sizes()[d], meta.sizes[d]);
    if (broadcast) return t.expand(list_of(meta.sizes)).clone();
    return value < formula_.program->n_inputs ? t.clone() : t;  // never an argument itself
  }

 private:
  Part input(uint32_t i) {
    if (const Tensor* t = formula_.tensors[i]) {
      bool is_mask = formula_.program->input_dtypes[i] != compute_type;
      return {t->to(is_mask ? Dtype::bool_ : formula_.compute)};
    }
    return {Tensor(), as_computed(formula_.numbers[i])};
  }
  Number as_computed(Number n) const {
    if (n.is_symbolic()) return n;
    if (is_floating(formula_.compute)) return n.to_double();
    return formula_.compute == Dtype::bool_ ? Number(n.to_bool()) : Number(n.to_int());
  }
  Tensor tensor_of(const Part& part) const {
    return part.tensor.defined() ? part.tensor : full({}, part.number, formula_.compute);
  }
  Part run(const ScalarInstr& step) {
    if (step.op() == ScalarCode::constant) {
      uint64_t bits = uint64_t{step.b} << 32 | step.a;
      bool is_float = step.dtype == dtype_number(Dtype::f64);
      return {Tensor(), as_computed(is_float ? Number(std::bit_cast<double>(bits))
                                             : Number(static_cast<int64_t>(bits)))};
    }
    if (step.op() == ScalarCode::cast) return {cast(step)};
    return {primitive(step)};
  }
  Tensor cast(const ScalarInstr& step) {
    Dtype to = step.dtype == compute_type ? formula_.compute : static_cast<Dtype>(step.dtype);
    return tensor_of(values_[step.a]).to(to);
  }
  Tensor primitive(const ScalarInstr& step) {
    Primitive p = primitive_of(step.op());
    const char* rounding = step.op() == ScalarCode::truncdiv   ? "trunc"
                           : step.op() == ScalarCode::floordiv ? "floor"
                                                               : nullptr;
    const OpEntry* with_number = row_of(p, p.number_form);
    const Part &a = values_[step.a], &b = values_[step.b];
    int operands = info_of(step.op()).operands;
    if (with_number && a.tensor.defined() && !b.tensor.defined()) {
      Value args[] = {Value::of(a.tensor), Value::of(b.number)};
      return call(*with_number, args);
    }
    Tensor tensors[] = {tensor_of(a), operands > 1 ? tensor_of(b) : Tensor(),
                        operands > 2 ? tensor_of(values_[step.c]) : Tensor()};
    Value args[] = {Value::of(tensors[0]), Value::of(tensors[1]), Value::of(tensors[2])};
    return call(*row_of(p, p.tensor_form), std::span(args, static_cast<size_t>(operands)),
                rounding);
  }

  FormulaCall formula_;
  std::vector<Part> values_;
};

bool has_simpler_parts(const OpEntry& op, const ScalarProgram& program) {
  if (program.instr.size() > most_primitives) return false;
  for (const ScalarInstr& step : program.instr) {
    if (step.op() == ScalarCode::constant || step.op() == ScalarCode::cast) continue;
    Primitive p = primitive_of(step.op());
    const OpEntry* rows[] = {row_of(p, p.tensor_form), row_of(p, p.number_form)};
    if (!rows[0] || rows[0] == &op || rows[1] == &op) return false;
  }
  return true;
}

}  // namespace

bool decomposes_by_formula(const OpEntry& op) {
  const OpDef& def = *op.def;
  if (def.decomp || !def.formula || def.core || op.functional || op.mutated_args) return false;
  for (int i = 0; i < def.formula.n_entries; ++i)
    if (!has_simpler_parts(op, pointwise_program(op, i))) return false;
  return true;
}

bool can_decompose(const OpEntry& op) {
  return (op.def->decomp && !op.functional) || decomposes_by_formula(op);
}

void decompose(const CallArgs& call) {
  if (is_complex_form(call)) return run_complex(call);
  if (call.op->def->decomp) return call.op->def->decomp.call(call);
  FormulaParts parts(call);
  for (uint32_t i = 0; i < call.n_results; ++i) call.results[i] = Value::own(parts.result(i));
}

}  // namespace tenon
