// How exact sums and products in f32 are in the inductor backend: the root mean square of the
// errors against double precision, relative to that of the results, is at most 1.5 times what
// PyTorch 2.13 has for sums as long (measured on a CPU with AVX-512; bench/accuracy prints all).
#include "plugins/inductor/ops.h"
#include "processor.h"

#include <cmath>

namespace tenon {
namespace {

class InductorAccuracy : public InductorOps {
 protected:
  static double root_mean_square(const Tensor& x) {
    return std::sqrt((x * x).mean().item<double>());
  }

  /// Of the results of `body`, in which "$" stands for the dtype.
  static double error_of_results(const std::string& body, const std::vector<Tensor>& inputs) {
    auto graph = graph_in(Dtype::f32, body), wide = graph_in(Dtype::f64, body);
    std::vector<Tensor> widened;
    for (const Tensor& t : inputs) widened.push_back(to(t, Dtype::f64));
    Tensor exact = run(*compiled("eager", wide), *wide, widened)[0];
    auto artifact = compiled("inductor", graph);
    EXPECT_EQ(externs_of(*artifact), "[]") << body;
    Tensor found = run(*artifact, *graph, inputs)[0];
    return root_mean_square(to(found, Dtype::f64) - exact) / root_mean_square(exact);
  }
  /// `inputs` are normal numbers of the shapes of %x and %w.
  static void expect_as_exact(double torch, const std::string& body,
                              const std::vector<Tensor>& inputs) {
    EXPECT_LE(error_of_results(body, inputs), 1.5 * torch) << body;
  }
  /// What adding so many terms one after the other costs.
  static double of_one_chain(int64_t terms) {
    return 0x1p-24 * std::sqrt(static_cast<double>(terms)) / 3;
  }
};

TEST_F(InductorAccuracy, LongRows) {
  auto row_op = [](const std::string& op) {
    return "\n  input %x: $[512, 16384]\n  %y: $[512] = " + op + "\n  output %y\n";
  };
  Tensor x = randn({512, 16384});
  expect_as_exact(1.27e-7, row_op("aten.mean.dim(%x, [1])"), {x});
  expect_as_exact(1.27e-7, row_op("aten.sum.dim_IntList(%x, [1])"), {x});
  expect_as_exact(2.71e-8, row_op("aten.var.correction(%x, [1])"), {x});
  expect_as_exact(3.30e-8, R"(
  input %x: $[512, 16384]
  %m: $[512, 1] = aten.amax.default(%x, [1], true)
  %d: $[512, 16384] = aten.sub.Tensor(%x, %m)
  %e: $[512, 16384] = aten.exp.default(%d)
  %s: $[512, 1] = aten.sum.dim_IntList(%e, [1], true)
  %l: $[512, 1] = aten.log.default(%s)
  %y: $[512, 1] = aten.add.Tensor(%m, %l)
  output %y
)",
                  {x});
  expect_as_exact(1.16e-7, row_op("aten.linalg_vector_norm.default(%x, 2, [1])"), {x});
  expect_as_exact(4.65e-8, row_op("aten.mean.dim(%x, [1])"), {rand({512, 16384})});
}

// PyTorch sums these in double precision: what it rounds is the result.
TEST_F(InductorAccuracy, Variances) {
  auto of = [](int64_t rows, int64_t columns, int dim) {
    int64_t left = dim == 1 ? rows : columns;
    return message(
        "\n  input %x: $[{}, {}]\n  %y: $[{}] = aten.var.correction(%x, [{}])\n  output %y\n", rows,
        columns, left, dim);
  };
  expect_as_exact(2.57e-8, of(4096, 1024, 1), {rand({4096, 1024})});
  expect_as_exact(2.57e-8, of(4096, 1000, 1), {rand({4096, 1000})});
  expect_as_exact(2.66e-8, of(16384, 1024, 0), {randn({16384, 1024})});
}

// 3^255 is far beyond f32, its root is 3.
TEST_F(InductorAccuracy, NormsOfHighOrders) {
  for (const char* order : {"5.5", "17", "255", "-40"})
    expect_as_exact(1e-7,
                    std::string(R"(
  input %x: $[64, 100]
  %y: $[64] = aten.linalg_vector_norm.default(%x, )") +
                        order + R"(, [1])
  output %y
)",
                    {randn({64, 100})});
}

TEST_F(InductorAccuracy, LongColumns) {
  const std::string sum = R"(
  input %x: $[16384, 64]
  %y: $[64] = aten.sum.dim_IntList(%x, [0])
  output %y
)";
  expect_as_exact(1.62e-7, sum, {randn({16384, 64})});
  expect_as_exact(4.82e-8, sum, {rand({16384, 64})});
  expect_as_exact(2.66e-8, R"(
  input %x: $[16384, 512]
  %y: $[512] = aten.var.correction(%x, [0])
  output %y
)",
                  {randn({16384, 512})});
}

TEST_F(InductorAccuracy, SumsOfOneNumberAreNotBiased) {
  expect_as_exact(1.10e-7, R"(
  input %x: $[5000000]
  %y: $[] = aten.sum.default(%x)
  output %y
)",
                  {full({5000000}, 0.1, Dtype::f32)});
  expect_as_exact(5.62e-7, R"(
  input %x: $[1000000, 16]
  %y: $[16] = aten.sum.dim_IntList(%x, [0])
  output %y
)",
                  {full({1000000, 16}, 0.1, Dtype::f32)});
}

TEST_F(InductorAccuracy, ManyDimensionsInOneSum) {
  // The loops inside are short; it is all of them that make a long chain.
  expect_as_exact(1.2e-7, R"(
  input %x: $[60, 7, 40, 3, 5]
  %y: $[40] = aten.sum.dim_IntList(%x, [0, 1, 3, 4])
  output %y
)",
                  {randn({60, 7, 40, 3, 5})});
}

TEST_F(InductorAccuracy, ProductsOfManyTerms) {
  const std::pair<int64_t, double> lengths[] = {{1024, 2.48e-7}, {4096, 2.63e-7}, {16384, 3.00e-7}};
  for (auto [k, torch] : lengths)
    for (const char* flags : {"", " parameter static_address"}) {
      std::string n = std::to_string(k);
      expect_as_exact(torch,
                      "\n  input %x: $[64, " + n + "]\n  input %w: $[" + n + ", 96]" + flags +
                          "\n  %y: $[64, 96] = aten.mm.default(%x, %w)\n  output %y\n",
                      {randn({64, k}), randn({k, 96})});
    }
}

TEST_F(InductorAccuracy, Convolutions) {
  // Weights of layers are transformed where channels are few; others go to a library.
  struct Row {
    int64_t channels, side;
    double torch;
  };
  const Row rows[] = {{64, 56, 2.17e-7},
                      {128, 28, 2.19e-7},
                      {256, 14, 2.20e-7},
                      {512, 14, 2.35e-7},
                      {512, 7, 2.27e-7}};
  for (auto [channels, side, torch] : rows)
    for (const char* flags : {"", " parameter static_address"}) {
      std::string c = std::to_string(channels), n = std::to_string(side);
      std::string image = "[1, " + c + ", " + n + ", " + n + "]";
      expect_as_exact(has_avx512() ? torch : of_one_chain(9 * channels),
                      "\n  input %x: $" + image + "\n  input %w: $[" + c + ", " + c + ", 3, 3]" +
                          flags + "\n  %y: $" + image +
                          " = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], "
                          "false, [0, 0], 1)\n  output %y\n",
                      {randn({1, channels, side, side}), randn({channels, channels, 3, 3})});
    }
}

}  // namespace
}  // namespace tenon
