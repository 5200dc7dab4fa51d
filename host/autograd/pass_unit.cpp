// Backward passes as units.
//
// Problem: a body that is followed goes through its own tape in each call, only to find the
// operations that the recording has found. Model: what a pass does follows from the nodes that its
// roots lead to: which rules they have, how they hang together and in which order they were made,
// which values and numbers they keep, whether leaves have a gradient. Sizes follow from the
// operations of the body, which made all of the nodes and have been compared. Method: one walk from
// the roots writes this down; where it is what it was in the recording, the unit is done: leaves get
// their gradients, and nodes let go of what they keep. Hooks, functions of the user, streams and
// nodes from outside of the body are left to the engine.
#include "autograd/pass_unit.h"

#include "autograd/accumulate_grad.h"
#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "autograd/row_node.h"
#include "autograd/tape.h"
#include "core/op_unit.h"
#include "core/tensor/stand_in.h"

#include <algorithm>
#include <typeinfo>

namespace tenon::autograd {

namespace {

/// What a pass follows from.
class TapeFacts {
 public:
  TapeFacts() { collector_.of_one_body = true; }

  /// False where that cannot be told.
  bool collect(const PassRequest& pass) {
    collector_.key(uint64_t{pass.options.keep_graph});
    collector_.key(pass.roots.size());
    for (size_t i = 0; i < pass.roots.size(); ++i) {
      if (!pass.roots[i]) return false;
      key(pass.roots[i]);
      collector_.tensor(pass.grads[i]);
    }
    for (size_t at = 0; at < nodes_.size(); ++at)
      if (!add(*nodes_[at])) return false;
    collector_.words.insert(collector_.words.end(), collector_.numbers.begin(),
                            collector_.numbers.end());
    return !collector_.refusal;
  }
  /// Begins anew, with the memory that it has.
  void clear() {
    collector_.clear(false);
    numbers_.clear();
    nodes_.clear();
    leaves_.clear();
  }
  std::span<const uint64_t> words() const { return collector_.words; }
  const std::vector<Tensor>& tensors() const { return collector_.tensors; }

  /// After the pass, of a leaf by number: its first gradient; undefined where it had one, which was
  /// written.
  Tensor first_gradient(uint64_t leaf) const {
    return leaves_[leaf].had_gradient ? Tensor() : ensure_state(*leaves_[leaf].tensor).grad;
  }
  uint64_t number_of_leaf(const Node* node) const {
    auto at = std::ranges::find(leaves_, node, &Leaf::node);
    return static_cast<uint64_t>(at - leaves_.begin());
  }

  /// Leaves are as after the pass, in its order.
  void leave_gradients(std::span<const uint64_t> order, std::span<const Tensor> first) const {
    for (size_t i = 0; i < order.size(); ++i) {
      const Leaf& leaf = leaves_[order[i]];
      gradient_touched_slot(*leaf.tensor, true);
      if (!leaf.had_gradient) ensure_state(*leaf.tensor).grad = first[i];
    }
  }
  void release_nodes() const {
    for (Node* node : nodes_) {
      std::lock_guard guard(node->lock);
      node->release();
    }
  }

 private:
  uint64_t number_of(const Edge& edge) {
    auto fresh = static_cast<uint32_t>(nodes_.size());
    uint32_t number = numbers_.number(edge.node.get(), fresh);
    if (number == fresh) nodes_.push_back(edge.node.get());
    return number;
  }

  void key(const Edge& edge) {
    collector_.key(edge ? number_of(edge) << 32 | edge.input : ~uint64_t{0});
  }

  bool add(Node& node) {
    if (node.hooks || node.streams) return false;
    collector_.key(node.next.size());
    for (const Edge& edge : node.next) key(edge);
    if (typeid(node) == typeid(AccumulateGrad))
      return add_leaf(static_cast<const AccumulateGrad&>(node));
    if (typeid(node) != typeid(RowNode) || !node.is_of_body()) return false;
    collector_.key(node.sequence() - nodes_[0]->sequence());
    return node.collect(collector_);
  }

  bool add_leaf(const AccumulateGrad& node) {
    const Tensor& leaf = node.leaf();
    GradState& state = ensure_state(leaf);
    std::lock_guard guard(state.lock);
    const GradState& hooked = state_with_hooks(leaf);
    bool is_plain = hooked.hooks.empty() && hooked.after_accumulate.empty() && !state.retained;
    if (!is_plain || !leaf.requires_grad()) return false;
    // That of an argument is met with its first use.
    if (leaf.is_fake() && !state.grad.defined())
      if (Tensor real = object_behind_slot(leaf);
          real.defined() && ensure_state(real).grad.defined())
        return false;
    collector_.tensor(leaf);
    collector_.tensor(state.grad);
    leaves_.push_back({&node, &leaf, state.grad.defined()});
    return true;
  }

  struct Leaf {
    const Node* node;
    const Tensor* tensor;
    bool had_gradient;
  };
  Collector collector_;
  PointerTable numbers_;
  std::vector<Node*> nodes_;
  std::vector<Leaf> leaves_;
};

/// Facts of one pass; the thread's next one gets their memory.
class LentFacts {
 public:
  LentFacts() : facts_(spare ? std::move(spare) : std::make_unique<TapeFacts>()) {}
  ~LentFacts() {
    facts_->clear();
    spare = std::move(facts_);
  }
  LentFacts(const LentFacts&) = delete;
  TapeFacts* operator->() const { return facts_.get(); }

 private:
  static thread_local std::unique_ptr<TapeFacts> spare;  // a pass may begin within another one
  std::unique_ptr<TapeFacts> facts_;
};

thread_local std::unique_ptr<TapeFacts> LentFacts::spare;

}  // namespace

void run_as_unit(const PassRequest& pass, FunctionRef<std::span<const Node* const>()> run) {
  static const uint64_t number = new_op_unit_number();
  if (anomaly_mode().enabled || !OpUnit::is_of_use()) {
    run();
    return;
  }
  LentFacts facts;
  if (!facts->collect(pass)) {
    run();
    return;
  }
  std::vector<const Tensor*> tensors;
  for (const Tensor& t : facts->tensors()) tensors.push_back(&t);
  OpUnit unit(number, tensors, facts->words());
  if (unit.is_done()) {
    facts->leave_gradients(unit.notes, unit.results);
    if (!pass.options.keep_graph) facts->release_nodes();
    return;
  }
  std::span<const Node* const> leaves = run();
  if (leaves.empty()) unit.forget();
  for (const Node* node : leaves) {
    unit.notes.push_back(facts->number_of_leaf(node));
    unit.results.push_back(facts->first_gradient(unit.notes.back()));
  }
}

}  // namespace tenon::autograd
