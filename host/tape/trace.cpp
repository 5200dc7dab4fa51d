// Recording passes.
#include "tape/trace.h"

#include "autograd/accumulate_grad.h"
#include "autograd/grad_state.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_expr.h"
#include "core/tensor/tensor_impl.h"
#include "graph/record.h"
#include "tape/fakes.h"

#include <algorithm>
#include <set>

namespace tenon::tape {

using autograd::GradMeta;
using autograd::PassRequest;

namespace {

using Kind = Step::Kind;
using Tensors = std::vector<Tensor>;

// Saved tensors that code reads after calls, which may have written them.
void find_late_reads(Program& program, const TapeWalk& walk) {
  std::set<ValueNumber> saved;
  for (const autograd::Collector::SavedPlace& p : walk.collected.saved_places)
    saved.insert(p.tensor);
  bool has_called = false;
  for (Step& step : program.steps) {
    if (step.kind != Kind::code) has_called = true;
    if (step.kind != Kind::code || !has_called) continue;
    for (ValueNumber v : step.reads) {
      if (!saved.contains(v)) continue;
      auto at = std::ranges::find(program.late_reads, v);
      step.late_reads.push_back(static_cast<uint32_t>(at - program.late_reads.begin()));
      if (at == program.late_reads.end()) program.late_reads.push_back(v);
    }
  }
}

/// The values of a program, by the fakes that stand for them.
class TraceValues {
 public:
  ValueNumber add(const Tensor& fake) {
    auto [at, is_new] = numbers_.try_emplace(fake.head(), static_cast<ValueNumber>(fakes_.size()));
    if (is_new) fakes_.push_back(fake);
    return at->second;
  }
  bool has(const Tensor& fake) const { return numbers_.contains(fake.head()); }
  ValueNumber operator[](const Tensor& fake) const {
    return fake.defined() ? numbers_.at(fake.head()) : no_value;
  }
  std::vector<ValueNumber> operator[](const Tensors& fakes) const {
    std::vector<ValueNumber> out;
    for (const Tensor& t : fakes) out.push_back((*this)[t]);
    return out;
  }
  uint32_t size() const { return static_cast<uint32_t>(fakes_.size()); }

 private:
  std::vector<Tensor> fakes_;  // keeps them, so that addresses stay their own
  std::map<const void*, ValueNumber> numbers_;
};

class TapeTrace {
 public:
  TapeTrace(const TapeWalk& walk, const PassRequest& request, bool dynamic,
            const Experience& experience)
      : walk_(walk),
        request_(request),
        experience_(experience),
        recorder_(ShapeEnv::make()),
        fakes_(std::make_shared<TapeFakes>(walk, *recorder_.shape_env(),
                                           dynamic ? nullptr : &experience.changed)),
        slots_(walk.visits.size()) {
    recorder_.lift = [this](const Tensor& real) { return lifted(real); };
    recorder_.adopt = [this](const Tensor& fake) { return adopt(fake); };
  }

  Traced run() {
    program_.n_lifted = static_cast<uint32_t>(walk_.collected.tensors.size());
    for (const Tensor& fake : fakes_->lifted()) values_.add(fake);
    prepare_captures();
    {
      RecordScope scope(recorder_);
      autograd::StandInScope reads(fakes_->stand_ins());
      send_roots();
      for (uint32_t place = 0; place < walk_.order.size(); ++place) visit(place);
      cut({});
    }
    for (const Tensor& t : captured_) program_.captured.push_back(values_[t]);
    program_.n_values = values_.size();
    find_late_reads(program_, walk_);
    return {std::move(program_), fakes_, recorder_.shape_env(), std::move(notes_)};
  }

 private:
  const Visit& visit_at(uint32_t place) const { return walk_.visits[walk_.order[place]]; }

  // ---- values

  // A value of an earlier step is read: it becomes an input of the graph.
  bool adopt(const Tensor& fake) {
    if (!values_.has(fake)) return false;
    recorder_.adopt_input(fake);
    inputs_.push_back(values_[fake]);
    return true;
  }

  // Optimisers read their rates from tensors of their own.
  Tensor lifted(const Tensor& real) {
    const Tensor* fake = fakes_->find_lifted(real);
    require(fake, ErrorCode::unsupported,
            "the derivative of an op uses a tensor that its node does not keep; it cannot be "
            "compiled with the pass");
    if (!recorder_.owns(*fake)) adopt(*fake);
    return *fake;
  }

  // What the call gives in the place of `grads`, if it is as foreseen. What is expanded has no
  // memory of its own that could be written.
  void replace(Step& step, Tensors& grads) {
    for (Tensor& t : grads) {
      bool is_expanded = t.defined() && std::ranges::any_of(t.strides(), [](SymInt stride) {
                           return !stride.is_symbolic() && stride.word() == 0;
                         });
      step.contiguous.push_back(is_expanded);
      if (!t.defined()) continue;
      t = make_fake(is_expanded ? contiguous_meta(t.sizes(), t.dtype(), t.device()) : meta_of(t));
      values_.add(t);
    }
    step.writes = values_[grads];
  }

  // ---- graphs

  // Ends the graph: what is on its way, captured, to be accumulated or in `wanted` is given.
  void cut(const Tensors& wanted) {
    std::vector<Tensor> outputs;
    auto give = [&](const Tensor& t) {
      if (!t.defined() || values_.has(t)) return;
      values_.add(t);
      outputs.push_back(t);
    };
    for (const Tensors& slot : slots_) std::ranges::for_each(slot, give);
    std::ranges::for_each(captured_, give);
    for (const auto& [place, t] : updates_) give(t);
    for (const auto& [step, t] : effects_) give(t);
    std::ranges::for_each(wanted, give);
    end_graph(outputs);
    record_updates();
    for (auto& [step, t] : effects_) {
      step.reads = {values_[t]};
      step.pending = pending();
      program_.steps.push_back(std::move(step));
    }
    effects_.clear();
  }

  void end_graph(const std::vector<Tensor>& outputs) {
    if (outputs.empty() && done_.empty()) return;
    Step& step = program_.steps.emplace_back();
    step.done = std::exchange(done_, {});
    if (!outputs.empty()) {
      step.graph = recorder_.finish(outputs);
      step.graph->name = "backward";
      step.reads = std::move(inputs_);
      for (const Tensor& t : outputs) step.writes.push_back(values_[t]);
    }
    inputs_.clear();
    recorder_.restart();
  }

  // One graph for the updates of all leaves whose gradients are there by now. Code before it has
  // read the leaves as they were.
  void record_updates() {
    if (updates_.empty()) return;
    for (const auto& [place, grad] : updates_) {
      const autograd::LeafUpdate& update = *visit_at(place).update;
      Tensors tensors;
      for (size_t i = 0; i < update.n_tensors(); ++i)
        tensors.push_back(fakes_->lifted_of(update.tensor(i)));
      update.run(fakes_->lifted_of(leaf_at(place)), grad, tensors);
    }
    Step& step = program_.steps.emplace_back();
    step.kind = Kind::update;
    step.graph = recorder_.finish({});
    step.graph->name = "update";
    for (const auto& [place, grad] : updates_)
      step.updated.push_back({place, values_[grad], values_[fakes_->lifted_of(leaf_at(place))]});
    step.reads = std::exchange(inputs_, {});
    updates_.clear();
    recorder_.restart();
  }

  const Tensor& leaf_at(uint32_t place) const { return leaf_of(*visit_at(place).node); }

  std::vector<Step::Pending> pending() const {
    std::vector<Step::Pending> out;
    for (uint32_t v = 0; v < slots_.size(); ++v)
      for (uint32_t i = 0; i < slots_[v].size(); ++i)
        if (slots_[v][i].defined()) out.push_back({v, i, values_[slots_[v][i]]});
    return out;
  }

  // A call of user code, on values that earlier steps have given.
  Step& call(Kind kind, uint32_t place, const Tensors& reads) {
    cut(reads);
    Step step;
    step.kind = kind;
    step.place = place;
    step.reads = values_[reads];
    step.pending = pending();
    note(place, name_of(kind));
    note_call(place, name_of(kind));
    return program_.steps.emplace_back(std::move(step));
  }

  void effect(Kind kind, uint32_t place, uint32_t input, const Tensor& grad) {
    Step step;
    step.kind = kind;
    step.place = place;
    step.input = input;
    effects_.emplace_back(std::move(step), grad);
    note(place, name_of(kind));
  }

  void note_call(uint32_t place, std::string_view what) {
    if (!program_.first_call.empty()) return;
    program_.first_call =
        message("{} of {} (NodeCall {})", what, visit_at(place).node->name(), place + 1);
  }

  void note(uint32_t place, std::string_view what) {
    notes_.push_back(message("{} (NodeCall {}){}{}", visit_at(place).node->name(), place + 1,
                             what.empty() ? "" : ": ", what));
  }

  // ---- the pass

  void prepare_captures() {
    captured_.resize(request_.wanted.size());
    for (const Edge& wanted : request_.wanted) {
      auto at = std::ranges::find(walk_.visits, wanted.node.get(), &Visit::node);
      bool is_there = at != walk_.visits.end();
      program_.captured_from.emplace_back(
          is_there ? static_cast<uint32_t>(at - walk_.visits.begin()) : no_visit, wanted.input);
    }
  }

  void deliver(uint32_t visit, uint32_t input, Tensor grad) {
    const Visit& v = walk_.visits[visit];
    if (!grad.defined()) return;
    reached_[visit] = true;
    if (!v.needed) return;
    Tensors& slots = slots_[visit];
    slots.resize(v.node->inputs.size());
    Tensor& slot = slots[input];
    if (slot.defined()) notes_.emplace_back("add");
    slot = slot.defined() ? autograd::add_gradients(std::move(slot), grad) : std::move(grad);
  }

  void send_roots() {
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      const Edge& root = request_.roots[i];
      if (!root) continue;
      auto at = std::ranges::find(walk_.visits, root.node.get(), &Visit::node);
      auto visit = static_cast<uint32_t>(at - walk_.visits.begin());
      reached_[visit] = true;
      if (!request_.grads[i].defined()) continue;
      deliver(visit, root.input, fakes_->lifted_of(request_.grads[i]));
    }
  }

  void visit(uint32_t place) {
    const Visit& v = visit_at(place);
    Tensors grads = std::move(slots_[walk_.order[place]]);
    slots_[walk_.order[place]].clear();
    grads.resize(v.node->inputs.size());
    if (!reached_[walk_.order[place]]) return;
    if (!v.node->joins_nodes()) reach_targets(v);
    if (!v.needed) return;
    tensor_hooks(place, grads);
    for (size_t i = 0; i < captured_.size(); ++i)
      if (program_.captured_from[i].first == walk_.order[place])
        captured_[i] = grads[program_.captured_from[i].second];
    if (!v.runs) return;
    if (v.opaque) return call_function(place, grads);
    if (v.is_leaf) return accumulate(place, grads[0]);
    Tensors outputs = record_function(place, std::move(grads));
    for (size_t i = 0; i < outputs.size(); ++i) {
      uint32_t target = walk_.targets[v.first_target + i];
      if (target == no_visit || !walk_.visits[target].needed || !outputs[i].defined()) continue;
      const Edge& edge = v.node->next[i];
      deliver(target, edge.input,
              autograd::fit_gradient(std::move(outputs[i]),
                                     autograd::input_meta(*edge.node, edge.input), *v.node, i));
    }
  }

  void reach_targets(const Visit& v) {
    for (size_t i = 0; i < v.node->next.size(); ++i)
      if (uint32_t target = walk_.targets[v.first_target + i]; target != no_visit)
        reached_[target] = true;
  }

  void tensor_hooks(uint32_t place, Tensors& grads) {
    const Visit& v = visit_at(place);
    const autograd::NodeHooks* hooks = v.node->hooks.get();
    bool has_hooks = hooks && !hooks->tensors.empty();
    if (v.is_leaf) has_hooks = has_hooks || !autograd::ensure_state(leaf_at(place)).hooks.empty();
    if (has_hooks) {
      Step& step = call(Kind::tensor_hooks, place, grads);
      replace(step, grads);
    } else if (hooks) {
      for (uint32_t i = 0; i < hooks->retains.size(); ++i)
        if (hooks->retains[i] && grads[i].defined()) effect(Kind::retain, place, i, grads[i]);
    }
  }

  void accumulate(uint32_t place, const Tensor& grad) {
    if (!grad.defined()) return;
    if (visit_at(place).update) {
      updates_.emplace_back(place, grad);
      return note(place, name_of(Kind::update));
    }
    effect(Kind::accumulate, place, 0, grad);
    if (autograd::ensure_state(leaf_at(place)).after_accumulate.empty()) return;
    note_call(place, "post-accumulate hooks");
    cut({});
  }

  Tensors record_function(uint32_t place, Tensors grads) {
    const Visit& v = visit_at(place);
    const autograd::NodeHooks* hooks = v.node->hooks.get();
    if (hooks && !hooks->before.empty()) {
      Step& step = call(Kind::before_hooks, place, grads);
      replace(step, grads);
    }
    unpack(place, grads);
    note(place, "");
    Tensors inputs = grads;
    uint64_t reached = 0;
    for (size_t i = 0; i < grads.size(); ++i) reached |= uint64_t{grads[i].defined()} << (i % 64);
    Tensors outputs = v.node->apply(std::move(grads));
    outputs.resize(v.node->next.size());
    done_.push_back({place, reached});
    if (!hooks || hooks->after.empty()) return outputs;
    Tensors all = outputs;
    all.insert(all.end(), inputs.begin(), inputs.end());
    Step& step = call(Kind::after_hooks, place, all);
    replace(step, outputs);
    return outputs;
  }

  // Hooks that bring saved tensors back are called right before the node that needs them.
  void unpack(uint32_t place, const Tensors& grads) {
    const Visit& v = visit_at(place);
    bool is_reached = std::ranges::any_of(grads, [](const Tensor& g) { return g.defined(); });
    if (!v.n_packed || !is_reached) return;
    Step& step = call(Kind::unpack, place, grads);
    for (uint32_t i = 0; i < v.n_packed; ++i)
      step.writes.push_back(values_.add(fakes_->unpacked()[v.first_packed + i]));
  }

  // What comes back has the shape that is needed where it goes, or the program is left.
  void call_function(uint32_t place, const Tensors& grads) {
    const Visit& v = visit_at(place);
    Step& step = call(Kind::function, place, grads);
    step.writes.assign(v.node->next.size(), no_value);
    auto known = experience_.defined.find(place);
    std::vector<std::pair<size_t, Tensor>> made;
    for (size_t i = 0; i < v.node->next.size(); ++i) {
      uint32_t target = walk_.targets[v.first_target + i];
      if (target == no_visit || !walk_.visits[target].needed) continue;
      if (known != experience_.defined.end() && !known->second[i]) continue;
      const Edge& edge = v.node->next[i];
      Tensor fake = fakes_->gradient(autograd::input_meta(*edge.node, edge.input));
      step.writes[i] = values_.add(fake);
      made.emplace_back(i, fake);
    }
    for (auto& [i, fake] : made)
      deliver(walk_.targets[v.first_target + i], v.node->next[i].input, fake);
  }

  const TapeWalk& walk_;
  const PassRequest& request_;
  const Experience& experience_;
  Program program_;
  GraphRecorder recorder_;
  std::shared_ptr<TapeFakes> fakes_;
  std::vector<Tensors> slots_;  // by visit: what is on its way to its inputs
  std::vector<bool> reached_ = std::vector<bool>(walk_.visits.size());  // by visit, see engine.cpp
  Tensors captured_;
  TraceValues values_;
  std::vector<ValueNumber> inputs_;                   // of the graph that is being recorded
  std::vector<Step::Done> done_;                      // nodes that it has taken in
  std::vector<std::pair<Step, Tensor>> effects_;      // after it, before the next call
  std::vector<std::pair<uint32_t, Tensor>> updates_;  // likewise, before them
  std::vector<std::string> notes_;
};

// Values that no later step reads go after their last use.
void find_last_uses(Program& program) {
  std::vector<bool> read(program.n_values);
  for (ValueNumber v : program.captured)
    if (v != no_value) read[v] = true;
  for (size_t i = program.steps.size(); i-- > 0;) {
    Step& step = program.steps[i];
    auto use = [&](ValueNumber v) {
      if (v == no_value || read[v]) return;
      read[v] = true;
      step.dying.push_back(v);
    };
    for (const Step::Pending& p : step.pending) use(p.value);
    for (ValueNumber v : step.reads) {
      size_t n = step.dying.size();
      use(v);
      step.moves.push_back(step.dying.size() > n);
    }
    for (const Step::Updated& u : step.updated) use(u.grad), use(u.leaf);
    std::ranges::for_each(step.writes, use);
  }
}

}  // namespace

Traced trace_tape(const TapeWalk& walk, const PassRequest& request, bool dynamic,
                  const Experience& experience) {
  return TapeTrace(walk, request, dynamic, experience).run();
}

void finish_program(Traced& traced) {
  std::vector<const Expr*> conditions;
  for (const RecordedGuard& g : traced.env->guard_conditions())
    if (!traced.fakes->always_holds(g.condition)) conditions.push_back(g.condition);
  for (const Step& step : traced.program.steps)
    if (step.artifact)
      conditions.insert(conditions.end(), step.artifact->guards.begin(),
                        step.artifact->guards.end());
  std::set<const Expr*> used;
  for (const Expr* condition : conditions)
    for (const Expr* symbol : free_symbols(condition)) used.insert(symbol);
  std::vector<const Expr*> known, symbols = traced.fakes->symbols();
  for (uint32_t n = 0; n < symbols.size(); ++n)
    if (symbols[n] && used.erase(symbols[n])) {
      known.push_back(symbols[n]);
      traced.program.condition_numbers.push_back(n);
    }
  require(used.empty(), ErrorCode::unsupported,
          "the pass depends on a number that only its own run tells");
  traced.program.conditions = SymProgram::compile(known, conditions);
  for (const Expr* condition : conditions)
    traced.notes.push_back("holds where " + traced.env->source_text(condition));
  find_last_uses(traced.program);
}

}  // namespace tenon::tape
