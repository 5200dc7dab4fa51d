// Calls made up from schemas.
//
// Problem. Whether a backend has code for an op shows only when it compiles a call of it, and a
// call needs arguments that fit. Model. A style gives every tensor the same sizes and the first one
// and the others a dtype; other arguments have their defaults, or the style's number. Method: the
// styles are tried in order until the op's shape function takes one; nothing runs. Cost: some ten
// shape functions and one compile.
#include "debug/op_probe.h"

#include "aot/lower.h"
#include "compile/compile_graph.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/op_compare.h"
#include "graph/record.h"

namespace tenon {

namespace {

std::vector<CallStyle> all_styles() {
  const std::vector<std::vector<int64_t>> sizes{{4, 4}, {4}, {2, 3, 8, 8}, {2, 4, 4}, {}};
  const std::pair<Dtype, Dtype> dtypes[] = {{Dtype::f32, Dtype::f32},
                                            {Dtype::f32, Dtype::i64},
                                            {Dtype::i64, Dtype::i64},
                                            {Dtype::bool_, Dtype::f32}};
  std::vector<CallStyle> styles;
  for (const auto& [first, others] : dtypes)
    for (const std::vector<int64_t>& s : sizes)
      for (int64_t number : {1, 0}) styles.push_back({s, first, others, number});
  return styles;
}

/// One made-up call inside a recorder.
class Example {
 public:
  Example(GraphRecorder& recorder, const CallStyle& style) : recorder_(recorder), style_(style) {}

  void add(const OpEntry& op, size_t index) {
    const SchemaArg& arg = op.schema.args[index];
    if (arg.has_default())
      call.values.push_back(default_of(op, index));
    else if (arg.type.optional)
      call.values.emplace_back();
    else
      call.values.push_back(arg.type.is_list ? list(arg) : plain(arg));
  }

  CallValues call;

 private:
  Tensor tensor() {
    Dtype dtype = std::exchange(is_first_, false) ? style_.first : style_.others;
    return recorder_.add_input(contiguous_meta(IntList(style_.sizes), dtype));
  }

  Value list(const SchemaArg& arg) {
    size_t n = arg.type.list_size > 0 ? static_cast<size_t>(arg.type.list_size)
                                      : std::max<size_t>(style_.sizes.size(), 1);
    switch (arg.type.base) {
      case BaseType::tensor: {
        std::vector<Tensor>& tensors = call.tensor_lists.emplace_back();
        tensors = {tensor(), tensor()};
        return Value::of(TensorList(tensors));
      }
      case BaseType::scalar:
      case BaseType::floating:
        return Value::of(DoubleList(call.floats.emplace_back(n, 1.0)));
      case BaseType::boolean:
        return Value::of(BoolList(call.bools.emplace_back(new bool[n]()).get(), n));
      default:
        return Value::of(IntList(call.ints.emplace_back(n, style_.number)));
    }
  }

  Value plain(const SchemaArg& arg) {
    switch (arg.type.base) {
      case BaseType::tensor:
        return Value::of(call.tensors.emplace_back(tensor()));
      case BaseType::string:
        return Value::of(std::string_view(call.strings.emplace_back("none")));
      case BaseType::floating:
        return Value::of(1.0);
      case BaseType::boolean:
        return Value::of(false);
      case BaseType::scalar_type:
        return Value::of(Dtype::f32);
      case BaseType::device:
        return Value::of(kCPU);
      case BaseType::layout:
        return Value::of(Layout::strided);
      case BaseType::memory_format:
        return Value::of(MemoryFormat::contiguous);
      case BaseType::scalar:
        return Value::of(Number(style_.number));
      default:
        return Value::of(style_.number);
    }
  }

  GraphRecorder& recorder_;
  const CallStyle& style_;
  bool is_first_ = true;
};

std::shared_ptr<Graph> record_example(const OpEntry& op, const CallStyle& style, bool decomposed) {
  GraphRecorder recorder(ShapeEnv::make());
  if (decomposed) recorder.opens = [&](const OpEntry& called) { return &called == &op; };
  Example example(recorder, style);
  for (size_t i = 0; i < op.schema.args.size(); ++i) example.add(op, i);
  OpResults results(op.n_returns);
  {
    RecordScope scope(recorder);
    run_op(op, example.call, results);
  }
  std::vector<Tensor> outputs;
  for (const Value& v : flattened(results)) {
    if (v.is_number()) return nullptr;
    outputs.push_back(tensor_in(v));
  }
  return recorder.finish(outputs);
}

std::shared_ptr<Graph> first_example(const OpEntry& op) {
  for (const CallStyle& style : all_styles())
    if (std::shared_ptr<Graph> graph = example_graph(op, style)) return graph;
  return nullptr;
}

}  // namespace

std::string to_text(const CallStyle& style) {
  std::string sizes;
  for (int64_t size : style.sizes) sizes += message("{}{}", sizes.empty() ? "" : ", ", size);
  std::string others = style.others == style.first ? "" : message(" and {}", style.others);
  return message("{}{}[{}], number {}", style.first, others, sizes, style.number);
}

std::shared_ptr<Graph> example_graph(const OpEntry& op, const CallStyle& style, bool decomposed) {
  try {
    return record_example(op, style, decomposed);
  } catch (const Error&) {
    return nullptr;  // the op does not take such arguments
  }
}

OpProbe probe_op(const OpEntry& op, const std::string& backend) {
  OpProbe probe;
  std::shared_ptr<Graph> graph = first_example(op);
  if (!graph) return probe;
  probe.has_example = true;
  DeclineObserver observer;
  try {
    std::shared_ptr<Graph> given = graph_for_backend(graph, backend);
    for (const Node& node : given->nodes()) probe.taken_as.push_back(name_of(node.op));
    std::shared_ptr<Artifact> artifact =
        compile_graph(graph, {.backend = backend, .use_cache = false});
    probe.stats = artifact->describe(TN_DESC_STATS_JSON);
  } catch (const Error& error) {
    probe.error = error.what();
  }
  probe.declined = observer.declined();
  return probe;
}

}  // namespace tenon
