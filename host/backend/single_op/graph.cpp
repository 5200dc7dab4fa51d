// Recording one call with symbols in the place of its numbers.
#include "backend/single_op/graph.h"

#include "core/arguments.h"
#include "core/sym/shape_env.h"
#include "graph/record.h"

#include <bit>

namespace tenon {

namespace {

/// Symbols for the numbers of a call, and fakes over them.
class SymbolicOperands {
 public:
  SymbolicOperands(const ReadCall& read, GraphRecorder& recorder)
      : read_(read), recorder_(recorder), env_(*recorder.shape_env()), words_(read.numbers()) {
    symbols_.resize(words_.size());
    bindings_.resize(words_.size());
    for (uint32_t i = 0; i < read.operands().size(); ++i) add_operand(read.operands()[i], i);
  }

  void add_numbers(std::vector<Value>& args) {
    uint32_t at = read_.n_sizes() + read_.n_strides();
    for (uint32_t arg : read_.number_args()) {
      std::string name = message("number{}", at);
      SymFloat symbol = env_.create_float(std::bit_cast<double>(words_[at]),
                                          {SymbolSource::Kind::input_value, at, 0}, name);
      ValueId value = recorder_.add_scalar_input(symbol, name);
      bindings_[at++] = {symbol.expr(), value, -1};
      args[arg] = Value::of(symbol);
    }
  }

  /// In the order of the arguments. A tensor that is there twice is two operands: the next call of
  /// the key may have two tensors.
  Tensor next_fake() { return fakes_[next_++]; }
  std::vector<SymbolBinding> bindings() const { return bindings_; }
  /// Of the last operand.
  ValueId last_input() const { return last_input_; }

 private:
  SymInt symbol(uint32_t at, SymbolSource source, const std::string& text) {
    if (!symbols_[at].is_symbolic())
      symbols_[at] = env_.create_symbol(words_[at], source, text,
                                        {.policy = SymbolPolicy::own, .range = Range::at_least(2)});
    return symbols_[at];
  }
  void bind(uint32_t at, ValueId value, uint32_t dim, bool stride) {
    if (!bindings_[at].symbol)
      bindings_[at] = {symbols_[at].expr(), value, static_cast<int32_t>(dim), stride};
  }

  SymInt size_of(const Operand& o, const DimClass& c, uint32_t index) {
    if (c.size == no_number) return o.tensor->head()->sizes[c.dim];
    return symbol(c.size, {SymbolSource::Kind::input_size, index, c.dim},
                  message("arg{}.size({})", index, c.dim));
  }
  SymInt stride_of(const Operand& o, const DimClass& c, uint32_t index, SymInt next) {
    if (c.spread == Spread::dense) return next;
    if (c.spread == Spread::broadcast) return 0;
    if (c.spread == Spread::single) return 1;
    if (c.stride == no_number) return o.tensor->head()->strides[c.dim];
    return symbol(read_.n_sizes() + c.stride, {SymbolSource::Kind::input_stride, index, c.dim},
                  message("arg{}.stride({})", index, c.dim));
  }

  void add_operand(const Operand& o, uint32_t index) {
    TensorMeta meta = meta_of(*o.tensor);
    SymInt next = 1;
    for (const DimClass& c : o.dims) {
      SymInt size = size_of(o, c, index), stride = stride_of(o, c, index, next);
      meta.sizes[c.dim] = size;
      meta.strides[c.dim] = stride;
      if (c.spread == Spread::dense || c.spread == Spread::strided)
        next = stride * (size.is_symbolic() ? size : SymInt(std::max<int64_t>(size.word(), 1)));
    }
    // An offset says only whether the first element lies on 16 bytes.
    Tensor fake = recorder_.add_input(meta, o.is_aligned ? 0 : 1);
    if (is_wrapped_number(*o.tensor)) impl_of(fake)->ensure_extra().wrapped_number = true;
    fakes_.push_back(fake);
    last_input_ = recorder_.graph().inputs().back();
    bind_dims(o, last_input_);
  }
  void bind_dims(const Operand& o, ValueId value) {
    for (const DimClass& c : o.dims) {
      if (c.size != no_number) bind(c.size, value, c.dim, false);
      if (c.stride != no_number) bind(read_.n_sizes() + c.stride, value, c.dim, true);
    }
  }

  const ReadCall& read_;
  GraphRecorder& recorder_;
  ShapeEnv& env_;
  InlineVector<int64_t, 32> words_;
  std::vector<SymInt> symbols_;
  std::vector<SymbolBinding> bindings_;
  std::vector<Tensor> fakes_;
  ValueId last_input_ = no_value;
  size_t next_ = 0;
};

/// The results of a recorded call as outputs of the graph.
struct Outputs {
  std::vector<Tensor> tensors;
  std::vector<ResultShape> shapes;
  std::string why_not;

  void add(Value& result) {
    using Kind = ResultShape::Kind;
    if (result.tag == Tag::none) {
      shapes.push_back({Kind::none, 0});
    } else if (result.tag == Tag::tensor_owned) {
      tensors.push_back(take<Tensor>(result));
      shapes.push_back({Kind::tensor, 1});
    } else if (result.tag == Tag::tensors_owned) {
      std::vector<Tensor> list = take<std::vector<Tensor>>(result);
      shapes.push_back({Kind::list, static_cast<uint32_t>(list.size())});
      tensors.insert(tensors.end(), list.begin(), list.end());
    } else {
      why_not = "a result is a number";
    }
  }
};

// The result is written over a tensor that is there, so it lies as that does.
void lay_out_like(Graph& graph, ValueId there) {
  graph.value(graph.outputs()[0]).meta.strides = graph.value(there).meta.strides;
}

std::string problem_of(const Graph& graph) {
  for (ValueId out : graph.outputs())
    if (out != no_value && graph.value(out).source != ValueSource::node)
      return "a result is an argument or a constant";
  for (const Node& node : graph.nodes())
    for (const Value& a : node.args)
      if (a.tag == Tag::graph || a.tag == Tag::opaque) return "an argument is a graph or an object";
  return graph.constants().empty() ? "" : "it needs a constant";
}

void record(const CallArgs& call, const std::vector<Value>& args, GraphRecorder& recorder,
            Outputs& out) {
  RecordScope scope(recorder);
  std::vector<Value> results(call.n_results);
  dispatch(*call.op, args.data(), call.n_args, results.data(), call.n_results);
  for (Value& result : results) out.add(result);
}

}  // namespace

SingleOpGraph make_single_op_graph(const CallArgs& call, const ReadCall& read,
                                   ResultPlace::Kind kind) {
  GraphRecorder recorder(ShapeEnv::make());
  ShapeEnvScope scope(*recorder.shape_env());
  SymbolicOperands operands(read, recorder);
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  map_arguments(
      args, lists, [&](const Tensor&) { return operands.next_fake(); }, keep_numbers);
  operands.add_numbers(args);
  Outputs out;
  record(call, args, recorder, out);
  SingleOpGraph made{nullptr, std::move(out.shapes), std::move(out.why_not)};
  if (!made.why_not.empty()) return made;
  made.graph = recorder.finish(out.tensors);
  made.graph->name = call.op->name;
  std::vector<SymbolBinding> bound = operands.bindings();
  made.graph->symbols.insert(made.graph->symbols.begin(), bound.begin(), bound.end());
  made.why_not = problem_of(*made.graph);
  if (!made.why_not.empty()) return made;
  if (kind == ResultPlace::Kind::self) lay_out_like(*made.graph, made.graph->inputs()[0]);
  if (kind == ResultPlace::Kind::given) lay_out_like(*made.graph, operands.last_input());
  return made;
}

}  // namespace tenon
