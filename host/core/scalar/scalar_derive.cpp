// Reverse mode over scalar programs.
//
// Problem: a formula says what an op computes for one element; its derivative is wanted in the same
// form, so that it can be run, fused and differentiated again.
// Model: a program is a list of primitives over values; the adjoint of a value is the derivative of
// sum(gradient_i * result_i) by it.
// Method: the primitives are recorded anew, then walked from the last to the first; each adds its
// local derivative times its adjoint to the adjoints of its operands. The recorder shares common
// subexpressions, folds constants, and lets a select with a zero arm sink through products, which
// keeps infinities of the arm not taken out of the result. What the adjoint of the wanted input
// does not need falls away. Two variants are recorded, one that computes the results anew and one
// that reads them, and the shorter is taken. Source: reverse accumulation, Linnainmaa (1970). Cost:
// linear in the program, some microseconds, once for each op and argument.
#include "core/scalar/scalar_derive.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon {

namespace {

using formula::Sym;
using formula::SymMask;

constexpr uint32_t none = 0xFFFFFFFF;

bool has_derivative_of_itself(uint16_t dtype) { return dtype == compute_type; }

constexpr double pi = std::numbers::pi, ln2 = std::numbers::ln2, ln10 = std::numbers::ln10;

/// A primitive of one value: the adjoint g of y = f(a) times the derivative.
struct UnaryRule {
  ScalarCode code;
  Sym (*slope)(Sym g, Sym a, Sym y);
};

constexpr UnaryRule unary_rules[] = {
    {ScalarCode::neg, [](Sym g, Sym, Sym) { return -g; }},
    {ScalarCode::abs, [](Sym g, Sym a, Sym) { return g * sign(a); }},
    {ScalarCode::sqrt, [](Sym g, Sym, Sym y) { return g / (y * 2); }},
    {ScalarCode::rsqrt, [](Sym g, Sym, Sym y) { return g * -0.5 * (y * y * y); }},
    {ScalarCode::exp, [](Sym g, Sym, Sym y) { return g * y; }},
    {ScalarCode::exp2, [](Sym g, Sym, Sym y) { return g * (y * ln2); }},
    {ScalarCode::expm1, [](Sym g, Sym, Sym y) { return g * (y + 1); }},
    {ScalarCode::log, [](Sym g, Sym a, Sym) { return g / a; }},
    {ScalarCode::log2, [](Sym g, Sym a, Sym) { return g / (a * ln2); }},
    {ScalarCode::log10, [](Sym g, Sym a, Sym) { return g / (a * ln10); }},
    {ScalarCode::log1p, [](Sym g, Sym a, Sym) { return g / (a + 1); }},
    {ScalarCode::sin, [](Sym g, Sym a, Sym) { return g * cos(a); }},
    {ScalarCode::cos, [](Sym g, Sym a, Sym) { return g * -sin(a); }},
    {ScalarCode::tan, [](Sym g, Sym, Sym y) { return g * (1 + y * y); }},
    {ScalarCode::asin, [](Sym g, Sym a, Sym) { return g * rsqrt(1 - a * a); }},
    {ScalarCode::acos, [](Sym g, Sym a, Sym) { return g * -rsqrt(1 - a * a); }},
    {ScalarCode::atan, [](Sym g, Sym a, Sym) { return g / (a * a + 1); }},
    {ScalarCode::sinh, [](Sym g, Sym a, Sym) { return g * cosh(a); }},
    {ScalarCode::cosh, [](Sym g, Sym a, Sym) { return g * sinh(a); }},
    {ScalarCode::tanh, [](Sym g, Sym, Sym y) { return g * (1 - y * y); }},
    {ScalarCode::asinh, [](Sym g, Sym a, Sym) { return g * rsqrt(a * a + 1); }},
    {ScalarCode::acosh, [](Sym g, Sym a, Sym) { return g * rsqrt(a * a - 1); }},
    {ScalarCode::atanh, [](Sym g, Sym a, Sym) { return g / (1 - a * a); }},
    {ScalarCode::sigmoid, [](Sym g, Sym, Sym y) { return g * ((1 - y) * y); }},
    {ScalarCode::erf, [](Sym g, Sym a, Sym) { return g * (exp(-(a * a)) * (2 / std::sqrt(pi))); }},
    {ScalarCode::erfc,
     [](Sym g, Sym a, Sym) { return g * (exp(-(a * a)) * (-2 / std::sqrt(pi))); }},
    {ScalarCode::erfinv, [](Sym g, Sym, Sym y) { return g * (exp(y * y) * (std::sqrt(pi) / 2)); }},
    {ScalarCode::lgamma, [](Sym g, Sym a, Sym) { return g * digamma(a); }},
};

class Deriver {
 public:
  Deriver(const ScalarProgram& program, uint32_t tensors, bool read_results)
      : program_(program), recorder_({.derivative = true, .floats_only = true}) {
    for (size_t i = 0; i < program.outputs.size(); ++i) recorder_.input();
    for (uint16_t dtype : program.input_dtypes) values_.push_back(recorder_.input(dtype));
    for (size_t i = 0; i < program.outputs.size(); ++i)
      recorder_.input(program.dtype_of(program.outputs[i]));
    of_tensors_.resize(program.n_inputs);
    for (uint32_t i = 0; i < program.n_inputs; ++i) of_tensors_[i] = tensors >> i & 1;
    for (const ScalarInstr& instr : program.instr) repeat(instr);
    if (read_results)
      for (size_t i = 0; i < program.outputs.size(); ++i)
        if (program.outputs[i] >= program.n_inputs)
          values_[program.outputs[i]] = n_gradients() + program.n_inputs + static_cast<uint32_t>(i);
    adjoints_.assign(values_.size(), none);
  }

  std::optional<ScalarDerivative> run(uint32_t wrt) {
    for (uint32_t i = 0; i < n_gradients(); ++i)
      if (has_derivative_of_itself(program_.dtype_of(program_.outputs[i])))
        add(program_.outputs[i], sym(i));
    for (size_t k = program_.instr.size(); k-- > 0;) {
      auto value = static_cast<uint32_t>(program_.n_inputs + k);
      if (adjoints_[value] == none) continue;
      if (!step(program_.instr[k], value)) return {};
    }
    uint32_t result = adjoints_[wrt] == none ? sym(0).literal(0).id() : adjoints_[wrt];
    return trimmed(recorder_.finish({&result, 1}));
  }

 private:
  uint32_t n_gradients() const { return static_cast<uint32_t>(program_.outputs.size()); }
  Sym sym(uint32_t id) { return {recorder_, id}; }
  Sym value(uint32_t v) { return sym(values_[v]); }
  SymMask mask(uint32_t v) { return {recorder_, values_[v]}; }

  void repeat(const ScalarInstr& i) {
    bool of_tensors = false;
    if (i.op() == ScalarCode::constant) {
      ScalarLiteral literal{uint64_t{i.b} << 32 | i.a, i.dtype == dtype_number(Dtype::f64)};
      values_.push_back(recorder_.literal(literal));
    } else {
      uint32_t operands[3] = {i.a, i.b, i.c};
      for (int k = 0; k < info_of(i.op()).operands; ++k) {
        of_tensors = of_tensors || of_tensors_[operands[k]];
        operands[k] = values_[operands[k]];
      }
      values_.push_back(i.op() == ScalarCode::cast
                            ? recorder_.cast(operands[0], i.dtype)
                            : recorder_.emit(i.op(), operands[0], operands[1], operands[2]));
    }
    of_tensors_.push_back(of_tensors);
  }

  // Masks and casts to integers end the way of a gradient.
  void add(uint32_t v, Sym part) {
    if (!has_derivative_of_itself(program_.dtype_of(v)) || !of_tensors_[v]) return;
    adjoints_[v] = adjoints_[v] == none ? part.id() : (sym(adjoints_[v]) + part).id();
  }

  void to_winner(uint32_t winner, uint32_t other, Sym g, bool larger) {
    Sym a = value(winner), b = value(other), zero = g.literal(0);
    SymMask loses = larger ? a < b : a > b;
    Sym kept = of_tensors_[other] ? select(a == b, g * 0.5, g) : g;
    add(winner, select(loses, zero, kept));
  }

  // Adds the parts of one primitive; false when it has no derivative.
  bool step(const ScalarInstr& i, uint32_t v) {
    Sym g = sym(adjoints_[v]), y = value(v);
    switch (i.op()) {
      case ScalarCode::constant:
      case ScalarCode::sign:
      case ScalarCode::truncdiv:
      case ScalarCode::floordiv:
      case ScalarCode::floor:
      case ScalarCode::ceil:
      case ScalarCode::trunc:
      case ScalarCode::round:
        return true;
      case ScalarCode::select:
        add(i.b, select(mask(i.a), g, g.literal(0)));
        add(i.c, select(mask(i.a), g.literal(0), g));
        return true;
      case ScalarCode::cast:
        add(i.a, g);
        return true;
      default:
        return info_of(i.op()).operands == 2 ? binary(i, g, y) : unary(i, g, y);
    }
  }

  bool binary(const ScalarInstr& i, Sym g, Sym y) {
    Sym a = value(i.a), b = value(i.b);
    switch (i.op()) {
      case ScalarCode::add:
        return add(i.a, g), add(i.b, g), true;
      case ScalarCode::sub:
        return add(i.a, g), add(i.b, -g), true;
      case ScalarCode::mul:
        return add(i.a, g * b), add(i.b, g * a), true;
      case ScalarCode::div:
        return add(i.a, g / b), add(i.b, -(g / b) * y), true;
      case ScalarCode::fmod:
        return add(i.a, g), add(i.b, -g * trunc(a / b)), true;
      case ScalarCode::mod:
        return add(i.a, g), add(i.b, -g * floor(a / b)), true;
      case ScalarCode::min:
        return to_winner(i.a, i.b, g, false), to_winner(i.b, i.a, g, false), true;
      case ScalarCode::max:
        return to_winner(i.a, i.b, g, true), to_winner(i.b, i.a, g, true), true;
      case ScalarCode::pow:
        add(i.a, select(b == 0, g.literal(0), g * (b * pow(a, b - 1))));
        add(i.b, select((a == 0) & (b >= 0), g.literal(0), g * (y * log(a))));
        return true;
      case ScalarCode::copysign:
        return add(i.a, select(a == 0, g.literal(0), g * (y / a))), true;
      case ScalarCode::atan2: {
        Sym square = a * a + b * b;
        return add(i.a, g * (b / square)), add(i.b, g * (-a / square)), true;
      }
      default:
        return false;
    }
  }

  bool unary(const ScalarInstr& i, Sym g, Sym y) {
    auto row = std::ranges::find(unary_rules, i.op(), &UnaryRule::code);
    if (row == std::end(unary_rules)) return false;
    add(i.a, row->slope(g, value(i.a), y));
    return true;
  }

  // Drops inputs that are not read; the first gradient stays, it gives the result its shape.
  static ScalarDerivative trimmed(const ScalarProgram& full) {
    std::vector<bool> read(full.n_inputs);
    read[0] = true;
    auto each_operand = [](auto& instr, auto&& use) {
      uint32_t* operands[3] = {&instr.a, &instr.b, &instr.c};
      if (instr.op() == ScalarCode::constant) return;
      for (int k = 0; k < info_of(instr.op()).operands; ++k) use(*operands[k]);
    };
    ScalarDerivative d{full, {}};
    for (ScalarInstr& instr : d.program.instr)
      each_operand(instr, [&](uint32_t v) {
        if (v < full.n_inputs) read[v] = true;
      });
    if (full.outputs[0] < full.n_inputs) read[full.outputs[0]] = true;
    std::vector<uint32_t> place(full.n_inputs, none);
    d.program.input_dtypes.clear();
    for (uint32_t i = 0; i < full.n_inputs; ++i) {
      if (!read[i]) continue;
      place[i] = static_cast<uint32_t>(d.reads.size());
      d.reads.push_back(i);
      d.program.input_dtypes.push_back(full.input_dtypes[i]);
    }
    d.program.n_inputs = static_cast<uint32_t>(d.reads.size());
    auto move = [&](uint32_t& v) {
      v = v < full.n_inputs ? place[v] : v - full.n_inputs + d.program.n_inputs;
    };
    for (ScalarInstr& instr : d.program.instr) each_operand(instr, move);
    for (uint32_t& v : d.program.outputs) move(v);
    return d;
  }

  const ScalarProgram& program_;
  Recorder recorder_;
  std::vector<uint32_t> values_, adjoints_;
  std::vector<bool> of_tensors_;
};

}  // namespace

std::optional<ScalarDerivative> derive(const ScalarProgram& program, uint32_t wrt,
                                       uint32_t tensors) {
  auto anew = Deriver(program, tensors, false).run(wrt);
  auto with_results = Deriver(program, tensors, true).run(wrt);
  if (!anew || !with_results) return anew;
  bool shorter = with_results->program.instr.size() < anew->program.instr.size() &&
                 with_results->reads.size() <= anew->reads.size();
  return shorter ? with_results : anew;
}

}  // namespace tenon
