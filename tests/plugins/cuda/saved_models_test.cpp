// Models on a device: saved with their code, with the device in the file, and loaded again.
#include "backend/backend.h"
#include "device_work.h"
#include "folders.h"

#include <tenon/model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace tenon {
namespace {

using testing::HasSubstr;

class SingleOpSaved : public testing::Test {
 protected:
  // Graphs that the host runs are what can be saved for any device.
  void SetUp() override {
    TENON_NEEDS_THE_DOUBLE();
    register_backend(
        "runs_graphs", [](const CompileRequest& r) { return interpreter_artifact(r.graph); },
        {"debug"}, Stage::inference);
  }
  void TearDown() override { std::remove(file_.c_str()); }

  static std::string archive() { return source_path("tests/data/models/mlp_digits.pt2"); }
  static Model on(Device device) {
    return load(archive(), {.backend = "runs_graphs", .device = device});
  }
  static Tensor called(const Model& model, const Tensor& x) { return model.call({x}).tensor(); }

  std::string file_ = testing::TempDir() + "on_a_device.tenon";
  Tensor x = randn({3, 64});
};

TEST_F(SingleOpSaved, TheCodeAndItsDeviceComeBack) {
  Model model = on(gpu);
  Tensor expected = to_cpu(called(model, moved(gpu, x)));
  model.save(file_);
  Model again = load(file_);
  EXPECT_EQ(again.parameter(again.parameter_names()[0]).device(), gpu);
  Tensor y = called(again, moved(gpu, x));
  EXPECT_EQ(y.device(), gpu);
  EXPECT_TRUE(equal(to_cpu(y), expected));
  EXPECT_EQ(again.compiles(), 0u) << "the loaded code serves";
  EXPECT_LT(furthest(expected, called(on(kCPU), x)), 1e-4);
}

TEST_F(SingleOpSaved, WeightsAreSavedAsTheyAreOnTheDevice) {
  Model model = on(gpu);
  std::string name = model.parameter_names()[0];
  model.prepare({moved(gpu, x)});
  {
    NoGradGuard off;
    model.parameter(name).mul_(0.5);
  }
  Tensor expected = to_cpu(called(model, moved(gpu, x)));
  model.save(file_);
  Model again = load(file_);
  EXPECT_TRUE(equal(to_cpu(again.parameter(name)), to_cpu(model.parameter(name))));
  EXPECT_TRUE(equal(to_cpu(called(again, moved(gpu, x))), expected));
}

TEST_F(SingleOpSaved, AnotherDeviceIsAnError) {
  Model model = on(gpu);
  model.prepare({moved(gpu, x)});
  model.save(file_);
  EXPECT_EQ(load(file_, {.device = gpu}).compiles(), 0u);
  EXPECT_THAT(error_of([&] { load(file_, {.device = second_gpu}); }),
              HasSubstr("its code is for cuda:0, found LoadOptions::device cuda:1"));
}

}  // namespace
}  // namespace tenon
