// Random programs with views, writes and copies: passes and texts do not change what they compute.
#include <gtest/gtest.h>
#include <tenon/ops.h>

#include <random>

#include "core/tensor/tensor_impl.h"
#include "formats/graph_json.h"
#include "graph/hash.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "graph/record.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"

namespace tenon {
namespace {

constexpr int64_t side = 3;

// Small whole numbers, so that no order of operations rounds.
Tensor random_tensor(std::mt19937& random) {
  Tensor t = make_tensor({side, side}, Dtype::f32);
  for (int64_t i = 0; i < side * side; ++i)
    t.data_ptr<float>()[i] = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return t;
}

Tensor random_step(std::mt19937& random, const std::vector<Tensor>& values) {
  auto any = [&] { return values[random() % values.size()]; };
  switch (random() % 12) {
    case 0:
    case 1:
      return add(any(), any());
    case 2:
      return add(any(), any(), 2);
    case 3:
      return maximum(any(), any());
    case 4:
      return relu(any());
    case 5:
      return transpose(any(), 0, 1);
    case 6:
      return transpose(any(), 1, 1);
    case 7:
      return clone(any());
    case 8:
      return alias(any());
    case 9:
      return add_(any(), any());
    case 10:
      return relu_(any());
    default:
      return zeros({side, side});
  }
}

std::shared_ptr<Graph> random_program(uint32_t seed) {
  std::mt19937 random(seed);
  GraphRecorder recorder(nullptr);
  std::vector<Tensor> values;
  for (int i = 0; i < 2; ++i)
    values.push_back(recorder.add_input(contiguous_meta(IntList{side, side}, Dtype::f32)));
  values.push_back(recorder.add_constant(random_tensor(random), "c"));
  values.push_back(recorder.add_constant(random_tensor(random), "d"));
  std::vector<Tensor> outputs;
  {
    RecordScope scope(recorder);
    // A write to a constant would change it for the next run, so writes go to a copy of everything.
    for (size_t i = 2; i < 4; ++i) values[i] = add(values[i], values[i]);
    for (int i = 0; i < 14; ++i) values.push_back(random_step(random, values));
    for (int i = 0; i < 3; ++i) outputs.push_back(values[random() % values.size()]);
  }
  return recorder.finish(outputs);
}

// Elements of the outputs, of the inputs after the run, and which of them share storage.
std::vector<float> behaviour(const std::shared_ptr<Graph>& graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> all = {random_tensor(random), random_tensor(random)};
  std::vector<detail::TensorHead*> inputs = {all[0].head(), all[1].head()};
  std::vector<Tensor> outputs(graph->outputs().size());
  Interpreter(graph).run(inputs, {}, outputs);
  all.insert(all.end(), outputs.begin(), outputs.end());
  std::vector<float> seen;
  for (const Tensor& t : all)
    for (float v : clone(t).to_vector<float>()) seen.push_back(v);
  for (const Tensor& a : all)
    for (const Tensor& b : all) seen.push_back(shares_storage(a, b));
  return seen;
}

class RandomProgram : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomProgram, BehavesTheSameAfterEveryPass) {
  for (uint32_t i = 0; i < 40; ++i) {
    uint32_t seed = GetParam() * 1000 + i;
    auto graph = random_program(seed);
    std::string before = to_text(*graph);
    std::vector<float> expected = behaviour(graph, seed);
    auto check = [&](const char* pass) {
      ASSERT_NO_THROW(verify_meta(*graph)) << pass << "\n" << before << to_text(*graph);
      ASSERT_EQ(behaviour(graph, seed), expected) << pass << "\n" << before << to_text(*graph);
    };
    for (int round = 0; round < 2; ++round) {
      canonicalize(*graph);
      check("canonicalize");
      merge_common_subexpressions(*graph);
      check("cse");
      fold_constants(*graph);
      check("fold");
      remove_dead_code(*graph);
      check("dead code");
    }
  }
}

TEST_P(RandomProgram, ComesBackFromTextAndJson) {
  for (uint32_t i = 0; i < 10; ++i) {
    uint32_t seed = GetParam() * 1000 + i;
    auto graph = random_program(seed);
    if (i % 2) fold_constants(*graph);
    std::string text = to_text(*graph);
    auto from_text = parse_graph(text),
         from_json = formats::parse_graph_json(formats::to_json(*graph));
    EXPECT_EQ(to_text(*from_text), text);
    EXPECT_EQ(to_text(*from_json), text);
    EXPECT_EQ(hash_of(*from_text), hash_of(*graph));
    EXPECT_TRUE(structurally_equal(*from_text, *from_json));
    EXPECT_EQ(behaviour(from_text, seed), behaviour(graph, seed)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgram, testing::Range(0u, 10u));

}  // namespace
}  // namespace tenon
