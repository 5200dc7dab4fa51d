// What tests of lowering share: a captured graph and its functional form beside each other.
#pragma once

#include "aot/lower.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "unit/graph/graph_of.h"

#include <gtest/gtest.h>

#include <tenon/ops.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// Inputs with the strides of the graph, filled with 0.5, 1.5, ... and more from input to input.
inline std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    const TensorMeta& meta = graph.value(id).meta;
    int64_t room = 1;
    for (size_t d = 0; d < meta.sizes.size(); ++d)
      room += (meta.sizes[d].guard_int() - 1) * meta.strides[d].guard_int();
    Tensor base = (arange(Number(room)).to(meta.dtype) + Number(0.5 + 10.0 * inputs.size()));
    inputs.push_back(base.to(meta.dtype).as_strided(list_of(meta.sizes), list_of(meta.strides)));
  }
  return inputs;
}

/// What a caller sees of one call.
struct Seen {
  std::vector<Tensor> inputs, outputs;

  std::string text() const {
    std::string out;
    std::vector<Tensor> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (size_t i = 0; i < all.size(); ++i) {
      out += i < inputs.size() ? message("in.{}", i) : message("out.{}", i - inputs.size());
      if (!all[i].defined()) {
        out += " undefined\n";
        continue;
      }
      out += message(": {} strides {}", to_text(all[i]), to_text(all[i].strides()));
      // Rounded, since a functional form may add up in another order.
      for (double v : all[i].to(Dtype::f64).to_vector<double>())
        out += message(" {}", std::round(v * 1e4) / 1e4);
      for (size_t j = 0; j < i; ++j) {
        if (!all[j].defined()) continue;
        if (all[i].is_same(all[j]))
          out += message(" is {}", j);
        else if (shares_storage(all[i], all[j]))
          out += message(" shares {}", j);
      }
      out += "\n";
    }
    return out;
  }
};

inline Seen call(Artifact& artifact, const Graph& graph) {
  Seen seen{inputs_of(graph), std::vector<Tensor>(graph.outputs().size())};
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : seen.inputs) heads.push_back(t.head());
  artifact.call(heads, {}, seen.outputs);
  return seen;
}

// Whether the graph is free of writes, but for copy_ into inputs at its end.
inline void expect_functional(const Graph& graph, bool keeps_mutations) {
  for (const Node& node : graph.nodes()) {
    const OpEntry& op = entry_of(node.op);
    if (keeps_mutations && op.name == "aten.copy_.default") continue;
    EXPECT_EQ(op.mutated_args, 0u) << op.name << " in\n" << to_text(graph);
  }
}

inline void expect_same(const std::string& body) {
  auto graph = graph_of(body);
  std::string expected = call(*interpreter_artifact(graph), *graph).text();
  for (bool keep : {false, true}) {
    LowerOptions options;
    options.keep_input_mutations = keep;
    Lowered lowered = lower_inference(*graph, options);
    expect_functional(*lowered.graph, keep);
    std::string text = to_text(*lowered.graph);
    auto wrapped = wrap_inference(lowered, interpreter_artifact(lowered.graph));
    EXPECT_EQ(call(*wrapped, *graph).text(), expected) << "keep " << keep << "\n" << text;
  }
}

}  // namespace tenon
