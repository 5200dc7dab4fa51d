// Formulas as data of op rows: `pointwise<floats>([](auto x) { ... })` and choices among several.
#pragma once

#include "core/scalar/scalar_program.h"

#include <initializer_list>
#include <string_view>

#ifdef TENON_CHECK_FORMULAS
#include "core/scalar/lane.h"
#endif

namespace tenon {

namespace formula {

/// The compute types that a formula serves, as a set.
enum Types : uint8_t { floats = 1, numbers = 3, integers = 6, all = 7 };

inline constexpr int max_inputs = 12;

// `record`: runs the formula on inputs that it makes in `recorder`, in the order of its parameters.
struct PointwiseFormula {
  using RecordFn = void (*)(Recorder& recorder, std::vector<uint32_t>& outputs);
  RecordFn record = nullptr;
  Types types = floats;
  uint8_t n_inputs = 0;
  uint16_t mask_inputs = 0;  ///< bit i: input i is a bool, whatever the compute type

  constexpr explicit operator bool() const { return record != nullptr; }
};

namespace detail {

template <class F, class V, class M, unsigned masks, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F, std::conditional_t<((masks >> I) & 1) != 0, M, V>...>;
}

// The number of parameters of a generic lambda: the count with which it can be called.
template <class F, unsigned masks, size_t n = 0>
constexpr size_t arity() {
  static_assert(n <= max_inputs, "formula: parameters must be `auto`, at most 12");
  if constexpr (n > max_inputs)
    return 0;
  else if constexpr (takes<F, Sym, SymMask, masks>(std::make_index_sequence<n>{}))
    return n;
  else
    return arity<F, masks, n + 1>();
}

template <class R>
void add_outputs(const R& result, std::vector<uint32_t>& out) {
  out.push_back(result.id());
}
template <class... V>
void add_outputs(const Outputs<V...>& results, std::vector<uint32_t>& out) {
  std::apply([&](const auto&... r) { (add_outputs(r, out), ...); }, results.values);
}

template <class F, unsigned masks>
void record(Recorder& recorder, std::vector<uint32_t>& outputs) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto input = [&]<size_t i>(std::integral_constant<size_t, i>) {
      if constexpr (((masks >> i) & 1) != 0)
        return SymMask(recorder, recorder.input(dtype_number(Dtype::bool_)));
      else
        return Sym(recorder, recorder.input());
    };
    // Braces fix the order in which inputs are made.
    std::tuple inputs{input(std::integral_constant<size_t, I>{})...};
    add_outputs(F{}(std::get<I>(inputs)...), outputs);
  }
  (std::make_index_sequence<arity<F, masks>()>{});
}

}  // namespace detail

/// A pointwise meaning for the compute types in `types`; `mask_inputs` has a bit for each parameter
/// that is a mask (the condition of `where`: `pointwise<all, 1>`).
template <Types types = floats, unsigned mask_inputs = 0, class F>
consteval PointwiseFormula pointwise(F) {
  static_assert(std::is_empty_v<F>, "formula: the lambda must not capture");
#ifdef TENON_CHECK_FORMULAS
  check_lanes<F, types, mask_inputs>(std::make_index_sequence<detail::arity<F, mask_inputs>()>{});
#endif
  return {&detail::record<F, mask_inputs>, types,
          static_cast<uint8_t>(detail::arity<F, mask_inputs>()), mask_inputs};
}

}  // namespace formula

/// The formula of a row: one, or several of which an argument of the call chooses.
struct Formula {
  enum class Choice : uint8_t { single, by_value, by_presence };
  struct Entry {
    std::string_view value;  ///< by_value: text of the argument, "none" for an absent one
    unsigned present = 0;    ///< by_presence: bit i for the i-th optional argument of the schema
    formula::PointwiseFormula formula{};
  };
  static constexpr size_t max_entries = 4;

  std::string_view argument;  ///< by_value: name of the str argument
  Entry entries[max_entries]{};
  uint8_t n_entries = 0;
  Choice choice = Choice::single;

  constexpr Formula() = default;
  constexpr Formula(formula::PointwiseFormula f) : n_entries(1) {  // NOLINT: implicit by design
    entries[0].formula = f;
  }
  constexpr explicit operator bool() const { return n_entries != 0; }

  /// Index of the entry for a value or presence pattern; -1 when the row has none.
  constexpr int find(std::string_view value) const {
    for (int i = 0; i < n_entries; ++i)
      if (entries[i].value == value) return i;
    return -1;
  }
  constexpr int find_present(unsigned present) const {
    for (int i = 0; i < n_entries; ++i)
      if (entries[i].present == present) return i;
    return -1;
  }
};

namespace formula {

struct ByValue {
  std::string_view value;
  PointwiseFormula formula;
};
/// `by_arg("approximate", {{"none", pointwise(...)}, {"tanh", pointwise(...)}})`
consteval Formula by_arg(std::string_view argument, std::initializer_list<ByValue> choices) {
  Formula f;
  f.argument = argument;
  f.choice = Formula::Choice::by_value;
  for (const ByValue& c : choices) f.entries[f.n_entries++] = {c.value, 0, c.formula};
  return f;
}

struct ByPresence {
  unsigned present;
  PointwiseFormula formula;
};
/// One formula for each set of optional arguments that is there; its parameters are the required
/// ones and the present ones in schema order: `by_presence({{1, lo}, {2, hi}, {3, both}})`.
consteval Formula by_presence(std::initializer_list<ByPresence> choices) {
  Formula f;
  f.choice = Formula::Choice::by_presence;
  for (const ByPresence& c : choices) f.entries[f.n_entries++] = {{}, c.present, c.formula};
  return f;
}

}  // namespace formula

/// Runs the formula on recording values and tidies the program.
ScalarProgram record(const formula::PointwiseFormula& formula);

namespace ops {
// Named one by one: a using-directive would clash with the ops `all` and `sum` of namespace tenon.
using formula::all;
using formula::by_arg;
using formula::by_presence;
using formula::floats;
using formula::integers;
using formula::numbers;
using formula::outputs;
using formula::pointwise;
}  // namespace ops

}  // namespace tenon
