// Every op that has a formula, computed from it by a plugin that knows primitives only, against the
// op's own kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "graph/artifact.h"
#include "graph/record.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/tenon.h>

#include <cmath>
#include <random>

namespace tenon {
namespace {

using ::testing::HasSubstr;

TENON_LIBRARY(formulas_test, lib) {
  lib.op("swiglu(Tensor x, Tensor gate, float beta=1.5) -> Tensor")
      .formula<3>([](auto x, auto gate, auto beta) { return x * gate * sigmoid(beta * gate); });
}

Tensor random_tensor(std::mt19937& random, IntList sizes, Dtype dtype) {
  Tensor t = make_tensor(sizes, dtype);
  for (int64_t i = 0; i < t.numel().guard_int(); ++i) {
    auto quarters = static_cast<int64_t>(random() % 25) - 12;
    if (dtype == Dtype::bool_)
      t.data_ptr<bool>()[i] = quarters % 2;
    else if (dtype == Dtype::i64)
      t.data_ptr<int64_t>()[i] = quarters == 0 ? 5 : quarters;
    else
      t.data_ptr<float>()[i] = static_cast<float>(quarters) / 4 + 0.03125f;
  }
  return t;
}

/// A graph that calls the op once, and inputs for it; null when the op does not take them.
struct Case {
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> inputs;
};

std::optional<Case> case_of(const OpEntry& op, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  GraphRecorder recorder(ShapeEnv::make());
  Case made;
  std::deque<Tensor> fakes;
  std::vector<Value> args;
  for (size_t i = 0; i < op.schema.args.size(); ++i) {
    const SchemaArg& arg = op.schema.args[i];
    if (arg.type.base == BaseType::tensor && !arg.type.is_list) {
      // Every second one broadcasts.
      std::vector<int64_t> sizes{5};
      if (made.inputs.size() % 2 == 0) sizes.insert(sizes.begin(), 3);
      made.inputs.push_back(random_tensor(random, sizes, dtype));
      fakes.push_back(recorder.add_input(meta_of(made.inputs.back())));
      args.push_back(Value::of(fakes.back()));
    } else if (arg.has_default() || arg.type.optional) {
      args.push_back(arg.has_default() ? default_of(op, i) : Value{});
    } else if (arg.type.base == BaseType::scalar || arg.type.base == BaseType::floating) {
      bool is_whole = dtype == Dtype::i64 && arg.type.base == BaseType::scalar;
      args.push_back(is_whole ? Value::of(int64_t{2}) : Value::of(0.75));
    } else if (arg.type.base == BaseType::boolean) {
      args.push_back(Value::of(false));
    } else if (arg.type.base == BaseType::integer) {
      args.push_back(Value::of(int64_t{2}));
    } else {
      return std::nullopt;
    }
  }
  try {
    std::vector<Value> results(op.n_returns);
    std::vector<Tensor> outputs;
    {
      RecordScope scope(recorder);
      dispatch(op, args.data(), op.n_args, results.data(), op.n_returns);
      for (Value& v : results) outputs.push_back(take<Tensor>(v));
    }
    made.graph = recorder.finish(outputs);
  } catch (const Error&) {
    return std::nullopt;
  }
  return made;
}

std::vector<Tensor> run(Artifact& artifact, const Case& c) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : c.inputs) heads.push_back(t.head());
  std::vector<Tensor> out(c.graph->outputs().size());
  artifact.call(heads, {}, out);
  return out;
}

std::vector<double> elements(const Tensor& t) { return t.to(Dtype::f64).to_vector<double>(); }

void expect_same(const Case& c, const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype()) << to_text(*c.graph);
  auto x = elements(a), y = elements(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                std::fabs(x[i] - y[i]) <= 2e-5 * std::max(1.0, std::fabs(y[i]));
    ASSERT_TRUE(same) << "element " << i << ": " << x[i] << " by the formula, " << y[i]
                      << " by the kernel\n"
                      << to_text(*c.graph);
  }
}

class Formulas : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_TEST_PLUGIN_DIR}); }
};

TEST_F(Formulas, OfEveryOpGiveWhatItsKernelGives) {
  int64_t checked = 0, with_formula = 0;
  for (size_t id = 0; id < op_count(); ++id) {
    const OpEntry& op = entry_of(static_cast<OpId>(id));
    if (!op.def || !op.def->formula || op.mutated_args) continue;
    ++with_formula;
    bool any = false;
    for (Dtype dtype : {Dtype::f32, Dtype::i64, Dtype::bool_}) {
      auto c = case_of(op, dtype, static_cast<uint32_t>(id));
      if (!c) continue;
      report::reset_counters();
      auto artifact = compile_with_backend("formulas", {.graph = c->graph, .compile_id = "0/0"});
      if (report::counter("fallback.calls").value()) continue;
      any = true;
      std::vector<Tensor> expected;
      try {
        expected = run(*interpreter_artifact(c->graph), *c);
      } catch (const Error&) {
        continue;  // the op looks at the numbers before it computes
      }
      auto seen = run(*artifact, *c);
      for (size_t r = 0; r < seen.size(); ++r) expect_same(*c, seen[r], expected[r]);
      if (HasFatalFailure()) return;
    }
    if (any)
      ++checked;
    else
      std::cout << "not tried: " << op.name << "\n";
  }
  EXPECT_GT(with_formula, 150);
  EXPECT_GE(checked, with_formula * 9 / 10);
}

TEST_F(Formulas, OwnOpsAreFusedWithTheirNeighbours) {
  const Op<Tensor(const Tensor&, const Tensor&)> swiglu{"formulas_test::swiglu"};
  auto body = [&](const Tensor& x, const Tensor& g) { return matmul(swiglu(x + 1, g) * 2, g.t()); };
  auto f = compile(body, {.backend = "formulas"});
  report::reset_counters();
  Tensor x = randn({3, 4}), g = randn({3, 4});
  auto seen = f(x, g).to_vector<float>(), expected = body(x, g).to_vector<float>();
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 1e-4);
  EXPECT_EQ(report::counter("backend.regions").value(), 1);
  EXPECT_EQ(report::counter("backend.region_nodes").value(), 3);
  EXPECT_EQ(report::counter("fallback.nodes").value(), 2);
}

}  // namespace
}  // namespace tenon
