// Optimisers and clipping give the numbers of torch.optim.
#include "unit/nn/nn_test.h"

#include <tenon/compile.h>
#include <tenon/optim/adaptive.h>

#include <filesystem>
#include <limits>

namespace tenon {
namespace {

using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& parameters)>;

template <class O, class Options>
MakeOptimizer with(Options options) {
  return [options](const std::vector<Tensor>& p) { return std::make_unique<O>(p, options); };
}

std::unique_ptr<optim::Optimizer> two_groups(const std::vector<Tensor>& p) {
  auto sgd = std::make_unique<optim::SGD>(std::vector{p[0]}, optim::SGDOptions{.lr = 0.1});
  sgd->add_param_group({p[1]}, {.lr = 0.5});
  return sgd;
}

const std::map<std::string, MakeOptimizer>& optimizers() {
  using namespace optim;  // NOLINT: a table of its names
  static const std::map<std::string, MakeOptimizer> all{
      {"sgd", with<SGD>(SGDOptions{.lr = 0.1})},
      {"sgd_momentum", with<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01})},
      {"sgd_dampening", with<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3})},
      {"sgd_nesterov", with<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.8, .nesterov = true})},
      {"sgd_maximize", with<SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.1, .maximize = true})},
      {"adam", with<Adam>(AdamOptions{.lr = 0.01})},
      {"adam_decay",
       with<Adam>(AdamOptions{.lr = 0.01, .betas = {0.8, 0.99}, .weight_decay = 0.1})},
      {"adam_amsgrad", with<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true, .maximize = true})},
      {"adamw", with<AdamW>(AdamWOptions{.lr = 0.01})},
      {"adamw_options",
       with<AdamW>(AdamWOptions{.lr = 0.02, .eps = 1e-4, .weight_decay = 0.2, .amsgrad = true})},
      {"rmsprop", with<RMSprop>(RMSpropOptions{.lr = 0.01})},
      {"rmsprop_centered",
       with<RMSprop>(RMSpropOptions{.lr = 0.01, .alpha = 0.9, .centered = true})},
      {"rmsprop_momentum",
       with<RMSprop>(RMSpropOptions{
           .lr = 0.01, .weight_decay = 0.1, .momentum = 0.7, .centered = true, .maximize = true})},
      {"adagrad", with<Adagrad>(AdagradOptions{.lr = 0.1})},
      {"adagrad_options", with<Adagrad>(AdagradOptions{.lr = 0.1,
                                                       .lr_decay = 0.2,
                                                       .weight_decay = 0.1,
                                                       .initial_accumulator_value = 0.5,
                                                       .eps = 1e-6,
                                                       .maximize = true})},
      {"adadelta", with<Adadelta>(AdadeltaOptions{})},
      {"adadelta_options",
       with<Adadelta>(AdadeltaOptions{.lr = 0.5, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.1})},
      {"adamax", with<Adamax>(AdamaxOptions{.lr = 0.01})},
      {"adamax_options",
       with<Adamax>(AdamaxOptions{.lr = 0.02, .betas = {0.7, 0.9}, .weight_decay = 0.1})},
      {"nadam", with<NAdam>(NAdamOptions{.lr = 0.01})},
      {"nadam_options", with<NAdam>(NAdamOptions{.lr = 0.02,
                                                 .betas = {0.8, 0.95},
                                                 .weight_decay = 0.1,
                                                 .momentum_decay = 0.1,
                                                 .decoupled_weight_decay = true,
                                                 .maximize = true})},
      {"radam", with<RAdam>(RAdamOptions{.lr = 0.01})},
      {"radam_options",
       with<RAdam>(RAdamOptions{
           .lr = 0.02, .betas = {0.8, 0.9}, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"groups", two_groups},
  };
  return all;
}

const StateDict& recorded_optim() {
  static const StateDict recorded = nn_recording("optim");
  return recorded;
}

std::string numbered(std::string_view pattern, int step, size_t i) {
  return message(pattern, step, i);
}

void set_gradients(const std::vector<Tensor>& parameters, int step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto at = recorded_optim().find(numbered("grad/{}/{}", step, i));
    parameters[i].set_grad(at == recorded_optim().end() ? Tensor() : at->second.clone());
  }
}

void one_step(optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, int step) {
  set_gradients(parameters, step);
  optimizer.step();
  optimizer.lr *= 0.9;
}

class Optimizers : public ::testing::TestWithParam<std::string> {};

TEST_P(Optimizers, StepLikeThoseOfPyTorch) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  auto optimizer = optimizers().at(GetParam())(parameters);
  for (int step = 0; step < 5; ++step) {
    one_step(*optimizer, parameters, step);
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(difference(parameters[i],
                           recorded_optim().at(GetParam() + numbered("/{}/{}", step, i)), 1e-6),
                "")
          << "parameter " << i << " after step " << step;
  }
}

// Two weights, as the recordings have: pairs of numbers and complex numbers take the same steps.
TEST_P(Optimizers, TakeComplexNumbersAsPairs) {
  auto numbers = [](double from) {
    Tensor pairs = (arange(12, Dtype::f32).reshape({3, 2, 2}) * 0.3 + from).sin();
    return std::vector{pairs.slice(0, 1), pairs.slice(0, 0, 1)};
  };
  std::vector<Tensor> pairs, wholes;
  for (const Tensor& t : numbers(0)) {
    pairs.push_back(t.clone().requires_grad_());
    wholes.push_back(view_as_complex(t.clone()).requires_grad_());
  }
  auto with_pairs = optimizers().at(GetParam())(pairs);
  auto with_wholes = optimizers().at(GetParam())(wholes);
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> grads = numbers(step + 1);
    for (size_t i = 0; i < pairs.size(); ++i) {
      pairs[i].set_grad(grads[i].clone());
      wholes[i].set_grad(view_as_complex(grads[i].clone()));
    }
    with_pairs->step();
    with_wholes->step();
    for (size_t i = 0; i < pairs.size(); ++i)
      EXPECT_EQ(difference(view_as_real(wholes[i].detach()), pairs[i].detach(), 1e-6), "");
  }
}

TEST_P(Optimizers, GoOnFromASavedState) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  auto optimizer = optimizers().at(GetParam())(parameters);
  for (int step = 0; step < 3; ++step) one_step(*optimizer, parameters, step);
  auto file = (std::filesystem::temp_directory_path() / ("tenon_optim_" + GetParam())).string() +
              ".safetensors";
  optimizer->save_state(file);

  std::vector<Tensor> others;
  for (const Tensor& p : parameters) others.push_back(p.detach().clone().requires_grad_());
  auto other = optimizers().at(GetParam())(others);
  other->load_state(file);
  std::filesystem::remove(file);
  for (int step = 3; step < 5; ++step) {
    one_step(*optimizer, parameters, step);
    one_step(*other, others, step);
  }
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(equal(parameters[i], others[i]));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : optimizers()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Recorded, Optimizers, ::testing::ValuesIn(optimizer_names()),
                         [](const auto& info) { return info.param; });

TEST_P(Optimizers, AreRecordedOnceWhateverTheRate) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim()),
                      others = start_parameters(recorded_optim());
  auto eager = optimizers().at(GetParam())(parameters),
       recorded = optimizers().at(GetParam())(others);
  for (int i = 0; i < 2; ++i) set_gradients(i == 0 ? parameters : others, 0);
  auto step = compile(
      [&](const Tensor& x) {
        recorded->step();
        return x * 2;
      },
      {.backend = "aot_eager", .fullgraph = true});
  for (int i = 0; i < 4; ++i) {
    eager->step();
    step(ones({1}));
    eager->lr *= 0.5;
    recorded->lr *= 0.5;
  }
  EXPECT_EQ(step.stats().compiles, 1);
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(difference(others[i], parameters[i]), "");
}

TEST(OptimizerState, IsThereBeforeTheFirstStep) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  optim::Adam adam(parameters);
  std::vector<Tensor> before;
  for (const auto& [name, t] : adam.state_dict()) before.push_back(t);
  one_step(adam, parameters, 0);
  size_t i = 0;
  for (const auto& [name, t] : adam.state_dict()) EXPECT_TRUE(t.is_same(before[i++])) << name;
}

TEST(OptimizerState, OfAnotherOptimizerIsRefused) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  optim::Adam adam(parameters);
  optim::SGD sgd(parameters);
  EXPECT_EQ(message_of([&] { adam.load_state_dict(sgd.state_dict()); }),
            "optimizer: the state has no state.0.exp_avg; is it that of another optimizer?");
  EXPECT_EQ(message_of([&] { sgd.load_state_dict(adam.state_dict()); }),
            "optimizer: the state has state.0.exp_avg, which this optimizer has not");
  StateDict state = sgd.state_dict();
  state["group.0.lr"] = Tensor();
  EXPECT_EQ(message_of([&] { sgd.load_state_dict(state); }),
            "optimizer: group.0.lr: expected f64[], found an undefined tensor");
}

TEST(LearningRates, AreReadAndWrittenLikeNumbers) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  optim::SGD sgd({parameters[0]}, {.lr = 0.5});
  sgd.add_param_group({parameters[1]}, {.lr = 0.25});
  sgd.lr *= 0.5;
  EXPECT_EQ(sgd.lr, 0.25);
  EXPECT_EQ(sgd.groups()[1].lr, 0.125);
  sgd.groups()[1].lr = 3;
  EXPECT_EQ(sgd.lr, 0.25);
  sgd.lr = 1;
  EXPECT_EQ(sgd.groups()[1].lr, 1);
}

TEST(OptimizerMessages, SayWhichParameterIsWrong) {
  Tensor leaf = ones({2}).requires_grad_();
  EXPECT_EQ(message_of([&] {
              optim::SGD({leaf, leaf});
            }),
            "optimizer: parameter number 1 (f32[2]) is there twice; each belongs to one group");
  EXPECT_EQ(message_of([&] { optim::SGD({leaf * 2}); }),
            "optimizer: expected floating or complex leaves as parameters, found f32[2]; pass what "
            "module.parameters() gives");
  EXPECT_EQ(message_of([&] { optim::SGD(std::vector<Tensor>{}); }),
            "optimizer: expected parameters, found an empty list");
  EXPECT_EQ(message_of([&] { optim::SGD({leaf}, {.lr = -1}); }),
            "SGD: expected lr of 0 or more, found -1");
  EXPECT_EQ(message_of([&] {
              optim::Adam({leaf}, {.betas = {0.9, 1}});
            }),
            "Adam: expected the second beta in [0, 1), found 1");
  EXPECT_EQ(message_of([&] { optim::SGD({leaf}, {.nesterov = true}); }),
            "SGD: nesterov needs momentum > 0 and dampening = 0, found 0 and 0");
}

TEST(ZeroGrad, ClearsOrZeroes) {
  std::vector<Tensor> parameters = start_parameters(recorded_optim());
  optim::SGD sgd(parameters);
  set_gradients(parameters, 0);
  sgd.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(number_of(parameters[0].grad().abs().sum()), 0);
  sgd.zero_grad();
  EXPECT_FALSE(parameters[0].grad().defined());
}

TEST(AdamAtRateZero, LeavesParametersAsTheyAre) {
  Tensor p = ones({3}).requires_grad_();
  optim::Adam adam({p}, {.lr = 0});
  p.set_grad(zeros({3}));
  adam.step();
  EXPECT_EQ(p.detach().to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(ClipGradNorm, ScalesAsPyTorchDoes) {
  for (auto [name, norm] : {std::pair{"clip_1.0", 1.0}, std::pair{"clip_2.0", 2.0},
                            std::pair{"clip_inf", std::numeric_limits<double>::infinity()}}) {
    std::vector<Tensor> parameters = start_parameters(recorded_optim());
    set_gradients(parameters, 0);
    StateDict expected = below(recorded_optim(), name);
    Tensor total = optim::clip_grad_norm_(parameters, 0.8, norm);
    EXPECT_EQ(difference(total, expected.at("norm"), 1e-6), "") << name;
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(difference(parameters[i].grad(), expected.at(std::to_string(i)), 1e-6), "");
  }
}

TEST(ClipGradValue, BoundsEachElement) {
  Tensor p = ones({3}).requires_grad_();
  p.set_grad(tensor<float>({-2, 0.25F, 9}));
  optim::clip_grad_value_({p}, 0.5);
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{-0.5F, 0.25F, 0.5F}));
}

}  // namespace
}  // namespace tenon
