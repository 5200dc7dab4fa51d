// Dropout of whole features and its self-normalising form; outside of training all are the
// identity.
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>

#include <cmath>

namespace tenon::ops {

namespace {

void check_probability(double p) {
  require(p >= 0 && p <= 1, "dropout: the probability must lie in [0, 1], found {}", p);
}

bool changes_nothing(const Tensor& self, double p, bool train) {
  check_probability(p);
  return p == 0 || !train || self.numel() == 0;
}

// One draw for each element, or for each channel of each image.
Tensor kept_mask(const Tensor& self, double p, bool by_feature) {
  if (!by_feature) return bernoulli(empty_like(self), 1 - p);
  require(self.dim() >= 2,
          "feature_dropout: input needs a batch and a channel dimension, found shape {}",
          self.sizes());
  Dims sizes(self.sizes().size(), SymInt(1));
  sizes[0] = self.size(0);
  sizes[1] = self.size(1);
  return bernoulli(new_empty(self, list_of(sizes)), 1 - p);
}

Tensor feature_dropout_decomp(const Tensor& self, double p, bool train) {
  if (changes_nothing(self, p, train)) return self;
  if (p == 1) return mul(self, zeros_like(self));
  return mul(self, div(kept_mask(self, p, true), 1 - p));
}

// Dropped elements take the negative saturation of selu; scale and shift restore mean and variance.
Tensor alpha_dropout_of(const Tensor& self, double p, bool train, bool by_feature) {
  if (changes_nothing(self, p, train)) return self;
  if (p == 1) return mul(self, zeros_like(self));
  constexpr double alpha = 1.7580993408473766;
  double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  Tensor kept = kept_mask(self, p, by_feature);
  Tensor shift = add(mul(sub(kept, 1), alpha * a), alpha * a * p);
  return add(mul(self, mul(kept, a)), shift);
}

Tensor alpha_dropout_decomp(const Tensor& self, double p, bool train) {
  return alpha_dropout_of(self, p, train, false);
}

Tensor feature_alpha_dropout_decomp(const Tensor& self, double p, bool train) {
  return alpha_dropout_of(self, p, train, true);
}

template <auto Dropped>
void dropped_in_place(const Tensor& self, double p, bool train) {
  Tensor out = Dropped(self, p, train);
  if (!out.is_same(self)) copy_(self, out);
}

}  // namespace

static constexpr OpDef nn_dropout_rows[] = {
    {.schema = "feature_dropout(Tensor input, float p, bool train) -> Tensor",
     .tags = OpTags::random,
     .decomp = fn<feature_dropout_decomp>},
    {.schema = "alpha_dropout(Tensor input, float p, bool train) -> Tensor",
     .tags = OpTags::random,
     .decomp = fn<alpha_dropout_decomp>},
    {.schema = "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
     .tags = OpTags::random,
     .decomp = fn<feature_alpha_dropout_decomp>},
    {.schema = "feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
     .tags = OpTags::random,
     .decomp = fn<dropped_in_place<feature_dropout_decomp>>},
    {.schema = "alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
     .tags = OpTags::random,
     .decomp = fn<dropped_in_place<alpha_dropout_decomp>>},
    {.schema = "feature_alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
     .tags = OpTags::random,
     .decomp = fn<dropped_in_place<feature_alpha_dropout_decomp>>},
};

extern constinit const OpFamily op_family_nn_dropout{nn_dropout_rows};

}  // namespace tenon::ops
