// Graphs that are not recorded: each reason with its sentence, node and counter.
#include "graphs.h"

#include "backend/backend.h"
#include "core/error.h"
#include "graph/artifact.h"
#include "graph/text/parse.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <memory>

namespace tenon::graphs {
namespace {

using testing::HasSubstr;

class Skips : public Graphs {
 protected:
  static std::shared_ptr<Artifact> compiled(const std::string& text,
                                            const std::string& options_toml = "") {
    CompileRequest request;
    request.graph = parse_graph("tng 1\ngraph @f {\n" + text + "}\n");
    request.stage = Stage::inference;
    request.compile_id = "0/1";
    request.options_toml = options_toml;
    return compile_with_backend("cudagraphs", request);
  }
  static std::string told(const std::string& text, const std::string& options_toml = "") {
    return compiled(text, options_toml)->describe(TN_DESC_STATS_JSON);
  }
  static std::string error_of(const std::string& text, const std::string& options_toml) {
    try {
      compiled(text, options_toml);
    } catch (const BackendError& error) {
      return error.what();
    }
    return "no error";
  }
};

struct Row {
  std::string reason, graph, told;
  std::string options_toml = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> rows{
      {"cpu_node",
       "  input %x: f32[4] on cuda:0\n"
       "  input %i: i64[2]\n"
       "  %y: f32[2] on cuda:0 = aten.index_select.default(%x, 0, %i)\n"
       "  output %y\n",
       "not recorded: aten.index_select.default reads a tensor that is on the CPU (cpu_node, "},
      {"cpu_node",
       "  input %x: f32[4] on cuda:0\n"
       "  %y: f32[4] = aten._to_copy.default(%x, device=cpu)\n"
       "  output %y\n",
       "not recorded: aten._to_copy.default makes a tensor on the CPU (cpu_node, "},
      {"cpu_node",
       "  input %x: f32[] on cuda:0\n"
       "  %y: f32[] = aten._to_copy.default(%x, device=cpu)\n"
       "  output %y\n",
       "not recorded: aten._to_copy.default brings a value of the device to the CPU (cpu_node, "},
      {"multiple_devices",
       "  input %x: f32[4] on cuda:0\n"
       "  input %z: f32[4] on cuda:1\n"
       "  %y: f32[4] on cuda:0 = aten.relu.default(%x)\n"
       "  %w: f32[4] on cuda:1 = aten.relu.default(%z)\n"
       "  output %y, %w\n",
       "not recorded: aten.relu.default is on another device than cuda:0 (multiple_devices, "},
      {"input_storage_mutation",
       "  input %x: f32[4] on cuda:0\n"
       "  %y: f32[2] on cuda:0 = aten.resize_.default(%x, [2])\n"
       "  output %y\n",
       "not recorded: aten.resize_.default replaces the memory of a tensor "
       "(input_storage_mutation, "},
      {"data_dependent",
       "  symbol u0 size_like in [0, 4] from size(%y, 0)\n"
       "  input %x: bool[4] on cuda:0\n"
       "  %y: i64[u0, 1] on cuda:0 = aten.nonzero.default(%x)\n"
       "  output %y\n",
       "not recorded: aten.nonzero.default has an operand or result whose size values decide "
       "(data_dependent, "},
      {"data_dependent",
       "  input %x: f32[4] on cuda:0\n"
       "  input %m: bool[4] on cuda:0\n"
       "  input %v: f32[] on cuda:0\n"
       "  %y: f32[4] on cuda:0 = aten.index_put.default(%x, [%m], %v)\n"
       "  output %y\n",
       "not recorded: aten.index_put.default takes a mask, whose values decide how many elements "
       "are meant (data_dependent, "},
      {"data_dependent",
       "  input %x: f32[] on cuda:0\n"
       "  aten._assert_async.default(%x)\n"
       "  %y: f32[] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y\n",
       "not recorded: aten._assert_async.default looks at a value and may fail (data_dependent, "},
      {"unsafe_op",
       "  input %x: f32[4] on cuda:0\n"
       "  %y: i64[4] on cuda:0 = aten.multinomial.default(%x, 4, true)\n"
       "  output %y\n",
       "not recorded: aten.multinomial.default draws random numbers on the CPU (unsafe_op, "},
      {"unsafe_op",
       "  symbol n in [0, 10] hint 4 from %k\n"
       "  input %x: f32[4] on cuda:0\n"
       "  input %k: int n\n"
       "  %y: f32[4] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y, %k\n",
       "not recorded: its nodes cannot be run one by one: an output is a number (unsafe_op)"},
      {"dynamic_shapes",
       "  symbol s0 in [1, inf] hint 4 from size(%x, 0)\n"
       "  input %x: f32[s0] on cuda:0\n"
       "  %y: f32[s0] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y\n",
       "not recorded: it has symbolic sizes, and cudagraphs.cudagraph_skip_dynamic_graphs is on "
       "(dynamic_shapes)",
       "cudagraph_skip_dynamic_graphs = true"},
      {"dynamic_shapes",
       "  symbol s0 in [1, inf] hint 4 from size(%x, 0)\n"
       "  input %x: f32[s0] on cuda:0\n"
       "  %y: f32[s0] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y\n",
       "not recorded: cudagraphs.cudagraph_capture_sizes lists no sizes for graphs with 1 symbols "
       "(dynamic_shapes)",
       "cudagraph_capture_sizes = [\"4,8\"]"},
      {"too_small",
       "  input %x: f32[4] on cuda:0\n"
       "  %y: f32[4] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y\n",
       "not recorded: it has 1 nodes to record, and cudagraphs.cudagraph_min_partition_size is 2 "
       "(too_small)",
       "cudagraph_min_partition_size = 2"},
      {"disabled",
       "  input %x: f32[4] on cuda:0\n"
       "  %y: f32[4] on cuda:0 = aten.relu.default(%x)\n"
       "  output %y\n",
       "not recorded: cudagraphs.cuda_launch_blocking is on (disabled)",
       "cuda_launch_blocking = true"},
  };
  return rows;
}

TEST_F(Skips, EachReasonIsToldAndCounted) {
  for (const Row& row : rows()) {
    if (row.reason == "multiple_devices" && device_count(DeviceType::cuda) < 2) continue;
    int64_t before = skips(row.reason);
    EXPECT_THAT(told(row.graph, row.options_toml), HasSubstr(row.told));
    EXPECT_EQ(skips(row.reason), before + 1) << row.graph;
  }
}

TEST_F(Skips, EachReasonIsAnErrorWhereThatIsWanted) {
  for (const Row& row : rows()) {
    if (row.reason == "multiple_devices" && device_count(DeviceType::cuda) < 2) continue;
    std::string error = error_of(row.graph, row.options_toml + "\ncudagraph_or_error = true\n");
    EXPECT_THAT(error, HasSubstr(row.told)) << row.graph;
    EXPECT_THAT(error, HasSubstr("cudagraphs.cudagraph_or_error = false it runs directly"));
  }
}

TEST_F(Skips, SizesThatAreNoNumbersAreAnError) {
  std::string graph =
      "  input %x: f32[4] on cuda:0\n"
      "  %y: f32[4] on cuda:0 = aten.relu.default(%x)\n"
      "  output %y\n";
  EXPECT_THAT(error_of(graph, "cudagraph_capture_sizes = [\"4x8\"]"),
              HasSubstr("cudagraphs.cudagraph_capture_sizes: \"4x8\": expected numbers with commas "
                        "between them, such as \"4,128\""));
}

TEST_F(Skips, AGraphOnTheCpuIsRefused) {
  EXPECT_THAT(error_of("  input %x: f32[4]\n"
                       "  %y: f32[4] = aten.relu.default(%x)\n"
                       "  output %y\n",
                       ""),
              HasSubstr("its manifest says devices = [cuda], %x is on cpu"));
}

TEST_F(Skips, AGraphWithoutNodesIsNoError) {
  std::string graph = "  input %x: f32[4] on cuda:0\n  output %x\n";
  EXPECT_EQ(error_of(graph, "cudagraph_or_error = true"), "no error");
  EXPECT_THAT(told(graph), HasSubstr("not recorded: it has nothing to record (too_small)"));
  EXPECT_EQ(skips("too_small"), 0);
}

// Control flow reaches the backend as a node with bodies.
TEST_F(Skips, BodiesThatValuesChooseAreDataDependent) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0, [](const Tensor& v) { return v * 2.0; },
            [](const Tensor& v) { return v - 1.0; }, x);
      },
      recorded());
  Tensor x = ones({4});
  for (int i = 0; i < 3; ++i) expect_equal(f(there(x)), x * 2.0);
  EXPECT_EQ(skips("data_dependent"), 1);
  EXPECT_THAT(f.explain(), HasSubstr("and the host decides which of them run (data_dependent, "));
}

// The rest of the graph is recorded around what cannot be.
TEST_F(Skips, WithPartitionOnlyTheNodeItselfRunsDirectly) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * 2.0 + 1.0;
        return (y + multinomial(y.abs(), 6, true) * 0.0).relu() - 3.0;
      },
      recorded({{"graph_partition", "true"}}));
  Tensor x = arange(6, Dtype::f32);
  for (int i = 0; i < 4; ++i) expect_equal(f(there(x + double(i))), (x + double(i)) * 2.0 - 2.0);
  EXPECT_GE(n_recordings(), 2);
  EXPECT_GE(n_replays(), 2);
  EXPECT_THAT(f.explain(), HasSubstr("draws random numbers on the CPU (unsafe_op, "));
}

}  // namespace
}  // namespace tenon::graphs
