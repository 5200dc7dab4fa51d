// What tests on a device share: one is there, and results are those of the CPU.
#pragma once

#include "needs_gpu.h"

#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tenon {

inline constexpr Device gpu(DeviceType::cuda);

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    TENON_NEEDS_A_GPU();
    manual_seed(7);
  }
};

inline Tensor on_gpu(const Tensor& t) { return t.to(gpu, t.dtype()); }

/// Each element is as near as its dtype allows, relative to itself and to 1.
inline void expect_close(const Tensor& there, const Tensor& here, const std::string& what,
                         double tolerance = 0) {
  ASSERT_EQ(there.device(), gpu) << what;
  ASSERT_EQ(there.dtype(), here.dtype()) << what;
  Tensor back = there.to(kCPU, there.dtype());
  ASSERT_TRUE(back.sizes() == here.sizes()) << what;
  bool is_narrow = here.dtype() == Dtype::bf16 || here.dtype() == Dtype::f16;
  if (tolerance == 0) tolerance = is_narrow ? 2e-2 : 2e-5;
  Tensor a = back.to(Dtype::f64), b = here.to(Dtype::f64);
  Tensor off = (a - b).abs() - b.abs() * tolerance;
  if (off.numel() == 0) return;
  EXPECT_LE(static_cast<double>(off.max().item<double>()), tolerance) << what;
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

inline void expect_same(const std::string& what, const std::vector<Tensor>& inputs,
                        const Function& f) {
  SCOPED_TRACE(what);
  std::vector<Tensor> there;
  for (const Tensor& t : inputs) there.push_back(on_gpu(t));
  expect_close(f(there), f(inputs), what);
}

}  // namespace tenon
