// Re-recording: steps of a path as operations of a trace.
#include "capture/follow/record_steps.h"

#include "autograd/grad_state.h"
#include "autograd/saved/saved_value.h"
#include "capture/lazy_numbers.h"
#include "capture/renamed.h"
#include "capture/tape/hooks.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"
#include "graph/symbol_use.h"

#include <tenon/autograd.h>

#include <map>
#include <optional>
#include <ranges>
#include <set>

namespace tenon {

namespace {

/// The tensors of the trace, by object of the path.
std::vector<Tensor> known_tensors(Trace& trace, const Path& path, const Frame& frame) {
  std::vector<Tensor> known(frame.objects.size());
  for (size_t o = 0; o < known.size(); ++o) {
    const ValueOrigin& origin = path.objects()[o].origin;
    if (origin.kind == ValueOrigin::Kind::leaf)
      known[o] = trace.inputs().argument_fakes()[origin.index];
    else if (frame.objects[o].defined() && concrete_of(frame.objects[o]).defined())
      known[o] = frame.objects[o];  // of a segment that has run
    else if (origin.kind == ValueOrigin::Kind::implicit && origin.index < frame.slots.size())
      known[o] = frame.slots[origin.index];
  }
  return known;
}

// What the steps have given a history had none before, as what they write first is recorded. What an
// earlier segment has made may have come to its need since.
void forget_needs_of_steps(const Path& path, const Frame& frame, StepRange range) {
  std::set<uint32_t> seen;
  auto restore = [&](uint32_t object, ValueId before) {
    const Tensor& t = frame.objects[object];
    if (!seen.insert(object).second || !t.defined()) return;
    const Tensor& real = concrete_of(t);
    mark_requires_grad(
        t, real.defined() ? real.requires_grad() : path.value(before).flags.requires_grad);
  };
  for (size_t n = range.first; n < range.end; ++n) {
    const Path::Step& step = path.steps()[n];
    if (step.in_place < 0) continue;
    auto written = static_cast<uint32_t>(step.in_place);
    for (const Value& arg : path.args_of(step))
      for_each_value(arg, [&](ValueId own) {
        ValueId value = path.number_of(path.parts()[step.part], own);
        if (value != no_value && path.object_of(value) == written) restore(written, value);
      });
  }
  for (const Path::GivenHistory& given : path.given_histories())
    if (given.step >= range.first && given.step < range.end)
      restore(given.object, path.objects()[given.object].value);
}

/// The number that stands at a place of a frame.
Number plain_number(const Path& path, const Frame& frame, uint32_t arg, size_t element) {
  const Value& plain = frame.args[arg];
  if (plain.tag == Tag::ints) return SymInt(plain.as<int64_t>()[element]);
  if (plain.sub != Frame::body_number) return plain.number();
  auto word = static_cast<uint64_t>(frame.numbers[plain.payload]);
  return Value::make(path.numbers()[plain.payload].kind, word).number();
}

/// The arguments of a step, over tensors and symbols of the trace.
std::vector<Value> arguments_of(const Path& path, const Frame& frame, const Path::Step& step,
                                const Renamed& renamed, std::span<const Tensor> known,
                                ArgumentLists& lists) {
  const Path::Part& part = path.parts()[step.part];
  std::span<const Value> recorded = path.args_of(step);
  std::vector<Value> args(recorded.begin(), recorded.end());
  for (uint32_t a = 0; a < args.size(); ++a) {
    size_t element = 0;
    map_arguments(
        std::span<Value>(&args[a], 1), lists,
        [&](ValueId value) { return Value::of(known[path.object_of(part.first_value + value)]); },
        [&](Number n) {
          while (recorded[a].tag == Tag::ints && !recorded[a].as<SymInt>()[element].is_symbolic())
            ++element;
          const Expr* expr = renamed(expression_of(n));
          Number plain = plain_number(path, frame, step.first_arg + a, element++);
          return expr ? number_over(expr) : plain;
        });
  }
  return args;
}

/// The value that says how an object lies before a step.
ValueId value_before(const Path& path, uint32_t object, size_t step) {
  const Path::Object& o = path.objects()[object];
  if (!o.is_reshaped) return o.value;
  auto before = path.steps().first(step) | std::views::reverse;
  auto last = std::ranges::find(before, static_cast<int32_t>(object), &Path::Step::in_place);
  return last == before.end() ? o.value : last->first_result;
}

/// Tensors of segments that have run get the symbolic sizes of the recording.
void restore_symbols(const Trace& trace, const Path& path, const Frame& frame, size_t first) {
  const ValueId end = path.values_before(first);
  std::vector<Renamed> by_part;
  for (const Path::Part& part : path.parts())
    by_part.emplace_back(*part.graph->shape_env, *trace.so_far().shape_env);
  for (uint32_t o = 0; o < frame.objects.size() && path.objects()[o].value < end; ++o) {
    ValueId id = value_before(path, o, first);
    const GraphValue& value = path.value(id);
    if (!frame.objects[o].defined() || value.kind != ValueKind::tensor) continue;
    const Renamed& renamed = by_part[path.part_of(id)];
    bool is_symbolic = false, is_known = true;
    auto rename = [&](SymInt v) {
      if (!v.is_symbolic()) return v;
      const Expr* expr = renamed(v.expr());
      is_symbolic = true;
      is_known = is_known && expr;
      return expr ? as_sym_int(expr) : SymInt(0);
    };
    Dims sizes = value.meta.sizes, strides = value.meta.strides;
    for (Dims* dims : {&sizes, &strides})
      for (SymInt& v : *dims) v = rename(v);
    // Else the fake begins where its tensor does in this call.
    SymInt now = sym_offset_of(frame.objects[o]);
    SymInt offset = value.offset.is_symbolic() ? rename(value.offset) : now;
    if (is_symbolic && is_known)
      replace_metadata(frame.objects[o], list_of(sizes), list_of(strides), offset);
  }
}

/// The fakes that the body holds take the places of the trace's.
void hand_over(Trace& trace, const Path& path, const Frame& frame, std::span<const Tensor> known) {
  for (size_t o = 0; o < known.size(); ++o) {
    const Tensor& held = frame.objects[o];
    bool is_held = held.defined() && held.head()->references.load(std::memory_order_relaxed) >
                                         1 + path.objects()[o].n_arguments;
    if (!is_held || !known[o].defined() || same_head(known[o], held)) continue;
    Tensor own = known[o].is_fake() ? known[o] : recorder_of_thread().as_fake(known[o]);
    bool needs_grad = held.requires_grad();
    uint64_t version = version_of(held);
    trace.take_place(own, held);
    if (!trace.is_on_tape()) continue;
    // The tape has kept it as it was.
    mark_requires_grad(held, needs_grad);
    impl_of(held)->storage_ref->version = version;
  }
}

// A value of the path is `t` in the trace.
void take_hooks(Trace& trace, const Tensor& t, ValueId value,
                const autograd::TapeRequests& requests) {
  for (const autograd::HookOnValue& on : requests.hooks) {
    if (on.value != value) continue;
    GraphRecorder& recorder = recorder_of_thread();
    trace.requests().hooks.push_back({recorder.value_of(t), on.hook, on.on_node});
    autograd::mark_hooked(recorder.graph(), recorder.value_of(t));
    if (on.on_node) autograd::mark_own_node(recorder.graph(), recorder.value_of(t));
  }
}

// Of functions whose forward ends with step `n`.
void take_functions(Trace& trace, const Path& path, size_t n, std::span<const Tensor> known,
                    const autograd::TapeRequests& requests) {
  for (const autograd::FunctionAtNode& at : requests.functions) {
    if (at.last != n) continue;
    const Path::Step& step = path.steps()[n];
    const Path::Part& part = path.parts()[step.part];
    auto place = autograd::FunctionPlace::of(part.graph->node(step.node));
    auto tensors = [&](const std::vector<ValueId>& values) {
      std::vector<Tensor> list;
      for (ValueId v : values)
        list.push_back(v == no_value ? Tensor() : known[path.object_of(part.first_value + v)]);
      return list;
    };
    bool is_there =
        put_into_graph(trace, at.function,
                       {tensors(place->inputs), tensors(place->results), tensors(place->saved)});
    ensure(is_there, "a function that was followed has no place in the graph");
  }
}

/// The units of a path go into a recording along with their steps.
class UnitsAgain {
 public:
  UnitsAgain(Trace& trace, const Path& path, std::span<const Tensor> known)
      : trace_(trace), path_(path), known_(known) {}
  void before(size_t step) {
    const Path::Unit* unit = path_.unit_at(step);
    if (!unit) return;
    unit_ = unit;
    start_ = UnitsOfTrace::begin(recorder_of_thread());
  }
  void after(size_t step) {
    if (!unit_ || unit_->end_step != step + 1) return;
    std::vector<const Tensor*> tensors;
    for (ValueId v : unit_->values) tensors.push_back(&tensor_of(v));
    std::vector<Tensor> results;
    for (ValueId v : unit_->results) results.push_back(tensor_of(v));
    trace_.units().end(recorder_of_thread(), trace_.inputs().stand_ins,
                       {unit_->number, tensors, unit_->facts, results, unit_->notes}, start_);
  }

 private:
  const Tensor& tensor_of(ValueId value) const {
    return value == no_value ? none_ : known_[path_.object_of(value)];
  }

  Trace& trace_;
  const Path& path_;
  std::span<const Tensor> known_;
  const Tensor none_;
  const Path::Unit* unit_ = nullptr;
  OpUnit::Start start_;
};

/// The nodes that the tape has made in a run, which have its plain numbers.
class NodesOfRun {
 public:
  explicit NodesOfRun(const Frame& frame) : frame_(frame) {
    for (const Tensor& t : frame.objects)
      if (autograd::GradState* state = t.defined() ? autograd::state_of(t) : nullptr)
        add(state->node.get());
  }
  /// The value is `recorded` in a recording.
  void take_symbols(ValueId value, const Graph& graph, ValueId recorded) const {
    const GraphValue& known = graph.value(recorded);
    auto [first, end] = inputs_.equal_range(value);
    for (auto at = first; at != end; ++at) {
      auto [node, input] = at->second;
      Dims& sizes = node->inputs[input].sizes;
      if (autograd::stand_for(*graph.shape_env, list_of(known.meta.sizes), list_of(sizes)))
        sizes = known.meta.sizes;
      if (input == 0 && known.source == ValueSource::node)
        node->take_symbols(graph, graph.node(known.source_index));
    }
  }

 private:
  void add(autograd::Node* last) {
    std::vector<autograd::Node*> left{last};
    while (!left.empty()) {
      autograd::Node* node = left.back();
      left.pop_back();
      if (!node || !seen_.insert(node).second) continue;
      for (size_t i = 0; i < node->inputs.size(); ++i)
        if (node->inputs[i].trace_id == frame_.id)
          inputs_.emplace(node->inputs[i].trace_value, std::pair(node, i));
      for (const autograd::Edge& edge : node->next) left.push_back(edge.node.get());
    }
  }

  const Frame& frame_;
  std::multimap<ValueId, std::pair<autograd::Node*, size_t>> inputs_;  // by value, of which node
  std::set<const autograd::Node*> seen_;
};

/// Of captured tensors. The tape has kept them as they were, and no code has run since.
class VersionsOfSlots {
 public:
  explicit VersionsOfSlots(const Frame& frame) : frame_(frame) {
    for (const Tensor& slot : frame.slots) versions_.push_back(version_of(slot));
  }
  void restore() const {
    for (size_t i = 0; i < versions_.size(); ++i)
      impl_of(frame_.slots[i])->storage_ref->version = versions_[i];
  }

 private:
  const Frame& frame_;
  std::vector<uint64_t> versions_;
};

}  // namespace

OpUnit::Start record_steps(Trace& trace, const Path& path, const Frame& frame, StepRange range,
                           const autograd::TapeRequests& requests) {
  auto [first, end, open_unit] = range;
  OpUnit::Start open;
  LazyNumbersOfBody copied_already;
  if (first > 0) restore_symbols(trace, path, frame, first);
  std::vector<Tensor> known = known_tensors(trace, path, frame);
  if (!trace.is_on_tape()) forget_needs_of_steps(path, frame, range);
  std::optional<Renamed> renamed;  // of the step's part
  const Path::Part* renamed_part = nullptr;
  std::vector<ValueId> values;  // of the trace, by value of the path
  if (trace.is_on_tape()) values.resize(path.values_before(end), no_value);
  UnitsAgain units(trace, path, known);
  std::optional<NodesOfRun> nodes;
  if (trace.is_on_tape() && !trace.so_far().shape_env->symbols().empty()) nodes.emplace(frame);
  VersionsOfSlots versions(frame);
  for (size_t n = first; n < end; ++n) {
    const Path::Step& step = path.steps()[n];
    units.before(n);
    if (n == open_unit) open = UnitsOfTrace::begin(recorder_of_thread());
    ArgumentLists lists;
    // A body that has left out a break goes on in the next part.
    if (const Path::Part* part = &path.parts()[step.part];
        std::exchange(renamed_part, part) != part)
      renamed.emplace(*part->graph->shape_env, *trace.so_far().shape_env, BodySymbols::unrelated);
    std::vector<Value> args = arguments_of(path, frame, step, *renamed, known, lists);
    std::vector<Value> results(std::max<uint32_t>(step.n_results, 1));
    GradientsAsRecorded mode(step.grad);
    CallArgs call{step.op, args.data(), results.data(), step.n_args, step.op->n_returns};
    recorder_of_thread().record(call);
    each_result(call, [&](const Tensor& t, uint32_t r) {
      if (step.in_place < 0) known[path.object_of(step.first_result + r)] = t;
      if (trace.is_on_tape()) values[step.first_result + r] = recorder_of_thread().value_of(t);
      take_hooks(trace, t, step.first_result + r, requests);
    });
    for (ValueId v = step.first_result; nodes && v < step.first_result + step.n_results; ++v)
      if (values[v] != no_value) nodes->take_symbols(v, recorder_of_thread().graph(), values[v]);
    take_functions(trace, path, n, known, requests);
    for (Value& v : results) drop(v);
    units.after(n);
  }
  if (end == open_unit) open = UnitsOfTrace::begin(recorder_of_thread());
  if (trace.is_on_tape()) versions.restore();
  hand_over(trace, path, frame, known);
  if (trace.is_on_tape()) trace.aliases() = AliasesOfTape(frame.id, std::move(values));
  return open;
}

}  // namespace tenon
