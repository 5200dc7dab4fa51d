// SPDX-License-Identifier: Apache-2.0
// Ops of a program's own: written once, used in eager code, in compiled code and by every backend.
//
//     TENON_LIBRARY(my, lib) {
//       lib.op("swiglu(Tensor x, Tensor gate, *, float beta=1.0) -> Tensor")
//           .formula<3>([](auto x, auto gate, auto beta) { return x * gate * sigmoid(beta * gate);
//           });
//       lib.op("row_sums(Tensor x) -> Tensor")
//           .meta([](const Tensor& x) { return tenon::empty({x.size(0)}, x.dtype()); })
//           .kernel([](Tensor& out, const Tensor& x) { ... });
//     }
//     const tenon::Op<Tensor(const Tensor&, const Tensor&, double)> swiglu{"my::swiglu"};
//
// A formula (<tenon/formula.hpp>) is all that an op per element needs: code generators fuse it with
// its neighbours. Other ops have a kernel and a meta function, which says what results look like
// without computing them; or a decomposition, which calls other ops. The vjp is kept for autograd.
#pragma once

#include <tenon/custom_ops.h>
#include <tenon/tensor.h>
#include <tenon/formula.hpp>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

namespace tenon {

namespace detail {

/// An argument of an op whose types are known at run time only.
using OpValue = std::variant<std::monostate, Tensor, std::vector<Tensor>, Number, std::string,
                             std::vector<SymInt>, std::vector<double>, std::vector<bool>, Dtype,
                             Device, MemoryFormat>;
using OpValues = std::span<const OpValue>;

template <class T>
struct OpArgument;  // T as an argument: from(value), to(argument)

template <class T>
concept op_integer = std::same_as<T, int64_t> || std::same_as<T, int>;
template <class T>
concept op_real = std::same_as<T, double> || std::same_as<T, float>;

inline Number number_in(const OpValue& v) {
  const Number* n = std::get_if<Number>(&v);
  return n ? *n : Number();
}
template <class T>
struct OpArgument {  // alternatives of the variant
  static T from(const OpValue& v) {
    const T* found = std::get_if<T>(&v);
    return found ? *found : T();
  }
  static OpValue to(const T& t) { return t; }
};
template <op_integer T>
struct OpArgument<T> {
  static T from(const OpValue& v) { return static_cast<T>(number_in(v).to_int()); }
  static OpValue to(T t) { return Number(static_cast<int64_t>(t)); }
};
template <op_real T>
struct OpArgument<T> {
  static T from(const OpValue& v) { return static_cast<T>(number_in(v).to_double()); }
  static OpValue to(T t) { return Number(static_cast<double>(t)); }
};
template <>
struct OpArgument<bool> {
  static bool from(const OpValue& v) { return number_in(v).to_bool(); }
  static OpValue to(bool b) { return Number(b); }
};
template <>
struct OpArgument<SymInt> {
  static SymInt from(const OpValue& v) { return number_in(v).sym_int(); }
  static OpValue to(SymInt i) { return Number(i); }
};
template <>
struct OpArgument<std::string_view> {
  static std::string_view from(const OpValue& v) {
    const auto* text = std::get_if<std::string>(&v);
    return text ? std::string_view(*text) : std::string_view();
  }
  static OpValue to(std::string_view s) { return std::string(s); }
};
template <>
struct OpArgument<TensorList> {
  static TensorList from(const OpValue& v) {
    const auto* list = std::get_if<std::vector<Tensor>>(&v);
    return list ? TensorList(*list) : TensorList();
  }
  static OpValue to(TensorList l) { return l.vec(); }
};
template <>
struct OpArgument<SymIntList> {
  static SymIntList from(const OpValue& v) {
    const auto* list = std::get_if<std::vector<SymInt>>(&v);
    return list ? SymIntList(*list) : SymIntList();
  }
  static OpValue to(SymIntList l) { return l.vec(); }
};
template <>
struct OpArgument<std::vector<int64_t>> {
  static std::vector<int64_t> from(const OpValue& v) {
    std::vector<int64_t> out;
    for (SymInt i : OpArgument<SymIntList>::from(v)) out.push_back(i.guard_int());
    return out;
  }
  static OpValue to(const std::vector<int64_t>& l) {
    return std::vector<SymInt>(l.begin(), l.end());
  }
};
template <class T>
struct OpArgument<std::optional<T>> {
  static std::optional<T> from(const OpValue& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return OpArgument<T>::from(v);
  }
  static OpValue to(const std::optional<T>& t) { return t ? OpArgument<T>::to(*t) : OpValue(); }
};

/// What a parameter of a function can take.
enum class OpParameter : uint8_t {
  tensor,
  tensors,
  integer,
  real,
  boolean,
  number,
  text,
  integers,
  reals,
  booleans,
  dtype,
  device,
  memory_format
};
template <class T>
constexpr OpParameter op_parameter() {
  if constexpr (std::is_same_v<T, Tensor>)
    return OpParameter::tensor;
  else if constexpr (std::is_same_v<T, std::vector<Tensor>> || std::is_same_v<T, TensorList>)
    return OpParameter::tensors;
  else if constexpr (op_integer<T> || std::is_same_v<T, SymInt>)
    return OpParameter::integer;
  else if constexpr (op_real<T>)
    return OpParameter::real;
  else if constexpr (std::is_same_v<T, bool>)
    return OpParameter::boolean;
  else if constexpr (std::is_same_v<T, Number>)
    return OpParameter::number;
  else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>)
    return OpParameter::text;
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return OpParameter::reals;
  else if constexpr (std::is_same_v<T, std::vector<bool>>)
    return OpParameter::booleans;
  else if constexpr (std::is_same_v<T, Dtype>)
    return OpParameter::dtype;
  else if constexpr (std::is_same_v<T, Device>)
    return OpParameter::device;
  else if constexpr (std::is_same_v<T, MemoryFormat>)
    return OpParameter::memory_format;
  else
    return OpParameter::integers;
}
template <class T>
struct WithoutOptional {
  using Type = T;
};
template <class T>
struct WithoutOptional<std::optional<T>> {
  using Type = T;
};

template <class F>
struct OpFunction : OpFunction<decltype(&F::operator())> {};
template <class C, class R, class... P>
struct OpFunction<R (C::*)(P...) const> : OpFunction<R (*)(P...)> {};
template <class R, class... P>
struct OpFunction<R (*)(P...)> {
  using Result = R;
  using Params = std::tuple<P...>;
  static constexpr size_t n = sizeof...(P);
  /// Leading `Tensor&` parameters: results to be filled.
  static constexpr size_t n_out = (size_t{0} + ... + (std::is_same_v<P, Tensor&> ? 1 : 0));
  /// All others.
  static std::vector<OpParameter> parameters() {
    std::vector<OpParameter> all{
        op_parameter<typename WithoutOptional<std::remove_cvref_t<P>>::Type>()...};
    all.erase(all.begin(), all.begin() + n_out);
    return all;
  }
};

inline std::vector<Tensor> op_results(Tensor t) { return {std::move(t)}; }
inline std::vector<Tensor> op_results(std::vector<Tensor> l) { return l; }
template <class... T>
std::vector<Tensor> op_results(std::tuple<T...> t) {
  return std::apply([](auto&... each) { return std::vector<Tensor>{std::move(each)...}; }, t);
}

using ReturningFn = std::function<std::vector<Tensor>(OpValues)>;
using FillingFn = std::function<void(std::span<Tensor> outs, OpValues)>;
TENON_API void require_arguments(size_t function, size_t call);

template <class F>
ReturningFn returning(F f) {
  using Fn = OpFunction<F>;
  return [f](OpValues args) {
    require_arguments(Fn::n, args.size());
    return [&]<size_t... i>(std::index_sequence<i...>) {
      auto call = [&] {
        return f(
            OpArgument<std::remove_cvref_t<std::tuple_element_t<i, typename Fn::Params>>>::from(
                args[i])...);
      };
      if constexpr (std::is_void_v<typename Fn::Result>) {
        call();
        return std::vector<Tensor>();
      } else {
        return op_results(call());
      }
    }
    (std::make_index_sequence<Fn::n>{});
  };
}

template <class F>
FillingFn filling(F f) {
  using Fn = OpFunction<F>;
  return [f](std::span<Tensor> outs, OpValues args) {
    require_arguments(Fn::n - Fn::n_out, args.size());
    auto pick = [&]<size_t k>(std::integral_constant<size_t, k>) -> decltype(auto) {
      using P = std::tuple_element_t<k, typename Fn::Params>;
      if constexpr (k < Fn::n_out)
        return (outs[k]);
      else
        return OpArgument<std::remove_cvref_t<P>>::from(args[k - Fn::n_out]);
    };
    [&]<size_t... i>(std::index_sequence<i...>) { f(pick(std::integral_constant<size_t, i>{})...); }
    (std::make_index_sequence<Fn::n>{});
  };
}

}  // namespace detail

/// What a derivative may look at. Valid during the call.
class TENON_API VjpCtx {
 public:
  VjpCtx(detail::OpValues values, std::span<const std::string> names,
         std::span<const Tensor> results)
      : values_(values), names_(names), results_(results) {}
  /// A tensor argument; of a list: attr<TensorList>("name").
  Tensor input(size_t i) const { return detail::OpArgument<Tensor>::from(values_[i]); }
  /// The first arguments: auto [x, gate] = c.inputs<2>();
  template <size_t n>
  std::array<Tensor, n> inputs() const {
    std::array<Tensor, n> out;
    for (size_t i = 0; i < n; ++i) out[i] = input(i);
    return out;
  }
  /// An argument by its name in the schema.
  template <class T>
  T attr(std::string_view name) const {
    return detail::OpArgument<T>::from(values_[index_of(name)]);
  }
  const Tensor& result(size_t i = 0) const { return results_[i]; }
  /// One gradient for each tensor argument and for each element of a list, in the order of the
  /// arguments; undefined where there is none.
  template <class... T>
  std::vector<Tensor> grads(T... gradients) const {
    return {std::move(gradients)...};
  }

 private:
  size_t index_of(std::string_view name) const;
  detail::OpValues values_;
  std::span<const std::string> names_;
  std::span<const Tensor> results_;
};

/// One op being described; see the head of this file. Functions take the schema's arguments in
/// order: Tensor, Number, int64_t, SymInt, double, bool, std::string_view, std::string, SymIntList,
/// std::vector<int64_t>, TensorList, Dtype, or std::optional of these. They may be called on any
/// threads at once.
class TENON_API OpBuilder {
 public:
  explicit OpBuilder(std::string schema) : schema_(std::move(schema)) {}

  /// What the op does to each element; n is the number of its arguments, tensors and numbers.
  template <size_t n, class F>
  OpBuilder& formula(F f, uint32_t types = TN_TYPES_FLOAT) {
    formula_ = plugin::formula_of_elements<n>(f);
    formula_types_ = types;
    return *this;
  }
  /// Results have dtype, sizes and strides of this tensor argument.
  OpBuilder& like(uint32_t argument) {
    like_ = argument;
    return *this;
  }
  /// Gives tensors that look like the results, such as empty_like(x); runs without data.
  template <class F>
  OpBuilder& meta(F f) {
    meta_ = detail::returning(f);
    functions_.push_back({"meta function", detail::OpFunction<F>::parameters()});
    return *this;
  }
  /// Computes on the CPU: returns the results, or fills leading `Tensor&` parameters.
  template <class F>
  OpBuilder& kernel(F f) {
    if constexpr (detail::OpFunction<F>::n_out > 0)
      fill_ = detail::filling(f);
    else
      kernel_ = detail::returning(f);
    functions_.push_back({"kernel", detail::OpFunction<F>::parameters()});
    return *this;
  }
  /// Calls other ops; backends that do not know this one see those.
  template <class F>
  OpBuilder& decomposition(F f) {
    decomposition_ = detail::returning(f);
    functions_.push_back({"decomposition", detail::OpFunction<F>::parameters()});
    return *this;
  }
  /// From VjpCtx and the gradients of the results, those of the tensor arguments: one for each
  /// tensor and for each element of a list, in the order of the arguments, undefined where there is
  /// none. Kept for autograd.
  template <class F>
  OpBuilder& vjp(F f) {
    vjp_ = [f](const VjpCtx& c, std::span<const Tensor> grads) {
      return [&]<size_t... i>(std::index_sequence<i...>) { return f(c, grads[i]...); }
      (std::make_index_sequence<detail::OpFunction<F>::n - 1>{});
    };
    return *this;
  }
  /// Facts that the rest does not tell: TN_TAG_RANDOM, TN_TAG_SIDE_EFFECT, ...
  OpBuilder& tags(uint64_t bits) {
    tags_ |= bits;
    return *this;
  }
  OpBuilder& pt2_compliant() {
    pt2_compliant_ = true;
    return *this;
  }

 private:
  friend class Library;
  void add() const;

  std::string schema_;
  uint64_t tags_ = 0;
  bool pt2_compliant_ = false;
  std::optional<plugin::formula_program> formula_;
  uint32_t formula_types_ = TN_TYPES_FLOAT;
  std::optional<uint32_t> like_;
  detail::ReturningFn meta_, kernel_, decomposition_;
  detail::FillingFn fill_;
  std::function<std::vector<Tensor>(const VjpCtx&, std::span<const Tensor>)> vjp_;
  struct Function {
    const char* what;
    std::vector<detail::OpParameter> parameters;
  };
  std::vector<Function> functions_;  // to be held against the schema
};

/// The ops of one namespace, described by a function.
class TENON_API Library {
 public:
  /// Describes and adds ops. Throws UserError for the first that cannot be added; earlier ones
  /// stay. Any thread.
  static void add(std::string_view ns, const std::function<void(Library&)>& describe);

  /// "name.overload(Tensor x, ...) -> Tensor", with or without "ns::" before it. The reference
  /// holds until the describing function returns.
  OpBuilder& op(std::string_view schema);
  OpBuilder& def(std::string_view schema) { return op(schema); }

 private:
  explicit Library(std::string_view ns) : ns_(ns) {}
  std::string ns_;
  std::deque<OpBuilder> ops_;
};

namespace detail {

/// Adds the ops of a TENON_LIBRARY while the program starts. What is wrong with one is said when an
/// op of the namespace is called.
struct TENON_API LibraryInit {
  LibraryInit(const char* ns, void (*describe)(Library&));
};

TENON_API std::vector<Tensor> call_added_op(const char* name, std::atomic<const void*>& found,
                                            std::span<OpValue> args);

/// Throws UserError where a signature asks for more results than the op has given.
TENON_API void require_results(const char* op, size_t signature, size_t given);

template <class R>
R result_of(const char* op, std::vector<Tensor> results) {
  if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    return results;
  } else if constexpr (std::is_same_v<R, Tensor>) {
    return results.empty() ? Tensor() : std::move(results[0]);
  } else if constexpr (!std::is_void_v<R>) {
    require_results(op, std::tuple_size_v<R>, results.size());
    return [&]<size_t... i>(std::index_sequence<i...>) { return R(std::move(results[i])...); }
    (std::make_index_sequence<std::tuple_size_v<R>>{});
  }
}

}  // namespace detail

template <class Signature>
class Op;

/// An op by its name, to be called: also one that a plugin adds, which is loaded at the first call.
/// Arguments that the signature leaves out have their defaults. Throws UserError `unsupported` when
/// there is no such op. Threads: any at once.
template <class R, class... A>
class Op<R(A...)> {
 public:
  constexpr explicit Op(const char* name) : name_(name) {}
  Op(const Op& other) { *this = other; }
  Op& operator=(const Op& other) {
    name_ = other.name_;
    found_.store(other.found_.load(std::memory_order_acquire), std::memory_order_release);
    return *this;
  }
  R operator()(A... args) const {
    std::array<detail::OpValue, sizeof...(A)> values{
        detail::OpArgument<std::remove_cvref_t<A>>::to(args)...};
    return detail::result_of<R>(name_, detail::call_added_op(name_, found_, values));
  }

 private:
  const char* name_;
  mutable std::atomic<const void*> found_{nullptr};
};

}  // namespace tenon

/// TENON_LIBRARY(my, lib) { lib.op("..."); }: ops of namespace `my`, there when main() begins.
#define TENON_LIBRARY(ns, lib) TENON_LIBRARY_AT(ns, lib, __LINE__)
#define TENON_LIBRARY_AT(ns, lib, line) TENON_LIBRARY_NAMED(ns, lib, tenon_library_##ns##_, line)
#define TENON_LIBRARY_NAMED(ns, lib, prefix, line) TENON_LIBRARY_BODY(ns, lib, prefix##line)
#define TENON_LIBRARY_BODY(ns, lib, name)                          \
  static void name(tenon::Library&);                               \
  static const tenon::detail::LibraryInit name##_init(#ns, &name); \
  static void name([[maybe_unused]] tenon::Library& lib)
