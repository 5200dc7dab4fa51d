// Functions with a derivative of their own: tenon::autograd::Function.
#include "autograd/function.h"

#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor.h"
#include "autograd/tape.h"
#include "autograd/view.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"
#include "report/stack.h"

#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

// As is_same(), which is only asked where an argument is a captured tensor: no other answer makes a
// body depend on which tensors a call brings.
bool are_one(const Tensor& a, const Tensor& b) {
  if (same_head(a, b)) return true;
  return a.defined() && b.defined() && same_head(object_behind(a), object_behind(b)) &&
         a.is_same(b);
}

}  // namespace

class FunctionNode final : public Node {
 public:
  FunctionNode(std::string name, detail::FunctionBackward backward)
      : name_(std::move(name)), backward_(std::move(backward)) {}

  std::string name() const override { return name_; }
  void release() override {
    for (SavedTensor& t : saved_) t.release();
  }

  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    for (size_t i = 0; i < grads.size() && context.materialize_; ++i)
      if (!grads[i].defined())
        grads[i] = zeros(list_of(inputs[i].sizes), inputs[i].dtype, {}, inputs[i].device);
    std::vector<Tensor> out = backward_(context, std::move(grads));
    require(out.size() == next.size(),
            "{}: backward returned {} gradients, expected {}: one an input", name_, out.size(),
            next.size());
    return out;
  }

  /// Keeps what forward asked for; `results` are kept without their history.
  void save(const std::vector<Tensor>& results) {
    for (const Tensor& t : context.to_save_) {
      auto at = std::ranges::find_if(results, [&](const Tensor& r) { return are_one(r, t); });
      bool is_result = t.defined() && at != results.end();
      saved_.emplace_back(t, is_result, static_cast<uint32_t>(at - results.begin()));
    }
    context.to_save_.clear();
    context.node_ = this;
  }

  std::vector<Tensor> unpack() {
    std::vector<Tensor> out;
    for (const SavedTensor& t : saved_)
      out.push_back(t.unpack(shared_from_this(), "a saved tensor"));
    return out;
  }

  Context context;

 private:
  std::string name_;
  detail::FunctionBackward backward_;
  std::vector<SavedTensor> saved_;
};

void Context::save_for_backward(std::vector<Tensor> tensors) {
  require(!node_, "save_for_backward: forward has ended");
  to_save_ = std::move(tensors);
}

std::vector<Tensor> Context::saved_tensors() const {
  return node_ ? static_cast<FunctionNode*>(node_)->unpack() : to_save_;
}

struct FunctionRunner {
  std::shared_ptr<FunctionNode> node;
  const std::vector<Tensor>& inputs;

  static bool holds(const std::vector<Tensor>& list, const Tensor& t) {
    return std::ranges::any_of(list, [&](const Tensor& x) { return are_one(x, t); });
  }

  bool note_needs() {
    bool needed = false;
    for (const Tensor& t : inputs) {
      bool needs = t.defined() && t.requires_grad() && thread_modes.grad_enabled;
      node->context.needs_.push_back(needs);
      needed = needed || needs;
    }
    return needed;
  }

  void connect() {
    for (size_t i = 0; i < inputs.size(); ++i)
      node->next.push_back(node->context.needs_[i] ? edge_of(inputs[i]) : Edge{});
  }

  std::vector<Tensor> forward(const detail::FunctionForward& forward, bool needed) {
    NoGradGuard no_grad;
    std::vector<Tensor> results = forward(node->context, inputs);
    for (Tensor& r : results)
      if (needed && r.defined() && holds(inputs, r) && !holds(node->context.dirty_, r))
        r = r.detach();  // which is no view of the input to the tape
    return results;
  }

  bool is_fixed(const Tensor& result) const {
    return !result.defined() || !is_differentiable(result.dtype()) ||
           holds(node->context.fixed_, result);
  }
  bool is_dirty(const Tensor& result) const {
    return result.defined() && holds(node->context.dirty_, result);
  }

  // A result that is an input or shares its memory would carry two histories.
  std::vector<Tensor> attach(std::vector<Tensor> results) {
    for (Tensor& r : results) {
      bool fixed = is_fixed(r), dirty = is_dirty(r);
      if (!fixed && !dirty && holds(inputs, r)) r = r.view_as(r);
      uint32_t input = r.defined() ? node->add_input(r) : (node->inputs.emplace_back(), 0);
      if (fixed) continue;
      if (dirty) {
        check_write(r, node->name());
        rebase_history(r, node);
      } else {
        set_history(r, node, input);
      }
    }
    node->save(results);
    node->context.dirty_.clear();  // they hold the node
    node->context.fixed_.clear();
    return results;
  }

  std::vector<Tensor> run(const detail::FunctionForward& function) {
    bool needed = note_needs();
    connect();
    std::vector<Tensor> results = forward(function, needed);
    return needed ? attach(std::move(results)) : results;
  }

  /// The context without tensors, and what they were.
  Context emptied_context(const std::vector<Tensor>& results, ResultKinds& kinds,
                          std::vector<Tensor>& saved) {
    for (uint32_t r = 0; r < results.size(); ++r) {
      if (is_fixed(results[r])) kinds.fixed.push_back(r);
      if (is_dirty(results[r])) kinds.dirty.push_back(r);
    }
    Context context = std::move(node->context);
    saved = std::exchange(context.to_save_, {});
    context.dirty_.clear();
    context.fixed_.clear();
    return context;
  }

  void take(const Context& context, const FunctionTensors& tensors, const ResultKinds& kinds) {
    node->context = context;
    node->context.to_save_ = tensors.saved;
    for (uint32_t r : kinds.fixed) node->context.fixed_.push_back(tensors.results[r]);
    for (uint32_t r : kinds.dirty) node->context.dirty_.push_back(tensors.results[r]);
  }
};

namespace {

std::shared_ptr<FunctionNode> make_node(const std::string& name,
                                        detail::FunctionBackward backward) {
  auto node = std::make_shared<FunctionNode>(name + "Backward", std::move(backward));
  note_origin(*node, name);
  return node;
}

}  // namespace

std::vector<Tensor> (*record_function_slot)(FunctionCall&) = nullptr;

void WaitingFunction::attach(
    FunctionTensors tensors,
    FunctionRef<detail::FunctionBackward(detail::FunctionBackward)> wrap) const {
  FunctionRunner runner{make_node(name_, wrap(backward_)), tensors.inputs};
  runner.take(context_, tensors, kinds_);
  runner.connect();
  runner.attach(std::move(tensors.results));
}

std::vector<Tensor> FunctionCall::run(const std::vector<Tensor>& on) const {
  return FunctionRunner{make_node(name, backward_), on}.run(forward_);
}

FunctionTensors FunctionCall::run_forward() {
  FunctionRunner runner{make_node(name, {}), inputs};
  FunctionTensors found{inputs, runner.forward(forward_, runner.note_needs()), {}};
  ResultKinds kinds;
  Context context = runner.emptied_context(found.results, kinds, found.saved);
  waiting_ = std::make_shared<const WaitingFunction>(name, backward_, std::move(context),
                                                     std::move(kinds));
  return found;
}

std::vector<Tensor> detail::apply_function(std::string name, const std::vector<Tensor>& inputs,
                                           const FunctionForward& forward,
                                           FunctionBackward backward) {
  FunctionCall call(name, inputs, forward, std::move(backward));
  bool needs = thread_modes.grad_enabled && std::ranges::any_of(inputs, [](const Tensor& t) {
                 return t.defined() && t.requires_grad();
               });
  // A graph of the function's ops would have their derivatives, not the function's own.
  return thread_modes.tracer && needs ? record_function_slot(call) : call.run(inputs);
}

std::string detail::type_name(const std::type_info& type) {
  std::string name = report::demangled(type.name());
  size_t colon = name.rfind("::");
  return colon == name.npos ? name : name.substr(colon + 2);
}

}  // namespace tenon::autograd
