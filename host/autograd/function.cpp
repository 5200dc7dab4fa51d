// Functions with a derivative of their own: tenon::autograd::Function.
#include "autograd/grad_state.h"
#include "autograd/saved_tensor.h"
#include "autograd/tape.h"
#include "autograd/view.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "report/stack.h"

#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon::autograd {

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
      auto at = std::ranges::find_if(results, [&](const Tensor& r) { return r.is_same(t); });
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
    return std::ranges::any_of(list, [&](const Tensor& x) { return x.is_same(t); });
  }

  // A result that is an input or shares its memory would carry two histories.
  std::vector<Tensor> attach(std::vector<Tensor> results) {
    for (Tensor& r : results) {
      bool fixed = !r.defined() || !is_differentiable(r.dtype()) || holds(node->context.fixed_, r);
      bool dirty = r.defined() && holds(node->context.dirty_, r);
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
    return results;
  }

  std::vector<Tensor> run(const detail::FunctionForward& forward) {
    bool needed = false;
    for (const Tensor& t : inputs) {
      bool needs = t.defined() && t.requires_grad() && thread_modes.grad_enabled;
      node->context.needs_.push_back(needs);
      node->next.push_back(needs ? edge_of(t) : Edge{});
      needed = needed || needs;
    }
    std::vector<Tensor> results;
    {
      NoGradGuard no_grad;
      results = forward(node->context, inputs);
      if (needed)
        for (Tensor& r : results)
          if (r.defined() && holds(inputs, r) && !holds(node->context.dirty_, r)) r = r.view_as(r);
    }
    if (!needed) return results;
    results = attach(std::move(results));
    node->save(results);
    return results;
  }
};

std::vector<Tensor> detail::apply_function(std::string name, const std::vector<Tensor>& inputs,
                                           const FunctionForward& forward,
                                           FunctionBackward backward) {
  auto run = [&](const std::vector<Tensor>& real) {
    auto node = std::make_shared<FunctionNode>(name + "Backward", std::move(backward));
    note_origin(*node, name);
    return FunctionRunner{node, real}.run(forward);
  };
  // A graph of the function's ops would have their derivatives, not the function's own.
  bool needs = thread_modes.grad_enabled && std::ranges::any_of(inputs, [](const Tensor& t) {
                 return t.defined() && t.requires_grad();
               });
  return thread_modes.tracer && needs ? run_outside_slot(name, inputs, run) : run(inputs);
}

std::string detail::type_name(const std::type_info& type) {
  std::string name = report::demangled(type.name());
  size_t colon = name.rfind("::");
  return colon == name.npos ? name : name.substr(colon + 2);
}

}  // namespace tenon::autograd
