// Pointwise ops: the op's scalar program, put together with what its operands are.
#include "loopir/lowering.h"

#include <algorithm>
#include <optional>

namespace loopir {

using tenon::plugin::formula;
using tenon::plugin::formula_of;
using tenon::plugin::node;

namespace {

// ATen's type promotion: tensors with dimensions decide before those without, and those before
// numbers, unless the later class has the higher kind (bool, integer, floating).
int kind_of(int32_t dtype) { return dtype == TN_BOOL ? 0 : is_floating(dtype) ? 2 : 1; }

int32_t promoted(int32_t a, int32_t b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (kind_of(a) == 2) {
    if (is_narrow(a) && is_narrow(b)) return TN_F32;
    if (is_narrow(a)) return b;
    return is_narrow(b) ? a : std::max(a, b);
  }
  if (a != TN_U8 && b != TN_U8) return std::max(a, b);
  int32_t other = a == TN_U8 ? b : a;
  return other == TN_I8 ? int32_t{TN_I16} : other;
}

struct Promotion {
  int32_t classes[3] = {-1, -1, -1};

  void join(int which, int32_t dtype) {
    int32_t& c = classes[which];
    c = c < 0 ? dtype : promoted(c, dtype);
  }
  int32_t result() const {
    int32_t out = -1;
    for (int32_t c : classes) {
      if (c < 0) continue;
      if (out < 0)
        out = c;
      else if (kind_of(c) > kind_of(out))
        out = promoted(out, c);
    }
    return out;
  }
};

bool is_bounding(const node& n) {
  constexpr std::string_view names[] = {"aten.clamp.default", "aten.clip.default",
                                        "aten.clamp_min.default", "aten.clamp_max.default",
                                        "aten.hardtanh.default"};
  return std::ranges::find(names, sv(n.op_name)) != std::end(names);
}

/// What an integer narrower than a number holds.
struct Limits {
  int64_t low, high;
};
std::optional<Limits> limits_of(int32_t dtype) {
  if (kind_of(dtype) != 1 || dtype == TN_I64) return std::nullopt;
  int width = dtype == TN_I32 ? 32 : dtype == TN_I16 ? 16 : 8;
  int64_t low = dtype == TN_U8 ? 0 : -(int64_t{1} << (width - 1));
  return Limits{low, low + (int64_t{1} << width) - 1};
}

// A bound that no element can reach bounds nothing: -1 is 0 for u8, not 255.
Id fitted_bound(Lowering& to, tn_arg bound, int32_t dtype) {
  std::optional<Limits> limits = limits_of(dtype);
  if (!limits) return to.arguments.number(bound, dtype);
  auto [low, high] = *limits;
  Expressions& x = to.x;
  if (bound.kind == TN_ARG_INT) return x.number(std::clamp(bound.u.i, low, high), dtype);
  if (bound.kind == TN_ARG_FLOAT)
    return x.number(std::clamp(bound.u.f, static_cast<double>(low), static_cast<double>(high)),
                    dtype);
  int32_t wide = is_floating(to.arguments.dtype_of_number(bound)) ? TN_F64 : TN_I64;
  Id above = x.apply(TN_F_MAX, wide, to.arguments.number(bound, wide), x.number(low, wide));
  return x.cast(x.apply(TN_F_MIN, wide, above, x.number(high, wide)), dtype);
}

/// One call of a formula.
struct Call {
  Lowering& to;
  const node& n;
  const formula& f;
  Ids sizes;  // of the results
  int32_t compute = -1;
  int32_t rounded_to = -1;  // of numbers, where they are rounded first

  bool is_known(uint32_t i) const {
    if (f.input_args[i] == TN_NO_VALUE) return false;
    const tn_arg& a = n.arguments()[f.input_args[i]];
    if (to.is_tensor(a)) return is_computing(to.info(a.u.value).dtype);
    return to.arguments.is_number(a);
  }

  void promote() {
    Promotion p;
    for (uint32_t i = 0; i < f.n_inputs; ++i) {
      const tn_arg& a = n.arguments()[f.input_args[i]];
      if (f.input_dtypes[i] == TN_BOOL) continue;
      if (to.is_tensor(a)) {
        const Tensor& t = to.tensor_arg(a);
        p.join(t.ndim() ? 0 : 1, t.dtype);
      } else {
        join_number(p, to.arguments.dtype_of_number(a));
      }
    }
    compute = p.result();
    if (compute < 0) compute = to.info(n.first_result).dtype;
    if (f.promote == TN_PROMOTE_TO_FLOAT && !is_floating(compute)) compute = TN_F32;
    bool is_on_cpu = to.info(n.first_result).device_type == TN_DEV_CPU;
    if (is_narrow(compute) && is_on_cpu && (n.tags & TN_TAG_ROUNDS_NUMBERS)) rounded_to = compute;
    compute = compute_type(compute);
  }

  // Numbers that only convert leave integers integers, as addcmul's value does, and truths truths,
  // as add's alpha does.
  void join_number(Promotion& p, int32_t dtype) const {
    int32_t result = to.info(n.first_result).dtype;
    bool only_converts = is_floating(dtype) && kind_of(result) == 1;
    only_converts |= dtype != TN_BOOL && result == TN_BOOL && is_of_compute_type(f.outputs[0]);
    if (!only_converts) p.join(2, dtype);
  }
  bool is_of_compute_type(uint32_t value) const {
    return value < f.n_inputs ? f.input_dtypes[value] != TN_BOOL
                              : f.program()[value - f.n_inputs].dtype == TN_F_COMPUTE_TYPE;
  }

  Id number(const tn_arg& a, int32_t dtype) const {
    if (rounded_to >= 0) return to.x.cast(to.arguments.number(a, rounded_to), dtype);
    return is_bounding(n) ? fitted_bound(to, a, dtype) : to.arguments.number(a, dtype);
  }

  Id input(uint32_t i, std::span<const Id> indices) {
    Expressions& x = to.x;
    const tn_arg& a = n.arguments()[f.input_args[i]];
    int32_t dtype = f.input_dtypes[i] == TN_BOOL ? int32_t{TN_BOOL} : compute;
    if (!to.is_tensor(a)) return number(a, dtype);
    return x.cast(to.broadcast_at(to.tensor_arg(a), indices, sizes), dtype);
  }

  Id run(uint32_t result, std::span<const Id> indices) {
    Expressions& x = to.x;
    Ids values;
    for (uint32_t i = 0; i < f.n_inputs; ++i) values.push_back(input(i, indices));
    for (const tn_instr& in : f.program()) {
      int32_t dtype = in.dtype == TN_F_COMPUTE_TYPE ? compute : static_cast<int32_t>(in.dtype);
      auto operand = [&](uint32_t v) { return v < values.size() ? values[v] : none; };
      if (in.code == TN_F_CONST) {
        uint64_t bits = in.a | uint64_t{in.b} << 32;
        values.push_back(in.dtype == TN_F64 ? x.number(std::bit_cast<double>(bits), compute)
                                            : x.number(static_cast<int64_t>(bits), compute));
      } else if (in.code == TN_F_CAST) {
        values.push_back(x.cast(operand(in.a), dtype));
      } else if (is_integer_division(in) && in.b < f.n_inputs) {
        values.push_back(x.apply(in.code, dtype, operand(in.a), divisor(operand(in.b))));
      } else if (in.code == TN_F_POW && is_floating(dtype) && is_real_of_call(in.b)) {
        values.push_back(power(dtype, operand(in.a), operand(in.b)));
      } else {
        int n_operands = operands_of_code(in.code);
        values.push_back(x.apply(in.code, dtype, operand(in.a),
                                 n_operands > 1 ? operand(in.b) : none,
                                 n_operands > 2 ? operand(in.c) : none));
      }
    }
    return values[f.outputs[result]];
  }

  bool is_integer_division(const tn_instr& in) const {
    bool divides = in.code == TN_F_TRUNCDIV || in.code == TN_F_FLOORDIV || in.code == TN_F_FMOD ||
                   in.code == TN_F_MOD;
    return divides && !is_floating(compute) && compute != TN_BOOL;
  }
  /// Whether an operand is a real number that each call tells.
  bool is_real_of_call(uint32_t value) const {
    if (value >= f.n_inputs) return false;
    const tn_arg& a = n.arguments()[f.input_args[value]];
    return !to.is_tensor(a) && to.arguments.place_of_real(a).has_value();
  }
  // With exponents that are known, roots are taken: at -inf and -0 they are something else.
  Id power(int32_t dtype, Id base, Id exponent) const {
    Expressions& x = to.x;
    auto root = [&](double of, uint16_t code, Id other) {
      Id is_it = x.apply(TN_F_EQ, TN_BOOL, exponent, x.number(of, dtype));
      return x.apply(TN_F_SELECT, dtype, is_it, x.apply(code, dtype, base), other);
    };
    Id any = x.apply(TN_F_POW, dtype, base, exponent);
    return root(0.5, TN_F_SQRT, root(-0.5, TN_F_RSQRT, any));
  }
  // Formulas give 0 for an integer divided by 0; as an op that is refused.
  Id divisor(Id value) const {
    const ValueNode& n = to.x.value_at(value);
    uint64_t bits = n.a | uint64_t{n.b} << 32;  // a constant is cut to the type of the tensor
    bool is_safe = n.code == value_constant && bits << (64 - 8 * item_size(compute)) != 0;
    return is_safe ? value : to.x.apply(value_divisor, compute, value);
  }

  static int operands_of_code(uint16_t code) {
    if (code == TN_F_SELECT) return 3;
    bool binary = (code >= TN_F_ADD && code <= TN_F_BXOR) || (code >= TN_F_SHL && code <= TN_F_GE);
    return binary ? 2 : 1;
  }
};

// An operand that is repeated is computed once, unless that is cheap.
void keep_repeated_operands(Lowering& to, const node& n, int64_t elements) {
  for (const tn_arg& a : n.arguments()) {
    if (!to.is_tensor(a)) continue;
    Tensor& t = *to.tensors[a.u.value];
    int64_t own = to.x.hint(to.x.product_of(t.sizes));
    if (own * 4 <= elements && own > 1) t = to.cheap(t, to.name_of(a.u.value).c_str());
  }
}

}  // namespace

bool lower_formula(Lowering& to, const node& n) {
  if (n.tags & (TN_TAG_INPLACE | TN_TAG_RANDOM | TN_TAG_SIDE_EFFECT)) return false;
  auto f = formula_of(n.op, n.arguments());
  if (!f || f->n_outputs != n.n_results) return false;
  for (const tn_instr& in : f->program())
    if (in.code >= TN_F_COUNT) return false;
  Call call{to, n, *f, {}};
  for (uint32_t i = 0; i < f->n_inputs; ++i)
    if (!call.is_known(i)) return false;
  call.promote();
  for (uint32_t r = 0; r < n.n_results; ++r) {
    auto v = to.info(n.first_result + r);
    if (!is_computing(v.dtype)) return false;
    call.sizes = to.arguments.indices_of(v.dims());
    keep_repeated_operands(to, n, to.x.hint(to.x.product_of(call.sizes)));
    to.set(n.first_result + r, to.make(v.dtype, call.sizes, [&](std::span<const Id> indices) {
      return to.x.cast(call.run(r, indices), v.dtype);
    }));
  }
  return true;
}

}  // namespace loopir
