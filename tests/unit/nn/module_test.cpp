// Modules find their members; states are saved, loaded and refused.
#include "unit/nn/nn_test.h"

#include <tenon/nn/utils.h>

#include <filesystem>

namespace tenon {
namespace {

using ::testing::ElementsAre;

struct Block : nn::Module {
  nn::Linear fc{3, 3};
  nn::Parameter scale{ones({1})};
  TENON_MODULE(Block, fc, scale)
  Tensor forward(const Tensor& x) { return relu(fc(x)) * scale + x; }
};

struct Net : nn::Module {
  std::vector<Block> blocks = std::vector<Block>(2);
  std::optional<nn::Linear> skipped;
  std::map<std::string, nn::Linear> heads{{"a", nn::Linear(3, 2)}};
  std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(3, 3);
  nn::Buffer count{zeros({}, Dtype::i64)};
  nn::Buffer scratch{zeros({2}), /*persistent=*/false};
  nn::Dropout drop{0.5};
  TENON_MODULE(Net, blocks, skipped, heads, shared, count, scratch, drop)
  Tensor forward(Tensor x) {
    for (Block& b : blocks) x = b(x);
    return heads.at("a")(drop((*shared)(x)));
  }
};

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> out;
  for (const auto& one : all) out.push_back(one.name);
  return out;
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> out;
  for (const auto& [name, t] : state) out.push_back(name);
  return out;
}

TEST(Modules, NameParametersByTheirMembers) {
  Net net;
  EXPECT_THAT(names_of(net.named_parameters()),
              ElementsAre("blocks.0.fc.weight", "blocks.0.fc.bias", "blocks.0.scale",
                          "blocks.1.fc.weight", "blocks.1.fc.bias", "blocks.1.scale",
                          "heads.a.weight", "heads.a.bias", "shared.weight", "shared.bias"));
  EXPECT_THAT(names_of(net.named_buffers()), ElementsAre("count", "scratch"));
  EXPECT_THAT(names_of(net.named_children()),
              ElementsAre("blocks.0", "blocks.1", "heads.a", "shared", "drop"));
  EXPECT_EQ(net.named_modules().size(), 8u);
  EXPECT_EQ(net.state_dict().size(), 11u) << "the scratch buffer is not part of the state";
  EXPECT_EQ(to_text(net),
            "Net(blocks.0: Block(fc: Linear), blocks.1: Block(fc: Linear), heads.a: Linear, "
            "shared: Linear, drop: Dropout)");
}

TEST(Modules, CountSharedParametersOnce) {
  Net net;
  net.heads.at("a").weight = net.blocks[0].fc.weight;
  EXPECT_EQ(net.parameters().size(), 9u);
  EXPECT_EQ(net.state_dict().size(), 11u);
  net.to(Dtype::f64);
  EXPECT_TRUE(net.heads.at("a").weight.is_same(net.blocks[0].fc.weight));
}

TEST(Modules, SwitchModesAllTheWayDown) {
  Net net;
  EXPECT_TRUE(net.drop.is_training());
  net.eval();
  EXPECT_FALSE(net.drop.is_training());
  net.train();
  EXPECT_TRUE(net.blocks[1].fc.is_training());
}

TEST(Modules, CopiesShareParametersButNotTheMode) {
  Net net, copy = net;
  copy.eval();
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(copy.blocks[1].scale.is_same(net.blocks[1].scale));
}

struct Tied : nn::Module {
  nn::Linear in{3, 3}, out{3, 3};
  nn::Buffer count{zeros({})};
  nn::Dropout drop{0.5};
  TENON_MODULE(Tied, in, out, count, drop)
  Tied() { out.weight = in.weight; }
};

TEST(Clones, HaveTensorsOfTheirOwn) {
  Tied net;
  net.in.bias.requires_grad_(false);
  net.drop.eval();
  Tied copy = nn::clone(net);
  EXPECT_EQ(difference(copy.in.weight, net.in.weight), "");
  EXPECT_TRUE(copy.out.weight.is_same(copy.in.weight));
  EXPECT_TRUE(copy.in.weight.requires_grad() && copy.in.weight.is_leaf());
  EXPECT_FALSE(copy.in.bias.requires_grad());
  EXPECT_FALSE(copy.drop.is_training());
  Tensor before = net.in.weight.detach().clone();
  nn::init::zeros_(copy.in.weight);
  copy.count.fill_(3);
  EXPECT_EQ(difference(net.in.weight, before), "");
  EXPECT_EQ(number_of(net.count), 0);
}

TEST(Clones, OfSequentialsReachTheirSteps) {
  nn::Sequential net{nn::Linear(2, 2)}, copy = nn::clone(net);
  nn::init::zeros_(copy.at<nn::Linear>(0).weight);
  EXPECT_GT(number_of(net.at<nn::Linear>(0).weight.abs().sum()), 0);
}

TEST(Clones, RefuseModulesThatTheCopyWouldShare) {
  Net net;
  EXPECT_EQ(message_of([&] { nn::clone(net); }),
            "clone: shared of this Net is held by a shared pointer, which the copy shares; make a "
            "second module, and have it load_state_dict(first.state_dict())");
}

TEST(Parameters, BecomeAVectorAndComeBack) {
  Block block;
  Tensor all = nn::utils::parameters_to_vector(block.parameters());
  EXPECT_EQ(all.size(0), 13);
  EXPECT_TRUE(all.requires_grad());
  nn::utils::vector_to_parameters(arange(13).to(Dtype::f32), block.parameters());
  EXPECT_EQ(number_of(block.fc.weight.select(0, 1).select(0, 2)), 5);
  EXPECT_EQ(number_of(block.scale.sum()), 12);
  EXPECT_EQ(message_of([&] { nn::utils::vector_to_parameters(ones({12}), block.parameters()); }),
            "vector_to_parameters: expected a vector of 13 numbers, found f32[12]");
}

TEST(Modules, ConvertFloatingTensorsOnly) {
  Net net;
  net.blocks[0].scale.requires_grad_(false);
  net.to(Dtype::f64);
  EXPECT_EQ(net.blocks[0].fc.weight.dtype(), Dtype::f64);
  EXPECT_TRUE(net.blocks[0].fc.weight.requires_grad());
  EXPECT_FALSE(net.blocks[0].scale.requires_grad());
  EXPECT_EQ(net.count.dtype(), Dtype::i64);
  EXPECT_EQ(net(ones({1, 3}, Dtype::f64)).dtype(), Dtype::f64);
  EXPECT_EQ(message_of([&] { net.to(Dtype::i32); }),
            "Net.to: expected a floating dtype, found i32");
}

TEST(Modules, ClearGradients) {
  Net net;
  net(ones({2, 3})).sum().backward();
  EXPECT_TRUE(net.blocks[0].fc.weight.grad().defined());
  net.zero_grad();
  for (const auto& [name, p] : net.named_parameters()) EXPECT_FALSE(p.grad().defined()) << name;
}

TEST(Modules, FreezeTheirParameters) {
  Net net;
  net.requires_grad_(false);
  EXPECT_FALSE(net(ones({1, 3})).requires_grad());
}

TEST(Modules, AreChangedByAFunctionChildrenFirst) {
  Net net;
  std::vector<std::string> seen;
  net.apply([&](nn::Module& m) { seen.emplace_back(m.type_name()); });
  EXPECT_THAT(seen, ElementsAre("Linear", "Block", "Linear", "Block", "Linear", "Linear", "Dropout",
                                "Net"));
}

TEST(States, AreCopiedIntoTheParameters) {
  Net from, to;
  to.load_state_dict(from.state_dict());
  from.eval();
  to.eval();
  Tensor x = randn({2, 3});
  EXPECT_EQ(difference(from(x), to(x), 1e-6), "");
  EXPECT_FALSE(to.blocks[0].scale.is_same(from.blocks[0].scale));
}

TEST(States, ThatDifferAreRefusedWithAllNames) {
  nn::Sequential net{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1)};
  StateDict state = net.state_dict();
  state.erase("0.bias");
  state["1.weight"] = ones({1});
  state["2.weight"] = ones({1, 4});
  EXPECT_EQ(message_of([&] { net.load_state_dict(state); }),
            "load_state_dict: the state is not that of this Sequential:\n"
            "  missing: 0.bias\n"
            "  unexpected: 1.weight\n"
            "  2.weight: expected f32[1, 3], found f32[1, 4]\n"
            "strict = false takes what fits by name");
  EXPECT_EQ(message_of([&] { net.load_state_dict(state, /*strict=*/false); }),
            "load_state_dict: the state is not that of this Sequential:\n"
            "  2.weight: expected f32[1, 3], found f32[1, 4]");
  state["2.weight"] = ones({1, 3});
  nn::StateDifference left = net.load_state_dict(state, /*strict=*/false);
  EXPECT_THAT(left.missing, ElementsAre("0.bias"));
  EXPECT_THAT(left.unexpected, ElementsAre("1.weight"));
}

TEST(States, WithUndefinedTensorsAreRefusedByName) {
  nn::Linear net(2, 3);
  StateDict state = net.state_dict();
  state["weight"] = Tensor();
  for (bool strict : {true, false})
    EXPECT_EQ(message_of([&] { net.load_state_dict(state, strict); }),
              "load_state_dict: the state is not that of this Linear:\n"
              "  weight: expected f32[3, 2], found an undefined tensor");
}

nn::Sequential recorded_net() {
  return nn::Sequential{nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::Flatten(), nn::Linear(8, 3)};
}

TEST(States, OfPyTorchAreReadAndWrittenAgain) {
  std::string recorded = source_path("tests/data/nn/net.safetensors");
  nn::Sequential net = recorded_net();
  net.load_state(recorded);
  // Left there: tests/nn/make_nn_cases.py --check reads this one.
  auto written = std::filesystem::temp_directory_path() / "tenon_nn_written.safetensors";
  net.save_state(written.string());
  StateDict expected = load_tensors(recorded), found = load_tensors(written.string());
  ASSERT_EQ(names_of(found), names_of(expected));
  for (const auto& [name, t] : expected) EXPECT_TRUE(equal(found[name], t)) << name;
}

TEST(States, ThatCannotBeReadNameTheFile) {
  nn::Sequential net = recorded_net();
  EXPECT_THAT(message_of([&] { net.load_state("no_such_file.safetensors"); }),
              ::testing::HasSubstr("no_such_file.safetensors"));
}

TEST(Sequentials, CallOneAfterTheOther) {
  nn::Linear first(2, 3);
  nn::Sequential net{first, nn::ReLU()};
  net.push_back("last", nn::Linear(3, 1));
  Tensor x = randn({4, 2});
  Tensor expected = static_cast<nn::Linear&>(net[2])(relu(first(x)));
  EXPECT_EQ(difference(net(x), expected, 1e-6), "");
  EXPECT_THAT(names_of(net.state_dict()),
              ElementsAre("0.bias", "0.weight", "last.bias", "last.weight"));
  EXPECT_EQ(message_of([&] { net[3]; }), "Sequential: expected an index below 3, found 3");
}

TEST(Sequentials, GiveTheirModulesOneByOne) {
  nn::Sequential net{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1)};
  Tensor x = ones({4, 2}), y = x;
  for (const nn::AnyModule& module : net) y = module(y);
  EXPECT_EQ(difference(y, net(x).detach()), "");
  for (nn::AnyModule& module : net) module->requires_grad_(false);
  EXPECT_FALSE(net.at<nn::Linear>(2).weight.requires_grad());
  EXPECT_EQ(message_of([&] { net.at<nn::Linear>(1); }),
            "Sequential: step 1 is a ReLU, which is not the class that was asked for");
}

TEST(Sequentials, CopiesHaveAModeOfTheirOwn) {
  nn::Sequential net{nn::Dropout(0.5)}, copy = net;
  copy.eval();
  EXPECT_TRUE(net[0].is_training());
  EXPECT_FALSE(copy[0].is_training());
}

struct Stack : nn::Module {
  nn::ModuleList<nn::Linear> layers{{nn::Linear(2, 2), nn::Linear(2, 2)}};
  TENON_MODULE(Stack, layers)
  Tensor forward(Tensor x) {
    for (auto& l : layers) x = l(x);
    return x;
  }
};

TEST(ModuleLists, AreLoopedOver) {
  Stack stack;
  EXPECT_EQ(to_text(stack(ones({1, 2})).sizes()), "[1, 2]");
  EXPECT_EQ(names_of(stack.named_parameters())[2], "layers.1.weight");
}

TEST(Networks, LearnToSeparatePoints) {
  manual_seed(1);
  Tensor x = randn({64, 4}), y = (x.select(1, 0) > 0).to(Dtype::i64);
  nn::Sequential net{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)};
  double first = number_of(cross_entropy(net(x), y)), last = first;
  for (int step = 0; step < 60; ++step) {
    net.zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    NoGradGuard no_grad;
    for (const Tensor& p : net.parameters()) p.sub_(p.grad(), 0.5);
    last = number_of(loss);
  }
  EXPECT_LT(last, first / 4);
}

}  // namespace
}  // namespace tenon
