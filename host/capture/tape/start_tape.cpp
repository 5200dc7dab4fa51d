// Going over to the tape in the middle of a body.
//
// Problem: that a body calls backward() shows when it does, and by then its operations are recorded
// without a tape. To run it once more would repeat whatever else it does: counters, logs, the next
// batch of a loader. Model: what is recorded goes through the tape now, operation by operation, from
// the inputs that there are. The fakes that the body holds become those of the new graph, so that
// it goes on as if the tape had been there from the start. Gradients of leaves that the body has
// touched by then are set aside as they were before. Where an operation cannot be called again
// (control flow, numbers read from data, checkpoints) the body is run once more after all.
// Cost: that of recording the operations so far.
#include "capture/errors/error_of_run.h"
#include "capture/trace.h"
#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <map>
#include <ranges>

namespace tenon {

namespace {

bool may_be_called_again(const Graph& graph, const Node& node) {
  bool has_object = std::ranges::any_of(
      node.args, [](const Value& a) { return a.tag == Tag::graph || a.tag == Tag::opaque; });
  if (has_object || node.facts.contains("recompute")) return false;
  for (ValueId v = node.first_result; v < node.first_result + node.n_results; ++v)
    if (ValueKind kind = graph.value(v).kind; kind != ValueKind::tensor && kind != ValueKind::none)
      return false;
  return true;
}

bool may_be_called_again(const Graph& graph) {
  return graph.constants().empty() && std::ranges::all_of(graph.nodes(), [&](const Node& node) {
           return may_be_called_again(graph, node);
         });
}

/// The tensor objects of a graph: which one a value belongs to, and who stands for it.
class Objects {
 public:
  Objects(GraphRecorder& recorder, const TraceInputs& inputs)
      : before_(recorder.values_before()), own_(recorder.graph().values().size()), held_(own_) {
    before_.resize(own_.size(), no_value);
    const Graph& graph = recorder.graph();
    for (uint32_t i = 0; i < graph.inputs().size(); ++i)
      own_[graph.inputs()[i]] = as_named(recorder.input_fake(i), inputs);
    for (const Tensor& fake : recorder.live_fakes()) {
      ValueId object = object_of(impl_of(fake)->extra->trace_value);
      if (!own_[object].defined()) held_[object] = fake;
    }
  }

  ValueId object_of(ValueId value) const {
    while (before_[value] != no_value) value = before_[value];
    return value;
  }
  Tensor& own(ValueId value) { return own_[object_of(value)]; }
  /// The body's, of what operations have made.
  const Tensor& held(ValueId value) const { return held_[object_of(value)]; }

 private:
  // The tape knows captured tensors as the body names them.
  static Tensor as_named(const Tensor& fake, const TraceInputs& inputs) {
    const ValueOrigin* origin = fake.defined() ? inputs.known_origin(fake) : nullptr;
    bool is_captured = origin && origin->kind == ValueOrigin::Kind::implicit;
    return is_captured ? inputs.stand_ins.real_of(fake) : fake;
  }

  std::vector<ValueId> before_;
  std::vector<Tensor> own_, held_;  // by object, its first value
};

/// Where the body has given numbers: operations have other numbers on the tape, which takes some
/// apart.
class PlacesOfNumbers {
 public:
  PlacesOfNumbers(GivenNumbers& given, const uint32_t& n_steps)
      : given_(given), before_(given), n_steps_(n_steps) {}

  uint32_t next_step() const { return n_steps_; }
  /// The next operation of the graph has become those from `step` on.
  void move(uint32_t step) {
    for (size_t i = 0; i < given_.places.size(); ++i)
      move(before_.places[i], given_.places[i], step);
    for (size_t i = 0; i < given_.shared_sizes.size(); ++i)
      move(before_.shared_sizes[i].place, given_.shared_sizes[i].place, step);
    ++n_moved_;
  }

 private:
  void move(const NumberPlace& before, NumberPlace& place, uint32_t step) const {
    if (before.step != n_moved_) return;
    bool is_whole = n_steps_ == step + 1 && (place.is_size() || last_op() == place.op);
    if (!is_whole) throw WantsTape();
    place.step = step;
  }

  static OpId last_op() {
    auto nodes = recorder_of_thread().graph().nodes() | std::views::reverse;
    return std::ranges::find_if_not(nodes, is_assertion)->op;
  }

  GivenNumbers& given_;
  const GivenNumbers before_;
  const uint32_t& n_steps_;
  uint32_t n_moved_ = 0;
};

/// One operation makes these symbols, not new ones.
struct MadeAgain {
  ShapeEnv& env;
  MadeAgain(ShapeEnv& e, std::vector<const Expr*> symbols) : env(e) {
    env.make_again(std::move(symbols));
  }
  ~MadeAgain() { env.make_again({}); }
};

/// Numbers stay what the recording has made of them.
struct PauseNumbers {
  BodyNumbers& numbers;
  explicit PauseNumbers(BodyNumbers& n) : numbers(n) { numbers.is_paused = true; }
  ~PauseNumbers() { numbers.is_paused = false; }
};

/// The operations of a graph, once more.
class Again {
 public:
  Again(Trace& trace, const Graph& graph, Objects objects, const autograd::TapeRequests& requests,
        PlacesOfNumbers places)
      : trace_(trace),
        graph_(graph),
        objects_(std::move(objects)),
        requests_(requests),
        places_(places) {}

  /// Gives the first one's number on the tape for each operation, and that of the next one.
  std::vector<uint32_t> run() {
    GraphRecorder& recorder = recorder_of_thread();
    std::vector<uint32_t> numbers;
    SourceLocation where = std::exchange(recorder.where, {});
    std::string module_path = std::exchange(recorder.module_path, {});
    autograd::RequestsOfCall brings(requests_);
    find_ends_of_functions();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      recorder.where = graph_.node(n).where;
      recorder.module_path = graph_.node(n).module_path;
      uint32_t step = places_.next_step();
      call(n);
      if (is_assertion(graph_.node(n))) continue;
      numbers.push_back(step);
      places_.move(step);
    }
    numbers.push_back(places_.next_step());
    recorder.where = std::move(where);
    recorder.module_path = std::move(module_path);
    return numbers;
  }

 private:
  void call(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    ArgumentLists lists;
    std::vector<Value> args(node.args.begin(), node.args.end());
    map_arguments(
        args, lists, [&](ValueId v) { return Value::of(objects_.own(v)); }, keep_numbers);
    std::vector<Value> results(std::max<uint32_t>(op.n_returns, 1));
    CallArgs made{&op, args.data(), results.data(), static_cast<uint32_t>(args.size()),
                  op.n_returns};
    auto grad = node.facts.find("grad");
    bool default_grad = recorder_of_thread().grad_enabled();
    GradientsAsRecorded mode(grad == node.facts.end() ? default_grad : grad->second == "on");
    std::vector<const Expr*> symbols = symbols_made_by(node);
    MadeAgain sizes(*graph_.shape_env, symbols);
    if (is_assertion(node))
      recorder_of_thread().record(made);
    else
      dispatch(op, made.args, made.n_args, made.results, made.n_results);
    each_result(made, [&](const Tensor& t, uint32_t r) {
      if (!t.defined()) return;
      if (!symbols.empty() && !has_sizes_of(t, node.first_result + r)) throw WantsTape();
      take(t, node.first_result + r);
    });
    for (Value& v : results) drop(v);
    attach_function(n);
  }

  std::vector<const Expr*> symbols_made_by(const Node& node) const {
    std::vector<const Expr*> made;
    for (const SymbolBinding& b : graph_.symbols)
      if (!b.stride && b.value >= node.first_result && b.value < node.first_result + node.n_results)
        made.push_back(b.symbol);
    return made;
  }

  // The body may have asked for them.
  bool has_sizes_of(const Tensor& t, ValueId value) const {
    return std::ranges::equal(t.sizes(), graph_.value(value).meta.sizes, {}, &SymInt::word,
                              &SymInt::word);
  }

  // Nothing but the result's handle names `t` yet, so the body's fake can take its place.
  void take(const Tensor& t, ValueId value) {
    if (Tensor& own = objects_.own(value); !own.defined()) {
      own = objects_.held(value);
      if (own.defined())
        hand_over(t, own);
      else
        own = t;
    }
    if (!ends_of_functions_.contains(value)) attach_hooks(value);
  }

  void attach_hooks(ValueId value) {
    for (const autograd::HookOnValue& on : requests_.hooks)
      if (on.value == value) on.hook->attach(objects_.own(value));
  }

  void hand_over(const Tensor& t, const Tensor& held) {
    trace_.take_place(t, held);
    TensorImpl *to = impl_of(held), *from = impl_of(t);
    to->grad = std::move(from->grad);
    to->base = from->base;
    to->base_version = from->base_version;
  }

  void attach_function(NodeId last) {
    auto place = autograd::FunctionPlace::of(graph_.node(last));
    if (!place) return;
    autograd::RequestsOfCall::attach_function(
        last, *place, [&](ValueId v) { return objects_.own(v); },
        [](auto backward) { return backward; });
    for (auto [result, end] : ends_of_functions_)
      if (end == last) attach_hooks(result);
  }

  void find_ends_of_functions() {
    for (const autograd::FunctionAtNode& at : requests_.functions)
      if (auto place = autograd::FunctionPlace::of(graph_.node(at.last)))
        for (ValueId result : place->results) {
          NodeId& end = ends_of_functions_.try_emplace(result, at.last).first->second;
          end = std::max(end, at.last);
        }
  }

  Trace& trace_;
  const Graph& graph_;
  Objects objects_;
  const autograd::TapeRequests& requests_;
  PlacesOfNumbers places_;
  // By result, which gets its history where its function ends, and hooks with it.
  std::map<ValueId, NodeId> ends_of_functions_;
};

}  // namespace

// A body that catches this runs once more all the same.
void start_tape(Trace& trace) try {
  GraphRecorder& recorder = trace.recorder_;
  if (trace.calls_backward_) *trace.calls_backward_ = true;
  bool is_plain = !trace.leaves_body_out && !trace.so_far().has_graph_breaks() &&
                  trace.records(recorder_of_thread());
  if (!is_plain || !may_be_called_again(recorder.graph())) throw WantsTape();
  Objects objects(recorder, trace.inputs_);
  std::shared_ptr<const Graph> so_far = recorder.restart(true);
  recorder.on_tape = true;
  thread_modes.exclude &= ~bit(Key::autograd);  // until the scope of the recording ends
  trace.recording_.grads_on.clear();
  trace.n_steps_ = 0;
  trace.mutates_ = trace.has_mutated_ = false;
  trace.inputs_.written.clear();
  trace.units_.take();
  trace.gradients_ = std::move(trace.early_gradients_);
  trace.gradients_.start_tape();
  autograd::TapeRequests requests = std::exchange(trace.requests_, {});
  PauseNumbers as_recorded(trace.numbers_);
  Again again(trace, *so_far, std::move(objects), requests, {trace.numbers_.given, trace.n_steps_});
  trace.gradients_.renumber(again.run());
} catch (const WantsTape&) {
  ErrorOfRun::note_current();
  throw;
}

}  // namespace tenon
