// Scalar programs: what a formula means as data, for interpreter, derivatives and code generators.
//
// Values 0..n_inputs-1 are the inputs (number arguments count), instruction k defines value
// n_inputs + k. Programs are recorded once by running the formula on Sym values.
#pragma once

#include <tenon/dtype.h>

#include "core/scalar/scalar.h"

#include <array>
#include <bit>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

/// Dtype number of a value that has the compute type.
inline constexpr uint16_t compute_type = 0xFFFF;

constexpr uint16_t dtype_number(Dtype dtype) {
  return static_cast<uint16_t>(static_cast<int8_t>(dtype));
}

/// One primitive; the layout is frozen. `dtype` is the type of the result: compute_type, bool for
/// comparisons and masks, the target of a cast. A constant has i64 or f64 there for the kind of its
/// 64 bits in a (low) and b (high); its value has the compute type.
struct ScalarInstr {
  uint16_t code = 0;
  uint16_t dtype = compute_type;
  uint32_t a = 0, b = 0, c = 0;
  friend bool operator==(const ScalarInstr&, const ScalarInstr&) = default;
  ScalarCode op() const { return static_cast<ScalarCode>(code); }
};
static_assert(sizeof(ScalarInstr) == 16);

/// A number as formulas and programs hold it: 64 bits, integer or double.
struct ScalarLiteral {
  uint64_t bits = 0;
  bool is_float = false;
  static constexpr ScalarLiteral of(int64_t v) { return {static_cast<uint64_t>(v), false}; }
  static constexpr ScalarLiteral of(double v) { return {std::bit_cast<uint64_t>(v), true}; }
  constexpr double as_double() const {
    return is_float ? std::bit_cast<double>(bits) : static_cast<double>(static_cast<int64_t>(bits));
  }
};

struct ScalarProgram {
  uint32_t n_inputs = 0;
  std::vector<uint16_t> input_dtypes;  ///< compute_type, or bool's number for a mask input
  std::vector<ScalarInstr> instr;
  std::vector<uint32_t> outputs;  ///< value ids

  /// The type of a value, compute_type where it is the compute type.
  uint16_t dtype_of(uint32_t value) const;
  /// The type of result `i` when computing in `compute`.
  Dtype result_dtype(size_t i, Dtype compute) const;
  friend bool operator==(const ScalarProgram&, const ScalarProgram&) = default;
};

/// One instruction a line: "%2 = mul %0 %1".
std::string to_text(const ScalarProgram& program);

/// Throws UserError unless ids, codes and types are in order; for programs that come from plugins.
void check_program(const ScalarProgram& program);

struct RecordOptions {
  /// A derivative: zero arms of selects sink through products, which removes inf times 0 of the arm
  /// not taken, and constant factors are merged.
  bool derivative = false;
  /// The formula serves floating types only, so powers may become roots and quotients.
  bool floats_only = false;
  /// Set when binding: constants are folded in this type and `x + 0` of integers goes.
  const Dtype* compute = nullptr;
};

/// Builds a program: equal instructions are made once, operands of commutative primitives are
/// ordered, and only rules that hold for every value, NaN, inf and -0 included, simplify.
class Recorder {
 public:
  explicit Recorder(RecordOptions options = {}) : options_(options) {}

  /// All inputs come before the first instruction.
  uint32_t input(uint16_t dtype = compute_type);
  uint32_t literal(ScalarLiteral value, uint16_t dtype = compute_type);
  uint32_t emit(ScalarCode code, uint32_t a, uint32_t b = 0, uint32_t c = 0);
  uint32_t cast(uint32_t a, uint16_t dtype);

  uint16_t dtype_of(uint32_t value) const;
  /// The constant's value; false when `value` is not one of the compute type.
  bool constant(uint32_t value, ScalarLiteral& out) const;

  /// The instructions that `outputs` need, renumbered.
  ScalarProgram finish(std::span<const uint32_t> outputs) const;

 private:
  struct Hash {
    size_t operator()(const ScalarInstr& i) const;
  };
  uint32_t append(ScalarInstr instr);
  const ScalarInstr* instr_of(uint32_t value, ScalarCode code) const;
  bool is_literal(uint32_t value, double number) const;
  bool computes_integers() const;
  // Each returns the simpler value or no_value.
  uint32_t fold(ScalarCode code, const std::array<uint32_t, 3>& operands);
  uint32_t simplify(ScalarCode code, uint32_t a, uint32_t b, uint32_t c);
  uint32_t simplify_sum(ScalarCode code, uint32_t a, uint32_t b);
  uint32_t simplify_product(ScalarCode code, uint32_t a, uint32_t b);
  uint32_t simplify_factor(uint32_t a, uint32_t b);
  uint32_t sink_select(ScalarCode code, uint32_t a, uint32_t b);
  uint32_t simplify_pow(uint32_t a, uint32_t b);
  uint32_t simplify_select(uint32_t mask, uint32_t a, uint32_t b);

  static constexpr uint32_t no_value = 0xFFFFFFFF;
  RecordOptions options_;
  std::vector<uint16_t> input_dtypes_;
  std::vector<ScalarInstr> instr_;
  std::unordered_map<ScalarInstr, uint32_t, Hash> known_;
};

namespace formula {

class SymMask;

/// A value of a program being recorded.
class Sym {
 public:
  using FormulaValue = void;
  using mask_type = SymMask;
  static constexpr bool is_integral = false;  // the numeric kinds are checked by Lane

  Sym(Recorder& recorder, uint32_t id) : recorder_(&recorder), id_(id) {}
  uint32_t id() const { return id_; }
  Recorder& recorder() const { return *recorder_; }

  template <class L>
  Sym literal(L value) const {
    using Wide = std::conditional_t<std::is_integral_v<L>, int64_t, double>;
    auto number = ScalarLiteral::of(static_cast<Wide>(value));
    return {*recorder_, recorder_->literal(number, recorder_->dtype_of(id_))};
  }
  template <ScalarCode code, class... A>
  static auto apply(Sym first, A... rest);
  template <class T>
  auto cast_to() const;

 private:
  Recorder* recorder_;
  uint32_t id_;
};

class SymMask {
 public:
  using FormulaMask = void;
  using value_type = Sym;

  SymMask(Recorder& recorder, uint32_t id) : recorder_(&recorder), id_(id) {}
  uint32_t id() const { return id_; }
  Sym value_like() const;
  static Sym choose(SymMask mask, Sym a, Sym b) {
    return {*mask.recorder_, mask.recorder_->emit(ScalarCode::select, mask.id_, a.id(), b.id())};
  }
  template <ScalarCode code, class... A>
  static SymMask apply(SymMask first, A... rest) {
    return {*first.recorder_, first.recorder_->emit(code, first.id_, rest.id()...)};
  }
  template <class B>
  requires std::is_same_v<B, bool>
  explicit operator B() const {
    static_assert(!std::is_same_v<B, bool>, "formula: use select(c, a, b) instead of ?: and if");
    return false;
  }

 private:
  Recorder* recorder_;
  uint32_t id_;
};

template <ScalarCode code, class... A>
auto Sym::apply(Sym first, A... rest) {
  uint32_t id = first.recorder_->emit(code, first.id_, rest.id()...);
  if constexpr (is_comparison(code))
    return SymMask(*first.recorder_, id);
  else
    return Sym(*first.recorder_, id);
}

template <class T>
struct DtypeOf;
template <Dtype dtype>
struct DtypeConstant {
  static constexpr Dtype value = dtype;
};
template <>
struct DtypeOf<uint8_t> : DtypeConstant<Dtype::u8> {};
template <>
struct DtypeOf<int8_t> : DtypeConstant<Dtype::i8> {};
template <>
struct DtypeOf<int16_t> : DtypeConstant<Dtype::i16> {};
template <>
struct DtypeOf<int32_t> : DtypeConstant<Dtype::i32> {};
template <>
struct DtypeOf<int64_t> : DtypeConstant<Dtype::i64> {};
template <>
struct DtypeOf<float> : DtypeConstant<Dtype::f32> {};
template <>
struct DtypeOf<double> : DtypeConstant<Dtype::f64> {};
template <>
struct DtypeOf<bool> : DtypeConstant<Dtype::bool_> {};

template <class T>
auto Sym::cast_to() const {
  uint32_t id = recorder_->cast(id_, dtype_number(DtypeOf<T>::value));
  if constexpr (std::is_same_v<T, bool>)
    return SymMask(*recorder_, id);
  else
    return Sym(*recorder_, id);
}

}  // namespace formula
}  // namespace tenon
