// Initialisers.
//
// Xavier: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural
// networks" (2010). Kaiming: He et al., "Delving deep into rectifiers" (2015). Orthogonal: Saxe,
// McClelland, Ganguli (2013), by Gram and Schmidt's method, under which all orthogonal matrices are
// equally likely.
#include <tenon/autograd.h>
#include <tenon/nn/init.h>
#include <tenon/ops/create.h>
#include <tenon/ops/reduce.h>

#include <cmath>
#include <numbers>

namespace tenon::nn::init {

void uniform_(const Tensor& t, double from, double to) {
  NoGradGuard no_grad;
  t.uniform_(from, to);
}

void normal_(const Tensor& t, double mean, double std) {
  NoGradGuard no_grad;
  t.normal_(mean, std);
}

void constant_(const Tensor& t, double value) {
  NoGradGuard no_grad;
  t.fill_(value);
}

void zeros_(const Tensor& t) { constant_(t, 0); }
void ones_(const Tensor& t) { constant_(t, 1); }

// The inverse of the distribution function, at points spread evenly between those of the bounds.
void trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  auto erf_at = [&](double bound) { return std::erf((bound - mean) / std / std::numbers::sqrt2); };
  require(std > 0 && low < high, "trunc_normal_: expected std > 0 and low < high, found {}, {}, {}",
          std, low, high);
  NoGradGuard no_grad;
  t.uniform_(erf_at(low), erf_at(high)).erfinv_().mul_(std * std::numbers::sqrt2).add_(mean);
  t.clamp_(low, high);
}

// Rows of Gaussian numbers, each made orthogonal to those above; the second pass removes what
// rounding has left of the first.
void orthogonal_(const Tensor& t, double gain) {
  require(t.dim() >= 2, "orthogonal_: expected two dimensions or more, found {}", t);
  if (t.numel().guard_int() == 0) return;
  NoGradGuard no_grad;
  int64_t rows = t.size(0).guard_int(), columns = t.numel().guard_int() / rows;
  Tensor basis = randn({std::min(rows, columns), std::max(rows, columns)}, Dtype::f64);
  for (int64_t i = 0; i < std::min(rows, columns); ++i) {
    Tensor row = basis.select(0, i), above = basis.slice(0, 0, i);
    for (int pass = 0; pass < 2 && i > 0; ++pass) row.sub_(above.mv(row).matmul(above));
    row.div_(linalg_vector_norm(row));
  }
  t.copy_((rows > columns ? basis.t() : basis).reshape(t.sizes()).mul(gain));
}

Fans fans_of(const Tensor& weight) {
  require(weight.dim() >= 2,
          "fans: expected a weight of two dimensions or more, found {}; use uniform_ or normal_",
          weight);
  int64_t out = weight.size(0).guard_int(), in = weight.size(1).guard_int();
  int64_t field = 1;
  for (int64_t d = 2; d < weight.dim(); ++d) field *= weight.size(d).guard_int();
  return {in * field, out * field};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      break;
  }
  return 1;
}

namespace {

double xavier_std(const Tensor& t, double gain) {
  Fans fans = fans_of(t);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

double kaiming_std(const Tensor& t, const KaimingOptions& options) {
  Fans fans = fans_of(t);
  int64_t fan = options.mode == FanMode::fan_in ? fans.in : fans.out;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(fan));
}

// [-bound, bound] has the standard deviation bound / sqrt(3).
void uniform_of_std(const Tensor& t, double std) {
  double bound = std::numbers::sqrt3 * std;
  init::uniform_(t, -bound, bound);
}

}  // namespace

void xavier_uniform_(const Tensor& t, double gain) { uniform_of_std(t, xavier_std(t, gain)); }
void xavier_normal_(const Tensor& t, double gain) { init::normal_(t, 0, xavier_std(t, gain)); }

void kaiming_uniform_(const Tensor& t, const KaimingOptions& options) {
  if (t.numel().guard_int() != 0) uniform_of_std(t, kaiming_std(t, options));
}

void kaiming_normal_(const Tensor& t, const KaimingOptions& options) {
  if (t.numel().guard_int() != 0) init::normal_(t, 0, kaiming_std(t, options));
}

}  // namespace tenon::nn::init
