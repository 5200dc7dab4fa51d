// Walking tapes.
#include "tape/walk.h"

#include "autograd/accumulate_grad.h"
#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "core/error.h"

#include <algorithm>

namespace tenon::tape {

using autograd::AccumulateGrad;
using autograd::PassRequest;

namespace {

constexpr uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9e3779b97f4a7c15ull;
  return h ^ h >> 29;
}

constexpr uint32_t done = ~0u;

}  // namespace

// Four lanes, so that multiplications overlap.
uint64_t TapeWalk::hash() const {
  const std::vector<uint64_t>& w = collected.words;
  uint64_t lanes[4] = {w.size(), 1, 2, 3};
  size_t i = 0;
  for (; i + 3 < w.size(); i += 4)
    for (size_t k = 0; k < 4; ++k) lanes[k] = mix(lanes[k], w[i + k]);
  for (; i < w.size(); ++i) lanes[0] = mix(lanes[0], w[i]);
  return mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
}

void TapeWalk::run(const PassRequest& request, std::span<const uint64_t> root_key,
                   bool keeps_places) {
  visits.clear();
  targets.clear();
  order.clear();
  numbers_.clear();
  updated_.clear();
  collected.clear(keeps_places);
  find_nodes(request.roots);
  if (!request.wanted.empty()) find_needed(request);
  write_roots(request, root_key);
  root_words = collected.words.size();
  run_order(request.roots);
}

uint32_t TapeWalk::visit_of(Node* node) {
  auto fresh = static_cast<uint32_t>(visits.size());
  uint32_t at = numbers_.number(node, fresh);
  if (at == fresh) {
    visits.push_back({.node = node});
    visits.back().is_leaf = node->sequence() == autograd::first_sequence &&
                            dynamic_cast<AccumulateGrad*>(node) != nullptr;
    open_.push_back(at);
  }
  ++visits[at].waiting_for;
  return at;
}

// Each node's edges are looked up once; the rest goes by number.
void TapeWalk::find_nodes(const std::vector<Edge>& roots) {
  open_.clear();
  for (const Edge& root : roots)
    if (root) visit_of(root.node.get());
  while (!open_.empty()) {
    uint32_t at = open_.back();
    open_.pop_back();
    Node* node = visits[at].node;
    visits[at].first_target = static_cast<uint32_t>(targets.size());
    for (const Edge& edge : node->next)
      targets.push_back(edge ? visit_of(edge.node.get()) : no_visit);
  }
}

// As the engine does it: a node is needed that is wanted or leads to one that is.
void TapeWalk::find_needed(const PassRequest& request) {
  for (Visit& v : visits) v.needed = v.runs = false;
  for (const Edge& wanted : request.wanted) {
    uint32_t at = numbers_.number(wanted.node.get(), no_visit);
    if (at == no_visit) continue;
    visits[at].needed = true;
    visits[at].runs = request.options.accumulate && visits[at].is_leaf;
  }
  std::vector<uint32_t>& stack = open_;
  for (const Edge& root : request.roots)
    if (root) stack.push_back(numbers_.number(root.node.get(), no_visit));
  while (!stack.empty()) {
    uint32_t at = stack.back();
    Visit& v = visits[at];
    std::span<const uint32_t> next(targets.data() + v.first_target, v.node->next.size());
    if (!v.entered) {
      v.entered = true;
      for (uint32_t target : next)
        if (target != no_visit && !visits[target].entered) stack.push_back(target);
      continue;
    }
    stack.pop_back();
    if (std::exchange(v.left, true)) continue;
    bool leads = std::ranges::any_of(
        next, [&](uint32_t target) { return target != no_visit && visits[target].needed; });
    if (leads || autograd::hides_edges(*v.node)) v.needed = v.runs = true;
  }
}

void TapeWalk::write_roots(const PassRequest& request, std::span<const uint64_t> root_key) {
  for (uint64_t word : root_key) collected.key(word);
  collected.key(request.roots.size());
  for (size_t i = 0; i < request.roots.size(); ++i) {
    const Edge& root = request.roots[i];
    collected.key(root ? uint64_t{numbers_.number(root.node.get(), no_visit)} << 32 | root.input
                       : ~uint64_t{0});
    collected.tensor(request.grads[i]);
  }
  collected.key(request.wanted.size());
  for (const Edge& wanted : request.wanted)
    collected.key(uint64_t{numbers_.number(wanted.node.get(), no_visit)} << 32 | wanted.input);
}

void TapeWalk::make_ready(uint32_t visit) {
  Visit& v = visits[visit];
  if (std::exchange(v.waiting_for, done) == done) return;
  ready_.push_back({v.node->sequence(), visit});
  std::ranges::push_heap(ready_, {}, &Ready::sequence);
}

void TapeWalk::run_order(const std::vector<Edge>& roots) {
  ready_.clear();
  for (const Edge& root : roots)
    if (root) --visits[numbers_.number(root.node.get(), no_visit)].waiting_for;
  for (const Edge& root : roots) {
    if (!root) continue;
    uint32_t at = numbers_.number(root.node.get(), no_visit);
    if (visits[at].waiting_for == 0) make_ready(at);
  }
  while (!ready_.empty()) {
    std::ranges::pop_heap(ready_, {}, &Ready::sequence);
    uint32_t at = ready_.back().visit;
    ready_.pop_back();
    order.push_back(at);
    Visit& visit = visits[at];
    write_node(visit);
    for (size_t i = 0; i < visit.node->next.size(); ++i) {
      uint32_t target = targets[visit.first_target + i];
      if (target != no_visit && --visits[target].waiting_for == 0) make_ready(target);
    }
  }
}

// Header, edges, inputs, hooks, and what the node itself says.
void TapeWalk::write_node(Visit& visit) {
  Node& node = *visit.node;
  std::lock_guard guard(node.lock);
  auto at = static_cast<uint64_t>(&visit - visits.data());
  collected.key(at << 32 | node.next.size() << 8 | uint64_t{visit.needed} << 3 |
                uint64_t{visit.runs} << 2 | uint64_t{visit.is_leaf} << 1 |
                uint64_t{node.hooks != nullptr});
  for (size_t i = 0; i < node.next.size(); ++i)
    collected.key(uint64_t{targets[visit.first_target + i]} << 32 | node.next[i].input);
  visit.first_number = static_cast<uint32_t>(collected.numbers.size());
  size_t first_sizes = collected.size_places.size();
  collected.sizes_are_fixed = false;
  collected.key(node.inputs.size());
  for (const autograd::GradMeta& meta : node.inputs) {
    collected.key(static_cast<uint64_t>(meta.dtype) | static_cast<uint64_t>(meta.device.type) << 8 |
                  static_cast<uint64_t>(meta.device.index & 0xff) << 16);
    collected.sizes(list_of(meta.sizes));
  }
  if (visit.is_leaf || node.hooks) write_hooks(visit);
  autograd::Collector::Mark mark = collected.mark();
  visit.first_packed = static_cast<uint32_t>(collected.packed_places.size());
  if (visit.is_leaf) {
    visit.opaque = visit.runs && autograd::has_node_hooks(node);
  } else if (visit.needed && visit.runs) {
    visit.opaque = !node.collect(collected);
    if (visit.opaque) {
      collected.go_back(mark);
      collected.key_text(node.name());
    }
  }
  if (collected.sizes_are_fixed && !visit.opaque)
    for (size_t i = first_sizes; i < collected.size_places.size(); ++i)
      collected.size_places[i].is_fixed = true;
  visit.n_packed = static_cast<uint32_t>(collected.packed_places.size()) - visit.first_packed;
  visit.first_word = static_cast<uint32_t>(collected.words.size());
}

const Tensor& leaf_of(const Node& node) { return static_cast<const AccumulateGrad&>(node).leaf(); }

const autograd::LeafUpdate* only_update_of(const Node& node) {
  const Tensor& leaf = leaf_of(node);
  autograd::GradState& state = autograd::ensure_state(leaf);
  std::lock_guard guard(state.lock);
  if (state.after_accumulate.size() != 1 || state.grad.defined()) return nullptr;
  if (!leaf.requires_grad() || autograd::has_node_hooks(node)) return nullptr;
  const autograd::LeafUpdate* update = state.after_accumulate[0].update.get();
  return update && update->kind() ? update : nullptr;
}

// An update is a part of the code where nothing else follows the gradient, which nobody else sees,
// and no other update writes the same memory.
void TapeWalk::write_update(Visit& visit, const Tensor& leaf) {
  const autograd::LeafUpdate* update = only_update_of(*visit.node);
  constexpr uint32_t first = 0, again = 1;
  bool is_alone = update && visit.needed && visit.runs;
  if (is_alone) {
    is_alone = updated_.number(impl_of(leaf)->storage_ref.get(), first) == first;
    updated_.renumber(impl_of(leaf)->storage_ref.get(), again);
  }
  collected.key(is_alone ? update->kind() : 0);
  if (!is_alone) return;
  visit.update = update;
  collected.tensor(leaf);
  for (size_t i = 0; i < update->n_tensors(); ++i) collected.tensor(update->tensor(i));
}

void TapeWalk::write_hooks(Visit& visit) {
  if (visit.is_leaf) {
    const Tensor& leaf = leaf_of(*visit.node);
    autograd::GradState& state = autograd::ensure_state(leaf);
    std::lock_guard guard(state.lock);
    collected.key(state.hooks.size() << 32 | state.after_accumulate.size());
    if (!state.after_accumulate.empty()) write_update(visit, leaf);
  }
  const autograd::NodeHooks* hooks = visit.node->hooks.get();
  if (!hooks) return;
  collected.key(hooks->before.size() << 32 | hooks->after.size());
  collected.key(hooks->tensors.size() << 32 | hooks->retains.size());
  for (const auto& list : hooks->tensors)
    collected.key(uint64_t{list.input} << 32 | list.hooks.size());
  for (const auto& cell : hooks->retains) collected.key(static_cast<uint64_t>(cell != nullptr));
}

}  // namespace tenon::tape
