// Functionalisation of nodes that write: which op computes the new content, and of what.
#include "aot/functionalizer.h"
#include "autograd/vjp_plan.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/functional_form.h"
#include "ops/forms/history.h"
#include "ops/forms/out_form.h"
#include "ops/nn/instance_norm.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <algorithm>
#include <map>
#include <set>

namespace tenon {

namespace {

// "copy_" -> "copy", "transpose_.default" -> "transpose.int": the same arguments without writing.
const OpEntry* functional_form(const OpEntry& op) {
  if (op.functional && !op.out_form) return op.functional;
  Schema schema = op.schema;
  if (!schema.name.ends_with('_')) return nullptr;
  schema.name.pop_back();
  const OpEntry* same_overload = find_op(schema.canonical_name());
  if (same_overload && same_arguments(same_overload->schema, op.schema)) return same_overload;
  for (size_t i = 0; i < op_count(); ++i) {
    const OpEntry& other = entry_of(static_cast<OpId>(i));
    if (other.schema.name == schema.name && same_arguments(other.schema, op.schema)) return &other;
  }
  return nullptr;
}

/// Whether both have the same sizes wherever the graph runs.
bool have_same_sizes(const Tensor& a, const Tensor& b) {
  bool same = a.dim() == b.dim();
  for (size_t d = 0; same && d < a.sizes().size(); ++d)
    same = guard_or_false(a.sizes()[d] == b.sizes()[d]);
  return same;
}

// Sizes change in place, and with them maybe the memory: no functional form says which.
bool resizes(const Node& node) {
  return node.op == OpId::aten_resize__default || node.op == OpId::aten_resize_as__default;
}

// Whether they differ in dimensions of one element only.
bool has_same_order(const Tensor& before, const Tensor& after) {
  auto places = [](const Tensor& t) {
    std::vector<std::pair<int64_t, int64_t>> out;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (SymInt size = t.sizes()[d]; size.is_symbolic() || size.guard_int() != 1)
        out.emplace_back(size.word(), t.strides()[d].word());
    return out;
  };
  return places(before) == places(after);
}

// Other sizes in place, of a tensor that needs a gradient, while gradients are off: the tape leaves
// the history as it is, whose gradient then has these sizes. A view on the tape gives the same where
// the order of the elements stays, and where the tape makes the history anew: that of views. The
// history of an argument lies outside of the graph.
void require_same_gradient(const Alias& self, const Node& node, bool keeps_order) {
  bool is_argument = self.input != no_value;
  require(is_argument || keeps_order || !self.chain.empty(), ErrorCode::unsupported,
          "{} changes the order of a tensor that needs a gradient while gradients are off; call it "
          "before the NoGradGuard",
          entry_of(node.op).name);
}

/// Its running statistics are written, of which the schema knows nothing.
bool normalizes_instances(const OpEntry& op) {
  const OpEntry& row = op.out_form ? *op.functional : op;
  return &row == &entry_of(OpId::aten_instance_norm_default);
}

// As the functional form of batch_norm has them: the result first, the statistics as 3 and 4.
void normalize_instances(std::span<const Value> args, Value* results) {
  auto given = [&](size_t i) {
    return args[i].tag == Tag::tensor ? *args[i].as<Tensor>() : Tensor();
  };
  ops::InstanceNorm made =
      ops::instance_norm_functional(given(0), given(1), given(2), given(3), given(4),
                                    args[6].number().to_double(), args[7].number().to_double());
  results[0] = Value::own(std::move(made.result));
  results[3] = Value::own(std::move(made.running_mean));
  results[4] = Value::own(std::move(made.running_var));
}

// A comparison in place is, too: the gradient of what was there ends.
bool is_on_tape(const OpEntry& op, const std::vector<Value>& args) {
  if (ends_gradient(op)) return true;
  if (!op.functional || op.out_form) return op.def->vjp.kind != Vjp::Kind::none;
  CallArgs call{&op, args.data(), nullptr, op.n_args, 0};
  return is_complex_form(call) || vjp_plan(call).kind != VjpPlan::Kind::none;
}

// Calls f(argument, value) for each tensor among the arguments.
template <class F>
void each_tensor_value(const Graph& graph, const Node& node, F&& f) {
  auto give = [&](uint32_t arg, ValueId id) {
    if (id != no_value && graph.value(id).kind == ValueKind::tensor) f(arg, id);
  };
  for (uint32_t i = 0; i < node.args.size(); ++i) {
    const Value& a = node.args[i];
    if (a.tag == Tag::ref) give(i, static_cast<ValueId>(a.payload));
    for (uint32_t k = 0; a.tag == Tag::refs && k < a.count; ++k) give(i, a.as<ValueId>()[k]);
  }
}

// As functional_copy_form takes them; empty where no tensor shares memory with a written one.
std::vector<SymInt> places_in_memory(const Graph& graph, const FunctionalValues& values,
                                     const Node& node) {
  std::map<size_t, size_t> shown;  // how often, by base
  std::set<size_t> written;
  each_tensor_value(graph, node, [&](uint32_t arg, ValueId id) {
    const size_t base = values.alias(id).base;
    ++shown[base];
    if (written_args(node) >> arg & 1) written.insert(base);
  });
  auto is_shared = [&](size_t base) { return shown[base] > 1 && written.contains(base); };
  if (std::ranges::none_of(written, is_shared)) return {};
  std::vector<SymInt> places;
  each_tensor_value(graph, node, [&](uint32_t, ValueId id) {
    const Alias& alias = values.alias(id);
    if (!is_shared(alias.base)) return places.push_back(-1);
    const GraphValue& seen = graph.value(alias.restrided == no_value ? id : alias.restrided);
    places.push_back(static_cast<int64_t>(alias.base));
    places.push_back(values.symbols().renewed(seen.offset));
    for (SymInt stride : seen.meta.strides) places.push_back(values.symbols().renewed(stride));
  });
  return places;
}

}  // namespace

// A node that writes: the functional form computes the new content of what it writes.
void Functionalizer::lower_write(const Node& node, const OpEntry& op, std::vector<Value>& args) {
  EnableGradGuard mode(thread_modes.grad_enabled && (!options_.training || is_on_tape(op, args)));
  if (op.out_form) return lower_out(node, op, args);
  if (updates_statistics(graph_, node)) return lower_normalization(node, op, args);
  if (resizes(node))
    return values_.resize(static_cast<ValueId>(node.args[0].payload), node.first_result);
  bool writes_self = node.args[0].tag == Tag::ref && op.mutated_args == 1;
  const OpEntry* functional = writes_self ? functional_form(op) : nullptr;
  if (!functional) return lower_on_copies(node, op, args);
  if (functional->def->view)
    return lower_restride(node, *functional, args, static_cast<ValueId>(node.args[0].payload));
  call(*functional, node, args, static_cast<ValueId>(node.args[0].payload));
}

// The result that is the argument itself, or no_value.
ValueId Functionalizer::result_that_is(const Node& node, const OpEntry& op, uint32_t arg) const {
  for (uint32_t r = 0; r < op.n_returns; ++r)
    if (op.schema.returned_arg(r) == static_cast<int>(arg)) return node.first_result + r;
  return no_value;
}

// New content of an argument as a whole; with other sizes it has other memory from here on.
void Functionalizer::write_argument(const Node& node, const OpEntry& op, uint32_t arg,
                                    Tensor content) {
  auto id = static_cast<ValueId>(node.args[arg].payload);
  Tensor before = values_.current(id);
  if (content.dtype() != before.dtype()) content = content.to(before.dtype());
  if (have_same_sizes(before, content)) return values_.write(id, content);
  ValueId result = result_that_is(node, op, arg);
  // Memory that nobody else sees, since it had no room for an element.
  const Alias& alias = values_.alias(id);
  bool is_own = values_.base_of(alias).input == no_value && alias.chain.empty() &&
                guard_or_false(before.numel() == 0);
  require(is_own && result != no_value, ErrorCode::unsupported, "{} gives its argument {} {}",
          op.name, op.schema.args[arg].name,
          op.tags & TN_TAG_DATA_DEPENDENT
              ? "sizes that data decides, which cannot be made functional; call the form without it"
              : "other sizes, which cannot be made functional; pass a tensor of the right sizes");
  values_.give_memory(id, result, content);
}

// The out arguments are the last ones; each is the result of the functional op, which may write
// statistics besides.
void Functionalizer::lower_out(const Node& node, const OpEntry& op,
                               const std::vector<Value>& args) {
  const OpEntry& functional = *op.functional;
  uint32_t first = op.n_args - functional.n_returns;
  const Tensor& out = values_.current(static_cast<ValueId>(node.args[first].payload));
  std::vector<Value> given = functional_args(op, args.data(), out);
  Value results[8];
  if (updates_statistics(graph_, node))
    run_normalization(node, functional, given, results);
  else
    dispatch(functional, given.data(), functional.n_args, results, functional.n_returns);
  for (uint32_t r = 0; r < functional.n_returns; ++r) {
    write_argument(node, op, first + r, take<Tensor>(results[r]));
    values_.join(node.first_result + r, static_cast<ValueId>(node.args[first + r].payload));
  }
}

// An op without a functional form gets copies. Those of arguments that share memory share it, too:
// where they lie in it is what the original graph says.
void Functionalizer::lower_on_copies(const Node& node, const OpEntry& op,
                                     const std::vector<Value>& args) {
  const std::vector<SymInt> places = places_in_memory(graph_, values_, node);
  const OpEntry& form = functional_copy_form(op, !places.empty());
  std::vector<Value> given(args);
  if (!places.empty()) given.push_back(Value::of(SymIntList(places)));
  Value results[8];
  dispatch(form, given.data(), form.n_args, results, form.n_returns);
  uint32_t next = 0;
  for (uint32_t r = 0; r < op.n_returns; ++r)
    if (op.schema.returned_arg(r) < 0)
      values_.add_result(node, op, node.first_result + r, r, take<Tensor>(results[next++]));
  for (uint32_t i = 0; i < op.n_args; ++i) {
    if (!(op.mutated_args >> i & 1)) continue;
    Tensor content = take<Tensor>(results[next++]);
    bool is_given = node.args[i].tag == Tag::ref && content.defined();
    if (is_given) write_argument(node, op, i, std::move(content));
  }
  for (uint32_t r = 0; r < op.n_returns; ++r)
    if (int arg = op.schema.returned_arg(r); arg >= 0)
      values_.join(node.first_result + r,
                   static_cast<ValueId>(node.args[static_cast<size_t>(arg)].payload));
}

// A node that gives self other sizes and strides: from here on self is that view of what it was. It
// is no write: the history goes on where gradients are off, too.
void Functionalizer::lower_restride(const Node& node, const OpEntry& view,
                                    const std::vector<Value>& args, ValueId self) {
  const bool is_differentiated = options_.is_differentiated() && !node.is_backward;
  const Tensor before = values_.current(self);
  const bool grad_enabled = thread_modes.grad_enabled;
  EnableGradGuard on_tape(grad_enabled || is_differentiated);
  call(view, node, args, no_value);
  const bool ends_history = view.def->vjp.kind == Vjp::Kind::none;  // detach_
  if (is_differentiated && !grad_enabled && before.requires_grad() && !ends_history)
    require_same_gradient(values_.alias(self), node,
                          has_same_order(before, values_.current(node.first_result)));
  values_.restride(self, node.first_result);
}

bool updates_statistics(const Graph& graph, const Node& node) {
  return updates_statistics(entry_of(node.op), node.args) &&
         graph.value(static_cast<ValueId>(node.args[0].payload)).meta.sizes.size() > 1;
}

// What the op gives in `results`; the statistics are written.
void Functionalizer::run_normalization(const Node& node, const OpEntry& op,
                                       std::span<const Value> args, Value* results) {
  static const OpEntry& batches = entry_of(OpId::aten__native_batch_norm_legit_functional_default);
  Value all[5];
  if (normalizes_instances(op))
    normalize_instances(args, all);
  else
    dispatch(batches, args.data(), batches.n_args, all, batches.n_returns);
  for (uint32_t i : {3u, 4u})
    values_.write(static_cast<ValueId>(node.args[i].payload), take<Tensor>(all[i]));
  for (uint32_t r = 0; r < 3; ++r) {
    if (r < op.n_returns)
      results[r] = all[r];
    else
      drop(all[r]);
  }
}

void Functionalizer::lower_normalization(const Node& node, const OpEntry& op,
                                         const std::vector<Value>& args) {
  Value results[3];
  run_normalization(node, op, args, results);
  for (uint32_t r = 0; r < op.n_returns; ++r)
    values_.add_result(node, op, node.first_result + r, r, take<Tensor>(results[r]));
}

}  // namespace tenon
