// Eager kernels of plugins ([[kernels]]): tried by priority before the host's own, loaded at the
// first call of one of their ops, asked again for each call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "ops/op_table.h"
#include "plugins/own_process.h"

#include <tenon/tenon.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool is_mapped(const std::string& file) {
  std::stringstream text;
  text << std::ifstream("/proc/self/maps").rdbuf();
  return text.str().find(file) != std::string::npos;
}

class Kernels : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_TEST_KERNELS_DIR}); }
};

TEST_F(Kernels, AreLoadedAtTheFirstCallOfOneOfTheirOps) {
  in_own_process([] {
    relu(ones({2}));
    EXPECT_THAT(kernel_plugins("aten.digamma.default"),
                ElementsAre("test_kernels_b", "test_kernels_a"));
    EXPECT_EQ(find_op("aten.digamma.default")->foreign_kernels().size(), 2u);
    EXPECT_FALSE(is_mapped("tenon_test_kernels"));
    EXPECT_THAT(digamma(ones({2})).to_vector<float>(), ElementsAre(2, 2));
    EXPECT_TRUE(is_mapped("tenon_test_kernels_b.so"));
    EXPECT_FALSE(is_mapped("tenon_test_kernels_a.so"));
  });
}

TEST_F(Kernels, AreTriedByPriorityUntilOneTakesTheCall) {
  in_own_process([] {
    EXPECT_THAT(digamma(ones({2})).to_vector<float>(), ElementsAre(2, 2));
    EXPECT_THAT(digamma(ones({3})).to_vector<float>(), ElementsAre(1, 1, 1));
    double euler = -0.57721566490153286;
    EXPECT_NEAR(digamma(ones({2}).to(Dtype::f64)).to_vector<double>()[0], euler, 1e-12);
    EXPECT_EQ(digamma(ones({2}).to(Dtype::bf16)).dtype(), Dtype::bf16);
  });
}

TEST_F(Kernels, ServeCompiledCodeThatRunsNodeByNode) {
  in_own_process([] {
    auto f = compile([](const Tensor& x) { return digamma(x) * 3; }, {.backend = "eager"});
    EXPECT_THAT(f(ones({2})).to_vector<float>(), ElementsAre(6, 6));
  });
}

TEST_F(Kernels, ErrorsNameTheOpAndThePlugin) {
  in_own_process([] {
    try {
      erfinv(zeros({2}));
      ADD_FAILURE() << "no error";
    } catch (const UserError& e) {
      EXPECT_STREQ(e.what(), "told to fail (kernel aten.erfinv.default of test_kernels_a)");
    }
  });
}

TEST_F(Kernels, ResultsThatTheOpDoesNotPromiseAreNamed) {
  in_own_process([] {
    auto error_of = [](int64_t n) -> std::string {
      try {
        special_i1(ones({n}));
      } catch (const BackendError& e) {
        return e.what();
      }
      return "no error";
    };
    EXPECT_THAT(error_of(1),
                HasSubstr("aten.special_i1.default: result 0 is i64[1] with strides "
                          "[1], expected f32[1] with strides [1]; this is a bug of the "
                          "plugin test_kernels_a"));
    EXPECT_THAT(error_of(2), HasSubstr("aten.special_i1.default: result 0 is missing"));
    EXPECT_THAT(error_of(3), HasSubstr("expected f32[3] with strides [1]"));
  });
}

TEST_F(Kernels, AKernelThatAsksForItsOwnOpGetsTheNextRow) {
  in_own_process(
      [] { EXPECT_NEAR(lgamma(ones({2}) * 4).to_vector<float>()[0], 1.7917595f, 1e-5f); });
}

// Whoever calls before they are attached gets the host's own kernel, nobody anything else.
TEST_F(Kernels, AreAttachedWhileOthersCall) {
  in_own_process([] {
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          float result = digamma(ones({2})).to_vector<float>()[0];
          wrong += result != 2 && std::abs(result + 0.5772157f) > 1e-6f;
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(digamma(ones({2})).to_vector<float>()[0], 2);
  });
}

}  // namespace
}  // namespace tenon
