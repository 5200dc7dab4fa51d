// The row of an op: schema, meaning, shape, kernel and decomposition in one place.
//
// A row file holds one array of OpDef and the family object that opgen lists:
//
//     static constexpr OpDef rows[] = {{.schema = "relu(Tensor self) -> Tensor", ...}, ...};
//     extern constinit const OpFamily op_family_pointwise_activation{pointwise_activation_rows};
//
// Fields take captureless lambdas whose parameters are the C++ types of the schema's arguments
// (Tensor const Tensor&, SymInt[] SymIntList, int[]? OptIntList, Scalar Number, ...); they are
// adapted to the 16-byte convention at compile time. Named functions are passed as `fn<name>`.
//
//   .formula  meaning per element; broadcast, promotion, meta, eager kernel and in-place form
//   follow .meta     returns TensorMeta (several: std::array<TensorMeta, n>; a list:
//             std::vector<TensorMeta>; a scalar result: Number, SymInt ...; nothing: void). Works
//             over SymInt, sees fakes.
//   .view     returns ViewMeta or std::vector<ViewMeta>: the result shares storage with argument 0
//   .inverse  (self, content, arguments after self...): self with `content` in what the view shows;
//             rows that give a list take the ViewPart after `content`. Or Without{"why"}.
//   .eager    (1) void(Tensor& out, ..., args...): fills results that were made from `.meta`;
//             (2) returns its results; (3) void(args...) for ops that write argument 0 in place
//   .decomp   on tensors, calls other ops. A row without formula, view and eager runs through it.
//   .complex  the op on complex tensors, as ops on their parts (ops/forms/complex_forms.h); without it
//             whatever computes refuses them.
//   .provider the plugin that has the kernel ("kernels_lapack") of a row with neither formula, view
//             nor eager: the host checks the arguments by `.meta` and has no kernel of its own.
//   .sized_by the argument of a data_dependent row that settles the sizes where it is given, neither
//             None nor negative ("num_classes"); without it they depend on data. Of other rows: the
//             list of indices whose masks make them depend on data.
//   .vjp      the gradients of the arguments: see ops/vjp.h. A formula without it is differentiated
//             as a program; a row with a decomposition and no vjp is recorded as its parts.
//   .linear   the result as a sum of products of arguments, where it is linear in each factor:
//             "self * mat2", "self + src"; "0" of ops that give zeros. Or Without{"why"}.
//
// tests/unit/ops/row_facts_test.cpp finds the rows that lack an inverse or a linear form.
#pragma once

#include "core/dispatch.h"
#include "core/scalar/formula.h"

#include <array>
#include <initializer_list>
#include <tuple>

namespace tenon {

namespace detail {

template <class F>
struct CallableTraits : CallableTraits<decltype(&F::operator())> {};
template <class C, class R, class... P>
struct CallableTraits<R (C::*)(P...) const> {
  using Result = R;
  using Params = std::tuple<P...>;
  static constexpr size_t arity = sizeof...(P);
};
template <class R, class... P>
struct CallableTraits<R (*)(P...)> : CallableTraits<R (std::tuple<>::*)(P...) const> {};

template <class P>
inline constexpr bool is_output_param = std::is_same_v<P, Tensor&>;

template <class Params>
constexpr size_t count_outputs() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return (size_t{0} + ... + (is_output_param<std::tuple_element_t<I, Params>> ? 1 : 0));
  }
  (std::make_index_sequence<std::tuple_size_v<Params>>{});
}

// Calls F() with the first n_out parameters from `outs`, the rest from the packed arguments.
template <class F>
decltype(auto) invoke_boxed(const CallArgs& call, Tensor* outs) {
  using Params = typename CallableTraits<F>::Params;
  constexpr size_t n_out = count_outputs<Params>();
  return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    auto pick = [&]<size_t K>(std::integral_constant<size_t, K>) -> decltype(auto) {
      using P = std::tuple_element_t<K, Params>;
      if constexpr (K < n_out)
        return (outs[K]);
      else
        return arg_as<P>(call.args[K - n_out]);
    };
    return F{}(pick(std::integral_constant<size_t, I>{})...);
  }
  (std::make_index_sequence<std::tuple_size_v<Params>>{});
}

inline void put_result(Value& slot, Tensor t) { slot = Value::own(std::move(t)); }
inline void put_result(Value& slot, std::vector<Tensor> l) { slot = Value::own(std::move(l)); }
template <class T>
requires std::is_arithmetic_v<T> || std::is_same_v<T, Number> || std::is_same_v<T, SymInt> ||
    std::is_same_v<T, SymFloat> || std::is_same_v<T, SymBool>
void put_result(Value& slot, T v) { slot = Value::of(Number(v)); }
template <class... T>
void put_results(Value* slots, std::tuple<T...>&& results) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (put_result(slots[I], std::move(std::get<I>(results))), ...);
  }
  (std::index_sequence_for<T...>{});
}
template <class T>
void put_results(Value* slots, T&& result) {
  if constexpr (requires { result.as_tuple(); })
    put_results(slots, std::move(result.as_tuple()));
  else
    put_result(slots[0], std::forward<T>(result));
}

template <class F>
void call_returning(const CallArgs& call) {
  using R = typename CallableTraits<F>::Result;
  if constexpr (std::is_void_v<R>)
    invoke_boxed<F>(call, nullptr);
  else
    put_results(call.results, invoke_boxed<F>(call, nullptr));
}

}  // namespace detail

/// The metadata of a call's results; four lie inline.
class Metas {
 public:
  TensorMeta& add(TensorMeta meta) {
    if (size_ < 4) return first_[size_++] = std::move(meta);
    ++size_;
    return more_.emplace_back(std::move(meta));
  }
  size_t size() const { return size_; }
  TensorMeta& operator[](size_t i) { return i < 4 ? first_[i] : more_[i - 4]; }
  bool is_list = false;  ///< the metas are the parts of one list result

 private:
  TensorMeta first_[4];
  std::vector<TensorMeta> more_;
  size_t size_ = 0;
};

/// Sizes, strides and offset (elements, absolute) over the storage of the viewed tensor.
struct ViewMeta {
  Dims sizes, strides;
  SymInt offset;
};

/// A named function as a row's field: `.eager = fn<cat_kernel>`.
template <auto Function>
struct NamedFn {
  template <class... A>
  decltype(auto) operator()(A&&... a) const {
    return Function(std::forward<A>(a)...);
  }
};
template <auto Function>
inline constexpr NamedFn<Function> fn{};
namespace detail {
template <auto Function>
struct CallableTraits<NamedFn<Function>> : CallableTraits<decltype(Function)> {};
}  // namespace detail

struct MetaFn {
  void (*metas)(const CallArgs&, Metas&) = nullptr;
  BoxedFn scalars = nullptr;  ///< of ops whose result is a number or nothing

  constexpr MetaFn() = default;
  template <class F>
  constexpr MetaFn(F) {  // NOLINT: implicit by design
    using R = typename detail::CallableTraits<F>::Result;
    if constexpr (std::is_same_v<R, TensorMeta>)
      metas = [](const CallArgs& c, Metas& out) { out.add(detail::invoke_boxed<F>(c, nullptr)); };
    else if constexpr (requires(R r) {
                         r.begin();
                         r.size();
                       })
      metas = [](const CallArgs& c, Metas& out) {
        for (TensorMeta& m : detail::invoke_boxed<F>(c, nullptr)) out.add(std::move(m));
        out.is_list = std::is_same_v<R, std::vector<TensorMeta>>;
      };
    else
      scalars = &detail::call_returning<F>;
  }
  explicit operator bool() const { return metas || scalars; }
};

struct EagerFn {
  void (*fills)(const CallArgs&, Tensor* outs) = nullptr;
  BoxedFn returns = nullptr;

  constexpr EagerFn() = default;
  template <class F>
  constexpr EagerFn(F) {  // NOLINT
    if constexpr (detail::count_outputs<typename detail::CallableTraits<F>::Params>() > 0)
      fills = [](const CallArgs& c, Tensor* outs) { detail::invoke_boxed<F>(c, outs); };
    else
      returns = &detail::call_returning<F>;
  }
  explicit operator bool() const { return fills || returns; }
};

struct ViewFn {
  void (*views)(const CallArgs&, std::vector<ViewMeta>& list) = nullptr;
  ViewMeta (*view)(const CallArgs&) = nullptr;

  constexpr ViewFn() = default;
  template <class F>
  constexpr ViewFn(F) {  // NOLINT
    if constexpr (std::is_same_v<typename detail::CallableTraits<F>::Result, ViewMeta>)
      view = [](const CallArgs& c) { return detail::invoke_boxed<F>(c, nullptr); };
    else
      views = [](const CallArgs& c, std::vector<ViewMeta>& l) {
        l = detail::invoke_boxed<F>(c, nullptr);
      };
  }
  explicit operator bool() const { return views || view; }
};

/// Why a row leaves out what rows like it have.
struct Without {
  const char* reason;
};

/// Which view of a list is meant.
enum class ViewPart : uint32_t {};

namespace detail {
template <class Params>
consteval bool takes_view_part() {
  if constexpr (std::tuple_size_v < Params >> 2)
    return std::is_same_v<std::tuple_element_t<2, Params>, ViewPart>;
  return false;
}

// Calls F(self, content[, part], arguments...) with `args` as the arguments after self.
template <class F>
Tensor invoke_inverse(const Tensor& self, const Tensor& content, [[maybe_unused]] ViewPart part,
                      [[maybe_unused]] const Value* args) {
  using Params = typename CallableTraits<F>::Params;
  constexpr bool has_part = takes_view_part<Params>();
  constexpr size_t first = has_part ? 3 : 2;
  return [&]<size_t... I>(std::index_sequence<I...>) {
    if constexpr (has_part)
      return F{}(self, content, part, arg_as<std::tuple_element_t<first + I, Params>>(args[I])...);
    else
      return F{}(self, content, arg_as<std::tuple_element_t<first + I, Params>>(args[I])...);
  }
  (std::make_index_sequence<std::tuple_size_v<Params> - first>{});
}
}  // namespace detail

struct InverseFn {
  /// `args`: the arguments after self.
  Tensor (*call)(const Tensor& self, const Tensor& content, ViewPart part,
                 const Value* args) = nullptr;
  const char* reason = nullptr;  ///< why there is none
  constexpr InverseFn() = default;
  constexpr InverseFn(Without why) : reason(why.reason) {}  // NOLINT
  template <class F>
  constexpr InverseFn(F) : call(&detail::invoke_inverse<F>) {}  // NOLINT
};

/// The inverse of ops that show their whole argument, as it is.
inline constexpr auto whole_content = [](const Tensor&, const Tensor& content) { return content; };

struct LinearForm {
  const char* text = nullptr;
  const char* reason = nullptr;  ///< why there is none
  constexpr LinearForm() = default;
  constexpr LinearForm(const char* form) : text(form) {}     // NOLINT
  constexpr LinearForm(Without why) : reason(why.reason) {}  // NOLINT
};

struct DecompFn {
  BoxedFn call = nullptr;
  constexpr DecompFn() = default;
  template <class F>
  constexpr DecompFn(F) : call(&detail::call_returning<F>) {}  // NOLINT
  explicit operator bool() const { return call; }
};

/// A row whose decomposition serves complex tensors as well.
struct AsDecomposed {};
inline constexpr AsDecomposed as_decomposed{};

struct ComplexFn {
  BoxedFn call = nullptr;
  bool decomposes = false;
  constexpr ComplexFn() = default;
  constexpr ComplexFn(AsDecomposed) : decomposes(true) {}  // NOLINT
  template <class F>
  constexpr ComplexFn(F) : call(&detail::call_returning<F>) {}  // NOLINT
  explicit operator bool() const { return call || decomposes; }
};

/// One rule for the gradients of some arguments of an op.
///
/// `wrt` names the arguments, separated by commas; `fn` returns one tensor for each (several: a
/// tuple; of a list of tensors: a vector). `uses` names what the parameters of `fn` are, in order,
/// and so what the tape keeps:
///
///     grad, grad1     the gradient of result 0, 1; zeros where nothing reached it
///     grad1?          the same, undefined where nothing reached it
///     grads           those of all results (of the one list), zeros where nothing reached them
///     self, dim, ...  an argument; `self.sizes` its sizes (SymIntList), `self.meta` a fake like
///                     it, `tensors.meta` a list of fakes
///     result, result1 a result; `result.meta` a fake like it
///     x unless flag   argument x, undefined where the argument `flag` is true
///     needs           which of `wrt` are asked for (BoolList)
///
/// A gradient may have the broadcast shape and another floating dtype: the tape sums and casts it.
/// It is a function of ops, so that it can be traced and differentiated again; it must not write
/// its parameters.
struct VjpRule {
  const char* wrt;
  const char* uses;
  DecompFn fn;
};

/// How an op is differentiated.
struct Vjp {
  static constexpr size_t max_rules = 5;
  enum class Kind : uint8_t { automatic, rules, none };

  VjpRule rules[max_rules] = {};
  uint8_t n_rules = 0;
  Kind kind = Kind::automatic;

  constexpr Vjp() = default;
  constexpr explicit Vjp(Kind k) : kind(k) {}
  constexpr Vjp(std::initializer_list<VjpRule> list) : kind(Kind::rules) {
    for (const VjpRule& rule : list) rules[n_rules++] = rule;
  }
};
/// Results never have a gradient: indices, comparisons, counts.
inline constexpr Vjp nondiff{Vjp::Kind::none};

/// Forms that the table derives from a functional row.
enum class Variants : uint8_t { none = 0, in_place = 1 };
inline constexpr Variants in_place = Variants::in_place;

/// Facts that no other field tells. The low 24 bits are those of TN_TAG_* in tenon/plugin.h;
/// plugins do not see the others.
enum class OpTags : uint32_t {
  none = 0,
  reduction = 2,
  random = 16,
  data_dependent = 32,
  matmul = 128,
  convolution = 256,
  side_effect = 512,
  creation = 2048,
  nondeterministic = 4096,
  maybe_alias = 8192,
  commutative = 1u << 24,  ///< arguments 0 and 1 may change places
  copy = 1u << 25,         ///< argument 0 in memory of its own, maybe converted
  relayout = 1u << 26,     ///< argument 0 itself where it is laid out as asked for
  by_place = 1u << 27,     ///< a view of the storage, whatever the strides of argument 0 are
  recurrent = 1u << 28,    ///< the layers that flag dynamo.allow_rnn keeps out of graphs
  /// Training writes running_mean and running_var, which not every schema says.
  updates_statistics = 1u << 29,
  any_device = 1u << 30,  ///< the row's functions serve tensors of every device
  compares_target = 1u << 31,  ///< a loss that only compares `target`, which gets no gradient
};
constexpr OpTags operator|(OpTags a, OpTags b) {
  return static_cast<OpTags>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool operator&(OpTags a, OpTags b) {
  return (static_cast<uint32_t>(a) & static_cast<uint32_t>(b)) != 0;
}

/// The compute type of a formula: the promoted type of the inputs, f32 for it where it is not
/// floating, or what the formula's types say (to_float for `floats`).
enum class Promote : uint8_t { automatic, same, to_float };

/// What an op does under autocast: computes in the lower type, in f32, or in the widest type of its
/// arguments; `none`: in the types that it is given.
enum class Autocast : uint8_t { none, lower, fp32, promote };

struct CustomOp;  // ops/custom_op.h

struct OpDef {
  const char* schema = nullptr;
  Variants variants = Variants::none;
  Promote promote = Promote::automatic;
  OpTags tags = OpTags::none;
  bool core = false;  ///< stays in the core_aten decomposition set
  Formula formula{};
  MetaFn meta{};
  ViewFn view{};
  InverseFn inverse{};
  EagerFn eager{};
  DecompFn decomp{};
  ComplexFn complex{};
  const char* provider = nullptr;
  const char* sized_by = nullptr;
  Vjp vjp{};
  LinearForm linear{};
  Autocast autocast = Autocast::none;
  const CustomOp* custom = nullptr;  ///< of added ops: what they were made of
};

struct OpFamily {
  const OpDef* rows;
  size_t size;
  template <size_t N>
  constexpr OpFamily(const OpDef (&r)[N]) : rows(r), size(N) {}  // NOLINT
};

/// Result like argument 0 (a tensor): same dtype, sizes and dense strides in the same order.
TensorMeta like(const Tensor& self);

}  // namespace tenon
