// The runtime of a compiled function that is differentiated.
//
// Problem: what was compiled in two halves must look to the tape like one op: gradients flow into
// its results and out to its inputs, what it keeps is checked for writes and freed like that of any
// node, and a second derivative exists.
// Model: one node a call. Its inputs are the results that have gradients, its edges lead to the
// inputs that need them. It holds what the backward half reads: inputs and results through
// SavedTensor, which finds writes and keeps no cycle, the rest as the forward gave it.
// Method: the forward half runs below the tape; results get the node as their history, and the
// wrapper of lower.h makes views and writes inputs back on the tape. The backward half is compiled
// at the first backward pass, under the flags of the first compile. Where the gradients themselves
// are to be differentiated, the forward graph runs once more on the tape (second_forward.h), and is
// differentiated there. Source: the autograd function of PyTorch's AOT autograd.
// Cost: below 1 us a call besides the halves.
#include "aot/training.h"

#include "aot/backward_code.h"
#include "aot/eager_training.h"
#include "aot/joined_statistics.h"
#include "aot/second_forward.h"
#include "aot/strided_copies.h"
#include "autograd/collector.h"
#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/passes/passed_results.h"
#include "autograd/saved/saved_tensor.h"
#include "config/config.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/process_end.h"
#include "core/random.h"
#include "core/sym/sym_eval.h"
#include "core/tensor/stand_in.h"
#include "core/threads/once.h"
#include "graph/inline.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <atomic>
#include <bit>

namespace tenon {

namespace {

using Saved = TrainingHalves::Saved;

/// A symbol of a half: its position among the symbols of the call, or the forward's output that
/// tells it.
struct SymbolWord {
  uint32_t of_call = no_value, of_output = no_value;
  ExprKind kind = ExprKind::integer;
};

// Addresses of plans are used again, these are not.
uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// What all calls of one compiled function share.
struct TrainingPlan {
  TrainingPlan(const Lowered& lowered, TrainingHalves h, std::shared_ptr<Artifact> f,
               CompileBackward c)
      : halves(std::move(h)),
        forward(std::move(f)),
        joint(lowered.graph),
        derivative(*lowered.derivative),
        is_random(draws_numbers(*halves.forward.graph)),
        can_be_inlined(can_record(*halves.backward.graph)),
        second(joint, derivative),
        backward(halves.backward, derivative, static_cast<uint32_t>(halves.saved.size()),
                 std::move(c)) {
    for (const Lowered::WriteBack& w : lowered.write_backs) written.push_back(w.input);
    for (uint32_t i = 0; i < derivative.n_primals; ++i)
      if (joint->value(joint->inputs()[i]).flags.mutated) written.push_back(i);
    for (ValueId v : halves.forward.outer_inputs)
      forward_inputs.push_back(v == no_value ? no_value : joint->value(v).source_index);
    for (uint32_t i = 0; i < halves.backward.outer_symbols.size(); ++i)
      backward_words.push_back(word_of(i));
  }

  // Of a symbol of the backward.
  SymbolWord word_of(uint32_t index) const {
    auto is_computed = [](const Graph& graph, const SymbolBinding& b) {
      return graph.value(b.value).source == ValueSource::node;
    };
    uint32_t outer = halves.backward.outer_symbols[index];
    const SymbolBinding& whole = joint->symbols[outer];
    for (const auto& [told, output] : halves.symbols)
      if (told == whole.symbol) return {no_value, output, whole.symbol->kind};
    const Graph& graph = *halves.backward.graph;
    ensure(!is_computed(*joint, whole) || is_computed(graph, graph.symbols[index]),
           "the backward needs a number of the data that the forward does not tell");
    return {outer, no_value, whole.symbol->kind};
  }

  TrainingHalves halves;
  std::shared_ptr<Artifact> forward;
  std::shared_ptr<const Graph> joint;
  Derivative derivative;
  std::vector<uint32_t> forward_inputs;  // primals, or no_value for numbers
  std::vector<uint32_t> written;         // primals that are written after the run
  std::vector<SymbolWord> backward_words;
  bool is_random;
  bool can_be_inlined;  // the backward, into the code of a whole pass
  uint64_t serial = next_serial();
  SecondForward second;
  BackwardCode backward;
};

thread_local bool runs_piece_of_body = false;

/// One call on the tape.
class CompiledNode final : public autograd::Node {
 public:
  explicit CompiledNode(std::shared_ptr<TrainingPlan> plan) : plan_(std::move(plan)) {}

  std::string name() const override { return "CompiledFunctionBackward"; }
  uint32_t rank_of_input(uint32_t input) const override { return plan_->derivative.ranks[input]; }
  bool joins_nodes() const override { return true; }

  /// Before the run: edges, and the inputs as they are.
  void connect(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms) {
    for (uint32_t primal : plan_->derivative.gradients) {
      Tensor t = share(inputs[primal]);
      next.push_back(autograd::edge_of(t));
    }
    WrittenStorages written(plan_->written, inputs);
    before_.keep(plan_->second, inputs.first(plan_->derivative.n_primals), written);
    words_.assign(syms.begin(), syms.end());
    if (plan_->is_random) random_ = current_rng_state();
  }

  /// After the run: results get their history, and what the backward reads is kept.
  void keep(std::span<detail::TensorHead*> inputs, std::vector<Tensor>& outputs) {
    std::vector<uint32_t> input_of(outputs.size(), autograd::SavedTensor::no_history);
    const std::vector<uint32_t>& tangents = plan_->derivative.tangents;
    for (uint32_t k = 0; k < tangents.size(); ++k)
      input_of[tangents[k]] = add_input(outputs[tangents[k]]);
    for (uint32_t k = 0; k < tangents.size(); ++k)
      autograd::set_history(outputs[tangents[k]], shared_from_this(), k);
    if (runs_piece_of_body && tangents.size() > 1) passed_.expect(tangents.size());
    BelowAutograd below;
    WrittenStorages written(plan_->written, inputs);
    for (const Saved& s : plan_->halves.saved) {
      bool is_primal = s.kind == Saved::Kind::primal;
      Tensor t = is_primal ? share(inputs[s.index]) : outputs[s.index];
      // Code may give one tensor twice, as a result and to be saved: with its history it would hold
      // this node.
      auto same = std::ranges::find_if(
          tangents, [&](uint32_t r) { return !is_primal && same_head(outputs[r], t); });
      uint32_t result = same == tangents.end() ? s.index : *same;
      // The wrapper writes these inputs after the run; the backward wants them as they were.
      if (written.holds(t))
        saved_.emplace_back(copy_of(s, t), false);
      else
        saved_.emplace_back(t, !is_primal && result < plan_->derivative.n_results,
                            is_primal ? 0 : input_of[result]);
    }
    before_.forget_copies();
    for (const SymbolWord& w : plan_->backward_words)
      backward_words_.push_back(w.of_call != no_value
                                    ? (w.of_call < words_.size() ? words_[w.of_call] : 0)
                                    : value_in(outputs[w.of_output], w.kind).word);
  }

  void release() override {
    if (passed_.are_awaited()) return note_used_up();
    for (autograd::SavedTensor& t : saved_) t.release();
    before_.release();
    released_ = true;
  }

  void note_reached(uint64_t results) override {
    for (size_t k = 0; k < passed_.size(); ++k) passed_.note(k, results >> k & 1);
  }

  bool collect(autograd::Collector& collector) const override {
    if (released_) collector.refuse("a tape that was freed");
    constexpr size_t most_noted = 64;
    if (!plan_->can_be_inlined || passed_.size() > most_noted || passed_.any_is_used_up())
      return false;
    collector.key(plan_->serial);
    if (plan_->halves.backward.graph->symbols.empty()) collector.fix_sizes();
    collector.list_of(this, backward_words_.size());
    for (int64_t word : backward_words_) collector.number(word);
    return std::ranges::all_of(
        saved_, [&](const autograd::SavedTensor& t) { return t.collect(collector); });
  }

  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    for (size_t k = 0; k < passed_.size() && !autograd::stand_ins; ++k)
      passed_.note(k, grads[k].defined());
    if (std::ranges::none_of(grads, [](const Tensor& g) { return g.defined(); }))
      return std::vector<Tensor>(next.size());
    if (released_ || is_used_up(grads)) autograd::fail_released(*this);
    if (autograd::stand_ins) return record_backward(grads);
    return thread_modes.grad_enabled ? differentiate_again(std::move(grads))
                                     : run_backward(std::move(grads));
  }

 private:
  // A gradient that is only asked for need not come by all nodes of a plain run.
  void note_used_up() {
    const autograd::EngineOptions* pass = autograd::current_pass();
    if (pass && pass->accumulate) passed_.use_up();
  }

  // Nodes that keep nothing can be passed any number of times.
  bool is_used_up(const std::vector<Tensor>& grads) const {
    if (!passed_.any_is_used_up()) return false;
    std::vector<bool> others(saved_.size());
    for (size_t k = 0; k < passed_.size(); ++k)
      others.push_back(!passed_.is_used_up(k) || !grads[k].defined());
    auto n_others = static_cast<size_t>(std::ranges::count(others, true));
    if (n_others == passed_.size()) return false;
    auto part = n_others ? without_tangents(*plan_->halves.backward.graph, others) : std::nullopt;
    if (!part) return !saved_.empty();
    return std::ranges::any_of(part->inputs, [&](uint32_t i) { return i < saved_.size(); });
  }

  Tensor copy_of(const Saved& s, const Tensor& t) const {
    Tensor made = s.kind == Saved::Kind::primal ? before_.copy_of(s.index) : Tensor();
    return made.defined() ? made : copy_with_strides(t, t.strides());
  }

  Tensor zeros_like_result(size_t tangent) const {
    const autograd::GradMeta& meta = autograd::input_meta(*this, tangent);
    return zeros(list_of(meta.sizes), meta.dtype, {}, meta.device);
  }

  // The layout that the backward was compiled for.
  Tensor laid_out(Tensor grad, size_t tangent) const {
    size_t at = plan_->halves.saved.size() + tangent;
    if (!grad.defined()) grad = zeros_like_result(tangent);
    if (list_of(stated(at).strides).is_symbolic()) return grad.contiguous();
    return with_strides(std::move(grad), list_of(stated(at).strides));
  }

  // As the forward gave it; what hooks of the user give may be laid out otherwise.
  Tensor unpacked(size_t at) {
    Tensor t = saved_[at].unpack(shared_from_this(), "a value");
    if (!saved_[at].packed() || t.is_fake() || autograd::stand_ins) return t;
    Dims strides;
    for (SymInt stride : stated(at).strides) strides.push_back(at_this_call(stride));
    return with_strides(std::move(t), list_of(strides));
  }

  const TensorMeta& stated(size_t input) const {
    const Graph& backward = *plan_->halves.backward.graph;
    return backward.value(backward.inputs()[input]).meta;
  }

  SymInt at_this_call(SymInt number) const {
    if (!number.is_symbolic()) return number;
    std::span<const SymbolBinding> symbols = plan_->halves.backward.graph->symbols;
    auto value = evaluate(number.expr(), [&](const Expr* symbol) -> std::optional<SymValue> {
      auto found = std::ranges::find(symbols, symbol, &SymbolBinding::symbol);
      if (found == symbols.end()) return std::nullopt;
      return SymValue{symbol->kind, backward_words_[static_cast<size_t>(found - symbols.begin())]};
    });
    ensure(value.has_value(), "a stride of a saved value follows from no size of the call");
    return value->integer();
  }

  static std::vector<bool> undefined_of(const std::vector<Tensor>& grads) {
    std::vector<bool> undefined;
    for (const Tensor& g : grads) undefined.push_back(!g.defined());
    return undefined;
  }

  // The values that a half of the backward reads, by its inputs; undefined ones stand for numbers.
  std::vector<Tensor> inputs_of(const BackwardCode::Variant& half, std::vector<Tensor>& grads) {
    size_t n_saved = saved_.size();
    auto value = [&](size_t i) {
      return i < n_saved ? unpacked(i) : laid_out(std::move(grads[i - n_saved]), i - n_saved);
    };
    const Extracted& graph = half.part ? half.part->half : plan_->halves.backward;
    std::vector<Tensor> values(graph.graph->inputs().size());
    if (half.part)
      for (size_t i = 0; i < half.part->inputs.size(); ++i) values[i] = value(half.part->inputs[i]);
    else
      for (size_t i = 0; i < n_saved + grads.size(); ++i) values[i] = value(i);
    return values;
  }

  std::vector<int64_t> words_of(const BackwardCode::Variant& half) const {
    if (!half.part) return backward_words_;
    std::vector<int64_t> words;
    for (uint32_t outer : half.part->half.outer_symbols)
      words.push_back(outer < backward_words_.size() ? backward_words_[outer] : 0);
    return words;
  }

  std::vector<Tensor> run_backward(std::vector<Tensor> grads) {
    BelowAutograd below;
    const std::vector<bool> undefined = undefined_of(grads);
    const BackwardCode::Variant& half = plan_->backward.for_tangents(undefined);
    std::vector<Tensor> values = inputs_of(half, grads);
    BelowAutocast casts_are_recorded;
    if (is_process_ending() || std::ranges::any_of(values, is_fake))
      return pass_on(half, undefined, values);
    const autograd::EngineOptions* pass = autograd::current_pass();
    bool donates = config::flags().functorch.donated_buffer && pass && !pass->keep_graph &&
                   !passed_.are_awaited();
    if (donates) release();
    std::vector<detail::TensorHead*> heads;
    heads.reserve(values.size());
    for (Tensor& t : values) heads.push_back(donates ? t.release() : t.head());
    std::vector<int64_t> words = words_of(half);
    std::vector<Tensor> made(half.part ? half.part->outputs.size()
                                       : plan_->derivative.gradients.size());
    call_owning(*half.code, heads, words, made, donates);
    return plan_->backward.gradients(half, undefined, std::move(made), *this);
  }

  static bool is_fake(const Tensor& t) { return t.defined() && t.is_fake(); }

  // In a body that is recorded with its passes: machine code computes nothing with fakes. At the end of
  // the process there is none any more.
  std::vector<Tensor> pass_on(const BackwardCode::Variant& half, const std::vector<bool>& undefined,
                              std::vector<Tensor>& values) {
    std::vector<detail::TensorHead*> heads;
    for (Tensor& t : values) heads.push_back(t.head());
    const Extracted& graph = half.part ? half.part->half : plan_->halves.backward;
    std::vector<Tensor> made(graph.graph->outputs().size());
    Interpreter(graph.graph).run(heads, words_of(half), made);
    return plan_->backward.gradients(half, undefined, std::move(made), *this);
  }

  // The backward half as a part of the pass that is being recorded.
  std::vector<Tensor> record_backward(std::vector<Tensor>& grads) {
    const std::vector<bool> undefined = undefined_of(grads);
    BackwardCode::Variant half;
    if (std::ranges::find(undefined, true) != undefined.end()) {
      std::vector<bool> inputs(saved_.size());
      inputs.insert(inputs.end(), undefined.begin(), undefined.end());
      half.part = without_tangents(*plan_->halves.backward.graph, inputs);
    }
    std::vector<Tensor> values = inputs_of(half, grads);
    BelowAutocast casts_are_recorded;
    const std::vector<uint64_t>& words = autograd::stand_ins->lists.at(this);
    std::vector<SymInt> symbols;
    if (half.part)
      for (uint32_t outer : half.part->half.outer_symbols)
        symbols.push_back(std::bit_cast<SymInt>(words[outer]));
    else
      for (uint64_t word : words) symbols.push_back(std::bit_cast<SymInt>(word));
    const Extracted& graph = half.part ? half.part->half : plan_->halves.backward;
    return plan_->backward.gradients(half, undefined, record_graph(*graph.graph, values, symbols),
                                     *this);
  }

  static void call_owning(Artifact& code, std::span<detail::TensorHead*> heads,
                          std::span<const int64_t> words, std::span<Tensor> gradients, bool steal) {
    struct Owner {
      std::span<detail::TensorHead*> heads;
      bool owns;
      ~Owner() {
        for (detail::TensorHead* h : heads)
          if (owns && h) Tensor::adopt(h);
      }
    } owner{heads, steal};
    code.call(heads, words, gradients, steal);
  }

  // Views of the inputs, of which one may be computed from another one, and the pass ends at both. Who
  // needs a gradient since then needed none in the call.
  std::vector<Tensor> primals_of_call() {
    std::vector<Tensor> primals = before_.unpack(shared_from_this(), plan_->derivative);
    const std::vector<uint32_t>& sought = plan_->derivative.gradients;
    for (uint32_t i = 0; i < primals.size(); ++i) {
      if (!primals[i].defined() || !primals[i].requires_grad()) continue;
      bool is_sought = std::ranges::find(sought, i) != sought.end();
      primals[i] = is_sought ? alias(primals[i]) : primals[i].detach();
    }
    return primals;
  }

  // On the tape, so that what comes out can be differentiated once more.
  std::vector<Tensor> differentiate_again(std::vector<Tensor> grads) {
    report::counter("aot.double_backward_calls").add();
    std::vector<Tensor> primals = primals_of_call();
    RngState now = plan_->is_random ? current_rng_state() : RngState();
    if (plan_->is_random) restore_rng_state(random_);
    auto run_again = [&] {
      BelowAutocast casts_are_recorded;
      return plan_->second.run(primals, words_, grads);
    };
    std::vector<Tensor> results = run_again();
    if (plan_->is_random) restore_rng_state(now);

    std::vector<autograd::Edge> roots, wanted;
    std::vector<Tensor> sent;
    for (size_t k = 0; k < grads.size(); ++k) {
      const Tensor& result = results[k];
      if (!grads[k].defined() || !result.defined() || !result.requires_grad()) continue;
      roots.push_back(autograd::edge_of(result));
      sent.push_back(grads[k]);
    }
    for (uint32_t primal : plan_->derivative.gradients)
      wanted.push_back(autograd::edge_of(primals[primal]));
    return autograd::run_engine(roots, std::move(sent), wanted,
                                {.keep_graph = true, .create_graph = true, .accumulate = false});
  }

  std::shared_ptr<TrainingPlan> plan_;
  std::vector<autograd::SavedTensor> saved_;
  InputsBefore before_;
  std::vector<int64_t> words_, backward_words_;
  RngState random_;
  autograd::PassedResults passed_;  // of a piece of a body
  bool released_ = false;
};

/// The functional graph of a training function as an artifact: below it the forward half runs, on
/// top of it the wrapper makes views and writes inputs back.
class TrainingArtifact final : public Artifact {
 public:
  explicit TrainingArtifact(std::shared_ptr<TrainingPlan> plan) : plan_(std::move(plan)) {
    guards = plan_->forward->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    ensure(!steal, "inputs of a training graph are borrowed");
    std::shared_ptr<CompiledNode> node;
    if (!(thread_modes.exclude & bit(Key::autograd))) {
      node = std::make_shared<CompiledNode>(plan_);
      node->connect(inputs, syms);
    }
    std::vector<Tensor> made = run_forward(inputs, syms);
    if (node) node->keep(inputs, made);
    std::move(made.begin(), made.begin() + static_cast<ptrdiff_t>(outputs.size()), outputs.begin());
  }

  std::string describe(int32_t what) const override {
    std::string forward = plan_->forward->describe(what);
    if (what != TN_DESC_STATS_JSON) return forward;
    std::vector<std::string> backwards;
    for (const auto& code : plan_->backward.compiled()) backwards.push_back(code->describe(what));
    return joined_statistics(std::move(forward), backwards);
  }

 private:
  std::vector<Tensor> run_forward(std::span<detail::TensorHead*> inputs,
                                  std::span<const int64_t> syms) const {
    BelowAutograd below;
    const Extracted& half = plan_->halves.forward;
    std::vector<detail::TensorHead*> heads;
    for (uint32_t i : plan_->forward_inputs) heads.push_back(i == no_value ? nullptr : inputs[i]);
    std::vector<int64_t> words;
    for (uint32_t outer : half.outer_symbols)
      words.push_back(outer < syms.size() ? syms[outer] : 0);
    std::vector<Tensor> made(half.graph->outputs().size());
    plan_->forward->call(heads, words, made);
    return made;
  }

  std::shared_ptr<TrainingPlan> plan_;
};

}  // namespace

PieceOfBody::PieceOfBody() : before_(std::exchange(runs_piece_of_body, true)) {}
PieceOfBody::~PieceOfBody() { runs_piece_of_body = before_; }

std::shared_ptr<Artifact> wrap_views_on_tape(Lowered lowered, std::shared_ptr<Artifact> inner) {
  return on_tape_where_wanted(wrap_inference(std::move(lowered), below_tape(std::move(inner))));
}

std::shared_ptr<Artifact> wrap_training(Lowered lowered, TrainingHalves halves,
                                        std::shared_ptr<Artifact> forward,
                                        CompileBackward compile_backward) {
  bool at_once = config::flags().functorch.force_non_lazy_backward_lowering ||
                 !halves.backward.graph->symbols.empty();
  auto plan = std::make_shared<TrainingPlan>(lowered, std::move(halves), std::move(forward),
                                             std::move(compile_backward));
  auto inner = std::make_shared<TrainingArtifact>(plan);
  if (at_once) {
    const std::vector<const Expr*>& conditions = plan->backward.whole().code->guards;
    inner->guards.insert(inner->guards.end(), conditions.begin(), conditions.end());
  }
  return on_tape_where_wanted(wrap_inference(std::move(lowered), std::move(inner)));
}

}  // namespace tenon
