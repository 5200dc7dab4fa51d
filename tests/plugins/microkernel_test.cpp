// Blocked products beside sums in f64: shapes around the borders of tiles, panels and blocks.
#include <gtest/gtest.h>
#include <microkernel/product.h>

#include <cmath>
#include <random>
#include <vector>

namespace {

using microkernel::Finish;
using microkernel::Kernels;

std::vector<float> random_floats(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = numbers(generator);
  return out;
}

struct Shape {
  int64_t m, k, n;
};

class MicrokernelProduct : public testing::TestWithParam<Shape> {
 protected:
  ~MicrokernelProduct() override { microkernel::use(usual); }
  const Kernels& usual = microkernel::kernels();
};

void check_product(Shape shape) {
  auto [m, k, n] = shape;
  int64_t left_row = k + 3, result_row = n + 5;
  std::vector<float> left = random_floats(m * left_row + 1, 1), right = random_floats(n * k + 1, 2);
  std::vector<float> bias = random_floats(n, 3), more = random_floats(m * result_row, 4);
  std::vector<float> result(static_cast<size_t>(m * result_row), 77.0f);
  microkernel::Panels panels{k, n};
  std::vector<float> packed(static_cast<size_t>(panels.size()));
  for (int64_t p = 0; p < panels.count(); ++p)  // weights as a layer has them: [n, k]
    panels.pack(right.data(), 1, k, p, p + 1, packed.data());
  Finish finish[] = {{Finish::Kind::add, more.data()}, {Finish::Kind::relu, nullptr}};
  microkernel::Product product{panels,      left.data(),   left_row,   packed.data(),
                               bias.data(), result.data(), result_row, finish};
  int64_t half = m / 2, panel = panels.count() / 2;  // in four parts
  for (auto [row, row_end] : {std::pair{int64_t{0}, half}, std::pair{half, m}}) {
    microkernel::multiply(product, row, row_end, 0, panel);
    microkernel::multiply(product, row, row_end, panel, panels.count());
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < result_row; ++j) {
      auto at = static_cast<size_t>(i * result_row + j);
      if (j >= n) {
        ASSERT_EQ(result[at], 77.0f) << "written beside the row " << i;
        continue;
      }
      double sum = double(bias[static_cast<size_t>(j)]) + double(more[at]);
      for (int64_t p = 0; p < k; ++p)
        sum += double(left[static_cast<size_t>(i * left_row + p)]) *
               double(right[static_cast<size_t>(j * k + p)]);
      ASSERT_NEAR(double(result[at]), std::max(sum, 0.0), 1e-6 * double(k + 8)) << i << ", " << j;
    }
}

TEST_P(MicrokernelProduct, EqualsSumsInDouble) { check_product(GetParam()); }

TEST_P(MicrokernelProduct, EqualsSumsInDoubleWithNarrowVectors) {
  if (&usual == &microkernel::kernels_avx512) {
    microkernel::use(microkernel::kernels_avx2);
    check_product(GetParam());
  }
  microkernel::use(microkernel::kernels_base);
  check_product(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shapes, MicrokernelProduct,
                         testing::Values(Shape{1, 1, 1}, Shape{1, 7, 64}, Shape{2, 16, 65},
                                         Shape{3, 5, 17}, Shape{5, 383, 63}, Shape{6, 384, 64},
                                         Shape{7, 385, 128}, Shape{11, 2, 10}, Shape{13, 769, 33},
                                         Shape{50, 96, 200}, Shape{301, 400, 40}, Shape{4, 0, 20}));

}  // namespace
