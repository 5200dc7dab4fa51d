// The engine.
//
// Problem: gradients must go through the nodes of the tape so that each node runs once, after all
// gradients of its inputs have arrived.
// Model: nodes and edges are a directed acyclic graph; a node is ready when every edge into it that
// lies on a way from a root has brought its gradient.
// Method: one walk from the roots counts the edges into each node and, where only some inputs are
// wanted, which nodes lead there. Then ready nodes are taken from a heap, the highest sequence
// number first: the tape backwards, leaves before all others, so that memory of gradients is freed
// early. Around each node run its hooks: of tensors, before, after. A node runs under the streams
// of devices that were current when it was recorded (pass_streams.h). All happens on the calling
// thread; the state of a pass is its own, and a node is locked while it runs, so that passes of
// several threads may share nodes. Source: PyTorch's engine. Cost: about 0.2 us a node besides the
// node itself.
#include "autograd/engine.h"

#include "autograd/accumulate_grad.h"
#include "autograd/grad_state.h"
#include "autograd/passes/pass_streams.h"
#include "autograd/passes/pass_unit.h"
#include "autograd/tape.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "ops/shapes.h"

#include <tenon/thread_object.hpp>

#include <algorithm>
#include <unordered_map>

namespace tenon::autograd {

namespace {

constexpr int max_depth = 100;

/// What a pass knows of a node.
struct NodeTask {
  uint32_t waiting_for = 0;  ///< edges that have not brought their gradient
  bool needed = true;        ///< leads to a wanted edge
  bool runs = true;          ///< its function is called; else only its inputs are wanted
  bool reached = false;      ///< by an edge that a plain run has
  std::vector<std::pair<uint32_t, size_t>> captures;  ///< input, number of the wanted edge
  std::vector<Tensor> grads;
};

class GradientPass {
 public:
  GradientPass(const std::vector<Edge>& wanted, EngineOptions options)
      : wanted_(wanted), options_(options), captured_(wanted.size()) {}

  std::vector<Tensor> run(const std::vector<Edge>& roots, std::vector<Tensor> grads) {
    count_edges(roots);
    if (!wanted_.empty()) find_needed(roots);
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i]) continue;
      NodeTask& task = tasks_[roots[i].node.get()];
      deliver(nullptr, task, *roots[i].node, roots[i].input, std::move(grads[i]));
      task.reached = true;
      --task.waiting_for;
    }
    for (const Edge& root : roots)
      if (root && tasks_[root.node.get()].waiting_for == 0) make_ready(root.node);
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), later);
      std::shared_ptr<Node> node = std::move(ready_.back());
      ready_.pop_back();
      run_node(node);
    }
    streams_.finish();
    return std::move(captured_);
  }

  // Code in the place of nodes would run under the caller's streams.
  bool runs_elsewhere(const std::vector<Edge>& roots) {
    if (!streams_.are_chosen()) return false;
    count_edges(roots);
    bool found = std::ranges::any_of(
        tasks_, [&](const auto& entry) { return streams_.is_elsewhere(*entry.first); });
    tasks_.clear();
    return found;
  }

  const EngineOptions& options() const { return options_; }
  /// After run(): whether every node that a root leads to was called, and those of leaves in order.
  bool has_called_all() const { return n_called_ == tasks_.size(); }
  std::span<const Node* const> called_leaves() const { return called_leaves_; }
  std::vector<std::function<void()>> callbacks;

 private:
  static bool later(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence() < b->sequence();
  }

  // A root counts as an edge; one that stands among the roots twice becomes ready once.
  void count_edges(const std::vector<Edge>& roots) {
    std::vector<Node*> open;
    auto visit = [&](const Edge& edge) {
      if (!edge) return;
      auto [at, is_new] = tasks_.try_emplace(edge.node.get());
      ++at->second.waiting_for;
      if (is_new) open.push_back(edge.node.get());
    };
    for (const Edge& root : roots) visit(root);
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (const Edge& edge : node->next) visit(edge);
    }
  }

  void find_needed(const std::vector<Edge>& roots) {
    for (auto& [node, task] : tasks_) task.needed = task.runs = false;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      auto at = tasks_.find(wanted_[i].node.get());
      if (at == tasks_.end()) continue;
      at->second.captures.emplace_back(wanted_[i].input, i);
      at->second.needed = true;
      at->second.runs = options_.accumulate && wanted_[i].node->sequence() == first_sequence;
    }
    // Depth first, a node after those that it leads to.
    enum class Mark : uint8_t { open, done };
    std::unordered_map<Node*, Mark> marks;
    std::vector<Node*> stack;
    for (const Edge& root : roots)
      if (root) stack.push_back(root.node.get());
    while (!stack.empty()) {
      Node* node = stack.back();
      auto [at, is_new] = marks.try_emplace(node, Mark::open);
      if (is_new) {
        for (const Edge& edge : node->next)
          if (edge && !marks.contains(edge.node.get())) stack.push_back(edge.node.get());
        continue;
      }
      stack.pop_back();
      if (std::exchange(at->second, Mark::done) == Mark::done) continue;
      bool leads = std::ranges::any_of(
          node->next, [&](const Edge& edge) { return edge && tasks_[edge.node.get()].needed; });
      if (leads || hides_edges(*node)) tasks_[node].needed = tasks_[node].runs = true;
    }
  }

  void deliver(const Node* from, NodeTask& task, const Node& node, uint32_t input, Tensor grad) {
    if (!task.needed || !grad.defined()) return;
    streams_.hand_over(grad, from, node);
    if (task.grads.empty()) task.grads.resize(node.n_inputs());
    Tensor& slot = task.grads[input];
    if (!slot.defined()) {
      slot = std::move(grad);
      return;
    }
    StreamChoiceScope of_node = streams_.enter(node);
    slot = add_gradients(std::move(slot), grad);
  }

  void make_ready(const std::shared_ptr<Node>& node) {
    NodeTask& task = tasks_[node.get()];
    if (std::exchange(task.waiting_for, ~0u) == ~0u) return;
    ready_.push_back(node);
    std::push_heap(ready_.begin(), ready_.end(), later);
  }

  void run_node(const std::shared_ptr<Node>& node) {
    NodeTask& task = tasks_[node.get()];
    StreamChoiceScope of_node = streams_.enter(*node);
    std::vector<Tensor> grads = std::move(task.grads), outputs;
    grads.resize(node->n_inputs());
    if (task.needed && task.reached) {
      run_tensor_hooks(*node, grads);
      for (const auto& [input, number] : task.captures) {
        captured_[number] = grads[input];
        streams_.give_to_caller(grads[input], *node);
      }
      if (task.runs) outputs = call(node, std::move(grads));
      if (const auto* leaf = task.runs ? leaf_elsewhere(*node) : nullptr)
        streams_.give_to_caller(leaf->grad(), *node);
    }
    outputs.resize(node->next.size());
    for (size_t i = 0; i < node->next.size(); ++i) {
      const Edge& edge = node->next[i];
      if (!edge) continue;
      NodeTask& next = tasks_[edge.node.get()];
      if (task.reached && (outputs[i].defined() || !node->joins_nodes())) next.reached = true;
      if (next.needed && outputs[i].defined())
        deliver(node.get(), next, *edge.node, edge.input,
                fit_gradient(std::move(outputs[i]), edge.node->inputs[edge.input], *node, i));
      if (--next.waiting_for == 0) make_ready(edge.node);
    }
  }

  // The leaf whose gradient the node has added up, where the caller's streams are others.
  const Tensor* leaf_elsewhere(const Node& node) const {
    if (!streams_.are_chosen() || !streams_.is_elsewhere(node)) return nullptr;
    const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node);
    return leaf ? &leaf->leaf() : nullptr;
  }

  std::vector<Tensor> call(const std::shared_ptr<Node>& node, std::vector<Tensor> grads) {
    ++n_called_;
    if (node->sequence() == first_sequence) called_leaves_.push_back(node.get());
    if (!node->hooks) return call_function(*node, std::move(grads), options_.keep_graph);
    run_before_hooks(*node, grads);
    std::vector<Tensor> inputs = node->hooks->after.empty() ? std::vector<Tensor>() : grads;
    std::vector<Tensor> outputs = call_function(*node, std::move(grads), options_.keep_graph);
    run_after_hooks(*node, outputs, inputs);
    return outputs;
  }

  const std::vector<Edge>& wanted_;
  EngineOptions options_;
  std::vector<Tensor> captured_;
  std::unordered_map<Node*, NodeTask> tasks_;
  std::vector<std::shared_ptr<Node>> ready_;
  size_t n_called_ = 0;
  std::vector<const Node*> called_leaves_;
  PassStreams streams_;
};

/// The passes that this thread is in, innermost last.
std::vector<GradientPass*>& passes() { return ThreadObject<std::vector<GradientPass*>>::get(); }

struct EnterPass {
  explicit EnterPass(GradientPass& pass) {
    require(passes().size() < max_depth,
            "backward passes are nested {} deep, through hooks or nodes that start another one",
            max_depth);
    passes().push_back(&pass);
  }
  ~EnterPass() { passes().pop_back(); }
};

void apply_hook(const TensorHook& hook, Tensor& grad) {
  if (!grad.defined()) return;
  Tensor changed = hook(grad);
  if (!changed.defined()) return;
  bool alike = changed.device() == grad.device() && changed.sizes().size() == grad.sizes().size();
  for (size_t d = 0; alike && d < grad.sizes().size(); ++d)
    alike = expect_true(changed.sizes()[d] == grad.sizes()[d]);
  require(alike,
          "a hook of a tensor returned a gradient of shape {} on {} in the place of one of shape {} "
          "on {}: it returns one of the same shape and device, or none",
          changed.sizes(), changed.device(), grad.sizes(), grad.device());
  grad = std::move(changed);
}

std::vector<Tensor> checked(std::vector<Tensor> changed, size_t count, const Node& node,
                            const char* what) {
  require(changed.size() == count, "a {} of {} returned {} tensors, expected {} (or none)", what,
          node.name(), changed.size(), count);
  return changed;
}

void check_nan(const Node& node, const std::vector<Tensor>& outputs) {
  BelowAutograd below;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || outputs[i].is_fake()) continue;
    if (!static_cast<bool>(outputs[i].isnan().any())) continue;
    std::string text =
        message("Function '{}' returned nan values in its {}th output.", node.name(), i);
    for (const std::string& line : node.anomaly_trace) text += "\n" + line;
    fail("{}", text);
  }
}

}  // namespace

bool (*take_pass_slot)(const PassRequest&, std::vector<Tensor>&) = nullptr;
std::atomic<int32_t> n_pass_takers{0};

// Hooks may register and remove others: the lists are copied.
void run_tensor_hooks(Node& node, std::vector<Tensor>& grads) {
  if (const auto* leaf = dynamic_cast<AccumulateGrad*>(&node)) {
    GradState& state = state_with_hooks(leaf->leaf());
    for (const auto& hook : std::vector(state.hooks)) apply_hook(hook.call, grads[0]);
  }
  if (!node.hooks) return;
  for (const NodeHooks::TensorHooks& list : std::vector(node.hooks->tensors))
    for (const auto& hook : list.hooks) apply_hook(hook.call, grads[list.input]);
  for (size_t i = 0; i < node.hooks->retains.size(); ++i) retain(node, i, grads[i]);
}

void retain(Node& node, size_t input, const Tensor& grad) {
  const std::shared_ptr<Tensor>& cell = node.hooks->retains[input];
  if (cell && grad.defined()) *cell = cell->defined() ? cell->add(grad) : grad;
}

void run_before_hooks(Node& node, std::vector<Tensor>& grads) {
  if (!node.hooks) return;
  for (const auto& hook : std::vector(node.hooks->before)) {
    std::vector<Tensor> changed = hook.call(grads);
    if (!changed.empty()) grads = checked(std::move(changed), grads.size(), node, "pre-hook");
  }
}

std::vector<Tensor> call_function(Node& node, std::vector<Tensor> grads, bool keep_graph) {
  std::vector<Tensor> outputs;
  {
    std::lock_guard guard(node.lock);
    outputs = node.apply(std::move(grads));
    if (!keep_graph) node.release();
  }
  outputs.resize(node.next.size());
  if (anomaly_mode().enabled && anomaly_mode().check_nan) check_nan(node, outputs);
  return outputs;
}

void run_after_hooks(Node& node, std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
  if (!node.hooks) return;
  for (const auto& hook : std::vector(node.hooks->after)) {
    std::vector<Tensor> changed = hook.call(outputs, inputs);
    if (!changed.empty()) outputs = checked(std::move(changed), outputs.size(), node, "hook");
  }
}

std::vector<Tensor> run_nodes(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                              const std::vector<Edge>& wanted, EngineOptions options) {
  return GradientPass(wanted, options).run(roots, std::move(grads));
}

std::vector<Tensor> run_engine(const std::vector<Edge>& roots, std::vector<Tensor> grads,
                               const std::vector<Edge>& wanted, EngineOptions options,
                               std::span<const Tensor> outputs) {
  GradientPass pass(wanted, options);
  EnterPass entered(pass);
  std::vector<Tensor> captured;
  {
    EnableGradGuard mode(options.create_graph);
    bool taken = n_pass_takers.load(std::memory_order_relaxed) > 0 && !pass.runs_elsewhere(roots) &&
                 take_pass_slot({roots, grads, wanted, options}, captured);
    bool may_be_unit = thread_modes.tracer && options.accumulate && wanted.empty();
    if (!taken && may_be_unit)
      run_as_unit({roots, grads, wanted, options, outputs}, [&] {
        pass.run(roots, std::move(grads));
        return pass.has_called_all() ? pass.called_leaves() : std::span<const Node* const>();
      });
    else if (!taken)
      captured = pass.run(roots, std::move(grads));
  }
  for (size_t i = 0; i < pass.callbacks.size(); ++i)  // a callback may queue more
    std::function<void()>(pass.callbacks[i])();
  return captured;
}

const EngineOptions* current_pass() {
  return passes().empty() ? nullptr : &passes().back()->options();
}

void queue_callback(std::function<void()> callback) {
  require(!passes().empty(), "queue_callback: this thread is in no backward pass");
  passes().back()->callbacks.push_back(std::move(callback));
}

}  // namespace tenon::autograd
