// Checking models that are trained: what a step moves, and what the verdicts measure against.
#include "debug/model_check.h"
#include "folders.h"

#include "formats/tensors.h"

#include <tenon/ops.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

const std::string archive = source_path("tests/data/models/mlp_digits_train.pt2");

std::vector<double> values_of(const Tensor& t) { return t.to(Dtype::f64).to_vector<double>(); }

TEST(TrainedModel, StepsMoveTheWeightsOfTheirRunnerOnly) {
  auto program = std::make_shared<const formats::Pt2Program>(formats::read_pt2(archive));
  ModelRunner runner(program, {.backend = "eager", .training = true});
  formats::NamedTensors recording =
      formats::read_tensors(source_path("tests/data/models/mlp_digits_train.io.safetensors"));
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < runner.model().leaves.size(); ++i)
    leaves.push_back(recording.tensors.at("in." + std::to_string(i)));
  NamedTensorMap gradients;
  runner.run_with_gradients(leaves, gradients);
  ASSERT_FALSE(gradients.empty());
  const std::string& name = gradients.begin()->first;
  std::vector<double> before = values_of(runner.weight(name).detach());

  runner.sgd_step(0.1);
  EXPECT_NE(values_of(runner.weight(name).detach()), before);
  EXPECT_EQ(values_of(ModelRunner(program, {.backend = "eager"}).weight(name)), before);
  runner.reset_weights();
  EXPECT_EQ(values_of(runner.weight(name).detach()), before);
}

// What eager computes is not beyond twice its own error; losses of steps are judged like the rest.
TEST(TrainedModel, EveryTensorIsJudgedByDoublePrecision) {
  ModelCases cases = find_cases({archive});
  CheckSettings settings;
  settings.grad = true;
  settings.against = Against::fp64;
  CaseResult result = check_model(cases.models.at(0), "eager", settings).at(0);
  EXPECT_TRUE(result.ok);
  bool has_losses = false;
  for (const CheckedTensor& tensor : result.tensors) {
    ASSERT_TRUE(tensor.double_error) << tensor.name;
    EXPECT_LT(*tensor.double_error, 1e-3) << tensor.name;
    EXPECT_EQ(*tensor.allowed_error, 2 * *tensor.double_error) << tensor.name;
    has_losses = has_losses || tensor.name == "sgd.losses";
  }
  EXPECT_TRUE(has_losses);
}

}  // namespace
}  // namespace tenon
