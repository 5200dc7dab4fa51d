// SPDX-License-Identifier: Apache-2.0
// TEMPLATE_NAME: a backend that runs graphs node by node, most nodes through the host's kernels.
//
// Where to go from here: replace more nodes by code of yours in `Program::run`, or compile the
// whole graph into one function in `TEMPLATE_CLASS::compile`.
#include <TEMPLATE_NAME_options.h>
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

bool is_dense_f32(const tn_tensor* t) {
  return t->dtype == TN_F32 && t->device_type == TN_DEV_CPU && (t->flags & TN_T_CONTIGUOUS);
}

/// The one op that this plugin has code for; everything else is the host's.
tensor relu(const tn_tensor* x) {
  tensor out = tensor::empty(sizes(x), TN_F32);
  const auto* from = static_cast<const float*>(x->data);
  auto* to = out.data<float>();
  parallel_for(0, x->numel, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[i] < 0 ? 0 : from[i];  // keeps NaN
  });
  return out;
}

/// A compiled graph. Calls may come from several threads at once: nothing here changes.
class Program {
 public:
  explicit Program(const tn_compile_request& request)
      : own_relu_(TEMPLATE_NAME_options::read(request).own_relu) {
    graph g(request);
    if (!g.symbols().empty()) throw declined("symbolic sizes");
    for (uint32_t i = 0; i < g.size(); ++i) nodes_.emplace_back(g, i);
    for (uint32_t i = 0; i < g.values(); ++i)
      if (g.value_at(i).source == TN_SRC_CONSTANT) constants_.emplace_back(i, g.constant(i));
    inputs_.assign(g.inputs().begin(), g.inputs().end());
    outputs_.assign(g.outputs().begin(), g.outputs().end());
    n_values_ = g.values();
  }

  /// Inputs are borrowed, outputs are new references; what is thrown becomes a status.
  void call(tn_call& c) {
    std::vector<tensor> owned(n_values_);
    std::vector<tn_tensor*> values(n_values_);
    for (size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = c.inputs[i];
    for (const auto& [id, constant] : constants_) values[id] = constant.get();
    for (const owned_node& n : nodes_) {
      run(n, values, c.stream);
      for (uint32_t id = n.first_result; id < n.first_result + n.n_results; ++id)
        owned[id] = tensor(values[id]);
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i] != TN_NO_VALUE) c.outputs[i] = tensor::share(values[outputs_[i]]).release();
  }

 private:
  void run(const owned_node& n, std::vector<tn_tensor*>& values, tn_stream* stream) const {
    if (own_relu_ && n.op == op("aten.relu.default")) {
      const tn_tensor* x = values[n.args()[0].u.value];
      if (is_dense_f32(x)) {
        values[n.first_result] = relu(x).release();
        return;
      }
    }
    std::span<tn_tensor*> results(&values[n.first_result], n.n_results);
    run_op(n, n.args(), values.data(), results, stream);
  }

  bool own_relu_;
  std::vector<owned_node> nodes_;
  std::vector<std::pair<uint32_t, tensor>> constants_;
  std::vector<uint32_t> inputs_, outputs_;
  uint32_t n_values_ = 0;
};

struct TEMPLATE_CLASS : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    return std::make_unique<Program>(request);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((TEMPLATE_CLASS, "TEMPLATE_NAME"))
