// One walk over the graph of a model: its values are tensors and numbers of the body.
#include "model/run_in_body.h"

#include "capture/inputs.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/sym_simplify.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/inline.h"
#include "graph/symbol_use.h"
#include "guards/overlap.h"
#include "model/model_tree.h"
#include "ops/shapes.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tenon {

bool can_run_in_body(const Graph& graph) {
  return graph.subgraphs.empty() || graph.symbols.empty();
}

namespace {

class GraphWalk {
 public:
  explicit GraphWalk(const Graph& graph)
      : graph_(graph),
        written_(formats::written_inputs(graph)),
        tensors_(graph.values().size()),
        numbers_(graph.values().size()) {}

  std::vector<Tensor> run(const formats::BoundCallInBody& call);

 private:
  void bind_symbols(ValueId first, uint32_t n);
  void take_inputs(const formats::BoundCallInBody& call);
  Tensor laid_out(const Tensor& given, const GraphValue& promised) const;
  bool shares_written(const formats::BoundCallInBody& call, size_t input) const;
  void write_back() const;
  Tensor output(ValueId v) const;
  Number here(Number n) const;
  Value argument(ValueId id) const;
  bool is_known(Number n) const;
  bool gives_known_numbers(const Node& node) const;
  void call(const Node& node);

  const Graph& graph_;
  const std::vector<bool> written_;  // by input
  std::vector<Tensor> tensors_;
  std::vector<Number> numbers_;
  std::unordered_map<const Expr*, const Expr*> symbols_;  // of the graph, over those of the body
  std::vector<std::pair<size_t, Tensor>> given_;          // by input, where a copy was made
};

Number GraphWalk::here(Number n) const {
  if (!n.is_symbolic()) return n;
  return number_over(substitute(expression_of(n), [this](const Expr* symbol) {
    auto found = symbols_.find(symbol);
    require(found != symbols_.end(), "a size of the model cannot be computed from its inputs");
    return found->second;
  }));
}

// Symbols that only the run of a node tells.
void GraphWalk::bind_symbols(ValueId first, uint32_t n) {
  for (const SymbolBinding& b : graph_.symbols) {
    if (b.value < first || b.value >= first + n) continue;
    const Tensor& t = tensors_[b.value];
    symbols_[b.symbol] = b.dim < 0  ? expression_of(numbers_[b.value])
                         : b.stride ? as_expr(t.stride(b.dim))
                                    : as_expr(t.size(b.dim));
  }
}

// Nodes such as view depend on strides, which the export knew. Where one that no copy has is asked
// for, the tensor stays as it is.
Tensor GraphWalk::laid_out(const Tensor& given, const GraphValue& promised) const {
  std::vector<SymInt> strides;
  bool lies_as_promised = true;
  for (size_t d = 0; d < promised.meta.strides.size(); ++d) {
    SymInt stride = here(Number(promised.meta.strides[d])).sym_int();
    auto dim = static_cast<int64_t>(d);
    if (!expect_true(given.stride(dim) == stride) && !is_one(given.size(dim)))
      lies_as_promised = false;
    if (!stride.is_symbolic() && stride.word() == 0) return given;
    strides.push_back(stride);
  }
  if (lies_as_promised) return given;
  Tensor copy = empty_strided(given.sizes(), SymIntList(List<SymInt>(strides)), given.dtype(), {},
                              given.device());
  return copy.copy_(given);
}

// The body's tensors share memory, or the arguments that they stand for do.
static bool share_memory(const Tensor& a, const Tensor& b) {
  if (shares_storage(a, b)) return true;
  Tensor x = real_of(a), y = real_of(b);
  return x.defined() && y.defined() && (shares_storage(x, y) || share_lent_memory(x, y));
}

// A copy of such an input would not see what is written to the other.
bool GraphWalk::shares_written(const formats::BoundCallInBody& call, size_t input) const {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (i != input && call.inputs[i] && (written_[i] || written_[input]) &&
        share_memory(share(call.inputs[i]), share(call.inputs[input])))
      return true;
  return false;
}

void GraphWalk::take_inputs(const formats::BoundCallInBody& call) {
  for (size_t s = 0; s < graph_.symbols.size(); ++s)
    if (graph_.value(graph_.symbols[s].value).source != ValueSource::node)
      symbols_[graph_.symbols[s].symbol] = as_expr(call.symbols[s]);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    ValueId id = graph_.inputs()[i];
    const GraphValue& value = graph_.value(id);
    if (value.kind != ValueKind::tensor) numbers_[id] = here(value.scalar);
    if (!call.inputs[i]) continue;
    Tensor given = share(call.inputs[i]);
    tensors_[id] = shares_written(call, i) ? given : laid_out(given, value);
    if (!tensors_[id].is_same(given)) given_.emplace_back(i, given);
  }
  for (ValueId c : graph_.constants()) tensors_[c] = graph_.constant(c);
}

Value GraphWalk::argument(ValueId id) const {
  ValueKind kind = graph_.value(id).kind;
  return kind == ValueKind::tensor ? Value::of(tensors_[id])
         : kind == ValueKind::none ? Value{}
                                   : Value::of(numbers_[id]);
}

bool GraphWalk::is_known(Number n) const {
  return !n.is_symbolic() ||
         std::ranges::all_of(free_symbols(expression_of(n)),
                             [this](const Expr* symbol) { return symbols_.contains(symbol); });
}

// Sizes, and what is computed from them. They are no operations of a recording, so that a run which
// follows it would not meet them.
bool GraphWalk::gives_known_numbers(const Node& node) const {
  if (node.n_results == 0 || (entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT)) return false;
  for (uint32_t r = 0; r < node.n_results; ++r) {
    const GraphValue& value = graph_.value(node.first_result + r);
    bool is_number = value.kind != ValueKind::tensor && value.kind != ValueKind::none;
    if (!is_number || !is_known(value.scalar)) return false;
  }
  return true;
}

void GraphWalk::call(const Node& node) {
  if (gives_known_numbers(node)) {
    for (uint32_t r = 0; r < node.n_results; ++r)
      numbers_[node.first_result + r] = here(graph_.value(node.first_result + r).scalar);
    return;
  }
  std::optional<EnableGradGuard> mode;
  if (auto fact = node.facts.find("grad"); fact != node.facts.end())
    mode.emplace(fact->second == "on");
  std::vector<Value> results = call_node(
      node, [this](ValueId id) { return argument(id); }, [this](Number n) { return here(n); });
  for (uint32_t r = 0; r < node.n_results; ++r) {
    if (results[r].is_number())
      numbers_[node.first_result + r] = results[r].number();
    else
      tensors_[node.first_result + r] = take<Tensor>(results[r]);
  }
  bind_symbols(node.first_result, node.n_results);
}

void GraphWalk::write_back() const {
  if (given_.empty()) return;
  NoGradGuard effect;  // the caller's tensor keeps the value, not how it was computed
  for (const auto& [input, given] : given_)
    if (written_[input]) Tensor(given).copy_(tensors_[graph_.inputs()[input]]);
}

// An argument that is returned is the argument, not the copy. Only the copy knows how what was
// written was computed.
Tensor GraphWalk::output(ValueId v) const {
  if (v == no_value) return Tensor();
  if (graph_.value(v).kind != ValueKind::tensor) return number_leaf(numbers_[v]);
  const Tensor& result = tensors_[v];
  for (const auto& [input, given] : given_) {
    bool is_known = !written_[input] || !result.requires_grad();
    if (is_known && result.is_same(tensors_[graph_.inputs()[input]])) return given;
  }
  return result;
}

std::vector<Tensor> GraphWalk::run(const formats::BoundCallInBody& given) {
  take_inputs(given);
  for (const Node& node : graph_.nodes()) call(node);
  write_back();
  std::vector<Tensor> outputs;
  for (ValueId v : graph_.outputs()) outputs.push_back(output(v));
  return outputs;
}

}  // namespace

std::vector<Tensor> run_in_body(const Graph& graph, const formats::BoundCallInBody& call) {
  return GraphWalk(graph).run(call);
}

}  // namespace tenon
