// SPDX-License-Identifier: Apache-2.0
// Graphs of shared pointers, of which a walk visits each node once. Part of tenon/tree.h.
#pragma once

#include <tenon/error.h>

#include <array>
#include <cstddef>
#include <map>
#include <utility>

namespace tenon::detail {

/// The nodes that a walk has met behind one pointer, by place and type: a node and its first field
/// share a place.
class SharedNodes {
 public:
  using Key = std::pair<const void*, const void*>;
  struct Node {
    size_t number;
    bool is_open = true;  ///< the walk is inside of it
  };
  /// The node, and whether it is new.
  template <class T>
  std::pair<Node*, bool> meet(const T* place, const void* type) {
    const Key key(place, type);
    for (size_t i = 0; i < size_ && i < keys_.size(); ++i)
      if (keys_[i] == key) return {&nodes_[i], false};
    if (size_ < keys_.size()) {
      keys_[size_] = key;
      nodes_[size_] = {size_};
      return {&nodes_[size_++], true};
    }
    auto [at, is_new] = more_.try_emplace(key, Node{size_});
    size_ += is_new;
    return {&at->second, is_new};
  }

 private:
  std::array<Key, 8> keys_;
  std::array<Node, 8> nodes_;
  std::map<Key, Node> more_;
  size_t size_ = 0;
};

template <class T>
inline constexpr char node_type = 0;

/// Visits a node by `visit`, unless the walk has: then it says which one it was. Throws UserError for a
/// node that holds itself.
template <class T, class V, class F>
void visit_node(T* node, V& visitor, const F& visit) {
  struct Walk {
    V& visitor;
    SharedNodes nodes;
    explicit Walk(V& v) : visitor(v) { visitor.shared_nodes = &nodes; }
    ~Walk() { visitor.shared_nodes = nullptr; }
  };
  auto visit_once = [&] {
    auto [met, is_new] = visitor.shared_nodes->meet(node, &node_type<std::remove_const_t<T>>);
    require(is_new || !met->is_open,
            "an argument or result of a compiled callable holds itself through a cycle of shared "
            "pointers; make one of them a std::weak_ptr or a plain pointer, or capture the object");
    if (!is_new) return visitor.shape(met->number + 2);
    visit();
    met->is_open = false;
  };
  if (visitor.shared_nodes) return visit_once();
  Walk walk(visitor);
  visit_once();
}

}  // namespace tenon::detail
