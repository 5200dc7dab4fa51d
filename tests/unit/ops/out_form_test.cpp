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

// PyTorch names them after no single rule.
TEST(OutForm, StandsForTheOverloadThatPyTorchMeans) {
  const std::pair<const char*, const char*> all[] = {
      {"aten.clamp.out", "aten.clamp.default"},
      {"aten.clamp.Tensor_out", "aten.clamp.Tensor"},
      {"aten.eq.Tensor_out", "aten.eq.Tensor"},
      {"aten.eq.Scalar_out", "aten.eq.Scalar"},
      {"aten.mul.out", "aten.mul.Tensor"},
      {"aten.div.out_mode", "aten.div.Tensor_mode"},
      {"aten.max.out", "aten.max.other"},
      {"aten.max.unary_out", "aten.max.default"},
      {"aten.max.dim_max", "aten.max.dim"},
      {"aten.mean.out", "aten.mean.dim"},
      {"aten.sort.values", "aten.sort.default"},
      {"aten.sort.values_stable", "aten.sort.stable"},
      {"aten.topk.values", "aten.topk.default"},
      {"aten.linalg_svd.U", "aten.linalg_svd.default"},
      {"aten.tanh_backward.grad_input", "aten.tanh_backward.default"},
      {"aten.xlogy.OutTensor", "aten.xlogy.Tensor"},
      {"aten.zeros.out", "aten.zeros.default"},
      {"aten.arange.start_out", "aten.arange.start_step"},
  };
  for (auto [out, functional] : all) {
    const OpEntry* op = find_op(out);
    ASSERT_NE(op, nullptr) << out;
    EXPECT_EQ(op->name, out);
    EXPECT_EQ(op->functional->name, functional);
  }
}

TEST(OutForm, CallsItsArgumentsAsTheResultsAreCalled) {
  const std::pair<const char*, const char*> last[] = {
      {"aten.sort.values", "indices"},
      {"aten.max.dim_max", "max_values"},
      {"aten.aminmax.out", "max"},
      {"aten.linalg_svd.U", "Vh"},
      {"aten.triangular_solve.X", "M"},
      {"aten.native_dropout.out", "out1"},
      {"aten.native_batch_norm.out", "save_invstd"},
      {"aten.gelu_backward.grad_input", "grad_input"}};
  for (auto [name, arg] : last) {
    const OpEntry* op = find_op(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(op->schema.args.back().name, arg) << name;
  }
}

TEST(OutForm, OfNewTensorsTakesTheDtypeFromWhatIsWritten) {
  Tensor out = zeros({3}, Dtype::f64);
  Value args[] = {Value::of(Number(0.1)), Value::of(Number(0.3)), Value::of(int64_t{3}),
                  Value::of(out)};
  Value results[1];
  dispatch(*find_op("aten.linspace.out"), args, 4, results, 1);
  EXPECT_TRUE(take<Tensor>(results[0]).is_same(out));
  EXPECT_EQ(out.to_vector<double>(), linspace(0.1, 0.3, 3, Dtype::f64).to_vector<double>());
}

TEST(OutForm, IsNotThereForViewsAndWrites) {
  EXPECT_EQ(find_op("aten.transpose.int_out"), nullptr);
  EXPECT_EQ(find_op("aten.copy_.out"), nullptr);
  EXPECT_EQ(find_op("aten.nonsense.out"), nullptr);
}

}  // namespace
}  // namespace tenon
