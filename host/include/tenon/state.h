// SPDX-License-Identifier: Apache-2.0
// What the body of a compiled callable may write besides its arguments.
#pragma once

#include <tenon/tensor.h>

#include <type_traits>
#include <vector>

namespace tenon {

/// What a body changes besides its arguments: modules, optimisers, tensors.
///
///     auto step = tenon::compile(train, tenon::state(net, opt), {.fullgraph = true});
struct State {
  std::vector<Tensor> tensors;
};
template <class... Parts>
State state(const Parts&... parts) {
  State all;
  auto add = [&](const auto& part) {
    if constexpr (std::is_convertible_v<decltype(part), const Tensor&>) {
      all.tensors.push_back(part);
    } else {
      for (const Tensor& t : part.state_tensors()) all.tensors.push_back(t);
    }
  };
  (add(parts), ...);
  return all;
}

}  // namespace tenon
