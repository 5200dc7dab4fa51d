// The verifier of metadata: every node's meta function on fakes, against what the graph says.
#include <deque>
#include <optional>

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"
#include "graph/verify.h"
#include "ops/op_table.h"

namespace tenon {

namespace {

// A fresh fake for each use: ops that change metadata in place must not reach other nodes.
Tensor fake_of(const Graph& graph, ValueId id) {
  const GraphValue& value = graph.value(id);
  if (value.kind != ValueKind::tensor || !value.meta.defined) return Tensor();
  Tensor fake = make_fake(value.meta, value.offset);
  if (value.source == ValueSource::constant && is_wrapped_number(graph.constant(id)))
    impl_of(fake)->ensure_extra().wrapped_number = true;
  return fake;
}

/// The arguments of one node on fakes.
struct FakeArgs {
  std::vector<Value> args;
  std::deque<Tensor> tensors;
  ArgumentLists lists;

  FakeArgs(const Graph& graph, const Node& node) : args(node.args.begin(), node.args.end()) {
    auto fake = [&](ValueId id) {
      const GraphValue& value = graph.value(id);
      if (value.kind == ValueKind::tensor)
        return Value::of(tensors.emplace_back(fake_of(graph, id)));
      return value.kind == ValueKind::none ? Value{} : Value::of(value.scalar);
    };
    map_arguments(args, lists, fake, keep_numbers);
  }
};

/// Results that are dropped on every way out.
struct Results {
  Value values[8];
  ~Results() {
    for (Value& v : values) drop(v);
  }
};

bool same(SymInt a, SymInt b) { return a.word() == b.word() || statically_known_true(a == b); }

bool same(SymIntList a, SymIntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

// What differs, or empty.
std::string difference(const GraphValue& value, const Tensor& fake) {
  if (!fake.defined())
    return value.kind == ValueKind::none || !value.meta.defined ? "" : "the result is undefined";
  if (value.kind != ValueKind::tensor || !value.meta.defined) return "the result is a tensor";
  auto text = [](std::string_view what, const std::string& found) {
    return message("{} is {}", what, found);
  };
  if (fake.dtype() != value.meta.dtype) return text("dtype", to_text(fake.dtype()));
  if (!(fake.device() == value.meta.device)) return text("device", to_text(fake.device()));
  if (!same(fake.sizes(), list_of(value.meta.sizes))) return text("shape", to_text(fake.sizes()));
  if (!same(fake.strides(), list_of(value.meta.strides)))
    return text("strides", to_text(fake.strides()));
  if (!same(sym_offset_of(fake), value.offset)) return text("offset", to_text(sym_offset_of(fake)));
  return "";
}

class MetaVerifier {
 public:
  explicit MetaVerifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    std::optional<ShapeEnvScope> scope;
    if (graph_.shape_env) scope.emplace(*graph_.shape_env);
    for (NodeId n = 0; n < graph_.nodes().size() && problems_.size() < 20; ++n) {
      try {
        check(n);
      } catch (const Error& error) {
        problem(n, error.what());
      }
    }
    return problems_;
  }

 private:
  void problem(NodeId n, std::string_view what) {
    problems_.push_back(message("node {} ({}): {}", n, name_of(graph_.node(n).op), what));
  }

  // Its results have sizes or values that only the run knows, and a new run would make new symbols.
  bool binds_symbols(const Node& node) const {
    for (const SymbolBinding& b : graph_.symbols)
      if (b.value >= node.first_result && b.value < node.first_result + node.n_results) return true;
    return entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT;
  }

  void check(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    bool is_list = op.schema.returns_list();
    uint32_t n_results = is_list ? 1 : node.n_results;
    if (n_results > 8 || binds_symbols(node)) return;
    FakeArgs fakes(graph_, node);
    Results results;
    {
      FakeScope meta_only;
      run_meta({&op, fakes.args.data(), results.values, static_cast<uint32_t>(fakes.args.size()),
                n_results});
    }
    std::vector<Tensor> tensors;
    if (is_list) tensors = take<std::vector<Tensor>>(results.values[0]);
    if (is_list && tensors.size() != node.n_results)
      return problem(
          n, message("it gives {} parts, the graph says {}", tensors.size(), node.n_results));
    for (uint32_t r = 0; r < node.n_results; ++r) {
      if (!is_list && results.values[r].is_number()) continue;
      compare(n, r, is_list ? tensors[r] : take<Tensor>(results.values[r]));
    }
  }

  void compare(NodeId n, uint32_t r, const Tensor& fake) {
    const Node& node = graph_.node(n);
    const GraphValue& value = graph_.value(node.first_result + r);
    std::string what = difference(value, fake);
    if (!what.empty())
      problem(n, message("{} of result {} by its meta function, the graph says {}", what, r,
                         to_text(value)));
  }

  const Graph& graph_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> meta_problems_of(const Graph& graph) { return MetaVerifier(graph).run(); }

}  // namespace tenon
