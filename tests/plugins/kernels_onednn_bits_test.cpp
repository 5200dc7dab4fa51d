// Products through oneDNN: the first one of some weights, which are not packed yet, has the bits of
// those that come later.
#include "backend/catalog.h"
#include "core/threads/thread_pool.h"

#include <tenon/ops.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

void expect_same_bits(const std::string& name, const std::function<Tensor()>& product) {
  std::vector<float> first = product().contiguous().to_vector<float>();
  for (int time = 1; time < 3; ++time)
    EXPECT_EQ(product().contiguous().to_vector<float>(), first) << name << ", call " << time;
}

class KernelsOnednnBits : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    set_plugin_search({TENON_PLUGIN_DIR "/tenon_kernels_onednn.so"}, {});
    set_num_threads(GetParam());
  }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_P(KernelsOnednnBits, TheFirstProductIsAsLaterOnes) {
  for (int64_t m : {1, 4, 17, 33, 200})
    for (int64_t k : {65, 100, 512, 768, 1024})
      for (int64_t n : {10, 129, 512}) {
        std::string name = message("{} x {} x {}", m, k, n);
        Tensor x = randn({m, k}), w = randn({k, n}), layer = randn({n, k}), bias = randn({n});
        expect_same_bits(name, [&] { return x.matmul(w); });
        expect_same_bits(name + ", turned", [&] { return x.matmul(layer.t()); });
        expect_same_bits(name + ", a layer", [&] { return linear(x, layer, bias); });
      }
}

INSTANTIATE_TEST_SUITE_P(Threads, KernelsOnednnBits, testing::Values(1, 2, 4));

}  // namespace
}  // namespace tenon
