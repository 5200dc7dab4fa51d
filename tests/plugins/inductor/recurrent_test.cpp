// Recurrent layers in the inductor backend: one product of the inputs and one item of steps for
// each layer, whatever the sizes, with weights that change and batches that take turns.
#include "config/config.h"
#include "core/threads/thread_pool.h"
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

struct LayerShape {
  std::string kind;  // lstm, gru, rnn_tanh, rnn_relu
  int64_t steps, batch, width, size;
  int64_t layers = 1;
  bool is_bidirectional = false, is_batch_first = false, has_biases = true;

  int64_t gates() const { return kind == "lstm" ? 4 : kind == "gru" ? 3 : 1; }
  int64_t directions() const { return is_bidirectional ? 2 : 1; }
};
void PrintTo(const LayerShape& s, std::ostream* out) {
  *out << s.kind << " " << s.steps << " " << s.batch << " " << s.width << " " << s.size << " x "
       << s.layers * s.directions() << (s.is_batch_first ? " batch first" : "");
}

std::string list_of_sizes(const std::vector<int64_t>& sizes) {
  std::string out;
  for (int64_t s : sizes) out += (out.empty() ? "" : ", ") + std::to_string(s);
  return "[" + out + "]";
}

/// The graph of one call and inputs for it.
class LayerGraph {
 public:
  explicit LayerGraph(const LayerShape& s) {
    int64_t states = s.layers * s.directions();
    std::vector<int64_t> x{s.steps, s.batch, s.width}, y{s.steps, s.batch, s.directions() * s.size};
    if (s.is_batch_first) std::swap(x[0], x[1]), std::swap(y[0], y[1]);
    add("%x", x, "", 1);
    std::vector<std::string> state = {"%h", "%c"};
    state.resize(s.kind == "lstm" ? 2 : 1);
    for (const std::string& name : state) add(name, {states, s.batch, s.size}, "", 1);
    std::string weights;
    auto weight = [&](std::vector<int64_t> sizes) {
      std::string name = "%w" + std::to_string(inputs.size());
      add(name, std::move(sizes), " parameter static_address", 1 / std::sqrt(double(s.size)));
      weights += (weights.empty() ? "" : ", ") + name;
    };
    for (int64_t i = 0; i < states; ++i) {
      int64_t rows = s.gates() * s.size;
      weight({rows, i < s.directions() ? s.width : s.directions() * s.size});
      weight({rows, s.size});
      if (s.has_biases) weight({rows}), weight({rows});
    }
    auto flag = [](bool b) { return b ? "true" : "false"; };
    std::string strides = s.is_batch_first ? " strides [" + std::to_string(y[2]) + ", " +
                                                 std::to_string(s.batch * y[2]) + ", 1]"
                                           : "";
    std::string last = "f32" + list_of_sizes({states, s.batch, s.size});
    body += "  %y: f32" + list_of_sizes(y) + strides + ", %last: " + last +
            (s.kind == "lstm" ? ", %cell: " + last : "") + " = aten." + s.kind + ".input(%x, " +
            (s.kind == "lstm" ? "[%h, %c]" : "%h") + ", [" + weights + "], " + flag(s.has_biases) +
            ", " + std::to_string(s.layers) + ", 0.0, false, " + flag(s.is_bidirectional) + ", " +
            flag(s.is_batch_first) + ")\n  output %y, %last" + (s.kind == "lstm" ? ", %cell" : "") +
            "\n";
  }

  std::string body = "\n";
  std::vector<Tensor> inputs;

 private:
  void add(const std::string& name, std::vector<int64_t> sizes, const std::string& flags,
           double bound) {
    body += "  input " + name + ": f32" + list_of_sizes(sizes) + flags + "\n";
    inputs.push_back(rand(sizes) * (2 * bound) - bound);
  }
};

class InductorRecurrent : public InductorOps, public testing::WithParamInterface<LayerShape> {};

TEST_P(InductorRecurrent, EqualsTheHostWithAnyNumberOfThreads) {
  LayerGraph layer(GetParam());
  int usual = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    expect_same(layer.body, layer.inputs, 2e-6);
  }
  set_num_threads(usual);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, InductorRecurrent,
    testing::Values(LayerShape{"lstm", 1, 1, 1, 1}, LayerShape{"lstm", 5, 2, 3, 7},
                    LayerShape{"lstm", 7, 8, 20, 64, 2}, LayerShape{"lstm", 4, 9, 16, 48, 2, true},
                    LayerShape{"lstm", 6, 3, 16, 33, 2, true, true},
                    LayerShape{"lstm", 3, 50, 8, 16, 1, false, true, false},
                    LayerShape{"lstm", 9, 4, 96, 192, 1}, LayerShape{"gru", 1, 1, 1, 1},
                    LayerShape{"gru", 5, 2, 3, 7}, LayerShape{"gru", 6, 7, 31, 65, 3, true},
                    LayerShape{"gru", 4, 16, 64, 128, 2, false, true},
                    LayerShape{"gru", 3, 5, 8, 24, 1, true, true, false},
                    LayerShape{"gru", 5, 1, 200, 256, 1}, LayerShape{"rnn_tanh", 4, 3, 5, 6},
                    LayerShape{"rnn_tanh", 9, 12, 40, 100, 2, true},
                    LayerShape{"rnn_relu", 8, 2, 17, 300, 2, false, true},
                    LayerShape{"rnn_relu", 3, 2, 2, 2, 1, true, false, false}));

class InductorRecurrentModules : public InductorTest {
 protected:
  void SetUp() override {
    InductorTest::SetUp();
    manual_seed(5);
  }
  config::Patch in_graphs = config::patch({{"dynamo.allow_rnn", true}});
};

TEST_F(InductorRecurrentModules, NewWeightsArePackedAgain) {
  nn::LSTM layer(12, 40, {.num_layers = 2});
  auto f = compile([&](const Tensor& x) { return layer(x).output; }, {.backend = "inductor"});
  NoGradGuard no_grad;
  Tensor x = randn({6, 8, 12});
  for (int round = 0; round < 3; ++round) {
    EXPECT_LE(distance(f(x), layer(x).output), 2e-6);
    for (Tensor& w : layer.parameters()) w.mul_(0.5);
  }
}

TEST_F(InductorRecurrentModules, BatchesAndLengthsTakeTurns) {
  nn::GRU layer(12, 40, {.num_layers = 2, .bidirectional = true});
  auto f = compile([&](const Tensor& x) { return layer(x).output; },
                   {.backend = "inductor", .dynamic = true});
  NoGradGuard no_grad;
  for (int64_t batch : {3, 8, 2, 8, 13, 3})
    for (int64_t steps : {4, 9, 2}) {
      Tensor x = randn({steps, batch, 12});
      EXPECT_LE(distance(f(x), layer(x).output), 2e-6) << batch << " x " << steps;
    }
}

TEST_F(InductorRecurrentModules, AnEmptyBatchGivesNothing) {
  nn::LSTM layer(4, 8);
  auto f = compile([&](const Tensor& x) { return layer(x).output; }, {.backend = "inductor"});
  NoGradGuard no_grad;
  EXPECT_TRUE(equal(f(zeros({3, 0, 4})), zeros({3, 0, 8})));
}

TEST_F(InductorRecurrentModules, WhatIsNotANumberStaysThat) {
  for (double odd : {std::numeric_limits<double>::quiet_NaN(), 1e30, -1e30}) {
    nn::GRU layer(4, 8);
    auto f = compile([&](const Tensor& x) { return layer(x).output; }, {.backend = "inductor"});
    NoGradGuard no_grad;
    Tensor x = full({2, 3, 4}, odd);
    Tensor found = f(x), expected = layer(x).output;
    EXPECT_TRUE(equal(isnan(found), isnan(expected))) << odd;
    EXPECT_LE(distance(nan_to_num(found), nan_to_num(expected)), 2e-6) << odd;
  }
}

TEST_F(InductorRecurrentModules, OtherDtypesAndProjectionsAreTheHosts) {
  NoGradGuard no_grad;
  nn::LSTM wide(4, 8);
  wide.to(Dtype::f64);
  auto f = compile([&](const Tensor& x) { return wide(x).output; }, {.backend = "inductor"});
  Tensor x = randn({3, 2, 4}).to(Dtype::f64);
  EXPECT_LE(distance(f(x), wide(x).output), 1e-14);

  std::vector<Tensor> weights = {randn({20, 4}), randn({20, 3}), randn({3, 5})};
  auto projected = [&](const Tensor& v) {
    return std::get<0>(
        lstm(v, {zeros({1, 2, 3}), zeros({1, 2, 5})}, weights, false, 1, 0, false, false, false));
  };
  Tensor y = randn({6, 2, 4});
  EXPECT_LE(distance(compile(projected, {.backend = "inductor"})(y), projected(y)), 1e-6);
}

TEST_F(InductorRecurrentModules, WeightsThatDoNotFitAreRefused) {
  NoGradGuard no_grad;
  std::vector<Tensor> weights = {randn({20, 4}), randn({20, 4})};  // a state of 5
  auto layer = [&](const Tensor& v) {
    return std::get<0>(
        lstm(v, {zeros({1, 2, 5}), zeros({1, 2, 5})}, weights, false, 1, 0, false, false, false));
  };
  EXPECT_THROW(compile(layer, {.backend = "inductor"})(randn({6, 2, 4})), Error);
}

TEST_F(InductorRecurrentModules, Trains) {
  nn::LSTM layer(6, 10, {.num_layers = 2});
  auto f = compile([&](const Tensor& x) { return layer(x).output.square().mean(); },
                   {.backend = "inductor"});
  Tensor x = randn({5, 3, 6});
  auto gradients = [&](auto&& loss) {
    for (Tensor& w : layer.parameters()) w.set_grad(Tensor());
    loss(x).backward();
    std::vector<Tensor> out;
    for (Tensor& w : layer.parameters()) out.push_back(w.grad().clone());
    return out;
  };
  auto expected = gradients([&](const Tensor& v) { return layer(v).output.square().mean(); });
  auto found = gradients(f);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LE(distance(found[i], expected[i]), 1e-6);
}

}  // namespace
}  // namespace tenon
