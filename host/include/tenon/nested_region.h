// SPDX-License-Identifier: Apache-2.0
// Regions of a compiled body that are compiled once, however often the body calls them.
#pragma once

#include <tenon/error.h>

#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace tenon {

namespace detail {

/// Ends the segment that is recorded or followed, where it may end. Does nothing elsewhere.
TENON_API void end_of_region(std::source_location where);

}  // namespace detail

namespace compiler {

/// Marks a function that a compiled body calls many times with like arguments, such as the layer of
/// a deep network: its operations are a segment of their own, and calls whose segments are equal
/// share one compiled one. Tensors that the function captures, as its weights, are inputs of the
/// segment; another shape, dtype, number or need of a gradient is another segment.
///
///     auto layer = tenon::nested_compile_region([](Block& block, const Tensor& x) { return block(x); });
///     auto model = tenon::compile([&](Tensor x) {
///       for (Block& block : blocks) x = layer(block, x);   // compiled once, called twelve times
///       return x;
///     });
///
/// The result is that of the function itself, which runs on every call. A region costs two graph
/// breaks, and nothing is fused across them; so it pays where compiling takes long. It is a part of
/// its surroundings where these must be one graph: under `fullgraph = true`, in bodies of control flow
/// ops, and in whole training steps recorded with their backward pass. Outside of compiled bodies it
/// is a plain call.
///
/// Takes what std::invoke takes; `fn` is kept by value and called as const. Any thread.
template <class F>
auto nested_compile_region(F fn, std::source_location where = std::source_location::current()) {
  return [fn = std::move(fn),
          where](auto&&... args) -> std::invoke_result_t<const F&, decltype(args)...> {
    using Result = std::invoke_result_t<const F&, decltype(args)...>;
    detail::end_of_region(where);
    if constexpr (std::is_void_v<Result>) {
      std::invoke(fn, std::forward<decltype(args)>(args)...);
      detail::end_of_region(where);
    } else {
      Result result = std::invoke(fn, std::forward<decltype(args)>(args)...);
      detail::end_of_region(where);
      return static_cast<Result&&>(result);
    }
  };
}

}  // namespace compiler

using compiler::nested_compile_region;

}  // namespace tenon
