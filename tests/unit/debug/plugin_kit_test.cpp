// The parts of the conformance kit: golden graphs, inputs, memory between guard zones, children.
#include <gtest/gtest.h>

#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/graph_case.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "debug/plugin_kit/process_state.h"
#include "debug/plugin_kit/watched_host.h"
#include "graph/text/print.h"
#include "graph/verify.h"

#include <cfenv>
#include <cstring>

namespace tenon::kit {
namespace {

TEST(GoldenGraphs, SayWhatTheirOpsGive) {
  ASSERT_GE(golden_graphs().size(), 60u);
  for (const EmbeddedFile& file : golden_graphs()) {
    SCOPED_TRACE(file.path);
    GoldenGraph golden = golden_graph(file);
    EXPECT_EQ(golden.graph->name, golden.name);
    EXPECT_EQ(meta_problems_of(*golden.graph), std::vector<std::string>{});
  }
}

TEST(GoldenGraphs, AreWrittenAsThePrinterWritesThem) {
  for (const EmbeddedFile& file : golden_graphs()) {
    size_t begin = file.text.find("tng 1\n");
    EXPECT_EQ(file.text.substr(begin), to_text(*golden_graph(file).graph)) << file.path;
  }
}

TEST(GoldenGraphs, RunForEachStyleOfInputs) {
  int n_cases = 0;
  for (const EmbeddedFile& file : golden_graphs()) {
    GoldenGraph golden = golden_graph(file);
    for (InputStyle style : all_input_styles) {
      SCOPED_TRACE(golden.name + ", " + std::string(name_of(style)));
      if (golden.is_unbacked) continue;
      auto c = make_static_case(golden, style, 3);
      if (!c) continue;
      ++n_cases;
      std::vector<Tensor> outputs = run_reference(*c);
      EXPECT_EQ(meta_difference(*c, outputs), "");
      EXPECT_EQ(difference(*c, outputs, outputs), "");
    }
  }
  EXPECT_GT(n_cases, 300);
}

TEST(GraphCase, LaysInputsOutAsTheStyleSays) {
  GoldenGraph golden = golden_graph("softmax_rows");
  auto transposed = make_static_case(golden, InputStyle::transposed, 1);
  auto sliced = make_static_case(golden, InputStyle::sliced, 1);
  auto empty = make_static_case(golden, InputStyle::zero_size, 1);
  EXPECT_EQ(transposed->inputs[0].stride(0).guard_int(), 1);
  EXPECT_EQ(sliced->inputs[0].stride(1).guard_int(), 2);
  EXPECT_NE(sliced->inputs[0].storage_offset(), 0);
  EXPECT_EQ(empty->inputs[0].size(0).guard_int(), 0);
  // The numbers are the same, however they lie.
  auto plain = make_static_case(golden, InputStyle::contiguous, 1);
  EXPECT_TRUE(same_bits(plain->inputs[0], transposed->inputs[0]));
  EXPECT_TRUE(same_bits(plain->inputs[0], sliced->inputs[0]));
}

TEST(GraphCase, AWrongElementIsADifference) {
  auto c = make_static_case(golden_graph("softmax_rows"), InputStyle::contiguous, 1);
  std::vector<Tensor> expected = run_reference(*c), found = run_reference(*c);
  found[0].data_ptr<float>()[4] += 0.25f;
  EXPECT_NE(difference(*c, found, expected).find("out.0: element 4"), std::string::npos);
}

TEST(GuardedMemory, TellsWhoWroteBesideABlock) {
  auto* block = static_cast<char*>(guarded_allocate(40));
  EXPECT_EQ(guarded_free(block, 40), "");
  block = static_cast<char*>(guarded_allocate(40));
  block[40] = 1;
  EXPECT_EQ(guarded_free(block, 40), "wrote behind a block of 40 bytes");
  block = static_cast<char*>(guarded_allocate(40));
  block[-1] = 1;
  EXPECT_EQ(guarded_free(block, 40), "wrote before a block of 40 bytes");
  block = static_cast<char*>(guarded_allocate(40));
  EXPECT_EQ(guarded_free(block, 48), "a block of 40 bytes as one of 48");
  EXPECT_NE(guarded_free(block, 40).find("or twice"), std::string::npos);
  EXPECT_EQ(guarded_memory().blocks, 0);
}

TEST(WatchedHost, RefusesTheRequestOfMemoryThatIsAskedFor) {
  const tn_host* host = watched_host();
  host_faults().fail_request = 2;
  void* first = host->svc->alloc(8, 8);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(host->svc->alloc(8, 8), nullptr);
  void* third = host->svc->alloc(8, 8);
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(host_counts().live_blocks, 2);
  host->svc->free(first, 8, 8);
  host->svc->free(third, 8, 8);
  clear_host_faults();
  EXPECT_EQ(host_counts().live_blocks, 0);
  EXPECT_EQ(take_first_misuse(), "");
}

TEST(AgedHost, HasTheSizesOfItsAge) {
  const tn_host *older = older_host(), *newer = newer_host();
  EXPECT_EQ(older->abi_minor, 0u);
  EXPECT_FALSE(TN_HAS(older->svc, progress));
  EXPECT_TRUE(TN_HAS(older->svc, parallel_chunks));
  EXPECT_EQ(newer->svc->struct_size, sizeof(tn_svc_api) + 64);
  unsigned char behind = 0;
  std::memcpy(&behind, reinterpret_cast<const char*>(newer->svc) + sizeof(tn_svc_api), 1);
  EXPECT_EQ(behind, 0xA5);
}

TEST(ProcessState, SeesAnotherRounding) {
  ProcessState before = ProcessState::now();
  EXPECT_EQ(before.change_to(ProcessState::now(), false), "");
  std::fesetround(FE_UPWARD);
  std::string change = before.change_to(ProcessState::now(), false);
  std::fesetround(FE_TONEAREST);
  EXPECT_NE(change.find("floating-point"), std::string::npos) << change;
}

}  // namespace
}  // namespace tenon::kit
