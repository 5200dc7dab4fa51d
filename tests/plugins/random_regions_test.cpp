// Random programs with views, writes and random numbers, cut at random: the pieces together do what
// the interpreter does.
#include "core/random.h"
#include "core/tensor/tensor_impl.h"
#include "graph/record.h"
#include "graph/text/print.h"
#include "plugins/regions/support.h"

#include <random>

namespace tenon {
namespace {

constexpr int64_t side = 4;

Tensor random_step(std::mt19937& random, const std::vector<Tensor>& values) {
  auto any = [&] { return values[random() % values.size()]; };
  switch (random() % 17) {
    case 0:
      return add(any(), any());
    case 1:
      return maximum(any(), any());
    case 2:
      return relu(any());
    case 3:
      return transpose(any(), 0, 1);
    case 4:
      return clone(any());
    case 5:
      return alias(any());
    case 6:
      return add_(any(), any());
    case 7:
      return relu_(any());
    case 8:
      return cat({split(any(), 2)[1], split(any(), 2)[0]});
    case 9:
      return reshape(any(), {side, side});
    case 10:
      return floor(rand_like(any()) * 4);
    case 11:
      return copy_(any(), any());
    case 12:
      return slice(cat({any(), any()}), 0, 1, side + 1);
    case 13:
      return add_(slice(any(), 0, 0, 2), 1).sum() + any();
    case 14:
      return contiguous(any());
    case 15:
      return minimum(any(), any());
    default:
      return zeros({side, side});
  }
}

Tensor random_tensor(std::mt19937& random) {
  Tensor t = make_tensor({side, side}, Dtype::f32);
  for (int64_t i = 0; i < side * side; ++i)
    t.data_ptr<float>()[i] = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return t;
}

std::shared_ptr<Graph> random_program(uint32_t seed) {
  std::mt19937 random(seed);
  GraphRecorder recorder(nullptr);
  std::vector<Tensor> values, outputs;
  for (int i = 0; i < 3; ++i)
    values.push_back(recorder.add_input(contiguous_meta(IntList{side, side}, Dtype::f32)));
  Tensor constant = recorder.add_constant(random_tensor(random), "c");
  RecordScope scope(recorder);
  values.push_back(add(constant, 1));
  for (int i = 0; i < 20; ++i) values.push_back(clamp_max(random_step(random, values), 9));
  for (int i = 0; i < 8; ++i) values.push_back(random_step(random, values));
  for (int i = 0; i < 4; ++i) outputs.push_back(values[random() % values.size()]);
  return recorder.finish(outputs);
}

// Elements of the outputs, of the inputs after the run, and which of them share storage.
std::vector<float> behaviour(Artifact& artifact, const Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  manual_seed(seed);
  std::vector<Tensor> all = {random_tensor(random), random_tensor(random), random_tensor(random)};
  for (const Tensor& out : run(artifact, graph, {all[0], all[1], all[2]})) all.push_back(out);
  std::vector<float> seen;
  for (const Tensor& t : all)
    for (float v : clone(t).to_vector<float>()) seen.push_back(v);
  for (const Tensor& a : all)
    for (const Tensor& b : all) seen.push_back(shares_storage(a, b));
  return seen;
}

class RandomRegions : public Regions, public testing::WithParamInterface<uint32_t> {};

TEST_P(RandomRegions, DoWhatTheInterpreterDoes) {
  int64_t regions = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    uint32_t seed = GetParam() * 1000 + i;
    auto graph = random_program(seed);
    auto expected = behaviour(*interpreter_artifact(graph), *graph, seed);
    for (const char* backend : {"regions", "regions_pairs"}) {
      report::reset_counters();
      auto artifact = compiled(backend, graph, message("seed = {}", seed));
      regions += report::counter("backend.regions").value();
      ASSERT_EQ(behaviour(*artifact, *graph, seed), expected) << backend << " seed " << seed << "\n"
                                                              << to_text(*graph) << log_->graphs();
      log_->clear();
    }
  }
  EXPECT_GT(regions, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRegions, testing::Range(0u, 6u));

}  // namespace
}  // namespace tenon
