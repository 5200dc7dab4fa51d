// Rows whose results only the run can size, or that ask for an item of data, say so: captures cut
// the graph there, and readers of graphs expect sizes that nothing tells before. Found by calls made
// up from all schemas, not by a list.
#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "core/sym/sym_int.h"
#include "debug/op_probe.h"
#include "graph/record.h"
#include "graph/verify.h"
#include "ops/decompose.h"
#include "ops/op_table.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tenon {
namespace {

const CallStyle styles[] = {
    {{4}, Dtype::i64, Dtype::i64, 1},       {{4, 4}, Dtype::i64, Dtype::i64, 1},
    {{4}, Dtype::f32, Dtype::i64, 1},       {{4, 4}, Dtype::f32, Dtype::bool_, 1},
    {{4, 4}, Dtype::bool_, Dtype::f32, 1},  {{4, 4}, Dtype::f32, Dtype::f32, 1},
    {{2, 4, 4}, Dtype::f32, Dtype::i64, 1}, {{2, 3, 8, 8}, Dtype::f32, Dtype::f32, 1},
    {{1}, Dtype::f32, Dtype::i64, 1},       {{}, Dtype::i64, Dtype::i64, 1},
};

bool depends_on_data(const Node& node) { return entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT; }

bool has_late_size(const Graph& graph, const Node& node) {
  for (uint32_t r = 0; r < node.n_results; ++r)
    for (SymInt size : graph.value(node.first_result + r).meta.sizes)
      if (size.is_symbolic()) return true;  // inputs have plain sizes
  return false;
}

// The graph of one call that the op takes, and that of its decomposition where there is one.
std::vector<std::shared_ptr<Graph>> graphs_of(const OpEntry& op, const CallStyle& style) {
  std::vector<std::shared_ptr<Graph>> out;
  if (auto graph = example_graph(op, style)) out.push_back(graph);
  if (out.empty() || !can_decompose(op)) return out;
  if (auto parts = example_graph(op, style, /*decomposed=*/true)) out.push_back(parts);
  return out;
}

TEST(SizesThatDependOnData, AreToldByTheRow) {
  size_t n_calls = 0;
  std::set<std::string> told;
  for (size_t i = 0; i < op_count(); ++i) {
    const OpEntry& op = entry_of(static_cast<OpId>(i));
    if (op.def->custom || op.schema.ns != "aten") continue;  // those of other tests
    for (const CallStyle& style : styles) {
      for (const std::shared_ptr<Graph>& graph : graphs_of(op, style)) {
        ++n_calls;
        EXPECT_NO_THROW(verify(*graph)) << op.name << ", " << to_text(style);
        bool looks = std::ranges::any_of(graph->nodes(), [&](const Node& node) {
          return depends_on_data(node) || has_late_size(*graph, node);
        });
        if (looks) told.insert(op.name);
        EXPECT_TRUE(!looks || (op.tags & TN_TAG_DATA_DEPENDENT))
            << op.name << ", " << to_text(style)
            << ": sizes or numbers depend on data: give its row OpTags::data_dependent";
      }
    }
  }
  EXPECT_GT(n_calls, 2000u);
  for (const char* name :
       {"aten.one_hot.default", "aten.nonzero.default",
        "aten.tensor_split.tensor_indices_or_sections", "aten.repeat_interleave.self_Tensor"})
    EXPECT_TRUE(told.contains(name)) << name;
}

TEST(SizesThatDependOnData, AreSettledByAnArgument) {
  Tensor labels = zeros({3}, Dtype::i64);
  auto decides = [&](const char* name, std::vector<Value> args) {
    const OpEntry& op = *find_op(name);
    for (size_t i = args.size(); i < op.n_args; ++i) args.push_back(default_of(op, i));
    return gives_what_data_decides({&op, args.data(), nullptr, op.n_args, op.n_returns});
  };
  EXPECT_TRUE(decides("aten.one_hot.default", {Value::of(labels)}));
  EXPECT_FALSE(decides("aten.one_hot.default", {Value::of(labels), Value::of(int64_t{5})}));
  EXPECT_TRUE(decides("aten.repeat_interleave.Tensor", {Value::of(labels)}));
  EXPECT_FALSE(
      decides("aten.repeat_interleave.Tensor", {Value::of(labels), Value::of(int64_t{0})}));
  EXPECT_TRUE(decides("aten.nonzero.default", {Value::of(labels)}));
  EXPECT_FALSE(decides("aten.relu.default", {Value::of(labels)}));
}

}  // namespace
}  // namespace tenon
