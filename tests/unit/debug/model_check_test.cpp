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

// `noise` returns x * 2, x + randn_like(x) and dropout(x, 0.5); its recording has the first one only.
TEST(RandomModel, IsComparedWithWhatEagerDrawsFromTheSameSeed) {
  ModelCases cases = find_cases({source_path("tests/data/random/noise.pt2")});
  for (const char* backend : {"eager", "aot_eager"})
    EXPECT_TRUE(check_model(cases.models.at(0), backend, {}).at(0).ok) << backend;

  formats::NamedTensors recording = formats::read_tensors(cases.models[0].recordings[0].file);
  recording.tensors["out.1"] = recording.tensors["out.2"] = zeros({3, 4});
  RecordedFile& file = cases.models[0].recordings[0];
  file.file = testing::TempDir() + "noise.io.safetensors";
  formats::write_tensors(file.file, recording);
  for (const char* backend : {"eager", "aot_eager"}) {
    CaseResult result = check_model(cases.models[0], backend, {}).at(0);
    EXPECT_FALSE(result.ok) << backend;
    EXPECT_TRUE(result.note.find("draws random numbers (aten.randn_like") != std::string::npos)
        << result.note;
    CheckSettings settings;
    settings.against = Against::eager;
    EXPECT_TRUE(check_model(cases.models[0], backend, settings).at(0).ok) << backend;
  }
}

}  // namespace
}  // namespace tenon
