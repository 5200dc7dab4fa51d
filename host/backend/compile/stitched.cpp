// Running pieces one after the other: slots for what crosses their borders.
#include "backend/compile/stitched.h"

#include "backend/compile/artifact_stats.h"
#include "backend/compile/late_sizes.h"
#include "core/sym/sym_eval.h"
#include "graph/interpret.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <bit>

namespace tenon {

namespace {

constexpr uint32_t no_slot = no_value;

/// One input of a piece.
struct PieceInput {
  uint32_t slot = no_slot;  ///< none: a number, which comes with the symbols
  bool is_last_use = false;
  ValueId late = no_value;  ///< what it is, where its sizes are to be checked before the piece runs
};

/// How an outer symbol is read once a piece has run.
struct LateSymbol {
  uint32_t symbol, slot;
  int32_t dim;
  bool stride;
};

struct Step {
  std::vector<NodeId> nodes;
  std::shared_ptr<Artifact> artifact;
  std::vector<PieceInput> inputs;
  std::vector<uint32_t> outputs;  ///< slots; none: what is there already is the object itself
  std::vector<uint32_t> symbols;  ///< positions in the outer graph's symbols
  std::vector<LateSymbol> late_symbols;
  std::vector<uint32_t> unread;        ///< slots that it fills and nobody reads
  std::vector<bool> may_lack;          ///< by output: no tensor is as good
  std::vector<LateSizes::Fact> facts;  ///< that are to be checked before it runs
  std::string title;
  bool is_region;
};

class StitchedArtifact final : public Artifact {
 public:
  StitchedArtifact(std::shared_ptr<const Graph> graph, std::vector<CompiledPiece> pieces);
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override;
  std::string describe(int32_t what) const override;
  SavedArtifact save() const override;

 private:
  struct Frame {
    std::vector<Tensor> slots;
    std::vector<int64_t> symbols;
  };
  uint32_t slot_of(ValueId v);
  void find_objects();
  void add_step(CompiledPiece& piece);
  void find_last_uses();
  void find_checks();
  void take_inputs(Frame& frame, std::span<detail::TensorHead*> inputs,
                   std::span<const int64_t> syms, bool steal) const;
  void check_sizes(const Step& step, const Frame& frame) const;
  void run(const Step& step, Frame& frame) const;
  Tensor number_input(const Number& n, const Frame& frame) const;

  std::shared_ptr<const Graph> graph_;
  std::vector<Step> steps_;
  std::vector<ValueId> object_;  // by value: the one whose object it is
  std::vector<uint32_t> slots_;  // by value
  uint32_t n_slots_ = 0;
  LateSizes late_sizes_;
};

// ---- making

StitchedArtifact::StitchedArtifact(std::shared_ptr<const Graph> graph,
                                   std::vector<CompiledPiece> pieces)
    : graph_(std::move(graph)), slots_(graph_->values().size(), no_slot), late_sizes_(graph_) {
  find_objects();
  for (ValueId v : graph_->inputs())
    if (graph_->value(v).kind == ValueKind::tensor) slot_of(v);
  for (CompiledPiece& piece : pieces) add_step(piece);
  find_last_uses();
  find_checks();
}

// An op that writes an argument and returns it gives the object itself.
void StitchedArtifact::find_objects() {
  for (ValueId v = 0; v < graph_->values().size(); ++v) object_.push_back(v);
  for (const Node& node : graph_->nodes()) {
    int8_t arg = entry_of(node.op).returned_arg;
    if (arg < 0 || node.n_results == 0 || node.args[arg].tag != Tag::ref) continue;
    object_[node.first_result] = object_[static_cast<ValueId>(node.args[arg].payload)];
  }
}

uint32_t StitchedArtifact::slot_of(ValueId v) {
  uint32_t& slot = slots_[object_[v]];
  if (slot == no_slot) slot = n_slots_++;
  return slot;
}

void StitchedArtifact::add_step(CompiledPiece& piece) {
  Step step;
  step.nodes = std::move(piece.nodes);
  step.artifact = std::move(piece.artifact);
  const Extracted& part = piece.part;
  for (ValueId v : part.outer_inputs) {
    bool is_number = v == no_value || graph_->value(v).kind != ValueKind::tensor;
    bool is_late = !is_number && graph_->value(v).source == ValueSource::node &&
                   graph_->value(v).meta.defined && piece.is_region && !late_sizes_.empty();
    step.inputs.push_back({is_number ? no_slot : slot_of(v), false, is_late ? v : no_value});
  }
  for (ValueId v : part.outer_outputs) {
    bool is_there = slots_[object_[v]] != no_slot;
    step.outputs.push_back(is_there ? no_slot : slot_of(v));
    const GraphValue& value = graph_->value(v);
    step.may_lack.push_back(is_there || value.kind == ValueKind::none ||
                            (value.kind == ValueKind::tensor && !value.meta.defined));
  }
  step.symbols = part.outer_symbols;
  for (uint32_t s = 0; s < graph_->symbols.size(); ++s) {
    const SymbolBinding& b = graph_->symbols[s];
    auto at = std::find(part.outer_outputs.begin(), part.outer_outputs.end(), b.value);
    if (at == part.outer_outputs.end()) continue;
    step.late_symbols.push_back({s, slot_of(b.value), b.dim, b.stride});
  }
  guards.insert(guards.end(), step.artifact->guards.begin(), step.artifact->guards.end());
  step.title = std::move(piece.title);
  step.is_region = piece.is_region;
  steps_.push_back(std::move(step));
}

void StitchedArtifact::find_last_uses() {
  std::vector<bool> is_needed(n_slots_);
  for (ValueId v : graph_->outputs())
    if (v != no_value && slots_[object_[v]] != no_slot) is_needed[slots_[object_[v]]] = true;
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    for (uint32_t slot : step.outputs)
      if (slot != no_slot && !is_needed[slot]) step.unread.push_back(slot);
    for (size_t k = step.inputs.size(); k-- > 0;) {
      PieceInput& input = step.inputs[k];
      if (input.slot == no_slot || is_needed[input.slot]) continue;
      // Late symbols of this step are read after it.
      input.is_last_use =
          std::none_of(step.late_symbols.begin(), step.late_symbols.end(),
                       [&](const LateSymbol& late) { return late.slot == input.slot; });
      is_needed[input.slot] = true;
    }
  }
}

// The host's own ops check what they are given.
void StitchedArtifact::find_checks() {
  if (late_sizes_.empty()) return;
  std::vector<bool> known;
  for (const SymbolBinding& b : graph_->symbols)
    known.push_back(graph_->value(b.value).source != ValueSource::node);
  for (Step& step : steps_) {
    if (step.is_region) step.facts = late_sizes_.take_facts(known);
    for (const LateSymbol& late : step.late_symbols) known[late.symbol] = true;
  }
}

// ---- running

void StitchedArtifact::take_inputs(Frame& frame, std::span<detail::TensorHead*> inputs,
                                   std::span<const int64_t> syms, bool steal) const {
  ensure(inputs.size() == graph_->inputs().size(),
         "a graph in pieces got a wrong number of inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!steal) inputs[i]->references.fetch_add(1, std::memory_order_relaxed);
    Tensor taken = Tensor::adopt(steal ? std::exchange(inputs[i], nullptr) : inputs[i]);
    uint32_t slot = slots_[graph_->inputs()[i]];
    if (slot != no_slot) frame.slots[slot] = std::move(taken);
  }
  for (size_t s = 0; s < graph_->symbols.size(); ++s) {
    const SymbolBinding& b = graph_->symbols[s];
    if (s < syms.size()) {
      frame.symbols[s] = syms[s];
    } else if (graph_->value(b.value).source == ValueSource::input && b.dim >= 0) {
      const Tensor& t = frame.slots[slots_[b.value]];
      frame.symbols[s] = (b.stride ? t.stride(b.dim) : t.size(b.dim)).guard_int();
    }
  }
}

int64_t word_of(const Tensor& number) {
  if (number.dtype() == Dtype::f64) return std::bit_cast<int64_t>(*number.data_ptr<double>());
  return number.dtype() == Dtype::bool_ ? *number.data_ptr<bool>() : *number.data_ptr<int64_t>();
}

void StitchedArtifact::check_sizes(const Step& step, const Frame& frame) const {
  late_sizes_.check(step.facts, frame.symbols);
  for (const PieceInput& input : step.inputs)
    if (input.late != no_value && frame.slots[input.slot].defined())
      late_sizes_.check(input.late, frame.slots[input.slot], frame.symbols);
}

void StitchedArtifact::run(const Step& step, Frame& frame) const {
  if (step.is_region) check_sizes(step, frame);
  constexpr size_t usual = 16;  // pieces may be single small ops, which allocations would slow down
  using Heads = InlineVector<detail::TensorHead*, usual>;
  Heads inputs;
  InlineVector<int64_t, usual> symbols;
  std::vector<Tensor> outputs(step.outputs.size());
  for (uint32_t s : step.symbols) symbols.push_back(frame.symbols[s]);
  for (const PieceInput& input : step.inputs) {
    Tensor given;
    if (input.slot != no_slot)
      given = input.is_last_use ? std::move(frame.slots[input.slot]) : frame.slots[input.slot];
    inputs.push_back(given.defined() ? given.release() : nullptr);
  }
  struct Rest {  // what the piece has not taken over, also when it fails
    Heads& heads;
    ~Rest() {
      for (detail::TensorHead* head : heads)
        if (head) Tensor::adopt(head);
    }
  } rest{inputs};
  step.artifact->call({inputs.data(), inputs.size()}, {symbols.data(), symbols.size()}, outputs,
                      /*steal=*/true);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() && !step.may_lack[i])
      throw BackendError(
          ErrorCode::backend_call_failed, TN_INTERNAL,
          message("{}: output {} is missing although the call succeeded", step.title, i));
    if (step.outputs[i] != no_slot) frame.slots[step.outputs[i]] = std::move(outputs[i]);
  }
  for (const LateSymbol& late : step.late_symbols) {
    const Tensor& t = frame.slots[late.slot];
    frame.symbols[late.symbol] =
        late.dim < 0 ? word_of(t)
                     : (late.stride ? t.stride(late.dim) : t.size(late.dim)).guard_int();
  }
  for (uint32_t slot : step.unread) frame.slots[slot] = Tensor();
}

// An output that is a number among the inputs.
Tensor StitchedArtifact::number_input(const Number& n, const Frame& frame) const {
  if (!n.is_symbolic()) return number_tensor(n);
  auto value = evaluate(expression_of(n), [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t s = 0; s < graph_->symbols.size(); ++s)
      if (graph_->symbols[s].symbol == symbol) return SymValue{symbol->kind, frame.symbols[s]};
    return std::nullopt;
  });
  require(value.has_value(), "a number that the graph puts out cannot be computed from its inputs");
  if (n.is_integer()) return number_tensor(SymInt(value->integer()));
  return number_tensor(n.is_floating() ? Number(value->real()) : Number(value->integer() != 0));
}

void StitchedArtifact::call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                            std::span<Tensor> outputs, bool steal) {
  Frame frame{std::vector<Tensor>(n_slots_), std::vector<int64_t>(graph_->symbols.size())};
  take_inputs(frame, inputs, syms, steal);
  for (const Step& step : steps_) run(step, frame);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueId v = graph_->outputs()[i];
    if (v == no_value) continue;
    const GraphValue& object = graph_->value(object_[v]);
    if (slots_[object_[v]] != no_slot)
      outputs[i] = frame.slots[slots_[object_[v]]];
    else if (object.source == ValueSource::constant)
      outputs[i] = graph_->constant(object_[v]);
    else if (object.kind != ValueKind::none)
      outputs[i] = number_input(object.scalar, frame);
  }
}

std::string StitchedArtifact::describe(int32_t what) const {
  if (what != TN_DESC_STATS_JSON) {
    std::string text;
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::string part = steps_[i].artifact->describe(what);
      if (!part.empty()) text += steps_[i].title + "\n" + part + "\n";
    }
    return text;
  }
  ArtifactStats all;
  all.from_cache = true;
  for (const Step& step : steps_) all.add(ArtifactStats::parse(step.artifact->describe(what)));
  all.regions = std::ranges::count(steps_, true, &Step::is_region);
  return all.to_json();
}

SavedArtifact StitchedArtifact::save() const {
  SavedArtifact out{.kind = SavedArtifact::Kind::pieces, .graph = graph_};
  for (const Step& step : steps_)
    out.parts.push_back({step.artifact->save(), step.nodes, step.title, step.is_region});
  return out;
}

}  // namespace

std::shared_ptr<Artifact> stitch(std::shared_ptr<const Graph> graph,
                                 std::vector<CompiledPiece> pieces) {
  return std::make_shared<StitchedArtifact>(std::move(graph), std::move(pieces));
}

}  // namespace tenon
