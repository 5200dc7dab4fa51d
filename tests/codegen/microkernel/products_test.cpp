// Products by the microkernels beside sums in f64, for each kind of numbers and each level of
// vectors: shapes around the borders of tiles, panels, blocks and steps of k.
#include "codegen/microkernel/levels.h"
#include "plugins/random_numbers.h"

#include <gtest/gtest.h>
#include <microkernel/product.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace {

using microkernel::Element;
using microkernel::Finish;
using microkernel::PackedLeft;
using microkernel::Panels;

/// Numbers in memory of exactly their size.
class Numbers {
 public:
  Numbers(Element element, int64_t n) : element_(element) {
    bytes_.resize(size_t(n * microkernel::size_of(element)));
  }
  static Numbers random(Element element, int64_t n, unsigned seed) {
    Numbers out(element, n);
    std::vector<double> numbers = random_numbers<double>(n, seed);
    for (int64_t i = 0; i < n; ++i) out.set(i, numbers[size_t(i)]);
    return out;
  }

  void* data() { return bytes_.data(); }
  double operator[](int64_t i) const {
    if (element_ == Element::f64) return get<double>(i);
    if (element_ == Element::f32) return double(get<float>(i));
    return double(std::bit_cast<float>(uint32_t{get<uint16_t>(i)} << 16));
  }
  /// Of bf16 the upper half of the bits: the number cut off.
  void set(int64_t i, double x) {
    if (element_ == Element::f64) return put(i, x);
    if (element_ == Element::f32) return put(i, float(x));
    put(i, uint16_t(std::bit_cast<uint32_t>(float(x)) >> 16));
  }

 private:
  template <class T>
  T get(int64_t i) const {
    T x;
    std::memcpy(&x, bytes_.data() + size_t(i) * sizeof x, sizeof x);
    return x;
  }
  template <class T>
  void put(int64_t i, T x) {
    std::memcpy(bytes_.data() + size_t(i) * sizeof x, &x, sizeof x);
  }

  Element element_;
  std::vector<std::byte> bytes_;
};

struct Shape {
  int64_t m, k, n;
};
/// How the sides lie.
enum class Layout : uint8_t { dense_k, dense_n, neither };

struct Kind {
  Element element;
  bool is_rounded = false;
  Element sums() const { return element == Element::bf16 ? Element::f32 : element; }
  Element result() const { return is_rounded ? element : sums(); }
  /// Of one operation.
  double unit() const { return element == Element::f64 ? 1e-15 : 1e-6; }
  /// Of what is stored.
  double rounding() const { return is_rounded ? 1.0 / 256 : 0; }
};

using MicrokernelProduct = testing::TestWithParam<Shape>;

/// The right side of `shape` packed from memory that lies as `layout` says.
struct Right {
  int64_t k_stride, n_stride;
  Numbers numbers, packed;
  Right(Shape s, Element element, Layout layout)
      : k_stride(layout == Layout::dense_k   ? 1
                 : layout == Layout::dense_n ? s.n + 1
                                             : 2 * s.n),
        n_stride(layout == Layout::dense_k   ? s.k
                 : layout == Layout::dense_n ? 1
                                             : 2),
        numbers(Numbers::random(element, s.k * s.n * 2 + s.k, 2)),
        packed(element, Panels{s.k, s.n, element}.size()) {
    Panels panels{s.k, s.n, element};
    for (int64_t p = 0; p < panels.count(); ++p)
      panels.pack(numbers.data(), k_stride, n_stride, p, p + 1, packed.data());
  }
  double at(int64_t k, int64_t n) const { return numbers[k * k_stride + n * n_stride]; }
};

void check_product(Shape shape, Kind kind, Layout layout) {
  if (!microkernel::has_products_of(kind.element)) return;
  auto [m, k, n] = shape;
  int64_t left_row = k + 3, result_row = n + 5, step = microkernel::step_of(kind.element);
  Numbers left = Numbers::random(kind.element, m * left_row - 3, 1);
  Right right(shape, kind.element, layout);
  Numbers bias = Numbers::random(kind.sums(), n, 3);
  Numbers more = Numbers::random(kind.result(), m * result_row, 4);
  Numbers result(kind.result(), m * result_row);
  for (int64_t i = 0; i < m * result_row; ++i) result.set(i, 77);
  Finish finish[] = {{Finish::Kind::add, more.data()}, {Finish::Kind::relu, nullptr}};
  Panels panels{k, n, kind.element};
  microkernel::Product product{
      panels,        left.data(), left_row, step, right.packed.data(), 0, bias.data(),
      result.data(), result_row,  finish,   0,    kind.is_rounded};
  int64_t half = m / 2, panel = panels.count() / 2;  // in four parts
  for (auto [row, row_end] : {std::pair{int64_t{0}, half}, std::pair{half, m}}) {
    microkernel::multiply(product, row, row_end, 0, panel);
    microkernel::multiply(product, row, row_end, panel, panels.count());
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < result_row; ++j) {
      double found = result[i * result_row + j];
      if (j >= n) {
        ASSERT_EQ(found, 77.0) << "written beside the row " << i;
        continue;
      }
      double sum = bias[j] + more[i * result_row + j];
      for (int64_t p = 0; p < k; ++p) sum += left[i * left_row + p] * right.at(p, j);
      double most = kind.unit() * double(k + 8) + kind.rounding() * std::fabs(sum);
      ASSERT_NEAR(found, std::max(sum, 0.0), most) << i << ", " << j;
    }
}

TEST_P(MicrokernelProduct, EqualsSumsInDouble) {
  at_each_level([] {
    check_product(GetParam(), {Element::f32}, Layout::dense_k);
    check_product(GetParam(), {Element::f64}, Layout::dense_k);
    check_product(GetParam(), {Element::bf16}, Layout::dense_k);
    check_product(GetParam(), {Element::bf16, true}, Layout::dense_k);
  });
}

TEST_P(MicrokernelProduct, TakesRightSidesOfAnyStrides) {
  at_each_level([] {
    for (Element element : {Element::f32, Element::f64, Element::bf16})
      for (Layout layout : {Layout::dense_n, Layout::neither})
        check_product(GetParam(), {element}, layout);
  });
}

// 0.5 * (left x right) with left as it comes out of PackedLeft.
void check_packed_left(Shape shape, Element element, Layout layout) {
  if (!microkernel::has_products_of(element)) return;
  auto [m, k, n] = shape;
  int64_t m_stride = layout == Layout::dense_n ? 1 : 3, k_stride = 3 * m + 1;
  Numbers left = Numbers::random(element, k * k_stride + 1, 1);
  Right right(shape, element, Layout::dense_n);
  PackedLeft form{m, k, element};
  Numbers packed(element, form.bytes() / microkernel::size_of(element));
  int64_t middle = form.steps() / 2;  // in two parts
  form.pack(left.data(), m_stride, k_stride, 0, middle, packed.data());
  form.pack(left.data(), m_stride, k_stride, middle, form.steps(), packed.data());
  Element sums = element == Element::bf16 ? Element::f32 : element;
  Numbers result(sums, m * n);
  Finish half[] = {{Finish::Kind::scale, nullptr, 0.5}};
  Panels panels{k, n, element};
  microkernel::multiply({panels, packed.data(), form.row(), form.step(), right.packed.data(), 0,
                         nullptr, result.data(), n, half},
                        0, m, 0, panels.count());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += left[i * m_stride + p * k_stride] * right.at(p, j);
      ASSERT_NEAR(result[i * n + j], sum / 2, 1e-6 * double(k + 8)) << i << ", " << j;
    }
}

TEST_P(MicrokernelProduct, TakesLeftSidesOfAnyStridesPacked) {
  at_each_level([] {
    for (Element element : {Element::f32, Element::f64, Element::bf16})
      for (Layout layout : {Layout::dense_n, Layout::neither})
        check_packed_left(GetParam(), element, layout);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MicrokernelProduct,
                         testing::Values(Shape{1, 1, 1}, Shape{1, 7, 64}, Shape{2, 16, 65},
                                         Shape{3, 5, 17}, Shape{5, 383, 63}, Shape{6, 384, 64},
                                         Shape{7, 385, 128}, Shape{11, 2, 10}, Shape{13, 769, 33},
                                         Shape{50, 96, 200}, Shape{301, 400, 40}, Shape{4, 0, 20},
                                         Shape{9, 768, 70}, Shape{200, 1601, 80}));

// The first of two rows, computed with the other one and alone: over several panels then.
void check_row_alone(Kind kind, int64_t k, int64_t n, int64_t n_panels, bool is_packed) {
  Panels panels{k, n, kind.element, n_panels};
  Numbers left = Numbers::random(kind.element, 2 * k + 2, 1);
  Right right({2, k, n}, kind.element, Layout::dense_n);
  Numbers packed(kind.element, panels.size()), pair(kind.result(), 2 * n), alone(kind.result(), n);
  panels.pack(right.numbers.data(), n + 1, 1, 0, panels.count(), packed.data());
  Finish half[] = {{Finish::Kind::scale, nullptr, 0.5}};
  microkernel::Product product{panels,
                               left.data(),
                               k,
                               microkernel::step_of(kind.element),
                               is_packed ? packed.data() : right.numbers.data(),
                               is_packed ? 0 : n + 1,
                               nullptr,
                               pair.data(),
                               n,
                               half,
                               0,
                               kind.is_rounded};
  microkernel::multiply(product, 0, 2, 0, panels.count());
  product.result = alone.data();
  microkernel::multiply(product, 0, 1, 0, panels.count());
  for (int64_t j = 0; j < n; ++j)
    ASSERT_EQ(alone[j], pair[j]) << n << " columns, " << n_panels << " panels, k " << k;
}

TEST(MicrokernelRows, AreTheSameAlone) {
  at_each_level([] {
    for (Kind kind :
         {Kind{Element::f32}, Kind{Element::f64}, Kind{Element::bf16}, Kind{Element::bf16, true}}) {
      if (!microkernel::has_products_of(kind.element)) continue;
      int64_t lanes = microkernel::whole_columns(kind.element);
      for (int64_t k : {1, 9, 260, 1100})
        for (int64_t n : {int64_t{3}, lanes, 4 * lanes + 1, 9 * lanes, 16 * lanes, 21 * lanes - 2})
          for (int64_t n_panels : {0, 2, 5, 9}) {
            if (n_panels * lanes > n) continue;
            check_row_alone(kind, k, n, n_panels, true);
            if (n % lanes == 0 && k % microkernel::step_of(kind.element) == 0)
              check_row_alone(kind, k, n, n_panels, false);
          }
    }
  });
}

// result = 0.5 * (left x right), neither packed nor copied.
void check_as_they_lie(Element element, int64_t m, int64_t k) {
  if (!microkernel::has_products_of(element)) return;
  int64_t n = 5 * microkernel::whole_columns(element), right_row = n + 3;
  Numbers left = Numbers::random(element, m * k, 1);
  Numbers right = Numbers::random(element, k * right_row - 3, 2);
  Element sums = element == Element::bf16 ? Element::f32 : element;
  Numbers result(sums, m * n);
  Finish half[] = {{Finish::Kind::scale, nullptr, 0.5}};
  Panels panels{k, n, element};
  microkernel::multiply({panels, left.data(), k, microkernel::step_of(element), right.data(),
                         right_row, nullptr, result.data(), n, half},
                        0, m, 0, panels.count());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += left[i * k + p] * right[p * right_row + j];
      double unit = element == Element::f64 ? 1e-15 : 1e-6;
      ASSERT_NEAR(result[i * n + j], sum / 2, unit * double(k + 8)) << i << ", " << j;
    }
}

TEST(MicrokernelOperands, AreReadAsTheyLie) {
  for (Element element : {Element::f32, Element::f64, Element::bf16})
    for (int64_t m : {1, 8, 19})
      for (int64_t k : {1, 23, 900}) check_as_they_lie(element, m, k);
}

TEST(MicrokernelOperands, MayLieByColumnsOnTheLeft) {
  int64_t m = 19, k = 23, n = 20;
  Numbers left = Numbers::random(Element::f64, k * m, 1);
  Right right({m, k, n}, Element::f64, Layout::dense_n);
  Numbers result(Element::f64, m * n);
  Panels panels{k, n, Element::f64};
  microkernel::multiply(
      {panels, left.data(), 1, m, right.packed.data(), 0, nullptr, result.data(), n, {}}, 0, m, 0,
      panels.count());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += left[p * m + i] * right.at(p, j);
      ASSERT_NEAR(result[i * n + j], sum, 1e-13);
    }
}

/// What docs/inductor.md says about a step of two numbers of k.
class MicrokernelPairs : public testing::Test {
 protected:
  void SetUp() override {
    if (!microkernel::has_products_of(Element::bf16)) GTEST_SKIP() << "no AVX512-BF16 here";
  }
  /// before + first[0] * first[1] + second[0] * second[1], where `before` is the sum of a step.
  static double step(std::pair<double, double> first, std::pair<double, double> second,
                     double before = 0) {
    Panels panels{4, 1, Element::bf16};
    Numbers left(Element::bf16, 4), right(Element::bf16, 4);
    left.set(0, before), right.set(0, 1);
    left.set(1, 0), right.set(1, 0);
    left.set(2, first.first), right.set(2, first.second);
    left.set(3, second.first), right.set(3, second.second);
    Numbers packed(Element::bf16, panels.size()), result(Element::f32, 1);
    panels.pack(right.data(), 1, 4, 0, 1, packed.data());
    microkernel::multiply(
        {panels, left.data(), 4, 2, packed.data(), 0, nullptr, result.data(), 1, {}}, 0, 1, 0, 1);
    return result[0];
  }
};

TEST_F(MicrokernelPairs, TakeAndGiveDenormalNumbersAsZero) {
  EXPECT_EQ(step({0x1p-130, 0x1p100}, {0, 0}), 0);
  EXPECT_EQ(step({0x1p-100, 0x1p-40}, {0, 0}), 0);
  EXPECT_EQ(step({0x1p-100, 0x1p-20}, {0, 0}), 0x1p-120);
}

TEST_F(MicrokernelPairs, AddTheSecondProductFirstAndRoundAfterEach) {
  constexpr double large = 0x1p24;  // + 1 is halfway to the next number, and rounded to this one
  EXPECT_EQ(step({1, 1}, {-0x1p12, 0x1p12}, large), 1);
  EXPECT_EQ(step({-0x1p12, 0x1p12}, {1, 1}, large), 0);
}

}  // namespace
