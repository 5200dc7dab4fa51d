// Recording of scalar programs: sharing, simplification and tidying.
//
// Problem: a formula run on recording values gives every primitive it performs; interpreter,
//   derivatives and code generators want few of them.
// Model: a list of instructions over value ids, each the same pure function of earlier values.
// Method: `emit` first looks for a simpler value (folded constant, algebraic rule), then for the
//   same instruction made before, and appends only what is new. A rule is used only when it holds
//   for all values: NaN, infinities, -0 and wrapping integers included, so `x + 0` stays for floats
//   (it turns -0 into 0) while `x - 0`, `x * 1`, `x + (-y)` go. Derivative programs have two rules
//   more. `finish` keeps what the outputs reach.
// Cost: O(1) for an instruction; a program of a hundred takes about 10 us, once for each row.
#include "core/scalar/scalar_program.h"

#include "core/error.h"
#include "core/scalar/formula.h"
#include "core/scalar/scalar_constant.h"

#include <utility>

namespace tenon {
namespace {

constexpr uint16_t bool_type = dtype_number(Dtype::bool_);

// Not min and max, which give the first of two zeros.
bool is_commutative(ScalarCode code) {
  switch (code) {
    case ScalarCode::add:
    case ScalarCode::mul:
    case ScalarCode::band:
    case ScalarCode::bor:
    case ScalarCode::bxor:
    case ScalarCode::eq:
    case ScalarCode::ne:
      return true;
    default:
      return false;
  }
}

uint16_t literal_kind(ScalarLiteral value) {
  return dtype_number(value.is_float ? Dtype::f64 : Dtype::i64);
}

uint16_t value_type(const ScalarInstr& instr) {
  return instr.op() == ScalarCode::constant ? compute_type : instr.dtype;
}

std::string type_text(uint16_t dtype) {
  return dtype == compute_type ? "" : std::string(name_of(static_cast<Dtype>(dtype))) + " ";
}

std::string instr_text(const ScalarInstr& instr) {
  if (instr.op() == ScalarCode::constant) {
    uint64_t bits = instr.a | (static_cast<uint64_t>(instr.b) << 32);
    bool is_float = instr.dtype == dtype_number(Dtype::f64);
    return is_float ? message("const {}", std::bit_cast<double>(bits))
                    : message("const {}", static_cast<int64_t>(bits));
  }
  std::string text = info_of(instr.op()).name;
  text += " " + type_text(instr.op() == ScalarCode::cast ? instr.dtype : compute_type);
  const uint32_t operands[] = {instr.a, instr.b, instr.c};
  for (int i = 0; i < info_of(instr.op()).operands; ++i)
    text += message("{}%{}", i == 0 ? "" : ", ", operands[i]);
  return text;
}

}  // namespace

uint16_t ScalarProgram::dtype_of(uint32_t value) const {
  return value < n_inputs ? input_dtypes[value] : value_type(instr[value - n_inputs]);
}

Dtype ScalarProgram::result_dtype(size_t i, Dtype compute) const {
  uint16_t dtype = dtype_of(outputs[i]);
  return dtype == compute_type ? compute : static_cast<Dtype>(dtype);
}

std::string to_text(const ScalarProgram& program) {
  std::string text = "inputs";
  for (uint32_t i = 0; i < program.n_inputs; ++i)
    text += message(" {}%{}", type_text(program.input_dtypes[i]), i);
  text += "\n";
  for (size_t i = 0; i < program.instr.size(); ++i)
    text += message("%{} = {}\n", program.n_inputs + i, instr_text(program.instr[i]));
  text += "outputs";
  for (uint32_t value : program.outputs) text += message(" %{}", value);
  return text + "\n";
}

void check_program(const ScalarProgram& program) {
  require(program.input_dtypes.size() == program.n_inputs,
          "scalar program: expected one dtype for each of {} inputs, found {}", program.n_inputs,
          program.input_dtypes.size());
  for (size_t k = 0; k < program.instr.size(); ++k) {
    const ScalarInstr& instr = program.instr[k];
    require(instr.code < n_scalar_codes,
            "scalar program: instruction {} has code {}, but {} codes are known; was it made for a "
            "newer version?",
            k, instr.code, n_scalar_codes);
    require(instr.dtype == compute_type || is_dtype(instr.dtype),
            "scalar program: instruction {} has dtype {}, expected a dtype's number or 65535", k,
            instr.dtype);
    const uint32_t operands[] = {instr.a, instr.b, instr.c};
    for (int i = 0; i < info_of(instr.op()).operands; ++i)
      require(operands[i] < program.n_inputs + k,
              "scalar program: operand {} of instruction {} is value {}, expected one made before",
              i, k, operands[i]);
  }
  for (uint32_t value : program.outputs)
    require(value < program.n_inputs + program.instr.size(),
            "scalar program: output is value {}, but there are {} values", value,
            program.n_inputs + program.instr.size());
}

size_t Recorder::Hash::operator()(const ScalarInstr& i) const {
  uint64_t h = i.code | (static_cast<uint64_t>(i.dtype) << 16) | (static_cast<uint64_t>(i.a) << 32);
  h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u + (i.b | (static_cast<uint64_t>(i.c) << 32));
  return (h ^ (h >> 32)) * 0x94d049bb133111ebu;
}

uint32_t Recorder::input(uint16_t dtype) {
  ensure(instr_.empty(), "inputs of a scalar program come before its instructions");
  input_dtypes_.push_back(dtype);
  return static_cast<uint32_t>(input_dtypes_.size() - 1);
}

uint32_t Recorder::append(ScalarInstr instr) {
  auto id = static_cast<uint32_t>(input_dtypes_.size() + instr_.size());
  auto [place, is_new] = known_.try_emplace(instr, id);
  if (is_new) instr_.push_back(instr);
  return place->second;
}

uint32_t Recorder::literal(ScalarLiteral value, uint16_t dtype) {
  uint32_t id =
      append({static_cast<uint16_t>(ScalarCode::constant), literal_kind(value),
              static_cast<uint32_t>(value.bits), static_cast<uint32_t>(value.bits >> 32), 0});
  return dtype == compute_type ? id : cast(id, dtype);
}

uint32_t Recorder::cast(uint32_t a, uint16_t dtype) {
  if (dtype_of(a) == dtype) return a;
  if (options_.compute != nullptr && dtype_of(a) == compute_type &&
      dtype == dtype_number(*options_.compute))
    return a;
  return append({static_cast<uint16_t>(ScalarCode::cast), dtype, a, 0, 0});
}

uint16_t Recorder::dtype_of(uint32_t value) const {
  if (value < input_dtypes_.size()) return input_dtypes_[value];
  return value_type(instr_[value - input_dtypes_.size()]);
}

const ScalarInstr* Recorder::instr_of(uint32_t value, ScalarCode code) const {
  if (value < input_dtypes_.size()) return nullptr;
  const ScalarInstr& instr = instr_[value - input_dtypes_.size()];
  return instr.op() == code ? &instr : nullptr;
}

bool Recorder::constant(uint32_t value, ScalarLiteral& out) const {
  const ScalarInstr* instr = instr_of(value, ScalarCode::constant);
  if (instr == nullptr) return false;
  out = {instr->a | (static_cast<uint64_t>(instr->b) << 32),
         instr->dtype == dtype_number(Dtype::f64)};
  return true;
}

// Compares bits of doubles, so 0 does not match -0.
bool Recorder::is_literal(uint32_t value, double number) const {
  ScalarLiteral found;
  return constant(value, found) &&
         std::bit_cast<uint64_t>(found.as_double()) == std::bit_cast<uint64_t>(number);
}

bool Recorder::computes_integers() const {
  return options_.compute != nullptr && is_integral(*options_.compute);
}

uint32_t Recorder::emit(ScalarCode code, uint32_t a, uint32_t b, uint32_t c) {
  int operands = info_of(code).operands;
  if (is_rounding(code) && computes_integers() && dtype_of(a) == compute_type) return a;
  uint32_t known = fold(code, {a, b, c});
  if (known != no_value) return known;
  known = simplify(code, a, b, c);
  if (known != no_value) return known;
  if (operands == 2 && is_commutative(code) && b < a) std::swap(a, b);
  uint16_t dtype = is_comparison(code) ? bool_type : dtype_of(code == ScalarCode::select ? b : a);
  return append(
      {static_cast<uint16_t>(code), dtype, a, operands > 1 ? b : 0, operands > 2 ? c : 0});
}

// Constants are folded once the type is known, by the very kernels that would compute them.
uint32_t Recorder::fold(ScalarCode code, const std::array<uint32_t, 3>& operands) {
  if (options_.compute == nullptr || code == ScalarCode::select || is_comparison(code) ||
      !has_kernel(code, *options_.compute))
    return no_value;
  ScalarLiteral values[3];
  for (int i = 0; i < info_of(code).operands; ++i)
    if (!constant(operands[static_cast<size_t>(i)], values[i])) return no_value;
  return literal(fold_constant(code, *options_.compute, values));
}

uint32_t Recorder::simplify(ScalarCode code, uint32_t a, uint32_t b, uint32_t c) {
  switch (code) {
    case ScalarCode::neg:
    case ScalarCode::bnot: {
      const ScalarInstr* same = instr_of(a, code);
      return same != nullptr ? same->a : no_value;
    }
    case ScalarCode::add:
    case ScalarCode::sub:
      return simplify_sum(code, a, b);
    case ScalarCode::mul:
    case ScalarCode::div:
      return simplify_product(code, a, b);
    case ScalarCode::min:
    case ScalarCode::max:
    case ScalarCode::band:
    case ScalarCode::bor:
      return a == b ? a : no_value;
    case ScalarCode::pow:
      return simplify_pow(a, b);
    case ScalarCode::select:
      return simplify_select(a, b, c);
    default:
      return no_value;
  }
}

uint32_t Recorder::simplify_sum(ScalarCode code, uint32_t a, uint32_t b) {
  bool is_sub = code == ScalarCode::sub;
  if (const ScalarInstr* negated = instr_of(b, ScalarCode::neg))
    return emit(is_sub ? ScalarCode::add : ScalarCode::sub, a, negated->a);
  if (const ScalarInstr* negated = is_sub ? nullptr : instr_of(a, ScalarCode::neg))
    return emit(ScalarCode::sub, b, negated->a);
  if (is_literal(b, 0.0) && (is_sub || computes_integers() || options_.derivative)) return a;
  if (is_literal(a, 0.0) && !is_sub && (computes_integers() || options_.derivative)) return b;
  return no_value;
}

uint32_t Recorder::simplify_product(ScalarCode code, uint32_t a, uint32_t b) {
  bool is_mul = code == ScalarCode::mul;
  if (is_literal(b, 1.0)) return a;
  if (is_mul && is_literal(a, 1.0)) return b;
  if (is_mul && is_literal(b, -1.0)) return emit(ScalarCode::neg, a);
  if (is_mul && is_literal(a, -1.0)) return emit(ScalarCode::neg, b);
  if (const ScalarInstr* negated = instr_of(a, ScalarCode::neg))
    return emit(ScalarCode::neg, emit(code, negated->a, b));
  if (const ScalarInstr* negated = instr_of(b, ScalarCode::neg))
    return emit(ScalarCode::neg, emit(code, a, negated->a));
  if (!options_.derivative) return no_value;
  if (uint32_t sunk = sink_select(code, a, b); sunk != no_value) return sunk;
  if (!is_mul) return no_value;
  if (uint32_t sunk = sink_select(code, b, a); sunk != no_value) return sunk;
  uint32_t merged = simplify_factor(a, b);
  return merged != no_value ? merged : simplify_factor(b, a);
}

// (x * c1) * c2 = x * (c1 c2): one rounding less, so only where the last bit is not promised.
uint32_t Recorder::simplify_factor(uint32_t a, uint32_t b) {
  ScalarLiteral outer, inner;
  const ScalarInstr* product = instr_of(a, ScalarCode::mul);
  if (product == nullptr || !constant(b, outer)) return no_value;
  bool first = constant(product->a, inner);
  if (!first && !constant(product->b, inner)) return no_value;
  uint32_t x = first ? product->b : product->a;
  auto factor = ScalarLiteral::of(outer.as_double() * inner.as_double());
  return emit(ScalarCode::mul, x, literal(factor));
}

// select(m, g, 0) * y = select(m, g * y, 0), and so for the other arm and for quotients.
uint32_t Recorder::sink_select(ScalarCode code, uint32_t a, uint32_t b) {
  const ScalarInstr* found = instr_of(a, ScalarCode::select);
  if (found == nullptr) return no_value;
  ScalarInstr chosen = *found;
  if (is_literal(chosen.c, 0.0))
    return emit(ScalarCode::select, chosen.a, emit(code, chosen.b, b), chosen.c);
  if (is_literal(chosen.b, 0.0))
    return emit(ScalarCode::select, chosen.a, chosen.b, emit(code, chosen.c, b));
  return no_value;
}

uint32_t Recorder::simplify_pow(uint32_t a, uint32_t b) {
  bool floats =
      options_.floats_only || (options_.compute != nullptr && is_floating(*options_.compute));
  ScalarLiteral one = ScalarLiteral::of(int64_t{1});
  if (is_literal(b, 0.0)) return literal(one);  // of NaN and of 0 too
  if (is_literal(b, 1.0)) return a;
  if (is_literal(b, 2.0)) return emit(ScalarCode::mul, a, a);
  if (is_literal(b, 3.0)) return emit(ScalarCode::mul, emit(ScalarCode::mul, a, a), a);
  if (!floats) return no_value;
  if (is_literal(b, 0.5)) return emit(ScalarCode::sqrt, a);
  if (is_literal(b, -0.5)) return emit(ScalarCode::rsqrt, a);
  if (is_literal(b, -1.0)) return emit(ScalarCode::div, literal(one), a);
  if (is_literal(b, -2.0)) return emit(ScalarCode::div, literal(one), emit(ScalarCode::mul, a, a));
  return no_value;
}

uint32_t Recorder::simplify_select(uint32_t mask, uint32_t a, uint32_t b) {
  if (a == b) return a;
  const ScalarInstr* inverted = instr_of(mask, ScalarCode::bnot);
  return inverted != nullptr ? emit(ScalarCode::select, inverted->a, b, a) : no_value;
}

ScalarProgram Recorder::finish(std::span<const uint32_t> outputs) const {
  auto n_inputs = static_cast<uint32_t>(input_dtypes_.size());
  std::vector<uint32_t> renumbered(n_inputs + instr_.size(), no_value);
  for (uint32_t value : outputs) renumbered[value] = 0;  // needed; the number follows below
  for (size_t k = instr_.size(); k-- > 0;) {
    if (renumbered[n_inputs + k] == no_value || instr_[k].op() == ScalarCode::constant) continue;
    const uint32_t operands[] = {instr_[k].a, instr_[k].b, instr_[k].c};
    for (int i = 0; i < info_of(instr_[k].op()).operands; ++i) renumbered[operands[i]] = 0;
  }
  ScalarProgram program{n_inputs, input_dtypes_, {}, {}};
  for (uint32_t i = 0; i < n_inputs; ++i) renumbered[i] = i;
  for (size_t k = 0; k < instr_.size(); ++k) {
    if (renumbered[n_inputs + k] == no_value) continue;
    ScalarInstr instr = instr_[k];
    if (instr.op() != ScalarCode::constant) {
      int operands = info_of(instr.op()).operands;
      instr.a = renumbered[instr.a];
      if (operands > 1) instr.b = renumbered[instr.b];
      if (operands > 2) instr.c = renumbered[instr.c];
    }
    renumbered[n_inputs + k] = n_inputs + static_cast<uint32_t>(program.instr.size());
    program.instr.push_back(instr);
  }
  for (uint32_t value : outputs) program.outputs.push_back(renumbered[value]);
  return program;
}

ScalarProgram record(const formula::PointwiseFormula& formula) {
  Recorder recorder({.floats_only = formula.types == formula::floats});
  std::vector<uint32_t> outputs;
  formula.record(recorder, outputs);
  return recorder.finish(outputs);
}

namespace formula {

// Two plain numbers under a select have the compute type, whatever the mask compared.
Sym SymMask::value_like() const {
  return {*recorder_, recorder_->literal(ScalarLiteral::of(int64_t{0}))};
}

}  // namespace formula
}  // namespace tenon
