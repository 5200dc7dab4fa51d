// Recording one call: leaves to fakes, cuts, implicit inputs, outputs and guards.
#include "capture/trace.h"

#include "capture/body_scope.h"
#include "capture/static_memory.h"
#include "capture/watch_symbols.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/tensor/each_tensor.h"
#include "core/error.h"
#include "nn/mode.h"
#include "ops/custom_op.h"
#include "ops/op_table.h"
#include "report/compile_record.h"
#include "report/dumps.h"
#include "report/log.h"
#include "report/stack.h"

#include <tenon/autograd.h>

#include <algorithm>

namespace tenon {

namespace {

thread_local Trace* current_trace = nullptr;

// lstm, gru and the plain recurrent layers, which flag dynamo.allow_rnn keeps out of graphs.
bool is_recurrent(const OpEntry& op) {
  constexpr std::string_view names[] = {"aten.lstm.", "aten.gru.", "aten.rnn_tanh.",
                                        "aten.rnn_relu."};
  return std::ranges::any_of(names, [&](std::string_view n) { return op.name.starts_with(n); });
}

// Flag dynamo.only_allow_pt2_compliant_ops; operations of Tenon all have the tag.
// A graph with a backward of its own runs without a tape.
void forget_tape(Graph& graph) {
  for (ValueId v : graph.inputs()) graph.value(v).flags.requires_grad = false;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) graph.node(n).facts.erase("grad");
}

bool is_compliant(const OpEntry& op) {
  const CustomOp* added = custom_op_of(op.functional ? *op.functional : op);
  return !added || added->pt2_compliant;
}

}  // namespace

const Tensor& Trace::concrete_of(const Tensor& fake) {
  static const Tensor none;
  TensorImpl* impl = impl_of(fake);
  return impl->extra ? impl->extra->concrete : none;
}

Trace* Trace::current() { return thread_modes.tracer ? current_trace : nullptr; }

std::string user_location(std::source_location where) {
  return message("{}:{}", report::shown_path(where.file_name()), where.line());
}

Trace::Trace(const detail::Leaves& leaves, const TracePolicy& policy, SegmentRunner run_segment)
    : shape_env(ShapeEnv::make()),
      leaves_(leaves),
      run_segment_(std::move(run_segment)),
      recorder_(shape_env),
      state_(policy.state),
      fullgraph_(policy.fullgraph),
      keep_empty_(policy.keep_empty),
      captures_scalars_(policy.captures_scalars),
      captures_shapes_(policy.captures_shapes),
      any_grad_(!config::flags().guards.strict_requires_grad && !thread_modes.grad_enabled) {
  recorder_.on_tape = policy.on_tape;
  take_rules();
  watch_symbols(*shape_env);
  shape_env->set_materialize([this](const Expr* expr) { return look_at(expr); });
  recorder_.lift = [this](const Tensor& real) { return lift(real); };
  recorder_.adopt = [this](const Tensor& fake) {
    if (!concrete_of(fake).defined()) return false;
    renew_sizes(fake);
    recorder_.adopt_input(fake);
    segment_inputs_.push_back(concrete_of(fake));
    segment_origins_.push_back({});
    return true;
  };
  recorder_.on_data_dependent = [this](const CallArgs& call) {
    if (captures(*call.op)) return false;
    run_outside(call);  // nobody can say how large the result is
    return true;
  };
  recorder_.on_open_question = [this](const CallArgs& call) {
    if (!may_look()) return false;
    run_outside(call);
    return true;
  };
  recorder_.before_node = [this] { emit_asserts(); };
  if (config::flags().dynamo.allow_rnn)
    recorder_.opens = [](const OpEntry& op) { return is_recurrent(op) && op.def->decomp; };
  recorder_.runs_outside = [this](const CallArgs& call) {
    const config::DynamoFlags& flags = config::flags().dynamo;
    bool refused = flags.only_allow_pt2_compliant_ops && !is_compliant(*call.op);
    if (!refused && (flags.allow_rnn || !is_recurrent(*call.op))) return false;
    require(
        !refused || !fullgraph_, ErrorCode::graph_break,
        "{} lacks the tag pt2_compliant, without which dynamo.only_allow_pt2_compliant_ops lets "
        "no operation into a graph, and fullgraph = true forbids cutting the graph; declare it "
        "with .pt2_compliant() if its functions are pure, or set the flag to false",
        call.op->name);
    run_outside(call);
    return true;
  };
  recorder_.on_node = [this](const CallArgs& call, NodeId) {
    note_writes(call);
    mutates_ = mutates_ || call.op->mutated_args;
    has_mutated_ = has_mutated_ || mutates_;
    emit_asserts();
  };

  ShapeEnvScope scope(*shape_env);
  for (size_t i = 0; i < leaves.tensors.size(); ++i)
    leaf_fakes_.push_back(make_leaf(leaves, i, policy));
  for (size_t i = 0; i < leaves.numbers.size(); ++i) {
    Number n = leaves.numbers[i];
    SymbolSource source{SymbolSource::Kind::input_value, static_cast<uint32_t>(i), 0};
    std::string text = message("number{}", i);
    if (policy.numbers[i] && n.is_integer()) {
      n = shape_env->create_symbol(n.to_int(), source, text, SymbolOptions::for_number());
    } else if (policy.numbers[i] && n.is_floating()) {
      n = shape_env->create_float(n.to_double(), source, text);
    }
    number_leaves_.push_back(n);
  }
}

// If the caller passed state(), the body may write only captured tensors in it. On the tape, also
// bump the version of the real tensor, so that autograd sees the write.
void Trace::note_write(const Tensor& written) {
  auto is_named = [&](const Tensor& real) {
    return !state_ ||
           std::ranges::any_of(*state_, [&](const Tensor& t) { return shares_storage(t, real); });
  };
  for (const auto& [real, fake] : lifted_) {
    bool is_argument =
        std::ranges::any_of(leaf_fakes_, [&](const Tensor& t) { return t.is_same(fake); });
    if (is_argument || !shares_storage(fake, written)) continue;
    require(is_named(real), ErrorCode::invalid_argument,
            "the body writes a captured tensor of shape {} that state() does not name; add its "
            "module, its optimizer or the tensor itself to the state that compile() is given",
            real.sizes());
    if (is_on_tape()) bump_version(real);
  }
}

void Trace::note_writes(const CallArgs& call) {
  if (!state_ && !is_on_tape()) return;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.op->mutated_args >> i & 1)
      each_tensor(call.args[i], [this](const Tensor& t) { note_write(t); });
}

Trace::~Trace() {
  shape_env->set_materialize({});
  shape_env->set_rules({});
}

namespace {

// Strides that follow from the sizes become expressions over them, so that a change of size frees
// the stride as well: each is, where it fits, size times stride of the dimension next inside.
Dims symbolic_strides(const Tensor& real, SymIntList sizes) {
  IntList plain{real.head()->strides, static_cast<size_t>(real.dim())};
  IntList extents{real.head()->sizes, static_cast<size_t>(real.dim())};
  Dims out(plain.size());
  std::vector<size_t> order(plain.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plain[a] < plain[b]; });
  for (size_t k = 0; k < order.size(); ++k) {
    size_t dim = order[k];
    out[dim] = plain[dim];
    for (size_t j = 0; j < k; ++j) {
      size_t inner = order[j];
      if (plain[dim] > 1 && plain[inner] > 0 && plain[inner] * extents[inner] == plain[dim])
        out[dim] = out[inner] * sizes[inner];
    }
  }
  return out;
}

}  // namespace

Tensor Trace::make_leaf(const detail::Leaves& leaves, size_t index, const TracePolicy& policy) {
  const Tensor& real = *leaves.tensors[index];
  leaf_metas_.emplace_back();
  if (!real.defined()) return Tensor();
  for (size_t j = 0; j < index; ++j) {
    if (!leaves.tensors[j]->is_same(real)) continue;
    leaf_metas_.back() = leaf_metas_[j];
    return leaf_fakes_[j];
  }
  TensorMeta meta = meta_of(real);
  auto leaf = static_cast<uint32_t>(index);
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    DimPolicy dim = policy.sizes[index][d];
    if (dim == DimPolicy::fixed) continue;
    SymbolOptions options;
    options.policy = dim == DimPolicy::duck       ? SymbolPolicy::duck
                     : dim == DimPolicy::unbacked ? SymbolPolicy::unbacked
                                                  : SymbolPolicy::own;
    options.must_stay_dynamic = dim == DimPolicy::own;
    options.specialize_one = policy.specialize_one;
    if (const auto& extra = impl_of(real)->extra;
        extra && d < extra->dynamic_ranges.size() && dim == DimPolicy::own)
      options.range = {extra->dynamic_ranges[d].first, extra->dynamic_ranges[d].second};
    meta.sizes[d] = shape_env->create_symbol(
        real.head()->sizes[d], {SymbolSource::Kind::input_size, leaf, static_cast<uint32_t>(d)},
        message("arg{}.size({})", index, d), options);
  }
  meta.strides = symbolic_strides(real, list_of(meta.sizes));
  for (size_t d = 0; d < meta.strides.size(); ++d) {
    SymbolSource source{SymbolSource::Kind::input_stride, leaf, static_cast<uint32_t>(d)};
    std::string text = message("arg{}.stride({})", index, d);
    if (meta.strides[d].is_symbolic())
      shape_env->expect_source(source, text, meta.strides[d]);
    else if (policy.strides[index][d] != DimPolicy::fixed)
      meta.strides[d] = shape_env->create_symbol(real.head()->strides[d], source, text);
  }
  leaf_metas_.back() = meta;
  // Arguments over one storage stay so as fakes.
  StorageRef storage;
  for (size_t j = 0; j < index && !storage; ++j)
    if (leaves.tensors[j]->defined() && shares_storage(*leaves.tensors[j], real))
      storage = impl_of(leaf_fakes_[j])->storage_ref;
  GraphValue value;
  value.flags.requires_grad = real.requires_grad() && !any_grad_;
  Tensor fake =
      recorder_.add_input(meta, real.storage_offset(), std::move(value), std::move(storage));
  impl_of(fake)->ensure_extra().concrete = real;
  segment_inputs_.push_back(real);
  segment_origins_.push_back({ValueOrigin::Kind::leaf, leaf});
  lifted_.push_back({real, fake});
  return fake;
}

Tensor Trace::lift(const Tensor& real) {
  for (auto& [known, fake] : lifted_) {
    if (!known.is_same(real)) continue;
    recorder_.as_fake(fake);  // adopts it where a new segment has begun
    return fake;
  }
  GraphValue value;
  value.flags.requires_grad = real.requires_grad() && !any_grad_;
  value.flags.static_address = true;
  StorageRef storage;
  for (auto& [known, fake] : lifted_)
    if (shares_storage(known, real)) storage = impl_of(fake)->storage_ref;
  Tensor fake = recorder_.add_input(meta_of(real), real.storage_offset(), std::move(value),
                                    std::move(storage));
  TensorExtra& extra = impl_of(fake)->ensure_extra();
  extra.concrete = real;
  extra.wrapped_number = is_wrapped_number(real);
  segment_inputs_.push_back(real);
  segment_origins_.push_back({ValueOrigin::Kind::implicit, static_cast<uint32_t>(implicit.size())});
  implicit.push_back(locate(real));
  lifted_.push_back({real, fake});
  return fake;
}

// Closures keep a captured tensor as its handle (by value) or as a pointer to the handle (by
// reference); both GCC and Clang lay them out so. What is found nowhere is only held.
ImplicitInput Trace::locate(const Tensor& real) const {
  ImplicitInput found{ImplicitInput::Source::held, nullptr, real};
  auto at = [&](const Tensor* address) { found = {ImplicitInput::Source::address, address, real}; };
  const auto* begin = static_cast<const char*>(body_->closure);
  const auto* end = begin + body_->closure_bytes;
  const auto* address = reinterpret_cast<const char*>(&real);
  if (address >= begin && address < end)
    at(&real);
  else if (is_static_memory(address))
    at(&real);
  else
    for (const char* word = begin; word + sizeof(void*) <= end; word += sizeof(void*))
      if (*reinterpret_cast<const Tensor* const*>(word) == &real) at(&real);
  return found;
}

void Trace::mark_open(std::string reason) {
  if (open_reason_.empty()) open_reason_ = std::move(reason);
}

void Trace::cut(std::string_view what, std::source_location where) {
  BodyScope::check(message("{} looks at data at {}", what, user_location(where)));
  require(!fullgraph_, ErrorCode::graph_break,
          "{} looks at data at {}, and fullgraph = true forbids cutting the graph; return the "
          "value, or use "
          "tenon::where for a choice between tensors{}",
          what, user_location(where), report::stack_if_verbose());
  cut_because(message("{} at {}", what, user_location(where)));
}

void Trace::cut_because(std::string reason) {
  BodyScope::check(reason);
  require(!is_on_tape(), ErrorCode::unsupported,
          "a body that calls backward() must be one graph, and it is cut: {}; return the value "
          "instead of looking at it, or compile the part before backward()",
          reason);
  if (report::artifact_enabled("graph_breaks"))
    report::log_artifact("graph_breaks", reason + report::stack_if_verbose());
  mark_open(std::move(reason));
  ++n_cuts_;
  flush();
}

Tensor Trace::observe(const Tensor& fake, std::string_view what, std::source_location where) {
  cut(what, where);
  Tensor real = concrete_of(fake);
  ensure(real.defined(), "a segment has run without giving a value that is alive");
  return real;
}

void Trace::flush() {
  emit_asserts();
  if (recorder_.graph().nodes().empty()) return;
  std::vector<Tensor> alive, results;
  for (Tensor& fake : recorder_.live_fakes()) {
    ValueId id = impl_of(fake)->extra->trace_value;
    if (recorder_.graph().value(id).source == ValueSource::node) alive.push_back(fake);
  }
  size_t n_alive = alive.size();
  std::vector<const Expr*> symbols = show_symbols(alive);
  std::shared_ptr<Graph> segment = recorder_.finish(alive);
  bind_symbols(*segment);
  std::vector<detail::TensorHead*> inputs;
  for (const Tensor& t : segment_inputs_) inputs.push_back(t.head());
  inputs.resize(segment->inputs().size(), nullptr);
  results.resize(alive.size());
  {
    PauseRecording pause;
    EnableGradGuard as_recorded(recorder_.grad_enabled());
    shape_env->set_rules({});  // what lowering asks for has no place to be asserted at
    run_segment_(segment, inputs, symbol_words(*segment), results);
    take_rules();
  }
  for (size_t i = 0; i < n_alive; ++i) {
    impl_of(alive[i])->ensure_extra().concrete = results[i];
    if (results[i].requires_grad()) mark_requires_grad(alive[i], true);
  }
  learn_symbols(symbols, std::span<const Tensor>(results).subspan(n_alive));
  segment_inputs_.clear();
  segment_origins_.clear();
  mutates_ = false;
  recorder_.restart();
}

std::shared_ptr<Graph> Trace::execution_record() {
  return recorder_.failed_graph() ? recorder_.failed_graph() : recorder_.finish({});
}

void Trace::bind_symbols(Graph& g) {
  for (const SymbolInfo& symbol : shape_env->symbols()) {
    if (!symbol.is_known_before_run()) continue;
    ValueId value = no_value;
    int32_t dim = -1;
    for (ValueId in : g.inputs()) {
      const GraphValue& v = g.value(in);
      for (size_t d = 0;
           v.kind == ValueKind::tensor && d < v.meta.sizes.size() && value == no_value; ++d)
        if (v.meta.sizes[d].is_symbolic() && v.meta.sizes[d].expr() == symbol.expr) {
          value = in;
          dim = static_cast<int32_t>(d);
        }
    }
    if (value == no_value) {
      Number scalar = symbol.kind == ExprKind::real ? Number(SymFloat::from_expr(symbol.expr))
                                                    : Number(SymInt::from_expr(symbol.expr));
      value = recorder_.add_scalar_input(scalar, symbol.name);
    }
    g.symbols.push_back({symbol.expr, value, dim});
  }
  // The callers pass words in the order of graph.symbols: those that they know first.
  std::stable_partition(g.symbols.begin(), g.symbols.end(), [&](const SymbolBinding& b) {
    return shape_env->info(b.symbol).is_known_before_run();
  });
}

std::vector<int64_t> Trace::symbol_words(const Graph& g) const {
  std::vector<int64_t> words;
  for (const SymbolBinding& b : g.symbols)
    if (const SymbolInfo& info = shape_env->info(b.symbol); info.is_known_before_run())
      words.push_back(word_of(info));
  return words;
}

void Trace::run(const detail::Body& body) {
  body_ = &body;
  Trace* outer = std::exchange(current_trace, this);
  struct Restore {
    Trace* outer;
    ~Restore() { current_trace = outer; }
  } restore{outer};
  struct GiveBack {
    Trace& trace;
    ~GiveBack() { trace.give_gradients_back(); }
  } give_back{*this};
  RecordScope scope(recorder_);
  std::vector<Tensor> body_outputs;
  detail::Leaves plain;
  try {
    prototype =
        body.run(body.context, leaf_fakes_.data(), number_leaves_.data(), body_outputs, plain);
  } catch (const WantsTape&) {
    throw;
  } catch (...) {
    if (mutates_ && !is_on_tape()) flush();
    throw;
  }
  take_gradients(body_outputs);
  for (const detail::PlainLeaf& leaf : plain.plain.span()) plain_outputs.push_back(leaf);
  for (std::string_view text : plain.texts.span()) text_outputs.emplace_back(text);
  output_numbers.assign(plain.numbers.span().begin(), plain.numbers.span().end());
  finish_escapes(body_outputs);
  for (Number& n : output_numbers)
    if (n.is_symbolic() && was_cut())
      n = n.is_integer() ? Number(n.to_int()) : Number(n.to_double());
  finish(body_outputs);
  make_guards(leaves_);
}

// Where a tensor of the recording is found after a run; results join `from_graph`.
ValueOrigin Trace::origin_of(const Tensor& t, std::vector<Tensor>& from_graph) {
  Tensor fake = t.defined() ? recorder_.as_fake(t) : t;
  if (!fake.defined()) return {};
  const GraphValue& value = recorder_.graph().value(recorder_.value_of(fake));
  if (value.source == ValueSource::input) return segment_origins_[value.source_index];
  from_graph.push_back(fake);
  return {ValueOrigin::Kind::graph, static_cast<uint32_t>(from_graph.size() - 1)};
}

void Trace::finish(std::span<const Tensor> body_outputs) {
  if (was_cut()) {
    flush();
    run_pending_logs();
    for (const Tensor& t : body_outputs)
      outputs.push_back(t.defined() && t.is_fake() ? concrete_of(t) : t);
    return;
  }
  std::vector<Tensor> from_graph;
  bool any_node = !recorder_.graph().nodes().empty();
  for (const Tensor& t : body_outputs) output_origins.push_back(origin_of(t, from_graph));
  for (PendingLogCall& call : pending_logs_) {
    LogCall& kept = log_calls.emplace_back(LogCall{call.name, call.text, {}});
    for (const Tensor& t : call.tensors) kept.tensors.push_back(origin_of(t, from_graph));
  }
  show_output_numbers(from_graph);
  finish_gradients(from_graph);
  if (!any_node && !keep_empty_) return;
  emit_asserts();
  graph = recorder_.finish(from_graph);
  if (is_on_tape()) forget_tape(*graph);
  bind_symbols(*graph);
  graph_inputs = segment_origins_;
  graph_inputs.resize(graph->inputs().size());
}

namespace {

const bool reads_modes = (
    nn::mode_read_slot =
        [](const std::shared_ptr<const bool>& mode) {
          Trace* trace = Trace::current();
          if (!trace || !config::flags().dynamo.guard_nn_modules) return;
          for (const ReadMode& known : trace->modes)
            if (known.mode == mode) return;
          trace->modes.push_back({mode, *mode});
        },
    true);

}  // namespace

}  // namespace tenon
