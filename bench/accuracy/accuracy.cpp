// How exact sums, products and convolutions in f32 are: the root mean square of the errors against
// double precision, relative to that of the results, eager and compiled, beside what PyTorch 2.13
// has on the same shapes and distributions (CPU with AVX-512, measured once).
//
//   build/release/bench/accuracy            all rows
//   build/release/bench/accuracy sum conv   rows whose names contain one of these
#include <tenon/tenon.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace tenon;

namespace {

using Inputs = std::vector<Tensor>;

struct Row {
  const char* name;
  std::function<Tensor(const Inputs&)> compute;
  std::function<Inputs()> inputs;
  double torch;
};

double root_mean_square(const Tensor& x) { return std::sqrt((x * x).mean().item<double>()); }

double error_of(const Tensor& found, const Tensor& exact) {
  return root_mean_square(to(found, Dtype::f64) - exact) / root_mean_square(exact);
}

Inputs widened(const Inputs& in) {
  Inputs out;
  for (const Tensor& t : in) out.push_back(to(t, Dtype::f64));
  return out;
}

std::function<Inputs()> normal(std::vector<std::vector<int64_t>> shapes) {
  return [shapes] {
    Inputs out;
    for (const auto& shape : shapes) out.push_back(randn(shape));
    return out;
  };
}
std::function<Inputs()> uniform(std::vector<int64_t> shape) {
  return [shape] { return Inputs{rand(shape)}; };
}

Tensor images_normalized(const Inputs& in) {
  return batch_norm(in[0], {}, {}, {}, {}, true, 0.1, 1e-5, false);
}

/// What the rows below call.
Tensor row_sum(const Inputs& in) { return in[0].sum({1}); }
Tensor column_sum(const Inputs& in) { return in[0].sum({0}); }
Tensor row_variance(const Inputs& in) { return in[0].var(std::vector<int64_t>{1}); }
Tensor column_variance(const Inputs& in) { return in[0].var(std::vector<int64_t>{0}); }
Tensor product(const Inputs& in) { return mm(in[0], in[1]); }
Tensor padded_convolution(const Inputs& in) { return conv2d(in[0], in[1], {}, {1, 1}, {1, 1}); }

const Row rows[] = {
    {"mean of 16384 in a row, normal", [](const Inputs& in) { return in[0].mean({1}); },
     normal({{256, 16384}}), 1.27e-7},
    {"mean of 16384 in a row, uniform", [](const Inputs& in) { return in[0].mean({1}); },
     uniform({256, 16384}), 4.65e-8},
    {"mean of 1024 in a row, normal", [](const Inputs& in) { return in[0].mean({1}); },
     normal({{4096, 1024}}), 1.08e-7},
    {"sum of 16384 in a row, normal", row_sum, normal({{256, 16384}}), 1.27e-7},
    {"sum down 16384 rows, normal", column_sum, normal({{16384, 256}}), 1.62e-7},
    {"sum down 16384 rows, uniform", column_sum, uniform({16384, 256}), 4.82e-8},
    {"sum down 1024 rows, normal", column_sum, normal({{1024, 1024}}), 1.18e-7},
    {"sum down 128 rows, normal", column_sum, normal({{128, 4096}}), 9.52e-8},
    {"sum of 5 M times 0.1", [](const Inputs& in) { return in[0].sum(); },
     [] { return Inputs{full({5000000}, 0.1, Dtype::f32)}; }, 1.10e-7},
    {"sums of columns of 1 M times 0.1", column_sum,
     [] {
       return Inputs{full({1000000, 16}, 0.1, Dtype::f32)};
     },
     5.62e-7},
    {"log-sum-exp of 16384 in a row, normal",
     [](const Inputs& in) { return logsumexp(in[0], {1}); }, normal({{256, 16384}}), 3.30e-8},
    {"log-sum-exp of 1024 in a row, normal", [](const Inputs& in) { return logsumexp(in[0], {1}); },
     normal({{4096, 1024}}), 2.88e-8},
    {"softmax of 16384 in a row, normal", [](const Inputs& in) { return softmax(in[0], 1); },
     normal({{256, 16384}}), 1.35e-7},
    {"variance of 16384 in a row, normal", row_variance, normal({{256, 16384}}), 2.71e-8},
    {"variance of 1024 in a row, uniform", row_variance, uniform({4096, 1024}), 2.57e-8},
    {"variance down 16384 rows, normal", column_variance, normal({{16384, 256}}), 2.66e-8},
    {"norm of 16384 in a row, normal",
     [](const Inputs& in) { return linalg_vector_norm(in[0], 2, std::vector<int64_t>{1}); },
     normal({{256, 16384}}), 1.16e-7},
    {"product, k = 512", product, normal({{128, 512}, {512, 256}}), 2.38e-7},
    {"product, k = 1024", product, normal({{128, 1024}, {1024, 256}}), 2.48e-7},
    {"product, k = 4096", product, normal({{128, 4096}, {4096, 256}}), 2.63e-7},
    {"product, k = 16384", product, normal({{128, 16384}, {16384, 256}}), 3.00e-7},
    {"product of 8 rows, k = 4096", product, normal({{8, 4096}, {4096, 256}}), 2.72e-7},
    {"linear of 8 rows, k = 4096", [](const Inputs& in) { return linear(in[0], in[1]); },
     normal({{8, 4096}, {256, 4096}}), 2.61e-7},
    {"convolution 3 x 3 of 512 channels, 14 x 14", padded_convolution,
     normal({{1, 512, 14, 14}, {512, 512, 3, 3}}), 2.35e-7},
    {"convolution 3 x 3 of 512 channels, 7 x 7", padded_convolution,
     normal({{1, 512, 7, 7}, {512, 512, 3, 3}}), 2.27e-7},
    {"convolution 3 x 3 of 64 channels, 56 x 56", padded_convolution,
     normal({{1, 64, 56, 56}, {64, 64, 3, 3}}), 2.17e-7},
    {"convolution 3 x 3 of 128 channels, 28 x 28", padded_convolution,
     normal({{1, 128, 28, 28}, {128, 128, 3, 3}}), 2.19e-7},
    {"convolution 3 x 3 of 256 channels, 14 x 14", padded_convolution,
     normal({{1, 256, 14, 14}, {256, 256, 3, 3}}), 2.20e-7},
    {"batch norm of [8, 64, 28, 28], normal", images_normalized, normal({{8, 64, 28, 28}}),
     4.16e-8},
};

bool is_wanted(const std::string& name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (name.find(argv[i]) != std::string::npos) return true;
  return argc < 2;
}

void print_row(const Row& row) {
  Inputs in = row.inputs();
  Tensor exact = row.compute(widened(in));
  // What follows the first tensor are weights, as a layer keeps them.
  Inputs weights(in.begin() + 1, in.end());
  auto compiled = compile(
      [&row, weights](const Tensor& x) {
        Inputs all{x};
        all.insert(all.end(), weights.begin(), weights.end());
        return row.compute(all);
      },
      {.backend = "inductor"});
  double eager = error_of(row.compute(in), exact), found = error_of(compiled(in[0]), exact);
  std::printf("%-46s %9.2e %9.2e %9.2e %6.2f\n", row.name, row.torch, eager, found,
              found / row.torch);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  manual_seed(0);
  std::printf("%-46s %9s %9s %9s %6s\n", "", "PyTorch", "eager", "inductor", "ratio");
  NoGradGuard no_grad;
  for (const Row& row : rows)
    if (is_wanted(row.name, argc, argv)) print_row(row);
}
