// Single ops through the backend `inductor`: no call of the host, and what the interpreter gives.
#pragma once

#include "core/error.h"
#include "plugins/inductor/graphs.h"

namespace tenon {

/// %y = aten.OP(operands): operands are named %a, %b, ... in the order of their types.
inline std::string graph_of_op(const std::string& op, const std::vector<std::string>& operands,
                               const std::string& more, const std::string& result) {
  std::string body = "\n", names;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string name = std::string("%") + char('a' + i);
    body += "  input " + name + ": " + operands[i] + "\n";
    names += (i ? ", " : "") + name;
  }
  return body + "  %y: " + result + " = aten." + op + "(" + names + more + ")\n  output %y\n";
}

class InductorOps : public InductorTest {
 protected:
  void SetUp() override {
    InductorTest::SetUp();
    manual_seed(3);
  }

  static std::string externs_of(const Artifact& artifact) {
    return stats_of(artifact)["extern_ops"].dump();
  }
  /// The graph for these inputs, with no op left to the host.
  static void expect_same(const std::string& body, const std::vector<Tensor>& inputs,
                          double tolerance = 0, const std::vector<int64_t>& symbols = {}) {
    auto graph = graph_of(body);
    auto artifact = compiled("inductor", graph);
    EXPECT_EQ(externs_of(*artifact), "[]") << body;
    auto expected = run(*compiled("eager", graph), *graph, inputs, symbols);
    auto found = run(*artifact, *graph, inputs, symbols);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), expected[i].dtype());
      EXPECT_LE(distance(found[i], expected[i]), tolerance) << "output " << i << " of" << body;
    }
  }
  /// The message of a call that must fail.
  static std::string failure_of(const std::string& body, const std::vector<Tensor>& inputs) {
    auto graph = graph_of(body);
    auto artifact = compiled("inductor", graph);
    EXPECT_EQ(externs_of(*artifact), "[]") << body;
    return error_of([&] { run(*artifact, *graph, inputs); });
  }
};

}  // namespace tenon
