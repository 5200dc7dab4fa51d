// Arguments that do not fit each other, in code that is compiled: refused as eager refuses them,
// with sizes that are fixed and with sizes that change.
#include "plugins/code_makers.h"
#include "plugins/inductor/graphs.h"

#include <tenon/compile.h>

namespace tenon {
namespace {

class MisfittingSizes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_plugin_search({}, {TENON_PLUGIN_DIR});
    std::vector<std::string> known = code_makers();
    if (std::ranges::find(known, GetParam()) == known.end())
      GTEST_SKIP() << "this build has no " << GetParam();
  }
};

Options fixed(const char* backend) { return {.backend = backend}; }
Options dynamic(const char* backend) { return {.backend = backend, .dynamic = true}; }

TEST_P(MisfittingSizes, WritesOfAPartAreRefused) {
  const Options options = fixed(GetParam());
  Tensor x = randn({5, 5, 5}), plane = randn({5, 5}), part = randn({5, 2, 5});
  for (int64_t index : {7, -6, 1000000000}) {
    auto f = compile(
        [index](const Tensor& a, const Tensor& b) { return a.select_scatter(b, 0, index).mul(2); },
        options);
    EXPECT_THROW(f(x, plane), UserError) << index;
  }
  auto far =
      compile([](const Tensor& a, const Tensor& b) { return a.select_scatter(b, 64, 0); }, options);
  EXPECT_THROW(far(x, plane), UserError);
  auto wide =
      compile([](const Tensor& a,
                 const Tensor& b) { return a.slice_scatter(b, 1, SymInt(0), SymInt(4), 1).mul(2); },
              options);
  EXPECT_THROW(wide(x, part), UserError);
}

TEST_P(MisfittingSizes, TensorsWithoutDimensionsAreFlipped) {
  auto f = compile([](const Tensor& a) { return a.flip({0}).mul(2); }, fixed(GetParam()));
  EXPECT_EQ(f(scalar_tensor(3.0, Dtype::f32)).to_vector<float>()[0], 6);
}

// What fits is compiled first, with sizes of its own, so that all are symbols.
void expect_refusal(const Options& options, const std::string& what,
                    Tensor (*body)(const Tensor&, const Tensor&, const Tensor&),
                    const std::vector<Tensor>& fits, const std::vector<Tensor>& fails) {
  auto f = compile(body, options);
  f(fits[0], fits[1], fits[2]);
  EXPECT_THROW(body(fails[0], fails[1], fails[2]), UserError) << what;
  EXPECT_THROW(f(fails[0], fails[1], fails[2]), UserError) << what;
}

TEST_P(MisfittingSizes, IndicesOfOtherSizesAreRefused) {
  const Options options = dynamic(GetParam());
  auto zeros_of = [](std::vector<int64_t> sizes) { return zeros(sizes, Dtype::i64); };
  Tensor x = randn({4, 5}), index = zeros_of({4, 3}), src = randn({4, 3});
  Tensor tall = zeros_of({40, 3}), long_src = randn({40, 3});
  expect_refusal(
      options, "gather",
      [](const Tensor& a, const Tensor& i, const Tensor&) { return a.gather(1, i).mul(2); },
      {x, index, src}, {x, tall, src});
  expect_refusal(
      options, "scatter",
      [](const Tensor& a, const Tensor& i, const Tensor& s) { return a.scatter(1, i, s).mul(2); },
      {x, index, src}, {x, tall, long_src});
  expect_refusal(
      options, "scatter, small source",
      [](const Tensor& a, const Tensor& i, const Tensor& s) { return a.scatter(1, i, s).mul(2); },
      {x, index, src}, {randn({40, 5}), tall, src});
  expect_refusal(options, "scatter_add",
                 [](const Tensor& a, const Tensor& i, const Tensor& s) {
                   return a.scatter_add(1, i, s).mul(2);
                 },
                 {x, index, src}, {x, tall, long_src});
  expect_refusal(options, "slice_scatter",
                 [](const Tensor& a, const Tensor&, const Tensor& s) {
                   return a.slice_scatter(s, 1, SymInt(0), SymInt(3), 1).mul(2);
                 },
                 {x, index, src}, {x, index, long_src});
}

INSTANTIATE_TEST_SUITE_P(Each, MisfittingSizes, testing::Values("inductor", "ts", "nnc"));

}  // namespace
}  // namespace tenon
