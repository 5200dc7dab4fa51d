// The promises of compiled graphs: what the graph says about its outputs and inputs.
#include "backend/compile/contract.h"

#include "backend/abi/bridge.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/sym/sym_eval.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"
#include "ops/custom_op.h"
#include "ops/forms/history.h"
#include "ops/op_table.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>

namespace tenon {

namespace {

std::string named(std::string_view what, size_t index, const GraphValue& value) {
  return value.name.empty() ? message("{} {}", what, index)
                            : message("{} {} (%{})", what, index, value.name);
}

std::string dtype_text(int32_t dtype) {
  return is_dtype(dtype) ? to_text(static_cast<Dtype>(dtype)) : message("dtype {}", dtype);
}

// Values of symbols at a call; those that data decides are not known.
SymbolValues values_of(const Graph& graph, std::span<const int64_t> syms) {
  return [&graph, syms](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t i = 0; i < graph.symbols.size() && i < syms.size(); ++i)
      if (graph.symbols[i].symbol == symbol &&
          graph.value(graph.symbols[i].value).source != ValueSource::node)
        return SymValue{symbol->kind, syms[i]};
    return std::nullopt;
  };
}

// The size as the graph has it, or what was found where only data tells.
int64_t expected_size(const SymInt& size, const SymbolValues& values, int64_t found) {
  if (!size.is_symbolic()) return size.guard_int();
  std::optional<SymValue> value = evaluate(size.expr(), values);
  return value ? value->integer() : found;
}

std::vector<int64_t> expected_sizes(const Dims& said, const SymbolValues& values,
                                    std::span<const int64_t> found) {
  std::vector<int64_t> expected;
  for (size_t d = 0; d < found.size(); ++d)
    expected.push_back(expected_size(said[d], values, found[d]));
  return expected;
}

std::string sizes_text(std::span<const int64_t> sizes) {
  std::string out;
  for (int64_t size : sizes) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "[" + out + "]";
}

// A body that runs may leave a result without a history that another body, or one that is told by
// its operands alone, would give it.
bool has_bodies(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return is_control_flow(entry_of(node.op)); });
}

using Ordered = std::vector<uint32_t>;

void unite(Ordered& all, const Ordered& others) {
  if (std::ranges::includes(all, others)) return;
  Ordered both;
  both.reserve(all.size() + others.size());
  std::ranges::set_union(all, others, std::back_inserter(both));
  all = std::move(both);
}

/// The inputs that a value's history leads to, as far as rules of the host tell.
class Histories {
 public:
  explicit Histories(const Graph& graph) : graph_(graph), inputs_(graph.values().size()) {
    for (uint32_t i = 0; i < graph.inputs().size(); ++i)
      if (needs(graph.inputs()[i])) inputs_[graph.inputs()[i]] = {i};
    for (const Node& node : graph.nodes())
      if (!custom_op_of(entry_of(node.op))) visit(node);
  }
  const Ordered& of(ValueId v) const { return inputs_[v]; }

 private:
  bool needs(ValueId v) const { return graph_.value(v).flags.requires_grad; }

  void visit(const Node& node) {
    const OpEntry& op = entry_of(node.op);
    Ordered all;
    auto add = [&](const Value& a) {
      for_each_value(a, [&](ValueId v) { unite(all, inputs_[v]); });
      return false;
    };
    auto lead = [&](ValueId v) {
      if (needs(v)) unite(inputs_[v], all);
    };
    for (uint32_t r = 0; r < node.n_results; ++r) {
      all.clear();
      static_cast<void>(result_needs_gradient(op, node.args, r, node.n_results, add));
      lead(node.first_result + r);
    }
    all.clear();
    static_cast<void>(results_need_gradient(op, node.args, add));
    for (size_t i = 0; i < node.args.size(); ++i)
      if (op.mutated_args >> i & 1) for_each_value(node.args[i], lead);
  }

  const Graph& graph_;
  std::vector<Ordered> inputs_;  // by value
};

}  // namespace

std::vector<int64_t> as_the_graph_says(const Graph& graph, const Dims& said,
                                       std::span<const int64_t> syms,
                                       std::span<const int64_t> found) {
  return expected_sizes(said, values_of(graph, syms), found);
}

// Also where sizes are symbols.
static bool is_contiguous(const TensorMeta& meta) {
  return std::ranges::equal(meta.strides, contiguous_strides(list_of(meta.sizes)), {},
                            &SymInt::word, &SymInt::word);
}

CallContract::CallContract(const CompileRequest& request)
    : graph_(request.graph), checking_(config::flags().plugins.check_calls) {
  bool captured = request.stage == Stage::captured && request.grad_enabled;
  bool tells_history = captured && !has_bodies(*graph_);
  // What a forward keeps for its backward may lie as the backend likes.
  size_t n_saved = request.stage == Stage::forward ? request.n_saved : 0;
  size_t n_laid_out = request.stage == Stage::captured ? 0 : graph_->outputs().size() - n_saved;
  std::optional<Histories> histories;
  if (tells_history) histories.emplace(*graph_);
  for (ValueId id : graph_->outputs()) {
    Expected& e = expected_.emplace_back();
    if (id == no_value) e.rank = -1;
    if (id == no_value || graph_->value(id).kind != ValueKind::tensor) continue;
    const GraphValue& value = graph_->value(id);
    e.dtype = static_cast<int32_t>(value.meta.dtype);
    e.rank = static_cast<int32_t>(value.meta.sizes.size());
    if (expected_.size() <= n_laid_out && is_contiguous(value.meta)) e.flags |= TN_T_CONTIGUOUS;
    if (tells_history && value.flags.requires_grad) e.depends = histories->of(id);
    if (!e.depends.empty()) e.flags |= TN_T_REQUIRES_GRAD;
  }
  for (ValueId id : graph_->inputs())
    grad_ = grad_ || (captured && graph_->value(id).flags.requires_grad);
  if (!checking_) return;
  AliasClasses classes(*graph_);
  for (ValueId id : graph_->inputs()) written_.push_back(classes.is_written(id));
  for (uint32_t input : request.mutated_inputs) written_[input] = true;
  for (size_t i = 0; i < graph_->outputs().size(); ++i) {
    ValueId id = graph_->outputs()[i];
    bool is_alias = i < request.aliased_outputs.size() && request.aliased_outputs[i] != no_value;
    bool is_made = id != no_value && !is_alias && !classes.is_external(id);
    made_memory_.push_back(is_made ? classes.of(id) : no_value);
  }
}

std::string CallContract::input_name(size_t input) const {
  return named("input", input, graph_->value(graph_->inputs()[input]));
}

std::string CallContract::output_name(size_t output) const {
  return named("output", output, graph_->value(graph_->outputs()[output]));
}

// Where a dimension has one element its stride says nothing, and without elements none does.
std::string CallContract::stride_problem(size_t output, const tn_tensor& t,
                                         std::span<const int64_t> expected) const {
  bool fits = t.numel == 0;
  for (size_t d = 0; d < expected.size() && !fits; ++d)
    if (t.sizes[d] != 1 && t.strides[d] != expected[d])
      return message("{} has strides {}, the graph says {}", output_name(output),
                     sizes_text({t.strides, expected.size()}), sizes_text(expected));
  return {};
}

// What is wrong with an output, but for its history.
std::string CallContract::output_problem(size_t i, const tn_tensor* t) const {
  const Expected& e = expected_[i];
  if (!t) return message("the call succeeded and left {} NULL", output_name(i));
  if (t->dtype != e.dtype)
    return message("{} has dtype {}, the graph says {}", output_name(i), dtype_text(t->dtype),
                   dtype_text(e.dtype));
  if (t->ndim != e.rank)
    return message("{} has {} dimensions, the graph says {}", output_name(i), t->ndim, e.rank);
  // Code for one op on a GPU may lay its result out as an operand lies; whoever reads it asks it.
  const bool is_on_cpu = t->device_type == static_cast<int32_t>(DeviceType::cpu);
  if (!(e.flags & TN_T_CONTIGUOUS) || !is_on_cpu) return {};
  std::vector<int64_t> contiguous(e.rank, 1);
  for (int32_t d = e.rank - 1; d-- > 0;) contiguous[d] = contiguous[d + 1] * t->sizes[d + 1];
  return stride_problem(i, *t, contiguous);
}

std::string CallContract::problem(std::span<tn_tensor* const> outputs,
                                  std::span<detail::TensorHead* const> inputs) const {
  auto needs_gradient = [&](uint32_t i) { return inputs[i] && share(inputs[i]).requires_grad(); };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Expected& e = expected_[i];
    const tn_tensor* t = outputs[i];
    if (fits(e, t)) continue;
    if (std::string problem = output_problem(i, t); !problem.empty()) return problem;
    if (!thread_modes.grad_enabled) continue;                       // nothing has a history then
    if (std::ranges::none_of(e.depends, needs_gradient)) continue;  // they need none any more
    if (share(static_cast<detail::TensorHead*>(const_cast<tn_tensor*>(t))).requires_grad())
      continue;  // a view whose base was written tells when asked
    return message("{} has no gradient history, although it depends on inputs that need gradients",
                   output_name(i));
  }
  return {};
}

std::string CallContract::shape_problem(std::span<tn_tensor* const> outputs,
                                        std::span<const int64_t> syms) const {
  SymbolValues values = values_of(*graph_, syms);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (expected_[i].rank < 0 || !outputs[i]) continue;
    const tn_tensor& t = *outputs[i];
    const TensorMeta& meta = graph_->value(graph_->outputs()[i]).meta;
    std::span<const int64_t> found(t.sizes, static_cast<size_t>(t.ndim));
    std::vector<int64_t> expected = expected_sizes(meta.sizes, values, found);
    if (!std::equal(found.begin(), found.end(), expected.begin()))
      return message("{} has shape {}, the graph says {}", output_name(i), sizes_text(found),
                     sizes_text(expected));
    std::span<const int64_t> strides(t.strides, static_cast<size_t>(t.ndim));
    if (std::string problem = stride_problem(i, t, expected_sizes(meta.strides, values, strides));
        !problem.empty())
      return problem;
    if (t.device_type != static_cast<int32_t>(meta.device.type))
      return message("{} is on {}, the graph says {}", output_name(i),
                     to_text(Device(static_cast<DeviceType>(t.device_type), t.device_index)),
                     to_text(meta.device));
  }
  return {};
}

std::string CallContract::memory_problem(std::span<tn_tensor* const> outputs,
                                         std::span<tn_tensor* const> inputs) const {
  auto shares = [](const tn_tensor* a, const tn_tensor* b) {
    return a && b && a->storage_id == b->storage_id &&
           may_overlap(share_tensor(const_cast<tn_tensor*>(a)),
                       share_tensor(const_cast<tn_tensor*>(b)));
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (made_memory_[i] == no_value) continue;
    for (size_t k = 0; k < outputs.size(); ++k)
      if (made_memory_[k] != made_memory_[i] && shares(outputs[k], outputs[i]))
        return message("{} and {} share memory, the graph keeps them apart", output_name(i),
                       output_name(k));
    for (size_t k = 0; k < inputs.size(); ++k)
      if (shares(inputs[k], outputs[i]))
        return message("{} shares memory with {}, the graph keeps them apart", output_name(i),
                       input_name(k));
  }
  return {};
}

std::string artifact_problem(const tn_artifact* artifact) {
  if (!artifact) return "gave no artifact and no error";
  if (!artifact->api) return "its artifact has no table";
  if (artifact->api->struct_size < offsetof(tn_artifact_api, serialize))
    return message("the table of its artifact has {} bytes, expected {} or more",
                   artifact->api->struct_size, offsetof(tn_artifact_api, serialize));
  if (!artifact->api->call || !artifact->api->destroy)
    return message("its artifact has no {} function", artifact->api->call ? "destroy" : "call");
  return {};
}

// ---- handles that were lent

namespace {

/// Retired handles, kept so that their use is noticed instead of being a crash. Leaked.
struct Retired {
  struct Entry {
    Tensor handle;
    PluginNet* net;
  };
  static constexpr size_t most = 4096;
  std::mutex lock;  // guards entries
  std::deque<Entry> entries;
};

Retired& retired() {
  static auto* instance = new Retired;
  return *instance;
}

// What a handle is after its call: of no size, without memory.
void make_retired(detail::TensorHead* head) {
  head->struct_size = 0;
  head->ndim = 0;
  head->numel = 0;
  head->data = nullptr;
  head->sizes = head->strides = nullptr;
  head->storage = nullptr;
  head->storage_bytes = 0;
}

uint64_t hash_of_memory(const Tensor& t) {
  const Storage& storage = *impl_of(t)->storage_ref.get();
  return std::hash<std::string_view>{}({static_cast<const char*>(storage.data), storage.bytes});
}

Tensor same_tensor(const Tensor& t) {
  Tensor out = make_view(t, t.sizes(), t.strides(), t.storage_offset());
  out.head()->flags = t.head()->flags;
  out.head()->keys = t.head()->keys;
  return out;
}

}  // namespace

void fail_retired(const tn_tensor* handle) {
  PluginNet* net = nullptr;
  {
    std::lock_guard lock(retired().lock);
    for (const Retired::Entry& e : retired().entries)
      if (e.handle.head() == handle) net = e.net;
  }
  constexpr std::string_view problem =
      "a tensor handle was used after the call that lent it, without having been retained";
  throw BackendError(ErrorCode::invalid_argument, TN_FAILED_PRECONDITION,
                     net ? to_text(net->note_broken(std::string(problem))) : std::string(problem));
}

// ---- a checked call

/// What is watched of one input.
struct CheckedCall::Lent {
  Tensor original;  ///< undefined: nothing to watch
  Tensor copy;      ///< the handle that the plugin sees; undefined where it sees the original
  Tensor beside;    ///< the same handle: it outlives a plugin that releases what it was only lent
  bool watched = false;
  uint64_t hash = 0;
};

CheckedCall::CheckedCall(const CallContract& contract, PluginNet& net, tn_call& call)
    : contract_(contract), net_(net), call_(call), inputs_(call.inputs) {
  bool steals = call.flags & TN_CALL_STEAL_INPUTS;
  std::vector<uint64_t> written;  // storages
  for (uint32_t i = 0; i < call.n_inputs; ++i)
    if (call.inputs[i] && contract.may_write(i)) written.push_back(call.inputs[i]->storage_id);
  for (uint32_t i = 0; i < call.n_inputs; ++i) {
    Lent& lent = lent_.emplace_back();
    tn_tensor* handle = handles_.emplace_back(call.inputs[i]);
    if (!handle || handle->device_type != TN_DEV_CPU) continue;
    lent.original = share_tensor(handle);
    lent.watched = std::find(written.begin(), written.end(), handle->storage_id) == written.end();
    if (!lent.watched) continue;
    lent.hash = hash_of_memory(lent.original);
    if (steals || !contract.may_lend_copies()) continue;
    lent.copy = lent.beside = same_tensor(lent.original);
    handles_.back() = lent.copy.head();
  }
  if (!steals) call.inputs = handles_.data();
}

CheckedCall::~CheckedCall() { call_.inputs = inputs_; }

std::string CheckedCall::finish() {
  call_.inputs = inputs_;
  std::string problem;
  std::span<tn_tensor*> outputs(call_.outputs, call_.n_outputs);
  for (tn_tensor*& out : outputs) {
    if (out && out->struct_size == 0) {
      problem = "an output is a tensor handle of an earlier call, which was not retained";
      out = nullptr;
    }
    for (const Lent& lent : lent_)  // an input given back is the caller's own tensor
      if (out && lent.copy.head() == out) {
        take_tensor(out);
        out = give(lent.original);
      }
  }
  for (size_t i = 0; i < lent_.size() && problem.empty(); ++i)
    if (lent_[i].watched && hash_of_memory(lent_[i].original) != lent_[i].hash)
      problem = message("wrote {}, which the graph does not change", contract_.input_name(i));
  for (size_t i = 0; i < lent_.size(); ++i) {
    if (!lent_[i].copy.defined() || lent_[i].copy.head()->references.load() > 1) continue;
    lent_[i].beside.release();  // it is gone already
    if (problem.empty())
      problem = message("released {}, which it was only lent", contract_.input_name(i));
  }
  if (problem.empty()) problem = contract_.shape_problem(outputs, {call_.syms, call_.n_syms});
  if (problem.empty() && !(call_.flags & TN_CALL_STEAL_INPUTS))
    problem = contract_.memory_problem(outputs, {call_.inputs, call_.n_inputs});
  retire();
  return problem;
}

// Handles that the plugin did not retain are over; those that it did stay what they are.
void CheckedCall::retire() {
  std::lock_guard lock(retired().lock);
  for (Lent& lent : lent_) {
    lent.beside = Tensor();
    if (!lent.copy.defined() || lent.copy.head()->references.load() != 1) continue;
    make_retired(lent.copy.head());
    retired().entries.push_back({std::move(lent.copy), &net_});
    if (retired().entries.size() > Retired::most) retired().entries.pop_front();
  }
}

}  // namespace tenon
