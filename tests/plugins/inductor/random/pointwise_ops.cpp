// Pointwise ops: of one operand, of two that broadcast, of a condition; casts.
#include "random_graph.h"

namespace tenon::random_graphs {

namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

void add_unary(std::vector<RandomOp>& ops, const char* name, int kinds, Unary f, bool exact = false,
               bool rounds = false) {
  ops.push_back({name, 2, rounds, [=](Chooser& c, Step& s) { return c.take(s, kinds, exact); },
                 [=](const Operands& o) { return f(o.in[0]); }, true});
}

void add_binary(std::vector<RandomOp>& ops, const char* name, int weight, int kinds, Binary f,
                bool exact = false, bool rounds = false, bool makes_floats = false) {
  ops.push_back({name, weight, rounds,
                 [=](Chooser& c, Step& s) {
                   return c.take(s, kinds, exact) && c.take_fitting(s, kinds, exact);
                 },
                 [=](const Operands& o) { return f(o.in[0], o.in[1]); }, makes_floats});
}

void add_smooth(std::vector<RandomOp>& ops) {
  auto of_floats = [&](const char* name, Unary f) { add_unary(ops, name, floats, f, false, true); };
  of_floats("sigmoid", [](const Tensor& x) { return x.sigmoid(); });
  of_floats("tanh", [](const Tensor& x) { return x.tanh(); });
  of_floats("exp(clamp)", [](const Tensor& x) { return x.clamp(-6, 4).exp(); });
  of_floats("exp2(-abs)", [](const Tensor& x) { return (-x.abs()).exp2(); });
  of_floats("expm1", [](const Tensor& x) { return x.clamp(-9, 3).expm1(); });
  of_floats("log(abs + 1/2)", [](const Tensor& x) { return (x.abs() + 0.5).log(); });
  of_floats("log1p(abs)", [](const Tensor& x) { return x.abs().log1p(); });
  of_floats("log2(abs + 1)", [](const Tensor& x) { return (x.abs() + 1).log2(); });
  of_floats("sqrt(abs + 1/4)", [](const Tensor& x) { return (x.abs() + 0.25).sqrt(); });
  of_floats("rsqrt(abs + 1)", [](const Tensor& x) { return (x.abs() + 1).rsqrt(); });
  of_floats("reciprocal(abs + 1)", [](const Tensor& x) { return (x.abs() + 1).reciprocal(); });
  of_floats("sin", [](const Tensor& x) { return x.clamp(-30, 30).sin(); });
  of_floats("cos", [](const Tensor& x) { return x.clamp(-30, 30).cos(); });
  of_floats("atan", [](const Tensor& x) { return x.atan(); });
  of_floats("asinh", [](const Tensor& x) { return x.asinh(); });
  of_floats("sinh(clamp)", [](const Tensor& x) { return x.clamp(-3, 3).sinh(); });
  of_floats("erf", [](const Tensor& x) { return x.erf(); });
  of_floats("gelu", [](const Tensor& x) { return x.gelu(); });
  of_floats("gelu tanh", [](const Tensor& x) { return x.gelu("tanh"); });
  of_floats("silu", [](const Tensor& x) { return x.silu(); });
  of_floats("softplus", [](const Tensor& x) { return x.softplus(); });
  of_floats("mish", [](const Tensor& x) { return x.mish(); });
  of_floats("elu", [](const Tensor& x) { return x.elu(); });
  of_floats("hardswish", [](const Tensor& x) { return x.hardswish(); });
}

void add_simple(std::vector<RandomOp>& ops) {
  add_unary(ops, "neg", numbers, [](const Tensor& x) { return -x; });
  add_unary(ops, "abs", numbers, [](const Tensor& x) { return x.abs(); });
  add_unary(ops, "relu", numbers, [](const Tensor& x) { return x.relu(); });
  add_unary(ops, "square", numbers, [](const Tensor& x) { return x * x; });
  add_unary(ops, "half", numbers, [](const Tensor& x) { return x * 0.5; });
  add_unary(ops, "plus one", all_kinds, [](const Tensor& x) { return x + 1; });
  add_unary(ops, "three less", numbers, [](const Tensor& x) { return 3 - x; });
  add_unary(ops, "clamp", numbers, [](const Tensor& x) { return x.clamp(-2, 3); });
  add_unary(ops, "leaky_relu", floats, [](const Tensor& x) { return x.leaky_relu(0.25); });
  add_unary(ops, "isnan", numbers, [](const Tensor& x) { return x.isnan(); });
  add_unary(ops, "isfinite", numbers, [](const Tensor& x) { return x.isfinite(); });
  add_unary(ops, "nan_to_num", floats, [](const Tensor& x) { return x.nan_to_num(1, 2, -2); });
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Unary>>{
           {"floor", [](const Tensor& x) { return x.floor(); }},
           {"ceil", [](const Tensor& x) { return x.ceil(); }},
           {"trunc", [](const Tensor& x) { return x.trunc(); }},
           {"round", [](const Tensor& x) { return x.round(); }},
           {"sign", [](const Tensor& x) { return x.sign(); }},
           {"is positive", [](const Tensor& x) { return x > 0; }},
           {"is one", [](const Tensor& x) { return x == 1; }}})
    add_unary(ops, name, numbers, f, true);
  add_unary(
      ops, "logical_not", all_kinds, [](const Tensor& x) { return x.logical_not(); }, true);
  add_unary(ops, "bitwise_not", integers | bools, [](const Tensor& x) { return ~x; });
  add_unary(
      ops, "sigmoid of integers", integers | bools,
      [](const Tensor& x) { return x.clamp(Number(-5), Number(5)).sigmoid(); }, false, true);
  add_unary(ops, "pow 2", numbers, [](const Tensor& x) { return x.pow(2); });
  add_unary(ops, "pow 3", numbers, [](const Tensor& x) { return x.pow(3); });
}

// Integers are not divided by zero, which is an error in eager kernels only; floats not by a
// negative zero, since an extreme of zeros may be either.
Tensor safe(const Tensor& b) {
  return is_floating(b.dtype()) ? b + 0.0 : b.dtype() == Dtype::bool_ ? b : where(b == 0, 3, b);
}

void add_two(std::vector<RandomOp>& ops) {
  add_binary(ops, "add", 12, all_kinds, [](const Tensor& a, const Tensor& b) { return a + b; });
  add_binary(ops, "sub", 6, numbers, [](const Tensor& a, const Tensor& b) { return a - b; });
  add_binary(ops, "mul", 12, all_kinds, [](const Tensor& a, const Tensor& b) { return a * b; });
  add_binary(ops, "sub alpha", 2, numbers,
             [](const Tensor& a, const Tensor& b) { return sub(a, b, 2); });
  add_binary(
      ops, "div(abs + 1)", 6, floats,
      [](const Tensor& a, const Tensor& b) { return a / (b.abs() + 1); }, false, true);
  add_binary(
      ops, "div of integers", 2, integers,
      [](const Tensor& a, const Tensor& b) { return a / where(b == 0, 3, b); }, false, true, true);
  add_binary(
      ops, "div", 2, floats, [](const Tensor& a, const Tensor& b) { return a / safe(b); }, true,
      true);
  add_binary(ops, "maximum", 4, all_kinds,
             [](const Tensor& a, const Tensor& b) { return maximum(a, b); });
  add_binary(ops, "minimum", 4, all_kinds,
             [](const Tensor& a, const Tensor& b) { return minimum(a, b); });
  add_binary(
      ops, "hypot", 1, floats, [](const Tensor& a, const Tensor& b) { return hypot(a, b + 0.5); },
      false, true);
  add_binary(ops, "lerp", 2, floats,
             [](const Tensor& a, const Tensor& b) { return lerp(a, b.to(a.dtype()), 0.25); });
  add_binary(
      ops, "logaddexp", 1, floats, [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); },
      false, true);
  for (auto [name, f] : std::initializer_list<std::pair<const char*, Binary>>{
           {"less", [](const Tensor&a, const Tensor&b) { return a < b; }},
           {"greater equal", [](const Tensor&a, const Tensor&b) { return a >= b; }},
           {"equal", [](const Tensor&a, const Tensor&b) { return a == b; }},
           {"not equal", [](const Tensor&a, const Tensor&b) { return a != b; }},
           {"logical_and", [](const Tensor&a, const Tensor&b) { return logical_and(a, b); }},
           {"logical_xor", [](const Tensor&a, const Tensor&b) { return logical_xor(a, b); }}})
    add_binary(ops, name, 2, all_kinds, f, true);
}

void add_whole_numbers(std::vector<RandomOp>& ops) {
  constexpr int whole = integers | bools;
  add_binary(ops, "bitwise_and", 2, whole, [](const Tensor& a, const Tensor& b) { return a & b; });
  add_binary(ops, "bitwise_or", 2, whole, [](const Tensor& a, const Tensor& b) { return a | b; });
  add_binary(ops, "bitwise_xor", 2, whole, [](const Tensor& a, const Tensor& b) { return a ^ b; });
  add_binary(ops, "left_shift", 1, integers, [](const Tensor& a, const Tensor& b) {
    return bitwise_left_shift(a, b.remainder(9));
  });
  add_binary(ops, "right_shift", 1, integers, [](const Tensor& a, const Tensor& b) {
    return bitwise_right_shift(a, b.remainder(9));
  });
  add_binary(
      ops, "remainder", 3, numbers,
      [](const Tensor& a, const Tensor& b) { return remainder(a, safe(b)); }, true, true);
  add_binary(
      ops, "fmod", 3, numbers, [](const Tensor& a, const Tensor& b) { return fmod(a, safe(b)); },
      true, true);
  add_binary(
      ops, "floor_divide", 3, numbers,
      [](const Tensor& a, const Tensor& b) { return floor_divide(a, safe(b)); }, true, true);
  add_binary(
      ops, "div trunc", 2, numbers,
      [](const Tensor& a, const Tensor& b) { return div(a, safe(b), "trunc"); }, true, true);
  // The sign of a zero, which sums need not keep, is half a turn.
  add_binary(
      ops, "atan2", 1, floats,
      [](const Tensor& a, const Tensor& b) { return atan2(a + 0.0, b + 0.0); }, true, true);
  add_binary(ops, "pow", 1, integers,
             [](const Tensor& a, const Tensor& b) { return pow(a, b.remainder(5)); });
}

Dtype any_dtype(Chooser& c) {
  constexpr Dtype all[] = {Dtype::f32, Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16,
                           Dtype::i64, Dtype::i32, Dtype::u8,  Dtype::bool_};
  return all[c.below(9)];
}

void add_conditions(std::vector<RandomOp>& ops) {
  ops.push_back({"where", 8, false,
                 [](Chooser& c, Step& s) {
                   return c.take(s, bools) && c.take_fitting(s, all_kinds) &&
                          c.take(s, [&](size_t v) {
                            return c.is_broadcastable(s.in[0], v) && c.is_broadcastable(s.in[1], v);
                          });
                 },
                 [](const Operands& o) { return where(o.in[0], o.in[1], o.in[2]); }});
  ops.push_back({"masked_fill", 3, false,
                 [](Chooser& c, Step& s) {
                   return c.take(s, numbers) && c.take(s, [&](size_t v) {
                     return c.is_of(v, bools) && c.is_broadcastable(s.in[0], v) &&
                            c.dim(v) <= c.dim(s.in[0]) &&
                            c.most_elements(v) <= c.most_elements(s.in[0]);
                   });
                 },
                 [](const Operands& o) {
                   Tensor fits = o.in[1].expand(o.in[0].sizes());
                   return masked_fill(o.in[0], fits, 2);
                 }});
  ops.push_back({"addcmul", 3, false,
                 [](Chooser& c, Step& s) { return c.take(s, floats) && c.take_fitting(s, floats); },
                 [](const Operands& o) {
                   Tensor other = o.in[1].to(o.in[0].dtype());
                   return addcmul(o.in[0], other, other, 0.5);
                 }});
  ops.push_back({"to", 10, false,
                 [](Chooser& c, Step& s) {
                   s.dtype = any_dtype(c);
                   return c.take(s, all_kinds, !is_floating(s.dtype));
                 },
                 [](const Operands& o) { return o.in[0].to(o.dtype()); }});
  ops.push_back({"full_like", 1, false,
                 [](Chooser& c, Step& s) {
                   s.number.push_back(double(c.below(5)));
                   return c.take(s, all_kinds);
                 },
                 [](const Operands& o) { return full_like(o.in[0], o.step.number[0]); }});
}

}  // namespace

void add_pointwise_ops(std::vector<RandomOp>& ops) {
  add_smooth(ops);
  add_simple(ops);
  add_two(ops);
  add_whole_numbers(ops);
  add_conditions(ops);
}

}  // namespace tenon::random_graphs
