// Archives as modules: names, training, and what is refused.
#include "core/error.h"
#include "folders.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LoadedModule digits_net(const char* backend = "aot_eager") {
  return load_model(source_path("tests/data/models/mlp_digits.pt2"), {.backend = backend});
}

TEST(LoadedModule, HasTheNamesOfTheExportedModule) {
  LoadedModule net = digits_net();
  std::vector<std::string> names;
  for (const auto& [name, value] : net.state_dict()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight", "fc3.bias",
                                 "fc3.weight"));
  EXPECT_EQ(net.parameters().size(), 6u);
}

TEST(LoadedModule, LearnsAsItDoesOnTheTape) {
  manual_seed(2);
  Tensor x = rand({16, 64}), labels = randint(0, 10, {16});
  auto losses = [&](const char* backend) {
    LoadedModule net = digits_net(backend);
    optim::SGD opt(net.parameters(), {.lr = 0.1});
    std::vector<double> out;
    for (int i = 0; i < 5; ++i) {
      opt.zero_grad();
      Tensor loss = cross_entropy(net(x), labels);
      loss.backward();
      opt.step();
      out.push_back(loss.item<double>());
    }
    EXPECT_EQ(net.model().compiles(), 1u);
    return out;
  };
  std::vector<double> tape = losses("eager"), compiled = losses("aot_eager");
  EXPECT_LT(tape.back(), tape.front());
  for (size_t i = 0; i < tape.size(); ++i) EXPECT_NEAR(compiled[i], tape[i], 1e-5) << i;
}

TEST(LoadedModule, RecordsNothingWhileGradientsAreOff) {
  LoadedModule net = digits_net();
  NoGradGuard off;
  EXPECT_FALSE(Tensor(net(rand({2, 64}))).requires_grad());
}

TEST(LoadedModule, ItsWeightsGoThroughAFile) {
  LoadedModule net = digits_net(), other = digits_net();
  for (Tensor p : net.parameters()) {
    NoGradGuard off;
    p.mul_(0.5);
  }
  std::string path = testing::TempDir() + "loaded_module.safetensors";
  net.save_state(path);
  other.load_state(path);
  Tensor x = rand({2, 64});
  NoGradGuard off;
  EXPECT_TRUE(Tensor(net(x)).equal(Tensor(other(x))));
}

TEST(LoadedModule, RefusesOtherTensorsInThePlaceOfItsWeights) {
  LoadedModule net = digits_net();
  net.to(Dtype::f64);
  try {
    net(rand({2, 64}));
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter fc1.weight was replaced"));
  }
}

}  // namespace
}  // namespace tenon
