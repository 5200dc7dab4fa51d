// `out` forms and writing ops on a device: straight into what is given, where that is safe.
#include "device_work.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

// Public functions have no `out`: graphs and archives call these forms by name.
template <class... A>
void call_out(const char* name, const Tensor& out, const A&... args) {
  const OpEntry* op = find_op(name);
  ASSERT_NE(op, nullptr) << name;
  Value given[] = {Value::of(args)..., Value::of(out)}, result;
  dispatch(*op, given, sizeof...(A) + 1, &result, 1);
  EXPECT_TRUE(take<Tensor>(result).is_same(out));
}
void add_out(const Tensor& out, const Tensor& a, const Tensor& b) {
  call_out("aten.add.out", out, a, b, Number(1));
}
void mm_out(const Tensor& out, const Tensor& a, const Tensor& b) {
  call_out("aten.mm.out", out, a, b);
}
void exp_out(const Tensor& out, const Tensor& a) { call_out("aten.exp.out", out, a); }
void cumsum_out(const Tensor& out, const Tensor& a) {
  const OpEntry* op = find_op("aten.cumsum.out");
  Value given[] = {Value::of(a), Value::of(int64_t{0}), Value(), Value::of(out)}, result;
  dispatch(*op, given, 4, &result, 1);
  drop(result);
}

class SingleOpOut : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }

  static uint64_t allocations() { return static_cast<uint64_t>(memory_stats(gpu).allocations); }
  static uint64_t launches() { return counts().launches; }
  /// f(out) makes nothing and launches one kernel.
  template <class F>
  static void expect_in_place(F&& f) {
    f();  // compiles
    synchronize(gpu);
    uint64_t made = allocations(), launched = launches();
    f();
    synchronize(gpu);
    EXPECT_EQ(allocations(), made);
    EXPECT_EQ(launches(), launched + 1);
  }
};

TEST_F(SingleOpOut, ResultsGoStraightIntoWhatIsGiven) {
  Tensor x = randn({3, 4}), y = randn({3, 4}), w = randn({4, 2});
  Tensor a = moved(gpu, x), b = moved(gpu, y), c = moved(gpu, w);
  Tensor sum = moved(gpu, zeros({3, 4})), product = moved(gpu, zeros({3, 2}));
  uint64_t version = sum.version();
  expect_in_place([&] { add_out(sum, a, b); });
  EXPECT_EQ(sum.version(), version + 2);
  EXPECT_TRUE(equal(to_cpu(sum), x + y));
  expect_in_place([&] { mm_out(product, a, c); });
  EXPECT_TRUE(equal(to_cpu(product), mm(x, w)));
}

TEST_F(SingleOpOut, LayoutsOfTheTargetAreKept) {
  Tensor x = randn({3, 4}), a = moved(gpu, x);
  Tensor wide = moved(gpu, full({4, 6}, 7.0));
  Tensor target = wide.slice(1, 0, 3).t();  // strides 1 and 6
  exp_out(target, a);
  EXPECT_TRUE(equal(to_cpu(wide.slice(1, 0, 3)), x.exp().t()));
  EXPECT_TRUE(equal(to_cpu(wide.slice(1, 3, 6)), full({4, 3}, 7.0))) << "what lies beside it stays";
  // Another size of the same kind is the same code.
  int64_t before = counters()["device.single_op_compiles"];
  Tensor more = moved(gpu, zeros({5, 9})), from = moved(gpu, randn({2, 5}));
  Tensor part = more.slice(1, 0, 2).t();
  exp_out(part, from);
  EXPECT_TRUE(equal(to_cpu(part), to_cpu(from).exp()));
  EXPECT_EQ(counters()["device.single_op_compiles"], before);
}

TEST_F(SingleOpOut, WhatOverlapsIsComputedFirst) {
  Tensor x = arange(16).to(Dtype::f32).reshape({4, 4}), a = moved(gpu, x);
  Tensor self = a;
  mm_out(self, a, a);
  EXPECT_TRUE(equal(to_cpu(a), mm(x, x)));
  Tensor line = moved(gpu, arange(8).to(Dtype::f32));
  Tensor front = line.slice(0, 0, 7);
  cumsum_out(front, line.slice(0, 1, 8));
  EXPECT_EQ(line.to_vector<float>(), (std::vector<float>{1, 3, 6, 10, 15, 21, 28, 7}));
}

TEST_F(SingleOpOut, OtherTypesAreCastAndEmptyTargetsGrow) {
  Tensor x = randn({3}), a = moved(gpu, x);
  Tensor wide = moved(gpu, zeros({3}).to(Dtype::f64)), empty_one = moved(gpu, zeros({0}));
  exp_out(wide, a);
  EXPECT_TRUE(equal(to_cpu(wide), x.exp().to(Dtype::f64)));
  exp_out(empty_one, a);
  EXPECT_TRUE(equal(to_cpu(empty_one), x.exp()));
  Tensor short_one = moved(gpu, zeros({2}));
  EXPECT_THAT(error_of([&] { exp_out(short_one, a); }), HasSubstr("the out argument"));
  Tensor here = zeros({3});
  EXPECT_THAT(error_of([&] { exp_out(here, a); }), HasSubstr("move one of them"));
}

TEST_F(SingleOpOut, CompiledFunctionsWriteInputsThatOverlap) {
  auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        a.add_(1.0);
        return b * 2.0;
      },
      {.backend = "aot_eager"});
  auto run = [&](Device device) {
    Tensor line = moved(device, arange(8).to(Dtype::f32));
    Tensor y = f(line.slice(0, 0, 6), line.slice(0, 2, 8));
    return to_cpu(cat({line, y}));
  };
  EXPECT_TRUE(equal(run(gpu), run(kCPU)));
}

TEST_F(SingleOpOut, RowsThatOnlyWriteRunAsTheFunctionalOpOfTheirName) {
  Tensor x = arange(6).to(Dtype::f32), there = moved(gpu, x), same = there;
  Tensor places = tensor({4, 1}).to(Dtype::i64), values = tensor({10.0f, 20.0f});
  uint64_t version = there.version();
  index_put_(there, {moved(gpu, places)}, moved(gpu, values));
  index_put_(x, {places}, values);
  EXPECT_TRUE(there.is_same(same));
  EXPECT_EQ(there.version(), version + 1);
  EXPECT_TRUE(equal(to_cpu(there), x));
}

TEST_F(SingleOpOut, RowsOfAnEmbeddingAreRenormedThere) {
  Tensor table = randn({6, 4}).mul(3), there = moved(gpu, table);
  Tensor rows = tensor({4, 1, 4}).to(Dtype::i64);
  int64_t before = counters()["device.fallbacks"];
  embedding_renorm_(there, moved(gpu, rows), 1.5, 2.0);
  embedding_renorm_(table, rows, 1.5, 2.0);
  EXPECT_LT(furthest(to_cpu(there), table), 1e-5);
  EXPECT_EQ(counters()["device.fallbacks"], before);
}

TEST_F(SingleOpOut, BatchNormWithUpdateWritesItsStatisticsThere) {
  Tensor x = randn({6, 3, 2, 2});
  auto run = [&](Device device) {
    Tensor mean = moved(device, zeros({3})), var = moved(device, ones({3}));
    auto [y, m, r, reserve] =
        _batch_norm_with_update(moved(device, x), {}, {}, mean, var, 0.1, 1e-5);
    EXPECT_EQ(reserve.device(), device);
    auto [z, m2, r2, reserve2] =
        _batch_norm_no_update(moved(device, x), {}, {}, mean, var, 0.1, 1e-5);
    return to_cpu(cat({mean, var, m, r, y.reshape({-1}), z.reshape({-1})}));
  };
  int64_t before = counters()["device.fallbacks"];
  EXPECT_LT(furthest(run(kCPU), run(gpu)), 1e-5);
  EXPECT_EQ(counters()["device.fallbacks"], before);
}

}  // namespace
}  // namespace tenon
