// L-BFGS takes the steps of torch.optim.LBFGS, whoever runs its closure.
#include "unit/nn/nn_test.h"

#include <tenon/compile.h>
#include <tenon/optim/lbfgs.h>

#include <filesystem>

namespace tenon {
namespace {

const StateDict& recorded_lbfgs() {
  static const StateDict recorded = nn_recording("lbfgs");
  return recorded;
}

const std::map<std::string, optim::LBFGSOptions>& cases() {
  static const std::map<std::string, optim::LBFGSOptions> all{
      {"plain", {.lr = 0.5, .max_iter = 4}},
      {"short_history", {.lr = 0.25, .max_iter = 6, .history_size = 2}},
      {"wolfe", {.max_iter = 5, .strong_wolfe = true}},
      {"wolfe_few_calls", {.lr = 3, .max_iter = 8, .max_eval = 5, .strong_wolfe = true}},
      {"wolfe_maximize", {.max_iter = 3, .strong_wolfe = true, .maximize = true}},
      {"converges", {.tolerance_grad = 1e-2, .strong_wolfe = true}},
  };
  return all;
}

struct Problem {
  std::vector<Tensor> parameters = start_parameters(recorded_lbfgs());
  optim::LBFGS optimizer;
  bool maximizes;
  int64_t calls = 0;

  explicit Problem(const std::string& name)
      : optimizer(parameters, cases().at(name)), maximizes(cases().at(name).maximize) {}
  Tensor operator()() {
    ++calls;
    optimizer.zero_grad();
    Tensor out = tanh(recorded_lbfgs().at("x").matmul(parameters[0]) + parameters[1]);
    Tensor loss = (out - recorded_lbfgs().at("y")).square().mean();
    if (maximizes) loss = -loss;
    loss.backward();
    return loss;
  }
};

class Lbfgs : public ::testing::TestWithParam<std::string> {};

TEST_P(Lbfgs, StepsLikeThatOfPyTorch) {
  Problem problem(GetParam());
  for (int step = 0; step < 4; ++step) {
    Tensor loss = problem.optimizer.step([&] { return problem(); });
    std::string at = GetParam() + message("/{}/", step);
    EXPECT_EQ(difference(loss.detach(), recorded_lbfgs().at(at + "loss"), 1e-6), "") << at;
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(difference(problem.parameters[i], recorded_lbfgs().at(at + message("{}", i)), 1e-6),
                "")
          << at << i;
  }
  EXPECT_EQ(problem.calls, recorded_lbfgs().at(GetParam() + "/evaluations").item<int64_t>());
  EXPECT_EQ(problem.optimizer.n_evaluations(), problem.calls);
}

TEST_P(Lbfgs, GoesOnFromASavedState) {
  Problem problem(GetParam()), other(GetParam());
  auto file = (std::filesystem::temp_directory_path() / ("tenon_lbfgs_" + GetParam())).string() +
              ".safetensors";
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      problem.optimizer.save_state(file);
      other.optimizer.load_state(file);
      std::filesystem::remove(file);
      NoGradGuard no_grad;
      for (size_t i = 0; i < 2; ++i) other.parameters[i].copy_(problem.parameters[i]);
    }
    problem.optimizer.step([&] { return problem(); });
    if (step >= 2) other.optimizer.step([&] { return other(); });
  }
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(equal(problem.parameters[i], other.parameters[i])) << i;
}

TEST_P(Lbfgs, CallsACompiledClosureAndIsCalledInACompiledBody) {
  Problem plain(GetParam()), inner(GetParam()), outer(GetParam());
  auto closure = compile([&] { return inner(); }, {.backend = "aot_eager"});
  auto body = compile(
      [&](const Tensor& x) {
        return outer.optimizer.step([&] { return outer(); }).detach() + x.sum();
      },
      {.backend = "aot_eager"});
  for (int step = 0; step < 3; ++step) {
    Tensor loss = plain.optimizer.step([&] { return plain(); });
    inner.optimizer.step([&] { return closure(); });
    EXPECT_EQ(difference(body(zeros({2})), loss.detach(), 1e-6), "");
  }
  EXPECT_GT(closure.stats().compiles, 0);
  EXPECT_EQ(closure.stats().eager_calls, 0);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(difference(inner.parameters[i], plain.parameters[i]), "");
    EXPECT_EQ(difference(outer.parameters[i], plain.parameters[i]), "");
  }
}

// Steps are no two alike: numbers that they read from data are arguments of their operations.
TEST_P(Lbfgs, InACompiledBodyCompilesOnce) {
  Problem problem(GetParam());
  auto body = compile(
      [&](const Tensor& x) {
        return problem.optimizer.step([&] { return problem(); }).detach() + x.sum();
      },
      {.backend = "aot_eager"});
  body(zeros({2}));
  int64_t compiles = body.stats().compiles;
  for (int step = 0; step < 6; ++step) body(zeros({2}));
  EXPECT_EQ(body.stats().compiles, compiles);
  EXPECT_LE(compiles, 2);
  EXPECT_NE(body.explain().find("LBFGS::step() at "), std::string::npos) << body.explain();
  EXPECT_NE(body.explain().find("lbfgs_test.cpp:"), std::string::npos) << body.explain();
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, options] : cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Recorded, Lbfgs, ::testing::ValuesIn(case_names()),
                         [](const auto& info) { return info.param; });

TEST(LbfgsOfComplexNumbers, TakesThemAsPairs) {
  Tensor pair = tensor({0.5F, -1.0F, 2.0F, 1.0F}).reshape({2, 2}).requires_grad_();
  Tensor whole = view_as_complex(pair.detach().clone()).requires_grad_();
  auto descend = [](const Tensor& parameter, auto pairs_of) {
    optim::LBFGS optimizer({parameter}, {.lr = 0.5, .max_iter = 4});
    for (int i = 0; i < 2; ++i)
      optimizer.step([&] {
        optimizer.zero_grad();
        Tensor loss = (pairs_of(parameter) - 0.25).square().sum();
        loss.backward();
        return loss;
      });
  };
  descend(pair, [](const Tensor& t) { return t; });
  descend(whole, [](const Tensor& t) { return view_as_real(t); });
  EXPECT_EQ(difference(view_as_real(whole.detach()), pair.detach(), 1e-6), "");
}

TEST(LbfgsErrors, LeaveTheParametersInPlace) {
  Problem problem("wolfe");
  problem.optimizer.step([&] { return problem(); });
  std::vector<Tensor> before;
  for (const Tensor& p : problem.parameters) before.push_back(p.detach().clone());
  int64_t calls = 0;
  EXPECT_THROW(problem.optimizer.step([&]() -> Tensor {
    if (++calls == 2) throw std::runtime_error("in the search");
    return problem();
  }),
               std::runtime_error);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(equal(problem.parameters[i], before[i]));
  Tensor first = problem.optimizer.step([&] { return problem(); });
  EXPECT_LT(problem().item<float>(), first.item<float>());
}

TEST(LbfgsErrors, NameWhatIsWrong) {
  Problem problem("plain");
  EXPECT_EQ(message_of([&] { problem.optimizer.Optimizer::step(); }), "no error");
  problem();
  EXPECT_EQ(message_of([&] { problem.optimizer.Optimizer::step(); }),
            "LBFGS: parameters are not updated one by one; call step(closure)");
  EXPECT_EQ(message_of([&] { problem.optimizer.step([] { return zeros({2}); }); }),
            "LBFGS: the closure must return the loss, one number, found f32[2]");
  EXPECT_EQ(message_of([&] { optim::LBFGS({zeros({2}).requires_grad_()}, {.max_iter = 0}); }),
            "LBFGS: expected max_iter and history_size of 1 or more, found 0 and 100");
  EXPECT_EQ(message_of([&] { problem.optimizer.load_state_dict({}); }),
            "LBFGS: the state has no group.0.lr; is it that of another optimizer?");
  StateDict state = problem.optimizer.state_dict();
  state["lbfgs.numbers"] = Tensor();
  EXPECT_EQ(message_of([&] { problem.optimizer.load_state_dict(state); }),
            "LBFGS: the state has no lbfgs.numbers of 4 or more; is it that of another optimizer?");
  state["group.0.lr"] = Tensor();
  EXPECT_EQ(message_of([&] { problem.optimizer.load_state_dict(state); }),
            "LBFGS: group.0.lr: expected 1 numbers, found an undefined tensor");
}

}  // namespace
}  // namespace tenon
