// SPDX-License-Identifier: Apache-2.0
// Code written for buffers, as functions of tensors: array_view and wrap_buffers.
//
//     auto energy = tenon::wrap_buffers([](tenon::array_view<const double, 1> x) { return sum(x * x); });
//     tenon::Tensor e = energy(tenon::arange(6).to(tenon::Dtype::f64));   // zero-copy
//     auto fast = tenon::compile(energy);                                // one graph, with gradients
//
// An array_view knows its element type and number of dimensions, and shows memory of the program or
// of a tensor without copying it. Arithmetic on views is that of tensors: a compiled function records
// it, differentiates it, and runs it on any device. What needs the elements themselves, such as
// x(i, j), data() and std::span parameters, is a look at data: a compiled function breaks its graph
// there, and memory that is not the CPU's is UserError.
//
// Threads: as tensors; a view shares the memory of its source.
#pragma once

#include <tenon/compile.h>
#include <tenon/config.h>
#include <tenon/ops.h>
#include <tenon/tensor.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

namespace detail {
/// Throws UserError where the tensor has no elements of that type in that many dimensions.
TENON_API void check_view(const Tensor& t, Dtype dtype, int64_t rank);
TENON_API void require_contiguous(const Tensor& t, std::string_view what);
}  // namespace detail

/// Elements of type T in R dimensions. `const T`: they are only read. Assigning a view makes it show
/// something else; assign() writes elements.
template <class T, int64_t R>
class array_view {
 public:
  using value_type = std::remove_const_t<T>;
  static constexpr int64_t rank = R;

  /// Of nothing; only assigning gives it something to show.
  array_view() = default;
  /// Of memory that must outlive the view; strides count elements, and are row-major unless given.
  array_view(T* data, const std::array<int64_t, size_t{R}>& extents)
      : array_view(from_memory(const_cast<value_type*>(data), extents, dtype_of<value_type>)) {}
  array_view(T* data, const std::array<int64_t, size_t{R}>& extents,
             const std::array<int64_t, size_t{R}>& strides)
      : array_view(from_memory(const_cast<value_type*>(data), extents, dtype_of<value_type>,
                               IntList(strides))) {}
  /// Of a tensor with that dtype and rank. Throws UserError for another one.
  explicit array_view(Tensor t) : tensor_(std::move(t)) {
    detail::check_view(tensor_, dtype_of<value_type>, R);
  }
  template <class U>
  requires(std::is_const_v<T>&& std::is_same_v<U, value_type>)
      array_view(const array_view<U, R>& other)  // NOLINT: reading is always fine
      : tensor_(other.tensor()) {}

  /// The tensor behind it, for everything that views have no name for.
  const Tensor& tensor() const { return tensor_; }
  SymInt extent(int64_t dim) const { return tensor_.size(dim); }
  SymInt stride(int64_t dim) const { return tensor_.strides()[static_cast<size_t>(dim)]; }
  SymInt size() const { return tensor_.numel(); }

  /// One element. A look at data.
  template <std::integral... I>
  requires(sizeof...(I) == R) value_type operator()(I... index) const {
    Tensor at = tensor_;
    ((at = at.select(0, static_cast<int64_t>(index))), ...);
    return at.item<value_type>();
  }
  /// Where the elements are; strides tell how they follow each other. A look at data.
  T* data() const { return tensor_.data_ptr<value_type>(); }
  /// All elements. A look at data; throws UserError where they are not row-major.
  std::span<T> span() const {
    detail::require_contiguous(tensor_, "array_view::span");
    return {data(), static_cast<size_t>(tensor_.numel().guard_int())};
  }
  /// Writes the elements of another view, broadcast to this one.
  template <class U, int64_t S>
  void assign(const array_view<U, S>& from) const requires(!std::is_const_v<T>) {
    Tensor to = tensor_;
    to.copy_(from.tensor());
  }

  TENON_TREE(array_view, tensor_)

 private:
  Tensor tensor_;
};

namespace detail {

template <class T>
struct IsView : std::false_type {};
template <class T, int64_t R>
struct IsView<array_view<T, R>> : std::true_type {};

/// What arithmetic on elements of two types gives, as in C++ but for what that does to small integers.
template <class T, class U>
using ElementOf =
    std::conditional_t<std::is_same_v<std::remove_const_t<T>, std::remove_const_t<U>>,
                       std::remove_const_t<T>, decltype(std::declval<T>() + std::declval<U>())>;
/// A number beside a view changes the element type only where it is of a wider kind: bool, integer,
/// real.
template <class T, class N>
using WithNumber = std::conditional_t<
    std::is_floating_point_v<N> && std::is_integral_v<T>, double,
    std::conditional_t<std::is_same_v<std::remove_const_t<T>, bool> && !std::is_same_v<N, bool>,
                       int64_t, std::remove_const_t<T>>>;
template <class T>
using RealOf =
    std::conditional_t<std::is_integral_v<std::remove_const_t<T>>, double, std::remove_const_t<T>>;

template <class T, int64_t R>
array_view<T, R> view_as(const Tensor& t) {
  return array_view<T, R>(t.dtype() == dtype_of<T> ? t : t.to(dtype_of<T>));
}
template <class T>
Tensor with_dtype(const Tensor& t) {
  return t.dtype() == dtype_of<T> ? t : t.to(dtype_of<T>);
}

}  // namespace detail

#define TENON_VIEW_OPERATOR(op, Of)                                                     \
  template <class T, int64_t R, class U, int64_t S>                                     \
  auto operator op(const array_view<T, R>& a, const array_view<U, S>& b) {              \
    using E = detail::ElementOf<T, U>;                                                  \
    return detail::view_as<Of<E>, std::max(R, S)>(detail::with_dtype<Of<E>>(a.tensor()) \
                                                      op b.tensor());                   \
  }                                                                                     \
  template <class T, int64_t R, class N>                                                \
  requires std::is_arithmetic_v<N>                                                      \
  auto operator op(const array_view<T, R>& a, N b) {                                    \
    using E = Of<detail::WithNumber<T, N>>;                                             \
    return detail::view_as<E, R>(detail::with_dtype<E>(a.tensor()) op b);               \
  }                                                                                     \
  template <class T, int64_t R, class N>                                                \
  requires std::is_arithmetic_v<N>                                                      \
  auto operator op(N a, const array_view<T, R>& b) {                                    \
    using E = Of<detail::WithNumber<T, N>>;                                             \
    return detail::view_as<E, R>(a op detail::with_dtype<E>(b.tensor()));               \
  }
TENON_VIEW_OPERATOR(+, std::type_identity_t)
TENON_VIEW_OPERATOR(-, std::type_identity_t)
TENON_VIEW_OPERATOR(*, std::type_identity_t)
TENON_VIEW_OPERATOR(/, detail::RealOf)
#undef TENON_VIEW_OPERATOR

#define TENON_VIEW_COMPARISON(op)                                          \
  template <class T, int64_t R, class U, int64_t S>                        \
  auto operator op(const array_view<T, R>& a, const array_view<U, S>& b) { \
    return array_view<bool, std::max(R, S)>(a.tensor() op b.tensor());     \
  }                                                                        \
  template <class T, int64_t R, class N>                                   \
  requires std::is_arithmetic_v<N>                                         \
  auto operator op(const array_view<T, R>& a, N b) { return array_view<bool, R>(a.tensor() op b); }
TENON_VIEW_COMPARISON(<)
TENON_VIEW_COMPARISON(<=)
TENON_VIEW_COMPARISON(>)
TENON_VIEW_COMPARISON(>=)
TENON_VIEW_COMPARISON(==)
TENON_VIEW_COMPARISON(!=)
#undef TENON_VIEW_COMPARISON

template <class T, int64_t R>
auto operator-(const array_view<T, R>& a) {
  return detail::view_as<std::remove_const_t<T>, R>(-a.tensor());
}

/// Element by element; integers become double.
#define TENON_VIEW_FUNCTION(name)                                  \
  template <class T, int64_t R>                                    \
  auto name(const array_view<T, R>& a) {                           \
    return detail::view_as<detail::RealOf<T>, R>(                  \
        detail::with_dtype<detail::RealOf<T>>(a.tensor()).name()); \
  }
TENON_VIEW_FUNCTION(sqrt)
TENON_VIEW_FUNCTION(exp)
TENON_VIEW_FUNCTION(log)
TENON_VIEW_FUNCTION(sin)
TENON_VIEW_FUNCTION(cos)
TENON_VIEW_FUNCTION(tanh)
#undef TENON_VIEW_FUNCTION
template <class T, int64_t R>
auto abs(const array_view<T, R>& a) {
  return detail::view_as<std::remove_const_t<T>, R>(a.tensor().abs());
}
/// `a` where the condition holds, else `b`.
template <class C, int64_t Q, class T, int64_t R, class U, int64_t S>
auto where(const array_view<C, Q>& condition, const array_view<T, R>& a,
           const array_view<U, S>& b) {
  constexpr int64_t rank = std::max({Q, R, S});
  return detail::view_as<detail::ElementOf<T, U>, rank>(
      where(condition.tensor(), a.tensor(), b.tensor()));
}

/// Of all elements, without dimensions; sums of integers are i64, means of them double.
template <class T, int64_t R>
auto sum(const array_view<T, R>& a) {
  using E = std::conditional_t<std::is_integral_v<T>, int64_t, std::remove_const_t<T>>;
  return detail::view_as<E, 0>(a.tensor().sum());
}
/// Along one dimension, which goes.
template <class T, int64_t R>
requires(R > 0) auto sum(const array_view<T, R>& a, int64_t dim) {
  using E = std::conditional_t<std::is_integral_v<T>, int64_t, std::remove_const_t<T>>;
  return detail::view_as<E, R - 1>(a.tensor().sum({dim}));
}
template <class T, int64_t R>
auto mean(const array_view<T, R>& a) {
  using E = detail::RealOf<T>;
  return detail::view_as<E, 0>(detail::with_dtype<E>(a.tensor()).mean());
}
template <class T, int64_t R>
requires(R > 0) auto mean(const array_view<T, R>& a, int64_t dim) {
  using E = detail::RealOf<T>;
  return detail::view_as<E, R - 1>(detail::with_dtype<E>(a.tensor()).mean({dim}));
}
/// Of matrices.
template <class T>
auto matmul(const array_view<T, 2>& a, const array_view<T, 2>& b) {
  return detail::view_as<std::remove_const_t<T>, 2>(a.tensor().mm(b.tensor()));
}

namespace detail {

/// From what a wrapped function takes to what the function inside takes, and back. Others pass.
template <class T>
struct BufferOf {
  using Outside = T;
  static decltype(auto) in(auto&& value) { return std::forward<decltype(value)>(value); }
  static T out(T value) { return value; }
};
template <class T, int64_t R>
struct BufferOf<array_view<T, R>> {
  using Outside = Tensor;
  static array_view<T, R> in(const Tensor& t) { return array_view<T, R>(t); }
  static Tensor out(const array_view<T, R>& view) { return view.tensor(); }
};
/// Elements one after the other. Those that are only read may be a copy.
template <class T>
struct BufferOf<std::span<T>> {
  using Outside = Tensor;
  struct Held {
    Tensor tensor;
    operator std::span<T>() const {
      return {tensor.data_ptr<std::remove_const_t<T>>(),
              static_cast<size_t>(tensor.numel().guard_int())};
    }
  };
  static Held in(const Tensor& t) {
    check_view(t, dtype_of<std::remove_const_t<T>>, t.dim());
    if constexpr (!std::is_const_v<T>) require_contiguous(t, "a std::span that is written");
    return {t.detach().contiguous()};
  }
  static Tensor out(std::span<T> view) {
    return tenon::tensor(std::vector<std::remove_const_t<T>>(view.begin(), view.end()));
  }
};
template <class T>
struct BufferOf<std::vector<T>> {
  using Outside = std::vector<typename BufferOf<T>::Outside>;
  static std::vector<T> in(const Outside& values) {
    std::vector<T> inside;
    for (const auto& v : values) inside.push_back(BufferOf<T>::in(v));
    return inside;
  }
  static Outside out(const std::vector<T>& values) {
    Outside outside;
    for (const T& v : values) outside.push_back(BufferOf<T>::out(v));
    return outside;
  }
};
template <class T>
struct BufferOf<std::optional<T>> {
  using Outside = std::optional<typename BufferOf<T>::Outside>;
  static std::optional<T> in(const Outside& value) {
    return value ? std::optional<T>(BufferOf<T>::in(*value)) : std::nullopt;
  }
  static Outside out(const std::optional<T>& value) {
    return value ? Outside(BufferOf<T>::out(*value)) : std::nullopt;
  }
};
template <class... T>
struct BufferOf<std::tuple<T...>> {
  using Outside = std::tuple<typename BufferOf<T>::Outside...>;
  static std::tuple<T...> in(const Outside& values) {
    return std::apply([](const auto&... v) { return std::tuple<T...>(BufferOf<T>::in(v)...); },
                      values);
  }
  static Outside out(const std::tuple<T...>& values) {
    return std::apply([](const T&... v) { return Outside(BufferOf<T>::out(v)...); }, values);
  }
};
template <class A, class B>
struct BufferOf<std::pair<A, B>> {
  using Outside = std::pair<typename BufferOf<A>::Outside, typename BufferOf<B>::Outside>;
  static std::pair<A, B> in(const Outside& p) {
    return {BufferOf<A>::in(p.first), BufferOf<B>::in(p.second)};
  }
  static Outside out(const std::pair<A, B>& p) {
    return {BufferOf<A>::out(p.first), BufferOf<B>::out(p.second)};
  }
};

template <class P>
using BufferParam = const typename BufferOf<std::remove_cvref_t<P>>::Outside&;

/// The function around a function of buffers.
template <class F, class Params>
class WrappedBuffers;
template <class F, class... P>
class WrappedBuffers<F, std::tuple<P...>> {
 public:
  explicit WrappedBuffers(F fn) : fn_(std::move(fn)) {}
  auto operator()(BufferParam<P>... args) const {
    if (is_recording() && !config::get_as<bool>("dynamo.trace_numpy"))
      return disable([this](BufferParam<P>... real) { return call(real...); })(args...);
    return call(args...);
  }

 private:
  auto call(BufferParam<P>... args) const {
    using R = std::invoke_result_t<const F&, P...>;
    if constexpr (std::is_void_v<R>)
      fn_(BufferOf<std::remove_cvref_t<P>>::in(args)...);
    else
      return BufferOf<std::remove_cvref_t<R>>::out(
          fn_(BufferOf<std::remove_cvref_t<P>>::in(args)...));
  }
  F fn_;
};

}  // namespace detail

/// A function of tensors from one of buffers, with parameters of known types: array_view and std::span
/// become Tensor, in vectors, tuples, pairs and optionals, too; all else stays, structs with views
/// among them. Views show the tensors' memory without a copy. A std::span is contiguous: of elements
/// that are only read it may be a copy, and it carries no gradient. Throws UserError, when called, for
/// tensors of another dtype or rank, and for a std::span of written elements that are not contiguous.
/// With dynamo.trace_numpy = false compiled functions run it uncompiled.
template <class F>
auto wrap_buffers(F fn) {
  return detail::WrappedBuffers<F, typename detail::SignatureOf<F>::Params>(std::move(fn));
}

namespace compiler {
using tenon::wrap_buffers;
}

}  // namespace tenon
