// The second forward and what it is given.
//
// Problem: a call writes some of its inputs, counters and running statistics above all. Who
// differentiates its gradients runs its forward again and wants the inputs of then.
// Model: a part of the joint graph. A value has to be right, or only there, or is not wanted at
// all. Results with gradients have to be right, and what a draw of random numbers reads: it may
// decide how many are drawn.
// Method: one walk backwards. The running statistics of a normalisation by the batch lead to the
// new statistics alone; unless somebody reads these, they only have to be there. So few inputs are
// both written and wanted, and these are copied at each call.
#include "aot/second_forward.h"

#include "aot/strided_copies.h"
#include "autograd/grad_state.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/extract.h"
#include "graph/passes/aliasing.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

namespace {

using Need = SecondForward::Need;

bool normalizes_by_batch(const Node& node) {
  if (node.op != OpId::aten__native_batch_norm_legit_functional_default) return false;
  const Value& training = node.args[5];
  return training.is_number() && !training.number().is_symbolic() && training.number().to_bool();
}

/// Finds what is wanted, from the results on.
class Wanted {
 public:
  explicit Wanted(const Graph& graph)
      : graph_(graph), symbols_(graph), needs_(graph.values().size()) {}

  void want(ValueId v, Need need) {
    if (v != no_value) needs_[v] = std::max(needs_[v], need);
  }
  Need of(ValueId v) const { return needs_[v]; }

  /// Whether the node has to run; if so, what it reads is wanted. Nodes come last one first.
  bool visit(const Node& node) {
    Need most = draws_numbers(node) ? Need::value : Need::nothing;
    for (uint32_t r = 0; r < node.n_results; ++r) most = std::max(most, of(node.first_result + r));
    if (most == Need::nothing) return false;
    for (uint32_t i = 0; i < node.args.size(); ++i) {
      Need need = is_for_statistics_alone(node, i) ? Need::sizes : most;
      for_each_value(node.args[i], [&](ValueId v) { want(v, need); });
    }
    symbols_.each_of(node, [&](uint32_t s) { want(graph_.symbols[s].value, Need::value); });
    return true;
  }

 private:
  bool is_for_statistics_alone(const Node& node, uint32_t arg) const {
    return (arg == 3 || arg == 4) && normalizes_by_batch(node) &&
           of(node.first_result + 3) != Need::value && of(node.first_result + 4) != Need::value;
  }

  const Graph& graph_;
  SymbolUse symbols_;
  std::vector<Need> needs_;  // by value
};

bool has_older_history(const Graph& graph, ValueId v) {
  if (v == no_value || graph.value(v).source != ValueSource::node) return false;
  return graph.node(graph.value(v).source_index).facts.contains(older_history);
}

}  // namespace

SecondForward::SecondForward(std::shared_ptr<const Graph> joint, const Derivative& derivative)
    : joint_(std::move(joint)), needs_(derivative.n_primals) {
  for (uint32_t result : derivative.tangents) {
    ValueId v = joint_->outputs()[result];
    results_.push_back(has_older_history(*joint_, v) ? no_value : v);
  }
  find_nodes(derivative);
}

void SecondForward::find_nodes(const Derivative& derivative) {
  Wanted wanted(*joint_);
  for (ValueId v : results_) wanted.want(v, Need::value);
  for (uint32_t primal : derivative.gradients) wanted.want(joint_->inputs()[primal], Need::value);
  for (auto n = static_cast<NodeId>(joint_->nodes().size()); n-- > 0;) {
    const Node& node = joint_->node(n);
    if (node.is_backward || !wanted.visit(node)) continue;
    nodes_.push_back(n);
    loses_history_ |= node.facts.contains(older_history);
  }
  std::ranges::reverse(nodes_);
  for (uint32_t i = 0; i < needs_.size(); ++i) needs_[i] = wanted.of(joint_->inputs()[i]);
}

void SecondForward::extract() {
  auto inputs = joint_->inputs().first(needs_.size());
  Extracted whole = Extractor(*joint_).cut(nodes_, inputs, results_);
  symbols_ = whole.outer_symbols;
  code_.emplace(whole.graph);
}

std::vector<Tensor> SecondForward::run(std::span<const Tensor> primals,
                                       std::span<const int64_t> words,
                                       std::span<const Tensor> sent) {
  bool loses_history = loses_history_;
  for (size_t k = 0; k < results_.size(); ++k)
    loses_history |= results_[k] == no_value && sent[k].defined();
  require(!loses_history, ErrorCode::unsupported,
          "gradients of gradients through a compiled function that writes a tensor which needs a "
          "gradient under NoGradGuard or through detach(), and reads or returns it afterwards; "
          "write to a clone, or leave the function uncompiled (.disable = true)");
  extract_once_.run([this] { extract(); });
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : primals) heads.push_back(t.head());
  heads.resize(code_->graph().inputs().size());
  std::vector<int64_t> own_words;
  for (uint32_t outer : symbols_) own_words.push_back(outer < words.size() ? words[outer] : 0);
  std::vector<Tensor> results(results_.size());
  code_->run(heads, own_words, results);
  return results;
}

WrittenStorages::WrittenStorages(std::span<const uint32_t> written,
                                 std::span<detail::TensorHead* const> inputs) {
  for (uint32_t primal : written)
    storages_.push_back(static_cast<TensorImpl*>(inputs[primal])->storage_ref.get());
  std::ranges::sort(storages_);
}

bool WrittenStorages::holds(const Tensor& t) const {
  if (storages_.empty() || !t.defined()) return false;
  return std::ranges::binary_search(storages_,
                                    static_cast<const void*>(impl_of(t)->storage_ref.get()));
}

// An input that is written gets a history that leads to the node of the call, and would keep that
// node alive that keeps it.
void InputsBefore::keep(const SecondForward& second, std::span<detail::TensorHead* const> inputs,
                        const WrittenStorages& written) {
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    exact_.emplace_back();
    Need need = inputs[i] ? second.need_of(i) : Need::nothing;
    if (need == Need::nothing) continue;
    Tensor t = share(inputs[i]);
    if (need == Need::sizes) {
      loose_.push_back({i, autograd::bare_alias(t)});
      continue;
    }
    if (written.holds(t)) {
      BelowAutograd below;
      t = copy_with_strides(t, t.strides());
      copies_.push_back({i, t});
    }
    exact_.back() = autograd::SavedTensor(t, false);
  }
}

Tensor InputsBefore::copy_of(uint32_t primal) const {
  auto found = std::ranges::find(copies_, primal, &OfPrimal::primal);
  return found == copies_.end() ? Tensor() : found->tensor;
}

void InputsBefore::forget_copies() {
  for (OfPrimal& copy : copies_) copy.tensor = Tensor();
}

std::vector<Tensor> InputsBefore::unpack(const std::shared_ptr<autograd::Node>& owner,
                                         const Derivative& derivative) const {
  std::vector<Tensor> primals;
  for (const autograd::SavedTensor& t : exact_) primals.push_back(t.unpack(owner, "an input"));
  for (const OfPrimal& t : loose_) primals[t.primal] = t.tensor;
  for (size_t k = 0; k < derivative.gradients.size(); ++k) {
    uint32_t primal = derivative.gradients[k];
    const autograd::Edge& edge = owner->next[k];
    if (!edge || std::ranges::find(copies_, primal, &OfPrimal::primal) == copies_.end()) continue;
    primals[primal] = autograd::bare_alias(primals[primal]);
    autograd::set_history(primals[primal], edge.node, edge.input);
  }
  return primals;
}

void InputsBefore::release() {
  for (autograd::SavedTensor& t : exact_) t.release();
  loose_.clear();
  forget_copies();
}

}  // namespace tenon
