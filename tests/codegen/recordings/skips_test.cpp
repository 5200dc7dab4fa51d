// What stands against recording a node, over graphs that this file makes itself: among them what the
// host has no graphs of, such as sparse tensors.
#include <recordings/compile.h>
#include <recordings/skips.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <vector>

using namespace tenon::plugin;

/// One node over values, behind the table that plugins read graphs by.
struct tn_graph {
  tn_node_info node{};
  std::vector<tn_value_info> values;
  std::vector<tn_arg> args;
  std::deque<std::vector<uint32_t>> lists;
  std::deque<tn_dim> dims;
};

namespace recordings {
namespace {

/// The table, for as long as a test runs.
class OwnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    graphs_.struct_size = sizeof graphs_;
    graphs_.node_count = [](const tn_graph*) -> uint32_t { return 1; };
    graphs_.value_count = [](const tn_graph* g) { return static_cast<uint32_t>(g->values.size()); };
    graphs_.node = [](const tn_graph* g, uint32_t, tn_node_info* out) -> tn_status* {
      *out = g->node;
      return nullptr;
    };
    graphs_.value = [](const tn_graph* g, uint32_t id, tn_value_info* out) -> tn_status* {
      *out = g->values[id];
      return nullptr;
    };
    table_.struct_size = sizeof table_;
    table_.graph = &graphs_;
    host = &table_;
  }
  void TearDown() override { host = nullptr; }

 private:
  tn_graph_api graphs_{};
  tn_host table_{};
};

constexpr tn_value_info on_device{.struct_size = sizeof(tn_value_info),
                                  .kind = TN_VAL_TENSOR,
                                  .dtype = TN_F32,
                                  .device_type = TN_DEV_CUDA,
                                  .layout = TN_LAYOUT_STRIDED};
tn_value_info on_cpu(int32_t ndim = 0) {
  tn_value_info v = on_device;
  v.device_type = TN_DEV_CPU;
  static tn_dim two{2, TN_EXPR_STATIC, 0};
  v.ndim = ndim;
  v.sizes = &two;
  return v;
}

/// `op` from value 0 to value 1.
tn_graph graph_of(const char* op, uint64_t tags = 0, tn_value_info in = on_device,
                  tn_value_info out = on_device) {
  tn_graph g;
  g.values = {in, out};
  g.args = {tn_arg{.kind = TN_ARG_VALUE, .count = 0, .u = {.value = 0}, ._r0 = 0}};
  g.node.struct_size = sizeof g.node;
  g.node.op_name = str(op);
  g.node.name = str("n");
  g.node.source_file = str("/home/somebody/net.cpp");
  g.node.source_line = 12;
  g.node.tags = tags;
  g.node.first_result = 1;
  g.node.n_results = 1;
  return g;
}

/// "reason: sentence (node, source)", or "recorded".
std::string why_not_of(tn_graph g, bool draws_there = false) {
  g.node.args = g.args.data();
  g.node.n_args = static_cast<uint32_t>(g.args.size());
  std::optional<Skip> why =
      why_not(graph(&g), 0, 0, [draws_there](uint32_t) { return draws_there; });
  if (!why) return "recorded";
  return why->reason + ": " + why->sentence + " (" + why->node + ", " + why->source + ")";
}

std::string because(const char* reason, const char* sentence) {
  return std::string(reason) + ": " + sentence + " (n, net.cpp:12)";
}

TEST_F(OwnGraphs, AnOpOfTheDeviceIsRecorded) {
  EXPECT_EQ(why_not_of(graph_of("aten.relu.default")), "recorded");
}

TEST_F(OwnGraphs, ValuesThatDecideAreNamed) {
  EXPECT_EQ(why_not_of(graph_of("aten._assert_async.default")),
            because("data_dependent", "aten._assert_async.default looks at a value and may fail"));
  EXPECT_EQ(
      why_not_of(graph_of("higher.cond", TN_TAG_HIGHER_ORDER)),
      because("data_dependent", "higher.cond has bodies, and the host decides which of them run"));
  EXPECT_EQ(why_not_of(graph_of("aten.nonzero_static.default", TN_TAG_DATA_DEPENDENT)),
            because("data_dependent", "aten.nonzero_static.default gives what values decide"));
  tn_dim unknown{0, 0, TN_DIM_UNBACKED};
  tn_value_info sized = on_device;
  sized.ndim = 1;
  sized.sizes = &unknown;
  EXPECT_EQ(why_not_of(graph_of("aten.relu.default", 0, on_device, sized)),
            because("data_dependent",
                    "aten.relu.default has an operand or result whose size values decide"));
  tn_graph by_mask = graph_of("aten.index.Tensor");
  by_mask.values[0].dtype = TN_BOOL;
  uint32_t indices[] = {0};
  by_mask.args[0] = {.kind = TN_ARG_VALUES, .count = 1, .u = {.values = indices}, ._r0 = 0};
  EXPECT_EQ(why_not_of(by_mask),
            because("data_dependent",
                    "aten.index.Tensor takes a mask, whose values decide how many elements are "
                    "meant"));
}

TEST_F(OwnGraphs, SparseTensorsAreNamed) {
  tn_value_info sparse = on_device;
  sparse.layout = TN_LAYOUT_STRIDED + 1;
  EXPECT_EQ(why_not_of(graph_of("aten.mul.Tensor", 0, sparse)),
            because("sparse", "aten.mul.Tensor has a sparse operand or result"));
  EXPECT_EQ(why_not_of(graph_of("aten.to_sparse.default", 0, on_device, sparse)),
            because("sparse", "aten.to_sparse.default has a sparse operand or result"));
}

TEST_F(OwnGraphs, MemoryThatIsReplacedIsNamed) {
  for (const char* op :
       {"aten.set_.source_Tensor", "aten.resize_.default", "aten.resize_as_.default"})
    EXPECT_EQ(why_not_of(graph_of(op)),
              because("input_storage_mutation",
                      (std::string(op) + " replaces the memory of a tensor").c_str()));
}

TEST_F(OwnGraphs, OpsThatTheHostHasToRunAreNamed) {
  EXPECT_EQ(why_not_of(graph_of("tenon.host_call.default")),
            because("unsafe_op", "tenon.host_call.default calls back into the program"));
  tn_graph opaque = graph_of("mine.op.default");
  opaque.args.push_back({.kind = TN_ARG_OPAQUE, .count = 0, .u = {.opaque = nullptr}, ._r0 = 0});
  EXPECT_EQ(why_not_of(opaque),
            because("unsafe_op", "mine.op.default calls back into the program"));
  EXPECT_EQ(why_not_of(graph_of("tenon.philox_aten_rand")),
            because("unsafe_op",
                    "tenon.philox_aten_rand draws with a state of the generator that "
                    "it is given"));
  EXPECT_EQ(why_not_of(graph_of("aten.rand_like.default", TN_TAG_RANDOM)),
            because("unsafe_op", "aten.rand_like.default draws random numbers on the CPU"));
  EXPECT_EQ(why_not_of(graph_of("aten.rand_like.default", TN_TAG_RANDOM), true), "recorded");
  EXPECT_EQ(why_not_of(graph_of("mine.log.default", TN_TAG_SIDE_EFFECT)),
            because("unsafe_op", "mine.log.default has effects besides its results"));
  EXPECT_EQ(why_not_of(graph_of("aten._assert_tensor_metadata.default", TN_TAG_SIDE_EFFECT)),
            "recorded");
}

TEST_F(OwnGraphs, ValuesElsewhereAreNamed) {
  EXPECT_EQ(why_not_of(graph_of("aten.add.Tensor", 0, on_cpu(1))),
            because("cpu_node", "aten.add.Tensor reads a tensor that is on the CPU"));
  EXPECT_EQ(why_not_of(graph_of("aten._to_copy.default", 0, on_device, on_cpu(1))),
            because("cpu_node", "aten._to_copy.default makes a tensor on the CPU"));
  EXPECT_EQ(why_not_of(graph_of("aten._to_copy.default", 0, on_device, on_cpu())),
            because("cpu_node", "aten._to_copy.default brings a value of the device to the CPU"));
  tn_value_info second = on_device;
  second.device_index = 1;
  EXPECT_EQ(why_not_of(graph_of("aten.relu.default", 0, second, second)),
            because("multiple_devices", "aten.relu.default is on another device than cuda:0"));
}

// Which backend keeps recordings: without one a compile says so.
TEST_F(OwnGraphs, WithoutThePluginForRecordingsThatIsSaid) {
  tn_host without = *host;
  without.extension = [](const char*, uint32_t) -> const void* { return nullptr; };
  host = &without;
  try {
    cuda();
    FAIL() << "somebody keeps recordings";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("the plugin cuda, which keeps recordings, is not "
                                             "loaded, or is older than this one"));
  }
}

}  // namespace
}  // namespace recordings
