// Out forms of ops, which are derived from the functional rows by name.
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void call_out(const char* name, const Tensor& a, const Tensor& b, const Tensor& out) {
  const OpEntry* op = find_op(name);
  ASSERT_NE(op, nullptr);
  Value args[] = {Value::of(a), Value::of(b), Value::of(out)}, results[1];
  dispatch(*op, args, 3, results, 1);
  EXPECT_TRUE(take<Tensor>(results[0]).is_same(out));
}

TEST(OutForm, StoresTheResultAndCountsAsAWrite) {
  Tensor a = tensor({1.0f, 2.0f}), b = tensor({3.0f, 4.0f}), out = zeros({2}, Dtype::f64);
  uint64_t before = out.version();
  call_out("aten.mul.out", a, b, out);
  EXPECT_THAT(out.to_vector<double>(), ElementsAre(3, 8));
  EXPECT_GT(out.version(), before);
}

TEST(OutForm, ResizesAnEmptyTensorOnly) {
  Tensor a = tensor({1.0f, 2.0f}), empty_out = zeros({0}), wrong = zeros({3});
  call_out("aten.mul.out", a, a, empty_out);
  EXPECT_THAT(empty_out.to_vector<float>(), ElementsAre(1, 4));
  try {
    call_out("aten.mul.out", a, a, wrong);
    FAIL() << "expected an error";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("the result has shape [2], the out argument [3]"));
  }
}

TEST(OutForm, RefusesADtypeOfALowerCategory) {
  Tensor a = tensor({1.5f}), out = zeros({1}, Dtype::i64);
  EXPECT_THROW(call_out("aten.mul.out", a, a, out), UserError);
}

TEST(OutForm, IsNotThereForViewsAndWrites) {
  EXPECT_EQ(find_op("aten.transpose.int_out"), nullptr);
  EXPECT_EQ(find_op("aten.copy_.out"), nullptr);
  EXPECT_EQ(find_op("aten.nonsense.out"), nullptr);
}

}  // namespace
}  // namespace tenon
