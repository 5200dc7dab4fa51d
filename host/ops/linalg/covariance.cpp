// Covariance and correlation of variables, the rows of a matrix, over observations, its columns.
#include "core/sym/sym_int.h"
#include "ops/op.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

Tensor weights_of(const Tensor& frequencies, const Tensor& importance) {
  if (!frequencies.defined()) return importance;
  return importance.defined() ? mul(importance, frequencies) : frequencies;
}

Tensor cov_decomp(const Tensor& self, int64_t correction, const Tensor& frequencies,
                  const Tensor& importance) {
  require(self.dim() <= 2, "cov: at most two dimensions are expected, found shape {}",
          self.sizes());
  Tensor in = self.dim() < 2 ? reshape(self, {1, -1}) : self;
  Dtype dtype = is_floating(in.dtype()) ? in.dtype() : Dtype::f32;
  Tensor weights = weights_of(frequencies, importance), count;
  if (!weights.defined()) {
    Tensor centered = to(sub(in, mean(in, {1}, true, dtype)), dtype);
    SymInt n = sym_max(in.size(1) - correction, 0);
    Tensor products = mm(centered, t(centered));
    return squeeze(div(products, Number(n)));
  }
  Tensor total = sum(weights);
  Tensor centered = sub(to(in, dtype), div(sum(mul(in, weights), {1}, true), total));
  Tensor excess = importance.defined() && correction != 0
                      ? div(mul(sum(mul(weights, importance)), correction), total)
                      : scalar_tensor(correction, dtype);
  Tensor divisor = clamp_min(sub(total, excess), 0);
  Tensor right = mul(centered, weights);
  Tensor products = mm(to(centered, right.dtype()), t(right));
  return squeeze(div(products, divisor));
}

Tensor corrcoef_decomp(const Tensor& self) {
  Tensor c = cov(self);
  if (c.dim() == 0) return div(c, c);
  Tensor deviation = sqrt(diagonal(c));
  Tensor ratio = div(div(c, unsqueeze(deviation, 1)), unsqueeze(deviation, 0));
  return clamp(ratio, -1, 1);
}

}  // namespace

static constexpr OpDef linalg_covariance_rows[] = {
    {.schema = "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? "
               "aweights=None) -> Tensor",
     .decomp = fn<cov_decomp>},
    {.schema = "corrcoef(Tensor self) -> Tensor", .decomp = fn<corrcoef_decomp>},
};

extern constinit const OpFamily op_family_linalg_covariance{linalg_covariance_rows};

}  // namespace tenon::ops
