// Whether a version serves a call, and running it.
#include "runtime/entry.h"

#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/errors/before_failure.h"
#include "capture/tape/run_again.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/grad_mode.h"
#include "ops/op_table.h"
#include "runtime/end_of_process.h"
#include "runtime/limits.h"

#include <algorithm>

namespace tenon {

using detail::CallResult;
using detail::Leaves;

namespace {

bool has_writes(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return written_args(node) != 0; });
}

// The results are what the graph gives, in its order.
bool has_outputs_of_graph(const Recording& recorded) {
  std::span<const ValueOrigin> outputs = recorded.outputs;
  if (outputs.size() != recorded.graph->outputs().size()) return false;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].kind != ValueOrigin::Kind::graph || outputs[i].index != i) return false;
  return true;
}

// Computes the numbers among the results that follow from sizes.
SymProgram output_program_of(const Recording& recorded) {
  std::vector<const Expr*> exprs;
  for (size_t i = 0; i < recorded.output_numbers.size(); ++i)
    if (Number n = recorded.output_numbers[i]; n.is_symbolic() && recorded.number_outputs[i] < 0)
      exprs.push_back(n.is_integer() ? as_expr(n.sym_int()) : as_expr(n.sym_float()));
  return SymProgram::compile(argument_symbols(*recorded.shape_env), {}, exprs);
}

}  // namespace

CapturedHandle::CapturedHandle(const ImplicitInput& in)
    : at(in.address ? in.address : &in.tensor), is_kept(!in.address) {
  if (in.source == ImplicitInput::Source::gradient) {
    at = nullptr;
    is_kept = false;
    return;
  }
  const TensorImpl* impl = impl_of(in.tensor);
  bool is_view = impl && impl->base.defined();  // whether it requires grad is up to its base, too
  if (!impl || is_view) return;
  met = impl;
  met_changes = impl->n_changes;
}

Entry::Entry(std::string entry_id, Recording recording, const Leaves& leaves)
    : id(std::move(entry_id)), flags(config::flags_as_they_are()), recorded(std::move(recording)) {
  if (replays()) {
    Recording first = recorded;
    add_course(std::move(first), /*is_first=*/true);
    recorded.implicit.clear();
    recorded.same_tensors.clear();
    recorded.segments.clear();
    recorded.results.clear();
    recorded.prototype.reset();
    return;
  }
  implicit_guards = slot_guards(recorded);
  for (const ImplicitInput& in : recorded.implicit) captured_handles.emplace_back(in);
  why_no_path = Path::why_not(recorded);
  if (why_no_path.empty())
    path = std::make_unique<Path>(recorded);
  else
    courses.add_without_path(recorded);
  version = {path.get(), &recorded, implicit_guards, this};
  output_program = output_program_of(recorded);
  n_graph_outputs = recorded.graph->outputs().size();
  gives_graph_outputs = has_outputs_of_graph(recorded);
  writes_inputs = has_writes(*recorded.graph);
  if (writes_inputs) recorded_overlaps = overlaps({leaves, recorded.captured()});
  if (writes_inputs && !recorded.graph->symbols.empty()) check_shared_inputs(leaves);
  for (ImplicitInput& in : recorded.implicit)
    if (in.source == ImplicitInput::Source::gradient)
      in.tensor = Tensor();  // never the same for long
}

const Tensor& Entry::input_tensor(const ValueOrigin& origin, const CallInputs& in) const {
  if (origin.kind == ValueOrigin::Kind::leaf) return *in.leaves.tensors[origin.index];
  if (!in.slots.empty()) return in.slots[origin.index];
  if (const Tensor* handle = captured_handles[origin.index].at) return *handle;
  return autograd::ensure_state(input_tensor(recorded.implicit[origin.index].leaf, in)).grad;
}

std::vector<Overlap> Entry::overlaps(const CallInputs& in) const {
  static const Tensor undefined;
  detail::LeafArray<const Tensor*, 24> tensors;
  for (const ValueOrigin& origin : recorded.inputs)
    tensors.push(origin.kind == ValueOrigin::Kind::undefined ? &undefined
                                                             : &input_tensor(origin, in));
  return overlaps_of(tensors.span());
}

// ---- whether it serves

bool Entry::accepts(const Leaves& leaves) const {
  return recorded.guards.check_before_body(leaves) &&
         (excluded.empty() || !excluded_serves(leaves));
}

bool Entry::serves(const Leaves& leaves) const {
  return recorded.guards.check(leaves) && (excluded.empty() || !excluded_serves(leaves)) &&
         recorded.given.places.empty() && !recorded.reads_arguments &&
         ((recorded.implicit.empty() && recorded.same_tensors.empty()) ||
          captured_tensors_hold(leaves)) &&
         (recorded.modes.empty() || modes_hold()) &&
         (recorded.program_guards.empty() || program_guards_hold()) &&
         (recorded.gradients.without_grad.empty() || gradients_are_missing(leaves)) &&
         (!writes_inputs || overlaps({leaves}) == recorded_overlaps);
}

bool Entry::serves_followed(const CallInputs& in) const {
  return !writes_inputs || overlaps(in) == recorded_overlaps;
}

void Entry::add_course(Recording recording, bool is_first) {
  auto most = static_cast<uint64_t>(config::flags().capture.trace_tree_max_depth);
  bool too_long = recording.segments.size() > most;
  why_no_path = too_long ? "it has more segments than capture.trace_tree_max_depth"
                         : Path::why_not(recording);
  if (!why_no_path.empty()) return courses.add_without_path(recording);
  courses.add(std::move(recording), is_first);
}

void Entry::note_left() {
  constexpr uint32_t most_in_a_row = 4, calls_without = 60;
  if (n_left.fetch_add(1, std::memory_order_relaxed) + 1 < most_in_a_row) return;
  n_left.store(0, std::memory_order_relaxed);
  n_rest.store(calls_without, std::memory_order_relaxed);
}

bool Entry::rests() {
  uint32_t left = n_rest.load(std::memory_order_relaxed);
  if (left) n_rest.store(left - 1, std::memory_order_relaxed);
  return left != 0;
}

bool Entry::excluded_serves(const Leaves& leaves) const {
  return std::ranges::any_of(excluded, [&](const auto& e) { return e->accepts(leaves); });
}

std::string Entry::why_not(const Leaves& leaves) const {
  // Plain values count last: only without its body is a version about them.
  std::string why = recorded.guards.why_not_before_body(leaves);
  if (why.empty()) why = recorded.guards.why_not(leaves);
  if (!why.empty()) return why;
  if (!takes_slots && !gradients_are_missing(leaves)) return "a leaf has a gradient from before";
  if (!modes_hold()) return "a module changed between training and evaluation";
  for (const ProgramGuard& g : recorded.program_guards)
    if (!g.holds()) return message("guard() at {} gives another value", g.where);
  if (!takes_slots && !captured_tensors_hold(leaves))
    return "a tensor that the body captured was replaced";
  if (excluded_serves(leaves)) return "an older version was made for these arguments";
  if (writes_inputs) return "tensors that the body writes share memory with others differently";
  return "another thread needed it at the same time";
}

bool Entry::captured_tensors_hold(const Leaves& leaves) const {
  const SlotGuard* guard = implicit_guards.data();
  for (uint32_t i = 0; i < captured_handles.size(); ++i, ++guard) {
    const CapturedHandle& handle = captured_handles[i];
    const Tensor& t =
        handle.at ? *handle.at : input_tensor({ValueOrigin::Kind::implicit, i}, {leaves});
    if (!handle.is_as_met() && (!t.defined() || !matches(*guard, t) ||
                                (guard->offset && *guard->offset != t.storage_offset())))
      return false;
    if (handle.is_kept && t.head()->references.load(std::memory_order_relaxed) == 1)
      return false;  // the program has dropped or replaced it
  }
  // Handles that held one tensor still do.
  return std::ranges::all_of(recorded.same_tensors, [&](const SameTensor& same) {
    const Tensor& now = same.handle.address ? *same.handle.address : same.handle.tensor;
    return now.defined() && now.is_same(input_tensor(same.input, {leaves}));
  });
}

bool Entry::modes_hold() const {
  return std::ranges::all_of(recorded.modes, [](const ReadMode& m) { return *m.mode == m.value; });
}

bool Entry::gradients_are_missing(const Leaves& leaves) const {
  return std::ranges::none_of(recorded.gradients.without_grad, [&](const ValueOrigin& leaf) {
    return input_tensor(leaf, {leaves}).grad().defined();
  });
}

// ---- running it

namespace {

// Words of the symbols and of the numbers computed from them.
struct SymbolWords {
  int64_t local[32];
  std::vector<int64_t> spilled;
  std::span<int64_t> words;
  explicit SymbolWords(size_t n) {
    if (n > 32) spilled.resize(n);
    words = {n > 32 ? spilled.data() : local, n};
  }
};

// The gradient of what a call before has computed would end here.
void check_is_leaf(const Tensor& t) {
  require(t.is_leaf(), ErrorCode::unsupported,
          "a body that calls backward() and must be one graph gets a tensor of shape {} that was "
          "computed with gradients outside of it, which its gradient would not reach; pass a "
          "detach() of it, or leave out fullgraph",
          t.sizes());
}

Number number_of_word(Number like, int64_t word) {
  if (like.is_floating()) return Number(std::bit_cast<double>(word));
  return like.is_boolean() ? Number(word != 0) : Number(word);
}

Number number_in(const Tensor& t) {
  if (t.dtype() == Dtype::f64) return *t.data_ptr<double>();
  return t.dtype() == Dtype::bool_ ? Number(*t.data_ptr<bool>()) : Number(*t.data_ptr<int64_t>());
}

}  // namespace

void Entry::run(const CallInputs& in, CallResult& result) const {
  for (const GradEffects::Left& left : recorded.gradients.left)
    check_is_leaf(input_tensor(left.leaf, in));
  size_t n_known = recorded.guards.loads.size();
  SymbolWords symbols(std::max(n_known, recorded.graph->symbols.size()));
  recorded.guards.load(in.leaves, symbols.words.data(), in.numbers);
  std::ranges::fill(symbols.words.subspan(n_known),
                    0);  // those that the code computes
  result.tensors.grow_to(recorded.outputs.size());
  InlineVector<Tensor, 8> own;
  if (!gives_graph_outputs) own.resize(n_graph_outputs);
  std::span<Tensor> made(gives_graph_outputs ? result.tensors.data() : own.data(), n_graph_outputs);
  if (artifact) run_code(in, symbols.words, made);
  if (!recorded.log_calls.empty()) run_logs(in, made);
  for (size_t i = 0; !gives_graph_outputs && i < recorded.outputs.size(); ++i) {
    const ValueOrigin& origin = recorded.outputs[i];
    bool is_made = origin.kind == ValueOrigin::Kind::graph;
    result.tensors[i] = is_made ? std::move(made[origin.index]) : tensor_at(origin, in, made);
  }
  if (recorded.has_backward) leave_gradients(in, made, result);
  // Numbers that a followed body has given stand there already.
  if (result.numbers.size() != recorded.output_numbers.size())
    give_numbers(symbols.words.first(n_known), made, result);
}

void Entry::run_code(const CallInputs& in, std::span<const int64_t> symbols,
                     std::span<Tensor> made) const {
  constexpr size_t inline_count = 24;
  size_t n = recorded.inputs.size();
  detail::TensorHead* local[inline_count];
  std::unique_ptr<detail::TensorHead*[]> spilled;
  if (n > inline_count) spilled = std::make_unique_for_overwrite<detail::TensorHead*[]>(n);
  detail::TensorHead** heads = spilled ? spilled.get() : local;
  const CapturedHandle* captured = in.slots.empty() ? captured_handles.data() : nullptr;
  for (size_t i = 0; i < n; ++i) {
    const ValueOrigin& origin = recorded.inputs[i];
    bool is_captured = captured && origin.kind == ValueOrigin::Kind::implicit;
    if (const Tensor* handle = is_captured ? captured[origin.index].at : nullptr)
      heads[i] = handle->head();
    else
      heads[i] =
          origin.kind == ValueOrigin::Kind::undefined ? nullptr : input_tensor(origin, in).head();
  }
  ModeScope what_the_program_has_set_is_recorded(
      0, keys_of_user | (recorded.has_backward ? bit(Key::autograd) : 0));
  // Code that is compiled or run elsewhere, by a backend of the program, takes this mode along.
  GradientsAsRecorded mode(gradients_are_on() && !recorded.has_backward);
  try {
    call_to_the_end(*artifact, recorded.graph, {heads, n}, symbols, made);
  } catch (...) {
    if (recorded.has_backward && !ends_thread()) leave_replaced_gradients(in, {heads, n}, symbols);
    throw;
  }
}

// The code has failed. What the body had dropped or replaced before is gone, as in a plain run; what it
// would have computed is not known.
void Entry::leave_replaced_gradients(const CallInputs& in, std::span<detail::TensorHead*> inputs,
                                     std::span<const int64_t> symbols) const {
  uint32_t last = 0;
  for (const GradEffects::Left& left : recorded.gradients.left)
    if (left.replaced_at != GradEffects::never) last = std::max(last, left.replaced_at);
  uint32_t n_done = operations_before_failure(*recorded.graph, last, inputs, symbols);
  for (const GradEffects::Left& left : recorded.gradients.left) {
    if (left.replaced_at > n_done) continue;
    bool is_computed = left.gradient.kind == ValueOrigin::Kind::graph;
    input_tensor(left.leaf, in).set_grad(is_computed ? Tensor() : tensor_at(left.gradient, in, {}));
  }
}

Tensor Entry::tensor_at(const ValueOrigin& origin, const CallInputs& in,
                        std::span<const Tensor> made) const {
  if (origin.kind == ValueOrigin::Kind::undefined) return Tensor();
  return origin.kind == ValueOrigin::Kind::graph ? made[origin.index] : input_tensor(origin, in);
}

void Entry::run_logs(const CallInputs& in, std::span<const Tensor> made) const {
  for (const LogCall& call : in.log_calls ? *in.log_calls : recorded.log_calls) {
    std::vector<Tensor> tensors;
    for (const ValueOrigin& origin : call.tensors) tensors.push_back(tensor_at(origin, in, made));
    run_log_fn(call.name, call.text, tensors);
  }
}

// What the body left behind on the tape.
void Entry::leave_gradients(const CallInputs& in, std::span<const Tensor> made,
                            CallResult& result) const {
  for (const GradEffects::Left& left : recorded.gradients.left)
    input_tensor(left.leaf, in).set_grad(tensor_at(left.gradient, in, made));
  for (size_t i = 0; i < recorded.gradients.needs_history.size(); ++i) {
    if (!recorded.gradients.needs_history[i] || !result.tensors[i].defined()) continue;
    auto node = autograd::make_refusing_node(
        "CompiledBodyBackward",
        "a result of a compiled body that calls backward() or requires_grad_() and must be one "
        "graph has no history of its own; detach() it, differentiate inside of the body, call "
        "requires_grad_() before the call, or leave out fullgraph",
        {});
    node->add_input(result.tensors[i]);
    autograd::set_history(result.tensors[i], node, 0);
  }
}

void Entry::give_numbers(std::span<const int64_t> symbols, std::span<const Tensor> made,
                         CallResult& result) const {
  SymbolWords computed(output_program.n_outputs());
  ensure(output_program.run(symbols, computed.words), "an output number cannot be computed");
  size_t next = 0;
  for (size_t i = 0; i < recorded.output_numbers.size(); ++i) {
    Number n = recorded.output_numbers[i];
    if (recorded.number_outputs[i] >= 0)
      n = number_in(made[static_cast<size_t>(recorded.number_outputs[i])]);
    else if (n.is_symbolic())
      n = number_of_word(n, computed.words[next++]);
    result.numbers.push_back(n);
  }
}

}  // namespace tenon
