// The recorder: lookup, meta functions, nodes, and which fakes are still alive.
#include "graph/record.h"

#include "config/flags.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/stand_in.h"
#include "graph/body.h"
#include "graph/control_flow.h"
#include "graph/memory_budget.h"
#include "graph/meta_cache.h"
#include "graph/metas_of_parts.h"
#include "graph/passes/view_root.h"
#include "graph/symbol_use.h"
#include "ops/decompose.h"
#include "ops/foreign_results.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/history.h"
#include "ops/modes/autocast.h"
#include "ops/op_kernels.h"
#include "ops/op_table.h"
#include "report/observers.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <utility>

namespace tenon {

namespace {

std::atomic<uint64_t> next_trace_id{1};

void record_call(const CallArgs& call) {
  forget_written_casts(call);
  if (!thread_modes.follower || !follow_slot(call)) recorder_of_thread().record(call);
}

// Flag functorch.fake_tensor_allow_meta.
void require_meta_allowed(const CallArgs& call) {
  if (config::flags().functorch.fake_tensor_allow_meta) return;
  for (uint32_t r = 0; r < call.n_results; ++r) {
    const Value& v = call.results[r];
    if (v.tag != Tag::tensor_owned) continue;
    const auto* head = reinterpret_cast<const detail::TensorHead*>(v.payload);
    if (head->device_type != static_cast<int32_t>(DeviceType::meta)) continue;
    fail(
        "{}: the result is on the device meta, which functorch.fake_tensor_allow_meta = false "
        "forbids while functions are captured; make it on another device",
        call.op->name);
  }
}

const struct RegisterTraceKey {
  RegisterTraceKey() { trace_key_slot = &record_call; }
} register_trace_key;

}  // namespace

bool (*follow_slot)(const CallArgs&) = nullptr;
void (*stop_following_slot)() = nullptr;

GraphRecorder& recorder_of_thread() {
  if (thread_modes.follower) stop_following_slot();
  ensure(thread_modes.tracer, "an op reached the trace key without a recorder");
  return *static_cast<GraphRecorder*>(thread_modes.tracer);
}

GraphRecorder::GraphRecorder(std::shared_ptr<ShapeEnv> env)
    : graph_(std::make_shared<Graph>()),
      life_(std::make_shared<TraceLife>()),
      id_(next_trace_id.fetch_add(1, std::memory_order_relaxed)),
      grad_enabled_(gradients_are_on()) {
  graph_->shape_env = env ? std::move(env) : ShapeEnv::make();
}

GraphRecorder::~GraphRecorder() {
  disown_traces(this);
  life_->alive.clear();
  earlier_->alive.clear();
}

std::shared_ptr<const Graph> GraphRecorder::restart(bool keeps_inputs) {
  std::shared_ptr<Graph> before = std::exchange(graph_, std::make_shared<Graph>());
  graph_->shape_env = before->shape_env;
  for (const Tensor& fake : live_fakes()) know_earlier(fake);
  life_->alive.clear();
  life_ = std::make_shared<TraceLife>();
  storage_ids_.clear();
  values_before_.clear();
  id_ = next_trace_id.fetch_add(1, std::memory_order_relaxed);
  own_another_trace(id_, this);
  std::vector<Tensor> fakes = std::exchange(input_fakes_, {});
  if (!keeps_inputs) return before;
  fakes.resize(before->inputs().size());
  for (uint32_t i = 0; i < fakes.size(); ++i) {
    GraphValue value = before->value(before->inputs()[i]);
    if (const Tensor& fake = fakes[i]; fake.defined()) {
      replace_metadata(fake, list_of(value.meta.sizes), list_of(value.meta.strides), value.offset);
      mark_requires_grad(fake, value.flags.requires_grad);
    }
    ValueId id = graph_->add_input(std::move(value));
    if (fakes[i].defined()) track(fakes[i], id);
  }
  input_fakes_ = std::move(fakes);
  return before;
}

ValueId GraphRecorder::adopt_input(const Tensor& fake, ValueFlags flags) {
  GraphValue value = describe(fake);
  flags.requires_grad = fake.requires_grad();
  value.flags = flags;
  ValueId id = graph_->add_input(std::move(value));
  track(fake, id);
  return id;
}

GraphValue GraphRecorder::describe(const Tensor& fake) const {
  GraphValue value;
  value.meta = meta_of(fake);
  value.offset = sym_offset_of(fake);
  value.flags.requires_grad = fake.requires_grad();
  return value;
}

void GraphRecorder::track(const Tensor& fake, ValueId id) {
  TensorExtra& extra = impl_of(fake)->ensure_extra();
  if (values_before_.size() <= id) values_before_.resize(id + 1, no_value);
  if (extra.trace_id == id_ && extra.trace_value != id) values_before_[id] = extra.trace_value;
  extra.set_trace(id_, id, life_, impl_of(fake));
  if (storage_ids_.size() <= id) storage_ids_.resize(id + 1, 0);
  storage_ids_[id] = impl_of(fake)->storage_id;
}

void GraphRecorder::rebind(const Tensor& fake, ValueId id) { track(fake, id); }

void GraphRecorder::take_place(const Tensor& fake, const Tensor& held) {
  ValueId id = impl_of(fake)->extra->trace_value;
  impl_of(fake)->extra->leave_trace();
  impl_of(fake)->extra->life.reset();
  become_fake(held, fake);
  track(held, id);
  for (Tensor& t : input_fakes_)
    if (t.defined() && same_head(t, fake)) t = held;
}

Tensor GraphRecorder::add_input(const TensorMeta& meta, SymInt offset, GraphValue value,
                                StorageRef storage) {
  Tensor fake = make_fake(meta, offset, std::move(storage));
  value.kind = ValueKind::tensor;
  value.meta = meta;
  value.offset = offset;
  if (value.flags.requires_grad) mark_requires_grad(fake, true);
  ValueId id = graph_->add_input(std::move(value));
  track(fake, id);
  input_fakes_.resize(graph_->inputs().size());
  input_fakes_.back() = fake;
  return fake;
}

ValueId GraphRecorder::add_scalar_input(Number symbol, std::string name) {
  GraphValue value;
  value.kind = symbol.is_floating()  ? ValueKind::sym_float
               : symbol.is_boolean() ? ValueKind::sym_bool
                                     : ValueKind::sym_int;
  value.scalar = symbol;
  value.name = std::move(name);
  return graph_->add_input(std::move(value));
}

Tensor GraphRecorder::add_constant(const Tensor& real, std::string name) {
  Tensor fake = make_fake(meta_of(real), real.storage_offset());
  if (is_wrapped_number(real)) impl_of(fake)->ensure_extra().wrapped_number = true;
  track(fake, graph_->add_constant(real, std::move(name)));
  return fake;
}

bool GraphRecorder::owns(const Tensor& t) const {
  const TensorImpl* impl = impl_of(t);
  return impl->extra && impl->extra->trace_id == id_;
}

// `user`: who uses it, for the error.
static Tensor fake_in(GraphRecorder& recorder, const Tensor& t, std::string_view user) {
  if (!t.defined() || recorder.owns(t)) return t;
  if (t.is_fake() && recorder.import)
    if (Tensor own = recorder.import(t); own.defined()) return own;
  if (t.is_fake() && recorder.adopt && recorder.adopt(t)) return t;
  require(
      !t.is_fake(),
      "{}: a tensor ({}) of another compiled call is used in this one; that call ended with an "
      "error before the tensor was computed, or still runs on another thread: assign the tensor "
      "anew, or only use it in the body that made it",
      user, t);
  return recorder.lift ? recorder.lift(t) : recorder.add_constant(t, "");
}

Tensor GraphRecorder::as_fake(const Tensor& t) { return fake_in(*this, t, "recording"); }

ValueId GraphRecorder::value_of(const Tensor& t) {
  if (!t.defined()) return no_value;
  return impl_of(as_fake(t))->extra->trace_value;
}

void GraphRecorder::record(const CallArgs& call) {
  bool is_late = gives_what_data_decides(call);
  if (is_late && on_data_dependent && on_data_dependent(call)) return;
  // Parts give their numbers and sizes as they are; what is made of them has no name in the graph.
  bool opened =
      (opens && opens(*call.op)) || (is_late && !call.op->def->meta && can_decompose(*call.op));
  if (opened || (is_complex_form(call) && !call.op->functional) ||
      (call.op->schema.is_for_parts() && can_decompose(*call.op)))
    return decompose(call);
  if (runs_outside && runs_outside(call)) return;
  // Real tensors among the arguments are replaced by the fakes that stand for them.
  NodeArgs args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(
      args, lists, [&](const Tensor& t) { return fake_in(*this, t, call.op->name); },
      [this](Number n) { return renewed(n); });
  for (Value& a : args)
    if (a.tag == Tag::graph) a = kept_body(*a.as<Graph>());
  if (opens && has_metas_of_parts(*call.op)) {
    ask_parts({call.op, args.data(), call.results, call.n_args, call.n_results});
    if (opens(*call.op)) return decompose(call);
  }
  if (lift_numbers) lift_numbers(*call.op, args, lists);
  append({call.op, args.data(), call.results, call.n_args, call.n_results}, args);
}

// A number over data-dependent symbols whose values are known by now.
Number GraphRecorder::renewed(Number n) const {
  if (!shape_env()->has_given_values()) return n;
  return number_over(shape_env()->renewed(expression_of(n)));
}

// Tensors among the arguments as references to values.
GraphRecorder::NodeArgs GraphRecorder::node_args(std::span<const Value> fake_args,
                                                 ArgumentLists& lists) {
  NodeArgs args(fake_args.begin(), fake_args.end());
  map_arguments(
      args, lists, [this](const Tensor& t) { return value_of(t); }, keep_numbers);
  return args;
}

// A body of another graph, which may go, is copied.
Value GraphRecorder::kept_body(const Graph& body) {
  for (const std::shared_ptr<Graph>& known : graph_->subgraphs)
    if (known.get() == &body) return Value::pointer(Tag::graph, known.get());
  require(body.symbols.empty() || body.shape_env == shape_env(), ErrorCode::unsupported,
          "a graph with symbolic sizes and control flow is called inside of another recording; "
          "call it outside, or with sizes that are fixed");
  return keep_body(*graph_, clone(body));
}

void GraphRecorder::note_failure(const CallArgs& call, std::span<const Value> fake_args) {
  if (!config::flags().dynamo.replay_record_enabled) return;
  ArgumentLists lists;
  NodeArgs args = node_args(fake_args, lists);
  failed_ = clone(*graph_);
  std::vector<GraphValue> results(std::max<uint32_t>(call.n_results, 1));
  failed_->add_node(call.op->id, args, std::move(results));
}

// False when the op has been run instead of being recorded.
bool GraphRecorder::run_meta_of(const CallArgs& call, std::span<const Value> fake_args) {
  struct Inside {
    const OpEntry *&op, *before;
    ~Inside() { op = before; }
  };
  try {
    Inside inside{in_meta_, std::exchange(in_meta_, call.op)};
    if (has_metas_of_parts(*call.op)) return run_meta_cached(call, run_parts_for_metas), true;
    FakeScope fakes;
    run_meta_cached(call, run_meta);
    return true;
  } catch (const Error& error) {
    note_failure(call, fake_args);
    bool open = error.code() == ErrorCode::data_dependent;
    if (!open || !on_open_question || !on_open_question(call)) throw;
    return false;
  }
}

namespace {

/// Results of a call that is refused behind its meta function go.
struct DropOnError {
  const CallArgs& call;
  int n_exceptions = std::uncaught_exceptions();
  ~DropOnError() {
    if (std::uncaught_exceptions() > n_exceptions) drop_results(call);
  }
};

}  // namespace

void GraphRecorder::append(const CallArgs& call, std::span<const Value> fake_args) {
  if (!run_meta_of(call, fake_args)) return;
  DropOnError results{call};
  require_meta_allowed(call);
  if (on_tape)
    track_views(call);
  else
    pass_requires_grad(*this, call, fake_args);
  // A number that follows from known symbols needs no node.
  bool is_number = call.n_results == 1 && call.results[0].is_number();
  if (is_number && !(call.op->tags & TN_TAG_DATA_DEPENDENT)) return;

  if (before_node) before_node();
  ArgumentLists lists;
  NodeArgs args = node_args(fake_args, lists);
  std::vector<GraphValue> values;
  InlineVector<Tensor, 4> tensors;
  if (call.op->schema.returns_list()) {
    const auto& list = *reinterpret_cast<std::vector<Tensor>*>(call.results[0].payload);
    tensors.assign(list.begin(), list.end());
    for (const Tensor& t : tensors) values.push_back(describe(t));
  } else {
    for (uint32_t r = 0; r < call.n_results; ++r) {
      const Value& v = call.results[r];
      GraphValue value;
      Tensor tensor;
      if (v.tag == Tag::tensor_owned) {
        tensor = share(reinterpret_cast<detail::TensorHead*>(v.payload));
        value = describe(tensor);
      } else if (v.is_number()) {
        value.scalar = v.number();
        value.kind = v.tag == Tag::integer    ? ValueKind::sym_int
                     : v.tag == Tag::floating ? ValueKind::sym_float
                                              : ValueKind::sym_bool;
      } else {
        value.kind = ValueKind::none;
      }
      values.push_back(std::move(value));
      tensors.push_back(std::move(tensor));
    }
  }
  NodeId id = graph_->add_node(call.op->id, args, std::move(values));
  Node& node = graph_->node(id);
  node.where = where;
  node.module_path = module_path;
  node.is_backward = is_backward;
  if (region >= 0) node.facts["recompute"] = std::to_string(region);
  note_memory_budget(node);
  if (!is_backward && gradients_are_on() != grad_enabled_)
    node.facts["grad"] = grad_enabled_ ? "off" : "on";
  for (uint32_t r = 0; r < node.n_results; ++r) {
    if (tensors[r].defined()) track(tensors[r], node.first_result + r);
    bind_unbacked(graph_->value(node.first_result + r), node.first_result + r);
  }
  if (on_node) on_node(call, id);
}

// A fresh data-dependent symbol gets its value from the first result that shows it bare.
void GraphRecorder::bind_unbacked(const GraphValue& value, ValueId id) {
  auto bind = [&](const Expr* expr, int32_t dim) {
    if (!expr || !expr->is_symbol() || !graph_->shape_env) return;
    if (graph_->shape_env->info(expr).is_known_before_run()) return;
    for (const SymbolBinding& s : graph_->symbols)
      if (s.symbol == expr) return;
    graph_->symbols.push_back({expr, id, dim});
  };
  if (value.kind == ValueKind::tensor) {
    for (size_t d = 0; d < value.meta.sizes.size(); ++d)
      if (value.meta.sizes[d].is_symbolic())
        bind(value.meta.sizes[d].expr(), static_cast<int32_t>(d));
  } else if (value.scalar.is_symbolic()) {
    bind(value.scalar.is_integer() ? value.scalar.sym_int().expr()
                                   : std::bit_cast<const Expr*>(value.scalar.word()),
         -1);
  }
}

int32_t GraphRecorder::own_references(const Tensor& fake) const {
  int32_t n = 0;
  for (const Tensor& t : input_fakes_) n += t.defined() && same_head(t, fake);
  return n;
}

std::vector<Tensor> tensors_of(const TraceLife& life) {
  std::vector<Tensor> out;
  for (TensorImpl* impl : life.alive)
    if (impl) out.push_back(share(impl));
  return out;
}

void GraphRecorder::know_earlier(const Tensor& fake) {
  std::vector<TensorImpl*>& alive = earlier_->alive;
  TensorExtra& extra = impl_of(fake)->ensure_extra();
  // Loops make many that die soon.
  auto free = std::ranges::find(alive, nullptr);
  extra.set_trace(extra.trace_id, static_cast<uint32_t>(free - alive.begin()), earlier_,
                  impl_of(fake));
}

std::shared_ptr<Graph> GraphRecorder::finish(std::span<const Tensor> outputs) {
  std::vector<ValueId> ids;
  for (const Tensor& t : outputs) {
    ids.push_back(value_of(t));
    if (ids.back() != no_value) graph_->value(ids.back()).flags.user_output = true;
  }
  graph_->set_outputs(std::move(ids));
  // Values over one storage form an alias group, numbered in order of appearance. What inputs are
  // said to share is kept.
  std::map<uint64_t, uint32_t> count, group;
  uint32_t last = 0;
  storage_ids_.resize(graph_->values().size(), 0);
  for (ValueId v = 0; v < storage_ids_.size(); ++v) {
    ++count[storage_ids_[v]];
    if (uint32_t known = graph_->value(v).alias_group) {
      group.emplace(storage_ids_[v], known);
      last = std::max(last, known);
    }
  }
  for (ValueId v = 0; v < storage_ids_.size(); ++v) {
    uint64_t s = storage_ids_[v];
    if (s == 0 || count[s] < 2) continue;
    auto [at, is_new] = group.emplace(s, last + 1);
    if (is_new) ++last;
    graph_->value(v).alias_group = at->second;
  }
  return graph_;
}

ViewRoot view_root(const GraphRecorder& recorder, ValueId v) {
  auto memory_of = [&ids = recorder.storage_ids_](ValueId value) {
    return value < ids.size() ? ids[value] : 0;
  };
  auto share_memory = [&](ValueId a, ValueId b) {
    return memory_of(a) && memory_of(a) == memory_of(b);
  };
  return view_root(
      {recorder.graph(), recorder.values_before(), recorder.grad_enabled(), share_memory}, v);
}

int32_t region_of(const Node& node) {
  auto fact = node.facts.find("recompute");
  int32_t region = -1;
  if (fact != node.facts.end())
    std::from_chars(fact->second.data(), fact->second.data() + fact->second.size(), region);
  return std::max(region, -1);
}

// ---- which recorder, if any, gets the operations of a thread

RecordScope::RecordScope(GraphRecorder& recorder)
    : previous_(thread_modes.tracer),
      follower_(std::exchange(thread_modes.follower, nullptr)),
      keys_(bit(Key::trace), bit(Key::autograd)),
      excluded_outside_(std::exchange(thread_modes.excluded_outside, keys_.excluded_before())),
      shapes_(*recorder.shape_env()) {
  if (recorder.on_tape) thread_modes.exclude &= ~bit(Key::autograd);
  thread_modes.tracer = &recorder;
  own_trace(recorder.id(), &recorder);
}

RecordScope::~RecordScope() {
  thread_modes.tracer = previous_;
  thread_modes.follower = follower_;
  thread_modes.excluded_outside = excluded_outside_;
}

PauseRecording::PauseRecording()
    : previous_(std::exchange(thread_modes.tracer, nullptr)),
      follower_(std::exchange(thread_modes.follower, nullptr)),
      include_(thread_modes.include),
      exclude_(thread_modes.exclude) {
  thread_modes.include &= ~bit(Key::trace);
  if (previous_) thread_modes.exclude = thread_modes.excluded_outside;
}

PauseRecording::~PauseRecording() {
  thread_modes.tracer = previous_;
  thread_modes.follower = follower_;
  // What the program has set meanwhile is left.
  thread_modes.include = (include_ & ~keys_of_user) | (thread_modes.include & keys_of_user);
  if (previous_) thread_modes.excluded_outside = thread_modes.exclude;
  thread_modes.exclude = exclude_;
}

namespace {

const bool lets_observers_compute = (
    report::unrecorded_slot =
        [](FunctionRef<void()> f) {
          PauseRecording pause;
          f();
        },
    true);

}  // namespace

}  // namespace tenon
