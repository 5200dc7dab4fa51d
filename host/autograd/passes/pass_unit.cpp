// Backward passes as units.
//
// Problem: a body that is followed goes through its own tape in each call, only to find the
// operations that the recording has found. Model: what a pass does follows from the nodes that its
// roots lead to: which rules they have, how they hang together and in which order they were made,
// which values and numbers they keep, whether leaves have a gradient. Sizes follow from the
// operations of the body, which made all of the nodes and have been compared. Method: one walk from
// the roots writes this down; where it is what it was in the recording, the unit is done: leaves get
// their gradients, and nodes let go of what they keep. Hooks, functions of the user, streams and
// nodes from outside of the body are left to the engine. Where the nodes are due (late_nodes.h), all
// but leaves follows from the operations, and there is no walk.
#include "autograd/passes/pass_unit.h"

#include "autograd/accumulate_grad.h"
#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "autograd/late_nodes.h"
#include "autograd/row_node.h"
#include "autograd/tape.h"
#include "core/grad_mode.h"
#include "core/op_unit.h"
#include "core/tensor/stand_in.h"

#include <algorithm>
#include <typeinfo>

namespace tenon::autograd {

namespace {

// Whether a pass does no more to a leaf than to add up its gradient. That of an argument is met with its
// first use.
bool is_plain(const Tensor& leaf, const GradState& state) {
  const std::shared_ptr<Node> end = state.accumulator.lock();
  if (end && (end->hooks || end->streams)) return false;
  const GradState& hooked = state_with_hooks(leaf);
  if (!hooked.hooks.empty() || !hooked.after_accumulate.empty() || state.retained) return false;
  if (!leaf.requires_grad()) return false;
  if (!leaf.is_fake() || state.grad.defined()) return true;
  Tensor real = object_behind_slot(leaf);
  return !real.defined() || !ensure_state(real).grad.defined();
}

struct Leaf {
  const Tensor* tensor;
  bool had_gradient;
};

// After a pass, leaves that had none get their first gradient, in its order.
void leave_gradients(std::span<const Leaf> leaves, std::span<const uint64_t> order,
                     std::span<const Tensor> first) {
  for (size_t i = 0; i < order.size(); ++i) {
    const Leaf& leaf = leaves[order[i]];
    gradient_touched_slot(*leaf.tensor, true);
    if (!leaf.had_gradient) ensure_state(*leaf.tensor).grad = first[i];
  }
}

/// What a unit notes: the order in which leaves were called, and where they are among its tensors.
struct PassNotes {
  static constexpr uint64_t none = ~uint64_t{0};
  struct Place {
    uint64_t leaf, gradient;  ///< `none`: it had no gradient
  };
  std::span<const uint64_t> words;

  std::span<const uint64_t> order() const { return words.subspan(1, words[0]); }
  size_t n_leaves() const { return (words.size() - 1 - words[0]) / 2; }
  Place place(size_t leaf) const {
    const uint64_t* at = words.data() + 1 + words[0] + 2 * leaf;
    return {at[0], at[1]};
  }
};

/// What a pass follows from.
class TapeFacts {
 public:
  TapeFacts() { collector_.of_one_body = true; }

  /// False where that cannot be told.
  bool collect(const PassRequest& pass) {
    if (pass.outputs.empty()) return false;
    collector_.key(uint64_t{pass.options.keep_graph});
    collector_.key(pass.roots.size());
    for (size_t i = 0; i < pass.roots.size(); ++i) {
      if (!pass.roots[i]) return false;
      key(pass.roots[i]);
      collector_.tensor(pass.outputs[i]);
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
    places_.clear();
    nodes_of_leaves_.clear();
  }
  std::span<const uint64_t> words() const { return collector_.words; }
  const std::vector<Tensor>& tensors() const { return collector_.tensors; }

  std::span<const Leaf> leaves() const { return leaves_; }
  /// Of a pass that has called these.
  std::vector<uint64_t> notes(std::span<const Node* const> called) const {
    std::vector<uint64_t> words{called.size()};
    for (const Node* node : called) {
      auto at = std::ranges::find(nodes_of_leaves_, node);
      words.push_back(static_cast<uint64_t>(at - nodes_of_leaves_.begin()));
    }
    words.insert(words.end(), places_.begin(), places_.end());
    return words;
  }
  /// After the pass: the first gradient of a leaf; undefined where it had one, which was written.
  Tensor first_gradient(uint64_t leaf) const {
    return leaves_[leaf].had_gradient ? Tensor() : ensure_state(*leaves_[leaf].tensor).grad;
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
    if (!is_plain(leaf, state)) return false;
    const bool had_gradient = state.grad.defined();
    places_.push_back(collector_.tensors.size());
    collector_.tensor(leaf);
    places_.push_back(had_gradient ? collector_.tensors.size() : PassNotes::none);
    collector_.tensor(state.grad);
    nodes_of_leaves_.push_back(&node);
    leaves_.push_back({&leaf, had_gradient});
    return true;
  }

  Collector collector_;
  PointerTable numbers_;
  std::vector<Node*> nodes_;
  std::vector<Leaf> leaves_;
  std::vector<uint64_t> places_;  // among the tensors, two of each leaf
  std::vector<const Node*> nodes_of_leaves_;
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

static std::vector<const Tensor*> pointers_to(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> pointers;
  pointers.reserve(tensors.size());
  for (const Tensor& t : tensors) pointers.push_back(&t);
  return pointers;
}

static uint64_t number_of_passes() {
  static const uint64_t number = new_op_unit_number();
  return number;
}

void run_as_unit(const PassRequest& pass, FunctionRef<std::span<const Node* const>()> run) {
  if (anomaly_mode().enabled || !OpUnit::is_of_use()) {
    run();
    return;
  }
  LentFacts facts;
  if (!facts->collect(pass)) {
    run();
    return;
  }
  const std::vector<const Tensor*> tensors = pointers_to(facts->tensors());
  OpUnit unit(number_of_passes(), tensors, facts->words());
  if (unit.is_done()) {
    leave_gradients(facts->leaves(), PassNotes{unit.notes}.order(), unit.results);
    if (!pass.options.keep_graph) facts->release_nodes();
    return;
  }
  std::span<const Node* const> called = run();
  if (called.empty()) unit.forget();
  unit.notes = facts->notes(called);
  for (uint64_t leaf : PassNotes{unit.notes}.order())
    unit.results.push_back(facts->first_gradient(leaf));
}

// The operations of the body, up to the outputs, are those of the recording: nodes, what they keep, and
// in which order they run are as they were there.
bool passes_unwalked(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                     const EngineOptions& options) {
  EnableGradGuard mode(options.create_graph);
  const bool are_late = std::ranges::all_of(outputs, has_late_node);
  if (!are_late || anomaly_mode().enabled || !OpUnit::is_of_use()) return false;
  std::optional<RecordedPass> recorded = late_nodes->begin_pass(number_of_passes());
  if (!recorded || recorded->facts[0] != uint64_t{options.keep_graph} ||
      recorded->facts[1] != outputs.size())
    return false;
  std::vector<Tensor>& tensors = recorded->tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!tensors[2 * i].defined()) return false;
    tensors[2 * i] = outputs[i];
    tensors[2 * i + 1] = gradients[i];
  }
  const PassNotes notes{recorded->notes};
  std::vector<Leaf> leaves;
  for (size_t i = 0; i < notes.n_leaves(); ++i) {
    auto [place, gradient] = notes.place(i);
    const Tensor& leaf = tensors[place];
    if (!leaf.defined() || node_of(leaf)) return false;
    GradState& state = ensure_state(leaf);
    std::lock_guard guard(state.lock);
    const bool had_gradient = state.grad.defined();
    if (!is_plain(leaf, state) || had_gradient != (gradient != PassNotes::none)) return false;
    if (had_gradient) tensors[gradient] = state.grad;
    leaves.push_back({&leaf, had_gradient});
  }
  auto is_known = [&](uint32_t i) { return tensors[i].defined(); };
  if (!std::ranges::all_of(recorded->to_come, is_known)) return false;
  const std::vector<const Tensor*> named = pointers_to(tensors);
  OpUnit unit(number_of_passes(), named, recorded->facts);
  if (!unit.is_done()) return false;
  leave_gradients(leaves, PassNotes{unit.notes}.order(), unit.results);
  late_nodes->end_pass(outputs, !options.keep_graph);
  return true;
}

}  // namespace tenon::autograd
