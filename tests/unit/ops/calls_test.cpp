// Op calls: operands of one shape and of several, strides of results, arguments that are refused.
#include "core/tensor/tensor_impl.h"

#include <tenon/ops.h>

#include <array>

#include <gmock/gmock.h>

using namespace tenon;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::vector<int64_t> values(const Tensor& t) {
  Tensor flat = t.to(Dtype::i64).contiguous();
  const auto* data = static_cast<const int64_t*>(impl_of(flat)->data);
  return {data, data + impl_of(flat)->numel};
}

std::vector<int64_t> strides(const Tensor& t) {
  return {impl_of(t)->strides, impl_of(t)->strides + t.dim()};
}

Tensor integers(std::initializer_list<int64_t> v) {
  Tensor t = empty({static_cast<int64_t>(v.size())}, Dtype::i64);
  std::copy(v.begin(), v.end(), static_cast<int64_t*>(impl_of(t)->data));
  return t;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST(PointwiseCalls, OperandsOfOneShapeGiveARowMajorResult) {
  Tensor sum = add(ones({2, 1, 3}), ones({2, 1, 3}));
  EXPECT_THAT(strides(sum), ElementsAre(3, 3, 1));
  EXPECT_TRUE(sum.is_contiguous());
  EXPECT_THAT(values(sum), ElementsAre(2, 2, 2, 2, 2, 2));
}

TEST(PointwiseCalls, BroadcastOperandsOfBothKindsMeet) {
  Tensor column = integers({10, 20}).reshape({2, 1}), row = integers({1, 2, 3});
  Tensor sum = add(column, row);
  EXPECT_THAT(values(sum), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(strides(sum), ElementsAre(3, 1));
  EXPECT_THAT(values(add(row, column)), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(values(add(row, integers({5}).reshape({}))), ElementsAre(6, 7, 8));
}

TEST(PointwiseCalls, TransposedOperandsKeepTheirOrderOfDimensions) {
  Tensor t = ones({2, 3}).transpose(0, 1);
  EXPECT_THAT(strides(add(t, t)), ElementsAre(1, 3));
  EXPECT_THAT(strides(add(t, ones({2}))), ElementsAre(1, 3));
}

TEST(PointwiseCalls, EmptyOperandsGiveEmptyResults) {
  Tensor sum = add(ones({0, 3}), ones({3}));
  EXPECT_EQ(sum.numel().guard_int(), 0);
  EXPECT_THAT(strides(sum), ElementsAre(3, 1));
}

TEST(PointwiseCalls, FractionsAreNoFactorsOfIntegers) {
  Tensor a = integers({7, -7});
  const std::string refused = "argument alpha of a result of i64 must be an integer";
  EXPECT_THAT(error_of([&] { a.add(a, 0.5); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { a.sub_(a, 2.0); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { rsub(a, Number(3), 0.5); }), HasSubstr(refused));
  EXPECT_THAT(values(a.add(a, 2)), ElementsAre(21, -21));
  EXPECT_EQ(a.add(ones({2}), 0.5).dtype(), Dtype::f32);
}

TEST(PointwiseCalls, IntegersAreNotDividedByZero) {
  Tensor a = integers({7, -7}), zero = integers({2, 0});
  const std::string refused = "an integer is divided by zero";
  EXPECT_THAT(error_of([&] { floor_divide(a, zero); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { remainder(a, zero); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { fmod(a, Number(0)); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { div(a, zero, "trunc"); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { a.remainder_(zero); }), HasSubstr(refused));
  EXPECT_THAT(values(remainder(a, integers({2, 2}))), ElementsAre(1, 1));
  EXPECT_THAT(values(fmod(a, integers({2, 2}))), ElementsAre(1, -1));
}

TEST(PointwiseCalls, DivisorsThatWrapToZeroInTheResultsTypeAreRefused) {
  Tensor bytes = to(integers({7, -7}), Dtype::i8);
  const std::string refused = "an integer is divided by zero";
  EXPECT_THAT(error_of([&] { floor_divide(bytes, Number(256)); }), HasSubstr(refused));
  EXPECT_THAT(error_of([&] { remainder(bytes, full({}, 256, Dtype::i64)); }), HasSubstr(refused));
  EXPECT_THAT(values(floor_divide(bytes, Number(259))), ElementsAre(2, -3));
}

TEST(ReductionCalls, ADimensionToCountInIsANumberOrAList) {
  Tensor x = integers({1, 0, 2, 0, 0, 3}).reshape({2, 3});
  EXPECT_THAT(values(x.count_nonzero(0)), ElementsAre(1, 0, 2));
  EXPECT_THAT(values(count_nonzero(x, -1)), ElementsAre(2, 1));
  EXPECT_THAT(values(x.count_nonzero({0, 1})), ElementsAre(3));
  EXPECT_THAT(values(count_nonzero(x)), ElementsAre(3));
}

TEST(PointwiseCalls, FloatingNumbersAreDividedByZero) {
  Tensor quotient = floor_divide(ones({1}), zeros({1}));
  EXPECT_EQ(*static_cast<const float*>(impl_of(quotient)->data), INFINITY);
}

TEST(RecurrentCells, WeightsWithoutEnoughRowsAreRefused) {
  Tensor x = ones({2, 3}), h = ones({2, 2}), w_ih = ones({2, 3}), w_hh = ones({2, 2});
  EXPECT_THAT(error_of([&] { gru_cell(x, h, w_ih, w_hh); }), HasSubstr("has 3 gates"));
}

TEST(Upsampling, StepsLongerThanTheInputEndAtItsLastElement) {
  Tensor x = arange(Number(3), Dtype::f32).reshape({1, 1, 3});
  std::optional<double> scale = 1e-300;
  EXPECT_THAT(values(upsample_nearest1d(x, SymIntList({4}), scale)), ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(values(_upsample_nearest_exact1d(x, SymIntList({2}), scale)), ElementsAre(2, 2));
  EXPECT_THAT(values(upsample_linear1d(x, SymIntList({2}), false, scale)), ElementsAre(2, 2));
}

TEST(BatchNorm, ComplexStatisticsAreRefused) {
  Tensor x = ones({2, 3}), z = zeros({3}, Dtype::c64);
  auto error = error_of([&] { batch_norm(x, Tensor(), Tensor(), z, z, false, 0.1, 1e-5, false); });
  EXPECT_THAT(error, HasSubstr("running statistics need a floating dtype, found c64"));
}

TEST(BatchNormBackward, StatisticsThatAreMissingAreRefused) {
  Tensor x = ones({2, 3});
  const std::array<bool, 3> wanted = {true, true, true};
  auto call = [&](bool train) {
    return error_of([&] {
      native_batch_norm_backward(x, x, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), train,
                                 1e-5, BoolList(wanted.data(), 3));
    });
  };
  EXPECT_THAT(call(true), HasSubstr("save_mean and save_invstd must be given"));
  EXPECT_THAT(call(false), HasSubstr("running_mean and running_var must be given"));
}
