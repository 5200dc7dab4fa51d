// SPDX-License-Identifier: Apache-2.0
// What the body of a compiled callable may write besides its arguments.
#pragma once

#include <tenon/tree.h>

#include <vector>

namespace tenon {

/// What a body changes besides its arguments: modules, optimisers, tensors.
///
///     auto step = tenon::compile(train, tenon::state(net, opt), {.fullgraph = true});
struct State {
  std::vector<Tensor> tensors;
};

namespace detail {

/// Collects what a part of a state holds.
struct StateCollector : TensorVisitor {
  std::vector<Tensor>& tensors;
  explicit StateCollector(std::vector<Tensor>& to) : tensors(to) {}
  void tensor(const Tensor& t) {
    if (t.defined()) tensors.push_back(t);
  }
  template <class T>
  void scalar(const Scalar<T>&) {}
};

template <class Part>
void add_state(std::vector<Tensor>& tensors, const Part& part) {
  if constexpr (requires { part.state_tensors(); }) {
    for (const Tensor& t : part.state_tensors()) tensors.push_back(t);
  } else if constexpr (is_smart_pointer<Part> || std::is_pointer_v<Part>) {
    if (part) add_state(tensors, *part);
  } else if constexpr (is_list<Part>) {
    for (const auto& e : part) add_state(tensors, e);
  } else {
    StateCollector collector(tensors);
    visit_tree(part, collector);
  }
}

}  // namespace detail

/// Modules, optimisers, tensors, and lists, pointers and structs of them.
template <class... Parts>
State state(const Parts&... parts) {
  State all;
  (detail::add_state(all.tensors, parts), ...);
  return all;
}

}  // namespace tenon
