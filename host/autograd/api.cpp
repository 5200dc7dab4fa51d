// The public functions of tenon/autograd.h: modes, backward, grad, hooks.
#include <tenon/autograd.h>

#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/late_nodes.h"
#include "autograd/leaf_update.h"
#include "autograd/passes/pass_unit.h"
#include "autograd/tape.h"
#include "autograd/tape_requests.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/grad_mode.h"
#include "core/sym/sym_int.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/stand_in.h"
#include "report/stack.h"

#include <algorithm>
#include <sstream>

namespace tenon {

NoGradGuard::NoGradGuard() : before_(std::exchange(thread_modes.grad_enabled, false)) {}
NoGradGuard::~NoGradGuard() { thread_modes.grad_enabled = before_; }

EnableGradGuard::EnableGradGuard(bool enabled)
    : before_(std::exchange(thread_modes.grad_enabled, enabled)) {}
EnableGradGuard::~EnableGradGuard() { thread_modes.grad_enabled = before_; }

// What the program excludes: a recording excludes more.
static uint64_t& excluded_by_program() {
  return thread_modes.tracer ? thread_modes.excluded_outside : thread_modes.exclude;
}

InferenceMode::InferenceMode()
    : excluded_(excluded_by_program()), before_(std::exchange(thread_modes.grad_enabled, false)) {
  ++n_inference_modes;
  excluded_by_program() |= bit(Key::autograd);
}
InferenceMode::~InferenceMode() {
  --n_inference_modes;
  constexpr uint64_t own = bit(Key::autograd);
  excluded_by_program() = (excluded_by_program() & ~own) | (excluded_ & own);
  thread_modes.grad_enabled = before_;
}

bool is_grad_enabled() { return thread_modes.grad_enabled; }

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                      std::source_location where) const {
  autograd::backward(
      {*this},
      {.grad_outputs = {gradient}, .retain_graph = retain_graph, .create_graph = create_graph}, {},
      where);
}

namespace autograd {

namespace {

Tensor first_gradient(const Tensor& output, const Tensor& given, const char* who) {
  if (!given.defined()) {
    bool scalar = guard_or_false(output.numel() == 1);
    require(
        scalar,
        "{}: a gradient is made up for outputs of one element only, found shape {}; pass one of "
        "that shape",
        who, output.sizes());
    return output.detach().ones_like();
  }
  require(same_sizes(given.sizes(), output.sizes()),
          "{}: the gradient of an output of shape {} has shape {}", who, output.sizes(),
          given.sizes());
  return given.dtype() == output.dtype() ? given : given.to(output.dtype());
}

// By output.
std::vector<Tensor> first_gradients(const std::vector<Tensor>& outputs,
                                    const BackwardOptions& options, const char* who) {
  require(!outputs.empty(), "{}: no output was given", who);
  require(options.grad_outputs.empty() || options.grad_outputs.size() == outputs.size(),
          "{}: {} gradients were given for {} outputs", who, options.grad_outputs.size(),
          outputs.size());
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    require(outputs[i].defined(), "{}: output {} is undefined", who, i);
    require(
        has_edge(outputs[i]),
        "{}: output {} of shape {} needs no gradient: no tensor that it was computed from does, "
        "or gradients were off",
        who, i, outputs[i].sizes());
    Tensor given = options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i];
    gradients.push_back(first_gradient(outputs[i], given, who));
  }
  return gradients;
}

std::vector<Edge> edges_of(const std::vector<Tensor>& tensors) {
  std::vector<Edge> edges;
  for (const Tensor& t : tensors) edges.push_back(edge_of(t));
  return edges;
}

EngineOptions engine_options(const BackwardOptions& options, bool accumulate) {
  return {.keep_graph = options.retain_graph.value_or(options.create_graph),
          .create_graph = options.create_graph,
          .accumulate = accumulate};
}

std::vector<Edge> wanted_edges(const std::vector<Tensor>& inputs, const char* who) {
  std::vector<Edge> wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined() && inputs[i].requires_grad(),
            "{}: input {} needs no gradient; call requires_grad_() before it is used", who, i);
    wanted.push_back(edge_of(inputs[i]));
  }
  return wanted;
}

/// A pass over real tensors in the middle of a recording that does not go through the tape.
class OutsideOfRecording {
 public:
  OutsideOfRecording(const char* what, std::source_location where, std::vector<Tensor>& outputs,
                     std::vector<Tensor>& gradients, std::vector<Tensor>& inputs) {
    std::vector<Tensor>* lists[] = {&outputs, &gradients, &inputs};
    if (!thread_modes.tracer) {
      for (const auto* list : lists)
        for (const Tensor& t : *list) require_own_thread(t, what);
      return;
    }
    std::vector<Tensor> all;
    for (const auto* list : lists) all.insert(all.end(), list->begin(), list->end());
    token_ = leave_recording_slot(what, where, all, inputs);
    if (!token_) return;
    size_t next = 0;
    for (auto* list : lists)
      for (Tensor& t : *list) t = std::move(all[next++]);
  }
  ~OutsideOfRecording() {
    if (token_) resume_recording_slot(token_);
  }
  OutsideOfRecording(const OutsideOfRecording&) = delete;

 private:
  void* token_ = nullptr;
};

}  // namespace

void backward(const std::vector<Tensor>& given_outputs, const BackwardOptions& given_options,
              const std::vector<Tensor>& given_inputs, std::source_location where) {
  std::vector<Tensor> outputs = given_outputs, inputs = given_inputs;
  BackwardOptions options = given_options;
  OutsideOfRecording outside("backward()", where, outputs, options.grad_outputs, inputs);
  std::vector<Tensor> gradients = first_gradients(outputs, options, "backward");
  const EngineOptions asked = engine_options(options, true);
  if (inputs.empty() && passes_unwalked(outputs, gradients, asked)) return;
  std::vector<Edge> wanted = wanted_edges(inputs, "backward");
  for (const Tensor& input : inputs)
    require(input.is_leaf(), "backward: an input must be a leaf; use grad() for others");
  run_engine(edges_of(outputs), std::move(gradients), wanted, asked, outputs);
}

std::vector<Tensor> grad(const std::vector<Tensor>& given_outputs,
                         const std::vector<Tensor>& given_inputs,
                         const BackwardOptions& given_options, std::source_location where) {
  std::vector<Tensor> outputs = given_outputs, inputs = given_inputs;
  BackwardOptions options = given_options;
  OutsideOfRecording outside("grad()", where, outputs, options.grad_outputs, inputs);
  std::vector<Tensor> gradients = first_gradients(outputs, options, "grad");
  require(!inputs.empty(), "grad: no input was given");
  std::vector<Edge> roots = edges_of(outputs);
  std::vector<Tensor> grads = run_engine(roots, std::move(gradients), wanted_edges(inputs, "grad"),
                                         engine_options(options, false));
  for (size_t i = 0; i < grads.size() && !options.allow_unused; ++i)
    require(grads[i].defined(),
            "grad: the outputs do not depend on input {}; pass allow_unused = true to get an "
            "undefined gradient",
            i);
  return grads;
}

// ---- hooks

namespace {

template <class List, class F>
HookHandle add_hook(const std::shared_ptr<Node>& node, List NodeHooks::*list, F hook) {
  uint64_t id = new_hook_id();
  std::lock_guard guard(node->lock);
  (node->ensure_hooks().*list).push_back({id, std::move(hook)});
  return HookHandle([weak = std::weak_ptr(node), id] {
    if (std::shared_ptr<Node> alive = weak.lock()) remove_hook(*alive, id);
  });
}

// The handle keeps the leaf alive.
template <class List, class... Parts>
HookHandle add_leaf_hook(const Tensor& leaf, List GradState::*list, Parts... hook) {
  GradState& state = ensure_state(leaf);
  uint64_t id = new_hook_id();
  std::lock_guard guard(state.lock);
  (state.*list).push_back({id, std::move(hook)...});
  return HookHandle([leaf, list, id] {
    GradState& owner = ensure_state(leaf);
    std::lock_guard again(owner.lock);
    std::erase_if(owner.*list, [id](const auto& h) { return h.id == id; });
  });
}

// On a tensor with a tape.
HookHandle hook_tensor(const Tensor& t, TensorHook hook) {
  std::shared_ptr<Node> node = node_of(t);
  if (!node) return add_leaf_hook(t, &GradState::hooks, std::move(hook));
  uint64_t id = new_hook_id();
  uint32_t input = state_of(t)->node_input;
  std::lock_guard guard(node->lock);
  auto& lists = node->ensure_hooks().tensors;
  auto at = std::ranges::find_if(lists, [&](const auto& l) { return l.input == input; });
  // Of nodes of a plain run the last one would come first.
  auto is_earlier = [&](const auto& l) {
    return node->rank_of_input(l.input) < node->rank_of_input(input);
  };
  if (at == lists.end()) at = lists.insert(std::ranges::find_if(lists, is_earlier), {input, {}});
  at->hooks.push_back({id, std::move(hook)});
  return HookHandle([weak = std::weak_ptr(node), id] {
    if (std::shared_ptr<Node> alive = weak.lock()) remove_hook(*alive, id);
  });
}

}  // namespace

HookHandle detail::add_tensor_hook(const Tensor& t, TensorHook hook) {
  require(t.defined() && t.requires_grad(),
          "register_hook: the tensor needs no gradient, so the hook would never run");
  require_own_thread(t, "register_hook");
  if (!thread_modes.tracer) return hook_tensor(t, std::move(hook));
  auto attach = [hook = std::move(hook)](const Tensor& real) { return hook_tensor(real, hook); };
  return hook_slot(t, {"register_hook", true, std::move(attach)});
}

namespace {

void run_update(const LeafUpdate& update, const Tensor& leaf) {
  Tensor grad = leaf.grad();
  if (!grad.defined()) return;
  leaf.set_grad({});
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < update.n_tensors(); ++i) tensors.push_back(update.tensor(i));
  NoGradGuard off;
  update.run(leaf, grad, tensors);
}

}  // namespace

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, PostAccumulateHook hook) {
  const char* what = "register_post_accumulate_grad_hook";
  require(leaf.defined() && leaf.requires_grad(), "{}: expected a leaf that needs a gradient",
          what);
  auto attach = [what, hook = std::move(hook)](const Tensor& real) {
    require(real.is_leaf(), "{}: expected a leaf that needs a gradient", what);
    return add_leaf_hook(real, &GradState::after_accumulate, hook);
  };
  require_own_thread(leaf, what);
  return thread_modes.tracer ? hook_slot(leaf, {what, false, std::move(attach)}) : attach(leaf);
}

HookHandle update_after_accumulate(const Tensor& leaf, std::shared_ptr<const LeafUpdate> update) {
  auto attach = [update = std::move(update)](const Tensor& real) {
    PostAccumulateHook call = [own = update.get()](const Tensor& t) { run_update(*own, t); };
    return add_leaf_hook(real, &GradState::after_accumulate, std::move(call), update);
  };
  require_own_thread(leaf, "StepInBackward");
  return thread_modes.tracer ? hook_slot(leaf, {"StepInBackward", false, std::move(attach)})
                             : attach(leaf);
}

void retain_grad_at(Node& node, uint32_t input, std::shared_ptr<Tensor> cell) {
  std::lock_guard guard(node.lock);
  node.ensure_hooks().last_retain = new_hook_id();
  auto& retains = node.hooks->retains;
  if (retains.size() <= input) retains.resize(input + 1);
  retains[input] = std::move(cell);
}

GradFn grad_fn(const Tensor& t) {
  require_own_thread(t, "grad_fn");
  Tensor fake = t.defined() ? written_fake_of(t) : Tensor();
  if (t.defined() && t.is_fake() && thread_modes.tracer) fake = t;
  std::shared_ptr<Node> node = node_of(t);
  if (!node && fake.defined()) node = node_slot(fake);
  return GradFn(std::move(node));
}

std::string GradFn::name() const { return node_ ? node_->name() : "none"; }

std::vector<GradFn> GradFn::next_functions() const {
  std::vector<GradFn> out;
  require(!dynamic_cast<const ComingNode*>(node_.get()), ErrorCode::unsupported,
          "next_functions: {} is the node of a tensor of a compiled body, whose tape is made when "
          "its code runs; ask in a part of the body under disable()",
          name());
  if (node_)
    for (const Edge& edge : node_->next) out.emplace_back(edge.node);
  return out;
}

namespace {

// Of a node that is still to come: with the code that makes its result.
template <class List, class F>
HookHandle hook_node(const std::shared_ptr<Node>& node, const char* what, List NodeHooks::*list,
                     F hook) {
  require(node != nullptr, "{}: no recorded op made this tensor", what);
  auto* coming = dynamic_cast<const ComingNode*>(node.get());
  if (!coming) return add_hook(node, list, std::move(hook));
  require(
      thread_modes.tracer && coming->result().is_fake(),
      "{}: {} is the node of a tensor of a compiled body that is over, whose operations have run "
      "in one piece; call {} in the body",
      what, coming->name(), what);
  auto attach = [list, hook = std::move(hook)](const Tensor& real) {
    return add_hook(node_of(real), list, hook);
  };
  return hook_slot(coming->result(), {what, true, std::move(attach), true});
}

}  // namespace

HookHandle GradFn::register_prehook(NodePreHook hook) const {
  return hook_node(node_, "register_prehook", &NodeHooks::before, std::move(hook));
}

HookHandle GradFn::register_hook(NodePostHook hook) const {
  return hook_node(node_, "register_hook", &NodeHooks::after, std::move(hook));
}

// ---- anomaly mode

AnomalyMode& anomaly_mode() {
  thread_local AnomalyMode mode;
  return mode;
}

DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan)
    : before_(anomaly_mode().enabled), nan_before_(anomaly_mode().check_nan) {
  anomaly_mode() = {true, check_nan};
}

DetectAnomalyGuard::~DetectAnomalyGuard() { anomaly_mode() = {before_, nan_before_}; }

void note_origin(Node& node, const std::string& op) {
  if (!anomaly_mode().enabled) return;
  node.anomaly_trace.push_back("recorded by " + op + " in");
  std::istringstream lines(report::stack_text(2));
  for (std::string line; std::getline(lines, line);) node.anomaly_trace.push_back(line);
}

}  // namespace autograd
}  // namespace tenon
