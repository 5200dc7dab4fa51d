// A borrowed callable: two words, no allocation; for parameters that are called before return.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tenon {

template <class Signature>
class FunctionRef;

/// Refers to a callable without owning it: the callable must outlive the reference, which a
/// temporary does when the FunctionRef is a parameter.
///   void each(FunctionRef<void(int)> f);   each([&](int i) { sum += i; });
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& callable)  // NOLINT: implicit by design
      : target_(reinterpret_cast<void*>(callable_address(callable))), call_(&call<F>) {}

  R operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  template <class F>
  static auto callable_address(F& callable) {
    if constexpr (std::is_function_v<F>)
      return &callable;
    else
      return const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
  }
  template <class F>
  static R call(void* target, Args... args) {
    using Callable = std::remove_reference_t<F>;
    if constexpr (std::is_function_v<Callable>)
      return reinterpret_cast<Callable*>(target)(std::forward<Args>(args)...);
    else
      return (*static_cast<Callable*>(target))(std::forward<Args>(args)...);
  }

  void* target_;
  R (*call_)(void*, Args...);
};

}  // namespace tenon
