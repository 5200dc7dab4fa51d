// What each flag of the partitioner changes, in numbers of the recorded graphs.
#include "unit/partition/small_graph.h"
#include "unit/partition/tests_of_partition.h"

#include "report/log.h"

#include <tenon/config.h>

#include <gmock/gmock.h>

#include <filesystem>

namespace tenon::partition::tests {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Saved values, bytes of activations, recomputed calls, calls of the backward.
struct Numbers {
  size_t n;
  int64_t u;
  size_t r, w;
  friend bool operator==(const Numbers&, const Numbers&) = default;
};
std::ostream& operator<<(std::ostream& out, const Numbers& numbers) {
  return out << "n " << numbers.n << ", u " << numbers.u << ", r " << numbers.r << ", w "
             << numbers.w;
}

class PartitionFlags : public testing::Test {
 protected:
  // Under the flags in force.
  static Partition cut(const std::string& name) {
    return min_cut_partition(own_graph(name).graph, PartitionOptions::from_flags());
  }
  static Numbers numbers(const std::string& name) {
    RecordedGraph recorded = own_graph(name);
    Partition made = min_cut_partition(recorded.graph, PartitionOptions::from_flags());
    return {made.saved.size(), activation_bytes(recorded.graph, made), made.recomputed.size(),
            made.backward.size()};
  }
  template <class T>
  static Numbers with(const std::string& flag, T value, const std::string& name) {
    auto patch = config::patch({{flag, value}});
    return numbers(name);
  }
};

TEST_F(PartitionFlags, CseMergesEqualCalls) {
  EXPECT_EQ(numbers("prenorm_stack4"), (Numbers{32, 5120000, 14, 146}));
  EXPECT_EQ(with("functorch.cse", false, "prenorm_stack4"), (Numbers{32, 5120000, 10, 150}));
  EXPECT_EQ(with("functorch.cse", false, "mlp_gelu_3layer").w, numbers("mlp_gelu_3layer").w + 1);
}

TEST_F(PartitionFlags, BanRecomputeUsedFarApart) {
  EXPECT_EQ(numbers("used_far_apart"), (Numbers{5, 49152, 4, 30}));
  EXPECT_EQ(with("functorch.ban_recompute_used_far_apart", false, "used_far_apart"),
            (Numbers{4, 32768, 5, 31}));
  EXPECT_EQ(with("functorch.ban_recompute_used_far_apart", false, "prenorm_stack4").r, 18u);
}

TEST_F(PartitionFlags, BanRecomputeLongFusibleChains) {
  EXPECT_EQ(numbers("long_fusible_chain"), (Numbers{3, 4096, 224, 569}));
  EXPECT_EQ(with("functorch.ban_recompute_long_fusible_chains", false, "long_fusible_chain"),
            (Numbers{1, 0, 228, 573}));
}

TEST_F(PartitionFlags, BanRecomputeMaterializedBackward) {
  EXPECT_EQ(numbers("mlp_gelu_3layer").u, 557056);
  Numbers off = with("functorch.ban_recompute_materialized_backward", false, "mlp_gelu_3layer");
  EXPECT_EQ(std::tie(off.n, off.u, off.r), std::make_tuple(7u, 294912, 2u));
  EXPECT_EQ(with("functorch.ban_recompute_materialized_backward", false, "prenorm_stack4").u,
            2498560);
  EXPECT_EQ(with("functorch.ban_recompute_materialized_backward", false, "conv_bn_relu").u, 65664);
}

TEST_F(PartitionFlags, BanRecomputeReductions) {
  EXPECT_EQ(numbers("layer_norm_manual"), (Numbers{4, 256, 2, 30}));
  EXPECT_EQ(with("functorch.ban_recompute_reductions", false, "layer_norm_manual"),
            (Numbers{2, 0, 7, 35}));
  EXPECT_EQ(with("functorch.ban_recompute_reductions", false, "conv_bn_relu").n, 5u);
  EXPECT_EQ(with("functorch.ban_recompute_reductions", false, "cross_entropy_loss").n, 4u);
}

TEST_F(PartitionFlags, RecomputeViewsSavesNone) {
  EXPECT_EQ(numbers("softmax_attention"), (Numbers{4, 32768, 0, 13}));
  EXPECT_EQ(with("functorch.recompute_views", true, "softmax_attention"),
            (Numbers{4, 32768, 1, 17}));
  Numbers views = with("functorch.recompute_views", true, "prenorm_stack4");
  EXPECT_EQ(std::tie(views.u, views.r, views.w), std::make_tuple(5120000, 22u, 162u));
}

TEST_F(PartitionFlags, AggressiveRecomputationLiftsAllRulesButThatOfReductions) {
  Numbers stack = with("functorch.aggressive_recomputation", true, "prenorm_stack4");
  EXPECT_EQ(std::tie(stack.n, stack.u, stack.r), std::make_tuple(24u, 2498560, 34u));
  Numbers apart = with("functorch.aggressive_recomputation", true, "used_far_apart");
  EXPECT_EQ(std::tie(apart.n, apart.u), std::make_tuple(3u, 16384));
  EXPECT_EQ(with("functorch.aggressive_recomputation", true, "long_fusible_chain").n, 1u);
  EXPECT_EQ(with("functorch.aggressive_recomputation", true, "layer_norm_manual").n, 4u);
}

TEST_F(PartitionFlags, TreatParametersAsFreeToSave) {
  EXPECT_EQ(with("functorch.treat_parameters_as_free_to_save", false, "mlp_relu").w,
            numbers("mlp_relu").w - 1);
  EXPECT_EQ(cut("conv_bn_relu").cut_value, 151680);
  auto patch = config::patch({{"functorch.treat_parameters_as_free_to_save", false}});
  EXPECT_EQ(cut("conv_bn_relu").cut_value, 156825);
  EXPECT_EQ(numbers("prenorm_stack4").w, 138u);
}

TEST_F(PartitionFlags, ActivationMemoryBudgetNeverNeedsMoreWhenItFalls) {
  std::vector<int64_t> bytes;
  for (double budget : {1.0, 0.5, 0.25, 0.1, 0.0})
    bytes.push_back(with("functorch.activation_memory_budget", budget, "prenorm_stack4").u);
  EXPECT_THAT(bytes, ElementsAre(5120000, 2498560, 917504, 393216, 0));
}

TEST_F(PartitionFlags, ActivationMemoryBudgetSolver) {
  RecordedGraph mlp = own_graph("mlp_gelu_3layer");
  auto saved = [&](const char* solver) {
    auto patch = config::patch({{"functorch.activation_memory_budget", 0.5},
                                {"functorch.activation_memory_budget_solver", solver}});
    return mlp.names(cut("mlp_gelu_3layer").saved);
  };
  EXPECT_THAT(saved("dp"), AllOf(Contains("mm"), Contains("mm_1"), Not(Contains("mm_2"))));
  EXPECT_THAT(saved("greedy"), AllOf(Not(Contains("mm")), Contains("mm_1"), Contains("mm_2")));
  EXPECT_EQ(saved("dp_knapsack_sliding_hirschberg").size(), saved("dp").size());
  EXPECT_LE(saved("dynamic_memory_budget_dp").size(), saved("dp").size());
}

TEST_F(PartitionFlags, ActivationMemoryBudgetRuntimeEstimator) {
  RecordedGraph mlp = own_graph("mlp_gelu_3layer");
  auto saved = [&](const char* estimator) {
    auto patch =
        config::patch({{"functorch.activation_memory_budget", 0.25},
                       {"functorch.activation_memory_budget_runtime_estimator", estimator}});
    PartitionOptions options = PartitionOptions::from_flags();
    // Milliseconds as measured: the second product is slow, the others are not.
    options.profile = [](const JointNode& node) { return node.name == "mm_2" ? 9.0 : 1.0; };
    return mlp.names(min_cut_partition(mlp.graph, options).saved);
  };
  EXPECT_THAT(saved("flops"), AllOf(Contains("mm_1"), Not(Contains("mm"))));
  EXPECT_THAT(saved("testing"), AllOf(Contains("mm"), Not(Contains("mm_1"))));
  EXPECT_THAT(saved("profile"), Contains("mm_2"));
}

TEST_F(PartitionFlags, VisualizeMemoryBudgetParetoWritesIntoMemoryBudgetParetoDir) {
  std::string folder = testing::TempDir() + "/tenon_pareto/new";
  std::filesystem::remove_all(folder);
  std::string file = folder + "/memory_budget_pareto_mlp_gelu_3layer";
  auto patch = config::patch({{"functorch.visualize_memory_budget_pareto", true},
                              {"functorch.memory_budget_pareto_dir", folder}});
  cut("mlp_gelu_3layer");
  EXPECT_FALSE(std::filesystem::exists(folder)) << "no budget, no picture";

  auto budget = config::patch({{"functorch.activation_memory_budget", 0.5}});
  cut("mlp_gelu_3layer");
  EXPECT_THAT(detail::file_text(file + ".svg"), HasSubstr("<polyline points="));
  std::istringstream table(detail::file_text(file + ".csv"));
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "budget,memory_ratio,recomputation_runtime");
  double last_memory = -1e9, last_runtime = 1e99;
  for (bool first = true; std::getline(table, line); first = false) {
    double at = 0, memory = 0, runtime = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf,%lf,%lf", &at, &memory, &runtime), 3);
    if (first) {
      EXPECT_EQ(at, 0);
    }
    EXPECT_GT(memory, last_memory);
    EXPECT_LT(runtime, last_runtime);
    last_memory = memory;
    last_runtime = runtime;
  }
  EXPECT_EQ(last_runtime, 0);
}

TEST_F(PartitionFlags, DebugPartitionerLogsWhatWasDecided) {
  auto level = config::patch({{"logging.level", "info"}});
  auto run = [](bool debug, double budget, const char* name) {
    report::LogCapture log;
    auto patch = config::patch(
        {{"functorch.debug_partitioner", debug}, {"functorch.activation_memory_budget", budget}});
    cut(name);
    std::string all;
    for (const std::string& line : log.lines()) all += line + "\n";
    return all;
  };
  EXPECT_EQ(run(false, 1, "pointwise_chain"), "");
  EXPECT_THAT(run(true, 1, "pointwise_chain"), HasSubstr("# remat/fw/bw: 3/4/14"));
  EXPECT_THAT(run(true, 1, "mlp_relu"),
              HasSubstr("ops banned from recomputation: aten.addmm, aten.mm"));
  EXPECT_THAT(run(true, 0.5, "mlp_gelu_3layer"), HasSubstr("\"candidates\": [\"mm\""));
}

TEST_F(PartitionFlags, BanRecomputeNotInAllowlistOffIsTheDenylist) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("exp", "aten.exp.default", {"x"});
  graph.call("cumsum", "aten.cumsum.default", {"exp"}).call("sin", "aten.sin.default", {"cumsum"});
  graph.call("cos", "aten.cos.default", {"cumsum"}).call("grad", "aten.mul.Tensor", {"g", "cos"});
  graph.outputs({"sin"}, {"grad"});
  auto reason = [&](bool allowlist) -> std::string {
    auto patch = config::patch({{"functorch.ban_recompute_materialized_backward", false},
                                {"functorch.ban_recompute_not_in_allowlist", allowlist}});
    for (const Ban& ban : graph.cut(PartitionOptions::from_flags()).banned)
      if (ban.node == graph.id("cumsum")) return std::string(text_of(ban.reason));
    return "";
  };
  EXPECT_EQ(reason(true), "not in recomputable allowlist");
  EXPECT_EQ(reason(false), "");
}

TEST_F(PartitionFlags, MaxDistFromBw) {
  SmallGraph graph;
  graph.primal("x").primal("w").tangent("g");
  std::string last = "x";
  for (int i = 0; i < 6; ++i) {
    std::string name = "mul_" + std::to_string(i);
    graph.call(name, "aten.mul.Tensor", {last, "x"});
    last = name;
  }
  graph.call("mm", "aten.mm.default", {last, "w"}).call("sin", "aten.sin.default", {"mm"});
  graph.call("cos", "aten.cos.default", {"mm"}).call("grad", "aten.mul.Tensor", {"g", "cos"});
  graph.outputs({"sin"}, {"grad", "-"});
  auto too_far = [&](int64_t most) {
    auto patch = config::patch({{"functorch.max_dist_from_bw", most}});
    Names names;
    for (const Ban& ban : graph.cut(PartitionOptions::from_flags()).banned)
      if (ban.reason == BanReason::too_far_from_backward)
        names.push_back(graph.names({ban.node})[0]);
    return names;
  };
  EXPECT_THAT(too_far(1000), ElementsAre());
  EXPECT_THAT(too_far(3), ElementsAre("mul_0", "mul_1", "mul_2", "mul_3"));
}

TEST_F(PartitionFlags, IsNonBuiltinToIncludeMakesUserOpsCandidates) {
  SmallGraph graph;
  graph.primal("x", 1000).tangent("g", 4096);
  graph.call("mine", "mine.heavy.default", {"x"}, 8192);
  graph.call("sin", "aten.sin.default", {"mine"}, 8192);
  graph.call("cos", "aten.cos.default", {"mine"}, 8192);
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}, 8192).outputs({"sin"}, {"grad"});
  graph.node("mine").builtin = false;
  auto level = config::patch({{"logging.level", "info"}});
  auto candidates = [&](bool include) {
    report::LogCapture log;
    auto patch = config::patch({{"functorch.is_non_builtin_to_include", include},
                                {"functorch.debug_partitioner", true},
                                {"functorch.activation_memory_budget", 0.5}});
    graph.cut(PartitionOptions::from_flags());
    return log.count("\"candidates\": [\"mine\"]");
  };
  EXPECT_EQ(candidates(false), 0u);
  EXPECT_EQ(candidates(true), 1u);
}

TEST_F(PartitionFlags, UnsafeTreatScriptObjectsAsZeroSize) {
  SmallGraph graph;
  graph.primal("x", 1000).primal("table", 0).tangent("g");
  graph.node("table").type = JointNode::Type::opaque;
  graph.call("sin", "aten.sin.default", {"x"}, 8192)
      .call("cos", "mine.look.default", {"x", "table"});
  graph.call("grad", "mine.look.default", {"g", "table"}).outputs({"sin"}, {"grad", "-"});
  auto patch = config::patch({{"functorch.activation_memory_budget", 0.5}});
  try {
    graph.cut(PartitionOptions::from_flags());
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "activation_memory_budget: the size of the opaque value 'table' in the graph "
                 "'small' is not known; set unsafe_treat_script_objects_as_zero_size to count such "
                 "values as 0 bytes");
  }
  auto allowed = config::patch({{"functorch.unsafe_treat_script_objects_as_zero_size", true}});
  Partition made = graph.cut(PartitionOptions::from_flags());
  EXPECT_THAT(graph.names(made.saved_opaque), ElementsAre("table"));
}

}  // namespace
}  // namespace tenon::partition::tests
