// Which outputs of compiled code the host makes before the call, and how.
#include "backend/compile/made_outputs.h"

#include "graph/artifact.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;

std::vector<int64_t> plain(SymIntList list) {
  std::vector<int64_t> out;
  for (SymInt size : list) out.push_back(size.guard_int());
  return out;
}

class MadeOutputsOf : public testing::Test {
 protected:
  void SetUp() override {
    register_backend(
        "keeps_request",
        [](const CompileRequest& request) {
          last() = request;
          return interpreter_artifact(request.graph);
        },
        {}, Stage::captured);
  }
  static CompileRequest& last() {
    static CompileRequest request;
    return request;
  }
  /// Of a body that is compiled without gradients.
  template <class F>
  static MadeOutputs of(F body, std::optional<bool> dynamic = {}) {
    NoGradGuard no_grad;
    compile(body, {.backend = "keeps_request", .dynamic = dynamic})(ones({3, 4}));
    return MadeOutputs(last());
  }
};

TEST_F(MadeOutputsOf, MemoryOfTheirOwnIsMadeAsTheGraphSays) {
  MadeOutputs made = of([](const Tensor& x) {
    return std::vector<Tensor>{x + 1, (x > 0).t().contiguous(), x.t() * 2};
  });
  ASSERT_FALSE(made.are_none());
  EXPECT_THAT(plain(made.make(0, {}).sizes()), ElementsAre(3, 4));
  EXPECT_EQ(made.make(1, {}).dtype(), Dtype::bool_);
  EXPECT_THAT(plain(made.make(1, {}).strides()), ElementsAre(3, 1));
  EXPECT_THAT(plain(made.make(2, {}).strides()), ElementsAre(1, 4));
}

TEST_F(MadeOutputsOf, SizesThatAreSymbolsAreThoseOfTheCall) {
  MadeOutputs made = of([](const Tensor& x) { return x.sum(1) + x.size(0); }, true);
  ASSERT_FALSE(made.are_none());
  std::vector<int64_t> syms;
  for (const SymbolBinding& bound : last().graph->symbols) syms.push_back(bound.dim == 0 ? 7 : 5);
  EXPECT_THAT(plain(made.make(0, syms).sizes()), ElementsAre(7));
  for (int64_t& word : syms) word = 0;
  EXPECT_THAT(plain(made.make(0, syms).sizes()), ElementsAre(0));
}

TEST_F(MadeOutputsOf, SizesThatAreComputedAreLeftToTheCode) {
  EXPECT_TRUE(of([](const Tensor& x) { return cat({x, x}); }, true).are_none());
  EXPECT_TRUE(of([](const Tensor& x) { return x.nonzero(); }).are_none());
}

TEST_F(MadeOutputsOf, SharedMemoryIsLeftToTheCode) {
  EXPECT_TRUE(of([](const Tensor& x) { return x.t(); }).are_none());
  EXPECT_TRUE(of([](const Tensor& x) { return x.detach(); }).are_none());
  EXPECT_TRUE(of([](const Tensor& x) {
                Tensor y = x + 1;
                return std::vector<Tensor>{y, y.t()};
              }).are_none());
  EXPECT_TRUE(of([](const Tensor& x) { return x.select(0, 1).add_(1); }).are_none());
}

TEST_F(MadeOutputsOf, HistoriesAreLeftToTheCode) {
  auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = "keeps_request"});
  f(ones({2}).requires_grad_());
  EXPECT_TRUE(MadeOutputs(last()).are_none());
}

// What a call has left of them when it fails is nobody's result.
TEST(made_outputs, AFailedCallGivesNone) {
  Tensor table = arange(6).reshape({3, 2}).to(Dtype::f32);
  auto body = [&](const Tensor& i) { return table.index_select(0, i) * 2; };
  auto f = compile(body, {.backend = "inductor"});
  Tensor good = tensor({0, 2}), bad = tensor({0, 7});
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(equal(f(good), body(good)));
    EXPECT_THROW(f(bad), Error);
  }
}

}  // namespace
}  // namespace tenon
