// Nodes of added ops: all arguments and results are kept, since the function may look at any; of an
// argument that the op writes, what was in it before.
#include "autograd/custom_node.h"

#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "autograd/saved/saved_value.h"
#include "autograd/tape.h"
#include "autograd/view.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "ops/custom_op.h"

#include <algorithm>

namespace tenon::autograd {

namespace {

class CustomNode final : public Node {
 public:
  explicit CustomNode(const CallArgs& call) : op_(*call.op) {
    for (uint32_t i = 0; i < call.n_args; ++i) {
      const bool is_written = op_.mutated_args >> i & 1;
      kept_.emplace_back(call.args[i], SavedValue::Part::whole, is_written);
      if (op_.returned_arg == static_cast<int>(i)) returned_edge_ = next.size();
      if (op_.schema.args[i].type.base == BaseType::tensor) connect(call.args[i], i);
    }
  }

  void save_results(const CallArgs& call) {
    add_inputs(call);
    each_result(call,
                [&](const Tensor& t, uint32_t input) { results_.emplace_back(t, true, input); });
  }

  // `of_write`: this node, or another one like it for what was written.
  void attach(const CallArgs& call, const std::shared_ptr<CustomNode>& of_write) {
    each_result(call, [&](const Tensor& t, uint32_t input) {
      if (!is_differentiable(t.dtype())) return;
      if (input == 0 && op_.returned_arg >= 0)
        rebase_history(t, of_write, returned_edge_);
      else
        set_history(t, shared_from_this(), input);
    });
    refuse_writes(call, next, Written::with_history);
  }

  std::string name() const override { return op_.name; }

  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    CallMemory memory;
    std::shared_ptr<Node> self = shared_from_this();
    for (size_t i = 0; i < kept_.size(); ++i)
      kept_[i].add_to(memory, self, "argument " + op_.schema.args[i].name);
    std::vector<Tensor> results;
    for (const SavedTensor& r : results_) results.push_back(r.unpack(self, "a result"));
    grads.resize(results.size());  // of what is written through a view, the first comes alone
    for (size_t i = 0; i < grads.size(); ++i)
      if (!grads[i].defined()) grads[i] = results[i].zeros_like();
    CallArgs call{&op_, memory.values.data(), nullptr, static_cast<uint32_t>(memory.values.size()),
                  0};
    std::vector<Tensor> out = custom_op_of(op_)->vjp(call, results, grads);
    require(out.size() == next.size(),
            "{}: its vjp gave {} gradients, expected {}: one for each tensor argument and for each "
            "element of a list, in the order of the arguments, undefined where there is none",
            op_.name, out.size(), next.size());
    return out;
  }

  bool collect(Collector& collector) const override {
    collector.key(&op_);
    auto collected = [&](const auto& kept) { return kept.collect(collector); };
    return std::ranges::all_of(kept_,
                               [&](const SavedValue& v) { return v.collect(collector, false); }) &&
           std::ranges::all_of(results_, collected);
  }

  void release() override {
    for (SavedValue& a : kept_) a.release();
    for (SavedTensor& r : results_) r.release();
  }

 private:
  // Also for what is not there, so that the places of gradients follow from the schema and the
  // lengths of the lists.
  void connect(const Value& arg, uint32_t i) {
    if (arg.tag == Tag::tensors)
      for (const Tensor& t : TensorList(arg.as<Tensor>(), arg.count)) next.push_back(edge_of(t));
    else if (!op_.schema.args[i].type.is_list)
      next.push_back(arg.tag == Tag::tensor ? edge_of(*arg.as<Tensor>()) : Edge{});
  }

  const OpEntry& op_;
  size_t returned_edge_ = 0;
  std::vector<SavedValue> kept_;
  std::vector<SavedTensor> results_;
};

}  // namespace

void record_custom(const CallArgs& call) {
  auto node = std::make_shared<CustomNode>(call), of_write = node;
  note_origin(*node, call.op->name);
  // Within the node of a view's base it runs, and is released, apart from that of other results.
  if (call.op->returned_arg >= 0 && call.n_results > 1) {
    of_write = std::make_shared<CustomNode>(call);
    note_origin(*of_write, call.op->name);
  }
  {
    BelowAutograd below;
    dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
  }
  node->save_results(call);
  if (of_write != node) of_write->save_results(call);
  node->attach(call, of_write);
}

}  // namespace tenon::autograd
