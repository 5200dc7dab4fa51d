// When a result that differs from the expected one is as good as that.
#include "debug/op_compare.h"

#include <tenon/ops.h>

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

Tensor one(double value, Dtype dtype) { return full({1}, value, dtype); }

bool is_explained(double found, double expected, double exact) {
  return rounding_of(one(found, Dtype::f32), one(expected, Dtype::f32), one(exact, Dtype::f64))
      .explains();
}

TEST(Rounding, ExplainsWhatIsNoFurtherFromTheExactResultThanTwiceTheExpectedOne) {
  EXPECT_TRUE(is_explained(1, 1.25, 1));
  EXPECT_TRUE(is_explained(1.5, 1.25, 1));
  EXPECT_TRUE(is_explained(0.5, 1.25, 1));
  EXPECT_FALSE(is_explained(1.75, 1.25, 1));
  EXPECT_FALSE(is_explained(1.5, 1, 1));
}

TEST(Rounding, ExplainsNoOtherInfinitiesAndNoNan) {
  double infinity = std::numeric_limits<double>::infinity();
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(is_explained(infinity, infinity, infinity));
  EXPECT_FALSE(is_explained(infinity, 1.25, 1));
  EXPECT_FALSE(is_explained(nan, 1.25, 1));
  EXPECT_FALSE(is_explained(1, nan, 1));
}

TEST(Rounding, ExplainsNothingOfIntegersOrWithoutAnExactResult) {
  EXPECT_FALSE(rounding_of(one(2, Dtype::i64), one(1, Dtype::i64), one(2, Dtype::f64)).explains());
  EXPECT_FALSE(rounding_of(one(1, Dtype::f32), one(1, Dtype::f32), {}).explains());
}

}  // namespace
}  // namespace tenon
