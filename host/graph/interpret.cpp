// The interpreter: frame, argument building and release after the last use.
#include "graph/interpret.h"

#include "core/dispatch.h"
#include "graph/artifact.h"
#include "graph/body.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <atomic>

namespace tenon {

/// One call's values. Tensors and numbers have a slot each; symbols are looked up by their
/// position. Between calls it holds no tensor.
struct Interpreter::Frame {
  const Graph& graph;
  std::vector<Tensor> tensors;
  std::vector<Number> numbers;
  std::vector<int64_t> symbol_words;
  std::vector<bool> bound;
  const Symbols* outer = nullptr;

  explicit Frame(const Graph& g)
      : graph(g),
        tensors(g.values().size()),
        numbers(g.values().size()),
        symbol_words(g.symbols.size()),
        bound(g.symbols.size()) {}

  std::optional<SymValue> lookup(const Expr* symbol) const {
    for (size_t i = 0; i < graph.symbols.size(); ++i)
      if (graph.symbols[i].symbol == symbol && bound[i])
        return SymValue{symbol->kind, symbol_words[i]};
    return outer ? (*outer)(symbol) : std::nullopt;
  }

  Number evaluate(Number n) const {
    if (!n.is_symbolic()) return n;
    auto value =
        tenon::evaluate(expression_of(n), [this](const Expr* symbol) { return lookup(symbol); });
    require(value.has_value(),
            "a size of the graph cannot be computed from its inputs: it overflows, "
            "divides by zero, or uses a symbol without a value");
    if (n.is_integer()) return SymInt(value->integer());
    if (n.is_floating()) return SymFloat(value->real());
    return SymBool(value->integer() != 0);
  }

  void bind(uint32_t index) {
    const SymbolBinding& b = graph.symbols[index];
    if (b.dim < 0) {
      Number n = numbers[b.value];
      symbol_words[index] = n.is_floating() ? std::bit_cast<int64_t>(n.to_double()) : n.to_int();
    } else {
      const Tensor& t = tensors[b.value];
      symbol_words[index] = (b.stride ? t.stride(b.dim) : t.size(b.dim)).guard_int();
    }
    bound[index] = true;
  }
};

namespace {

bool has_bodies(const Node& node) {
  for (const Value& a : node.args)
    if (a.tag == Tag::graph) return true;
  return false;
}

bool needs_frame(const Node& node) {
  for (const Value& a : node.args)
    if (a.tag == Tag::ref || a.tag == Tag::refs || a.is_symbolic()) return true;
  return false;
}

std::optional<bool> grad_mode_of(const Node& node) {
  auto fact = node.facts.find("grad");
  if (fact == node.facts.end()) return std::nullopt;
  return fact->second == "on";
}

// Results that live to the end: outputs, and inputs, which the caller keeps or gets back.
std::vector<uint32_t> last_use_of_values(const Graph& graph) {
  std::vector<uint32_t> last(graph.values().size(), no_value);
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.node(n);
    for (uint32_t r = 0; r < node.n_results; ++r) last[node.first_result + r] = n;
    Graph::for_each_use(node, [&](ValueId v) { last[v] = n; });
  }
  for (ValueId v : graph.outputs())
    if (v != no_value) last[v] = no_value;
  return last;
}

}  // namespace

Tensor number_tensor(Number n) {
  if (n.is_floating()) {
    Tensor t = make_tensor(IntList{}, Dtype::f64);
    *t.data_ptr<double>() = n.to_double();
    return t;
  }
  Tensor t = make_tensor(IntList{}, n.is_boolean() ? Dtype::bool_ : Dtype::i64);
  if (n.is_boolean())
    *t.data_ptr<bool>() = n.to_bool();
  else
    *t.data_ptr<int64_t>() = n.to_int();
  return t;
}

/// The sub-graphs of a graph, ready to be run.
class Interpreter::Bodies {
 public:
  Bodies(const Graph& graph, const BodyCode& code) {
    for (const std::shared_ptr<Graph>& body : graph.subgraphs) {
      auto compiled = code.find(body.get());
      bodies_.emplace(body.get(), Body{Interpreter(body, code),
                                       compiled == code.end() ? nullptr : compiled->second});
    }
  }

  bool run(const Graph& body, std::span<const Tensor> inputs, std::span<Tensor> outputs,
           const Frame& frame) const {
    auto found = bodies_.find(&body);
    if (found == bodies_.end()) return false;
    std::vector<detail::TensorHead*> heads;
    for (const Tensor& t : inputs) heads.push_back(t.head());
    if (found->second.compiled && takes_code(inputs)) {
      found->second.compiled->call(heads, words_of(body, inputs), outputs);
      return true;
    }
    auto lookup = [&](const Expr* symbol) { return frame.lookup(symbol); };
    Symbols around = lookup;
    found->second.interpreter.run(heads, {}, outputs, false, &around);
    return true;
  }

 private:
  struct Body {
    Interpreter interpreter;
    std::shared_ptr<Artifact> compiled;
  };

  static bool takes_code(std::span<const Tensor> inputs) {
    bool on_tape = thread_modes.grad_enabled && !(thread_modes.exclude & bit(Key::autograd));
    for (const Tensor& t : inputs)
      if (t.is_fake() || (on_tape && t.requires_grad())) return false;
    return !(thread_modes.include & (bit(Key::meta) | bit(Key::trace)));
  }

  // Code is made only of bodies whose symbols their inputs show.
  static std::vector<int64_t> words_of(const Graph& body, std::span<const Tensor> inputs) {
    std::vector<int64_t> words;
    for (const SymbolBinding& b : body.symbols) {
      const GraphValue& value = body.value(b.value);
      if (value.source != ValueSource::input) {
        words.push_back(0);
        continue;
      }
      const Tensor& t = inputs[value.source_index];
      words.push_back((b.stride ? t.stride(b.dim) : t.size(b.dim)).guard_int());
    }
    return words;
  }

  std::map<const Graph*, Body> bodies_;
};

/// The frame of an earlier call, which the next one takes: a call alone allocates nothing.
class Interpreter::IdleFrame {
 public:
  ~IdleFrame() { take(); }
  std::unique_ptr<Frame> take() {
    return std::unique_ptr<Frame>(frame_.exchange(nullptr, std::memory_order_acquire));
  }
  void put(std::unique_ptr<Frame> frame) {
    std::unique_ptr<Frame> other(frame_.exchange(frame.release(), std::memory_order_acq_rel));
  }

 private:
  std::atomic<Frame*> frame_ = nullptr;
};

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;

Interpreter::Interpreter(std::shared_ptr<const Graph> graph, const BodyCode& code)
    : graph_(std::move(graph)), idle_(std::make_unique<IdleFrame>()) {
  report::counter("graph.finalize").add();
  if (!graph_->subgraphs.empty()) bodies_ = std::make_unique<const Bodies>(*graph_, code);
  std::vector<uint32_t> last = last_use_of_values(*graph_);
  for (NodeId n = 0; n < graph_->nodes().size(); ++n)
    steps_.push_back({&entry_of(graph_->node(n).op),
                      n,
                      !needs_frame(graph_->node(n)),
                      has_bodies(graph_->node(n)),
                      grad_mode_of(graph_->node(n)),
                      {},
                      {}});
  for (ValueId v = 0; v < last.size(); ++v)
    (last[v] != no_value ? steps_[last[v]].last_uses : held_to_the_end_).push_back(v);
  for (uint32_t s = 0; s < graph_->symbols.size(); ++s) {
    const GraphValue& value = graph_->value(graph_->symbols[s].value);
    if (value.source == ValueSource::node) steps_[value.source_index].binds.push_back(s);
  }
}

void Interpreter::call(const Step& step, const Value* args, uint32_t n_args,
                       std::span<Value> results, Frame& frame) const {
  struct Runner final : BodyRunner {
    const Bodies& bodies;
    const Frame& frame;
    Runner(const Bodies& b, const Frame& f) : bodies(b), frame(f) {}
    bool run(const Graph& body, std::span<const Tensor> inputs,
             std::span<Tensor> outputs) const override {
      return bodies.run(body, inputs, outputs, frame);
    }
  };
  std::optional<EnableGradGuard> mode;
  if (step.grad) mode.emplace(*step.grad);
  auto n_results = static_cast<uint32_t>(results.size());
  if (!step.has_bodies || !bodies_)
    return dispatch(*step.op, args, n_args, results.data(), n_results);
  Runner runner(*bodies_, frame);
  BodyRunnerScope scope(runner);
  dispatch(*step.op, args, n_args, results.data(), n_results);
}

void Interpreter::run_step(const Step& step, Frame& frame) const {
  const Node& node = graph_->node(step.node);
  constexpr size_t inline_args = 16;
  Value local[inline_args];
  std::vector<Value> spilled;
  Value* args = local;
  if (node.args.size() > inline_args) {
    spilled.resize(node.args.size());
    args = spilled.data();
  }
  ArgumentLists lists;
  std::copy(node.args.begin(), node.args.end(), args);
  auto value = [&](ValueId id) {
    ValueKind kind = graph_->value(id).kind;
    return kind == ValueKind::tensor ? Value::of(frame.tensors[id])
           : kind == ValueKind::none ? Value{}
                                     : Value::of(frame.numbers[id]);
  };
  if (!step.plain_args)
    map_arguments({args, node.args.size()}, lists, value,
                  [&](Number n) { return frame.evaluate(n); });
  bool returns_list = step.op->schema.returns_list();
  size_t n_results = returns_list ? 1 : node.n_results;
  Value results[8];
  ensure(n_results <= 8, "an op has at most eight results");
  call(step, args, static_cast<uint32_t>(node.args.size()), {results, n_results}, frame);
  if (returns_list) {
    std::vector<Tensor> parts = take<std::vector<Tensor>>(results[0]);
    require(parts.size() == node.n_results, "{}: the graph expects {} parts, the op gave {}",
            step.op->name, node.n_results, parts.size());
    for (size_t r = 0; r < parts.size(); ++r)
      frame.tensors[node.first_result + r] = std::move(parts[r]);
  } else {
    for (size_t r = 0; r < n_results; ++r) {
      ValueId id = node.first_result + static_cast<ValueId>(r);
      if (results[r].is_number())
        frame.numbers[id] = results[r].number();
      else
        frame.tensors[id] = take<Tensor>(results[r]);
    }
  }
  if (observer_) observer_(node, {&frame.tensors[node.first_result], node.n_results});
  for (uint32_t s : step.binds) frame.bind(s);
  for (ValueId v : step.last_uses) frame.tensors[v] = Tensor();
}

// The inputs, the constants and the symbols that the caller or the inputs show.
void Interpreter::fill(Frame& frame, std::span<detail::TensorHead*> inputs,
                       std::span<const int64_t> syms, bool steal) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!steal) inputs[i]->references.fetch_add(1, std::memory_order_relaxed);
    frame.tensors[graph_->inputs()[i]] = Tensor::adopt(inputs[i]);
    if (steal) inputs[i] = nullptr;
  }
  for (ValueId c : graph_->constants()) frame.tensors[c] = graph_->constant(c);
  frame.bound.assign(graph_->symbols.size(), false);
  for (uint32_t s = 0; s < graph_->symbols.size(); ++s) {
    const SymbolBinding& b = graph_->symbols[s];
    if (graph_->value(b.value).source == ValueSource::node) continue;
    if (s < syms.size()) {
      frame.symbol_words[s] = syms[s];
      frame.bound[s] = true;
    } else if (b.dim >= 0) {
      frame.bind(s);
    }
  }
  for (ValueId v : graph_->inputs())
    if (graph_->value(v).kind != ValueKind::tensor)
      frame.numbers[v] = frame.evaluate(graph_->value(v).scalar);
}

namespace {

constinit thread_local KnownWhenFailed* wanted_when_failed = nullptr;

// What the node gives back as its first result; no_value where that is a tensor of its own.
ValueId value_before(const Graph& graph, ValueId id) {
  const GraphValue& value = graph.value(id);
  if (value.source != ValueSource::node) return no_value;
  const Node& node = graph.node(value.source_index);
  int8_t arg = entry_of(node.op).returned_arg;
  bool gives_back = arg >= 0 && id == node.first_result && node.args[arg].tag == Tag::ref;
  return gives_back ? static_cast<ValueId>(node.args[arg].payload) : no_value;
}

}  // namespace

KnownWhenFailed::KnownWhenFailed(std::span<Tensor> outputs)
    : outer_(std::exchange(wanted_when_failed, this)), outputs_(outputs) {}
KnownWhenFailed::KnownWhenFailed(std::span<Tensor> outputs, const void* given)
    : KnownWhenFailed(outputs) {
  go_on_ = given && outer_ && outer_->outputs_.data() == given;
  if (!go_on_) outputs_ = {};
}
KnownWhenFailed::~KnownWhenFailed() {
  wanted_when_failed = outer_;
  if (!go_on_ || !are_given_) return;
  std::ranges::move(outputs_, outer_->outputs_.begin());
  outer_->are_given_ = true;
  outer_->graph_writes_ = graph_writes_;
}

// Nodes that have not run have released nothing.
void Interpreter::give_known(const Frame& frame, std::span<Tensor> outputs) const {
  KnownWhenFailed* wanted = wanted_when_failed;
  if (!wanted || outputs.empty() || wanted->outputs_.data() != outputs.data()) return;
  wanted->are_given_ = true;
  wanted->graph_writes_ =
      std::ranges::any_of(graph_->nodes(), [](const Node& n) { return written_args(n) != 0; });
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueId id = graph_->outputs()[i];
    while (id != no_value && !frame.tensors[id].defined()) id = value_before(*graph_, id);
    outputs[i] = id == no_value ? Tensor() : frame.tensors[id];
  }
}

void Interpreter::run(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
                      std::span<Tensor> outputs, bool steal, const Symbols* outer) const {
  ensure(inputs.size() == graph_->inputs().size() && outputs.size() == graph_->outputs().size(),
         "interpreter: wrong number of inputs or outputs");
  std::unique_ptr<Frame> frame = idle_->take();
  if (!frame) frame = std::make_unique<Frame>(*graph_);
  frame->outer = outer;
  fill(*frame, inputs, syms, steal);
  try {
    for (const Step& step : steps_) run_step(step, *frame);
  } catch (...) {
    give_known(*frame, outputs);
    throw;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueId id = graph_->outputs()[i];
    if (id == no_value) continue;
    outputs[i] = graph_->value(id).kind == ValueKind::tensor ? frame->tensors[id]
                                                             : number_tensor(frame->numbers[id]);
  }
  for (ValueId v : held_to_the_end_) frame->tensors[v] = Tensor();
  idle_->put(std::move(frame));  // one that failed is not used again
}

}  // namespace tenon
