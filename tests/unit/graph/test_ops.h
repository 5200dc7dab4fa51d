// Ops that only the tests of the graph room have: one with an effect and every kind of argument,
// one with sub-graphs.
#pragma once

#include "core/tensor/tensor_impl.h"
#include "ops/op_table.h"

namespace tenon {

inline constexpr OpDef graph_test_rows[] = {
    {.schema = "graph_test::say(Tensor self, str message, float[] weights=[0.5, 2.0], "
               "bool[2] mask=[True, False], str[]? names=None) -> ()",
     .tags = OpTags::side_effect,
     .meta = [](const Tensor&, std::string_view, DoubleList, BoolList, Value) {},
     .eager = [](const Tensor&, std::string_view, DoubleList, BoolList, Value) {}},
    {.schema = "graph_test::choose(Tensor pred, Graph then_graph, Graph else_graph, "
               "Tensor[] operands) -> Tensor[]",
     .meta = [](const Tensor&, Value, Value,
                TensorList operands) { return std::vector<TensorMeta>{meta_of(operands[0])}; },
     .eager = [](const Tensor&, Value, Value,
                 TensorList operands) { return std::vector<Tensor>{operands[0]}; }},
};

/// Adds the ops to the table, once.
inline const bool graph_test_ops = [] {
  for (const OpDef& row : graph_test_rows) add_op(&row);
  return true;
}();

}  // namespace tenon
