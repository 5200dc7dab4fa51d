// Calls of one compiled function with changing sizes: each recorded call gives the recorded result
// or fails as recorded, compiles a graph where PyTorch compiles one, and runs the versions that
// PyTorch runs. A recording has its function as Python text; the C++ for each text stands in
// scenario.cpp.
#include "recordings/scenario.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

using formats::JsonView;

std::vector<std::string> recorded_scenarios() {
  std::vector<std::string> files;
  for (const std::string& file : files_in(reference_folder("dynamic_shapes"), ".json"))
    if (json_file(file).optional_field("steps")) files.push_back(file);
  return files;
}

double sum_of(const Tensor& t) { return t.to(Dtype::f64).sum().item<double>(); }

void expect_tensor(const Tensor& found, JsonView expected) {
  std::vector<int64_t> sizes;
  for (JsonView size : expected.field("shape").items()) sizes.push_back(size.integer());
  ASSERT_EQ(to_text(found.sizes()), to_text(SymIntList(sizes)));
  EXPECT_EQ(torch_name_of(found.dtype()), expected.field("dtype").text());
  if (auto sum = expected.optional_field("sum")) {
    EXPECT_NEAR(sum_of(found), sum->real(), 1e-3);
    return;
  }
  std::vector<double> values = found.to(Dtype::f64).reshape({-1}).to_vector<double>();
  std::vector<JsonView> recorded = expected.field("values").items();
  ASSERT_EQ(values.size(), recorded.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], recorded[i].real(), 1e-4) << "element " << i;
}

void expect_output(const Outcome& found, JsonView expected) {
  if (!expected.is_array()) {
    ASSERT_EQ(found.tensors.size(), 1u);
    return expect_tensor(found.tensors[0], expected);
  }
  size_t n_tensors = 0, n_numbers = 0;
  for (JsonView item : expected.items()) {
    if (item.is_integer())
      EXPECT_EQ(found.numbers.at(n_numbers++).guard_int(), item.integer());
    else
      expect_tensor(found.tensors.at(n_tensors++), item);
  }
}

class DynamicShapeRecording : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    JsonView root = json_file(GetParam());
    program_ = program_of(root.field("function_source").text());
    if (!program_)
      GTEST_SKIP() << "no C++ is written down here for\n" << root.field("function_source").text();
  }
  Program program_ = nullptr;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DynamicShapeRecording);

/// What a step compiles, and the codes that it runs, numbered in the order of their compiles.
struct Versions {
  int64_t compiles;
  std::vector<int64_t> runs;
};

/// A scenario that goes another way than PyTorch, step by step.
struct Exception {
  std::string_view scenario, reason;
  std::vector<Versions> steps;
};
const Exception exceptions[] = {
    {.scenario = "mark_dynamic_violation",
     .reason = "the broken promise is found before a backend is asked; PyTorch asks it first",
     .steps = {{0, {}}, {1, {0}}, {0, {0}}}},
    {.scenario = "slice_step",
     .reason =
         "a result of one element is dense whatever its stride is, others are not: the layout "
         "of results belongs to a version, PyTorch's are those of its example",
     .steps = {{1, {0}}, {0, {0}}, {1, {1}}, {0, {0}}}},
};

Versions recorded_versions(JsonView step) {
  Versions recorded{step.field("graphs_compiled").integer(), {}};
  for (JsonView run : step.field("graphs_run").items()) recorded.runs.push_back(run.integer());
  return recorded;
}

Versions expected_versions(JsonView scenario, size_t step) {
  for (const Exception& e : exceptions)
    if (e.scenario == scenario.field("name").text()) return e.steps.at(step);
  return recorded_versions(scenario.field("steps").items().at(step));
}

void run_step(CompiledFunction<Program>& f, JsonView step, const Versions& expected) {
  StepMode mode(step);
  Arguments arguments = arguments_of(step.field("args"));
  bool failed = false;
  try {
    Outcome found = f(arguments);
    if (auto output = step.optional_field("output")) expect_output(found, *output);
  } catch (const Error& error) {
    failed = true;
    EXPECT_TRUE(step.optional_field("error")) << error.what();
  }
  EXPECT_EQ(failed, step.optional_field("error").has_value());
  EXPECT_EQ(RunWatch::take_compiles(), expected.compiles);
  EXPECT_EQ(RunWatch::take_runs(), expected.runs);
}

TEST_P(DynamicShapeRecording, IsReplayed) {
  JsonView root = json_file(GetParam());
  auto flags = flags_of(root);
  RunWatch::reset();
  CompiledFunction<Program> f(program_, options_of(root.field("compile_args")));
  size_t number = 0;
  for (JsonView step : root.field("steps").items()) {
    SCOPED_TRACE(message("step {}: {}", number, step.field("args").json().dump()));
    run_step(f, step, expected_versions(root, number++));
  }
}

TEST(DynamicShapeRecordings, AreThere) {
  EXPECT_FALSE(recorded_scenarios().empty()) << nothing_in(reference_folder("dynamic_shapes"));
}

INSTANTIATE_TEST_SUITE_P(All, DynamicShapeRecording, testing::ValuesIn(recorded_scenarios()),
                         test_name_of);

}  // namespace
}  // namespace tenon
