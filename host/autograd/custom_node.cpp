// Nodes of added ops: all arguments and results are kept, since the function may look at any.
#include "autograd/custom_node.h"

#include "autograd/call_values.h"
#include "autograd/grad_state.h"
#include "autograd/saved_tensor.h"
#include "autograd/tape.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "ops/custom_op.h"

#include <deque>

namespace tenon::autograd {

namespace {

/// An argument with all that its value points to.
struct KeptArgument {
  Value value;
  SavedTensor tensor;
  std::vector<SavedTensor> tensors;
  std::vector<uint64_t> words;
  std::string text;
  std::unique_ptr<bool[]> bools;

  explicit KeptArgument(const Value& v) : value(v) {
    if (v.tag == Tag::tensor) tensor = SavedTensor(*v.as<Tensor>(), false);
    if (v.tag == Tag::tensors)
      for (const Tensor& t : TensorList(v.as<Tensor>(), v.count)) tensors.emplace_back(t, false);
    if (v.tag == Tag::ints || v.tag == Tag::floats) {
      words.assign(v.as<uint64_t>(), v.as<uint64_t>() + v.count);
      value.payload = reinterpret_cast<uint64_t>(words.data());
    }
    if (v.tag == Tag::string) {
      text.assign(v.as<char>(), v.count);
      value.payload = reinterpret_cast<uint64_t>(text.data());
    }
    if (v.tag == Tag::bools) {
      bools = std::make_unique<bool[]>(v.count);
      std::copy_n(v.as<bool>(), v.count, bools.get());
      value.payload = reinterpret_cast<uint64_t>(bools.get());
    }
  }
};

class CustomNode final : public Node {
 public:
  explicit CustomNode(const CallArgs& call) : op_(*call.op) {
    for (uint32_t i = 0; i < call.n_args; ++i) {
      const Value& v = call.args[i];
      kept_.emplace_back(v);
      if (op_.schema.args[i].type.base != BaseType::tensor || op_.schema.args[i].type.is_list)
        continue;
      next.push_back(v.tag == Tag::tensor ? edge_of(*v.as<Tensor>()) : Edge{});
    }
  }

  void save_results(const CallArgs& call) {
    add_inputs(call);
    each_result(call, [&](const Tensor& t, uint32_t input) {
      results_.emplace_back(t, true, input);
      if (is_floating(t.dtype())) set_history(t, shared_from_this(), input);
    });
  }

  std::string name() const override { return op_.name; }

  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    std::deque<Tensor> tensors;
    std::deque<std::vector<Tensor>> lists;
    std::vector<Value> values;
    std::shared_ptr<Node> self = shared_from_this();
    for (size_t i = 0; i < kept_.size(); ++i) {
      const KeptArgument& a = kept_[i];
      std::string what = "argument " + op_.schema.args[i].name;
      if (a.value.tag == Tag::tensor) {
        values.push_back(Value::of(tensors.emplace_back(a.tensor.unpack(self, what))));
      } else if (a.value.tag == Tag::tensors) {
        std::vector<Tensor>& list = lists.emplace_back();
        for (const SavedTensor& t : a.tensors) list.push_back(t.unpack(self, what));
        values.push_back(Value::of(TensorList(list)));
      } else {
        values.push_back(a.value);
      }
    }
    std::vector<Tensor> results;
    for (const SavedTensor& r : results_) results.push_back(r.unpack(self, "a result"));
    for (size_t i = 0; i < grads.size(); ++i)
      if (!grads[i].defined()) grads[i] = results[i].zeros_like();
    CallArgs call{&op_, values.data(), nullptr, static_cast<uint32_t>(values.size()), 0};
    std::vector<Tensor> out = custom_op_of(op_)->vjp(call, results, grads);
    require(out.size() == next.size(), "{}: its vjp gave {} gradients for {} tensor arguments",
            op_.name, out.size(), next.size());
    return out;
  }

  void release() override {
    for (KeptArgument& a : kept_) {
      a.tensor.release();
      for (SavedTensor& t : a.tensors) t.release();
    }
    for (SavedTensor& r : results_) r.release();
  }

 private:
  const OpEntry& op_;
  std::deque<KeptArgument> kept_;
  std::vector<SavedTensor> results_;
};

}  // namespace

void record_custom(const CallArgs& call) {
  auto node = std::make_shared<CustomNode>(call);
  note_origin(*node, call.op->name);
  {
    BelowAutograd below;
    dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
  }
  node->save_results(call);
}

}  // namespace tenon::autograd
