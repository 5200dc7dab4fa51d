// Distances between vectors: cosine_similarity, pairwise_distance, dist.
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

namespace tenon::ops {

namespace {

// Each vector is divided by its own length, of which eps is the least.
Tensor cosine_similarity_decomp(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  std::vector<Tensor> both = broadcast_tensors(std::vector<Tensor>{x1, x2});
  Tensor left = div(both[0], clamp_min(linalg_vector_norm(both[0], 2, {dim}, true), eps));
  Tensor right = div(both[1], clamp_min(linalg_vector_norm(both[1], 2, {dim}, true), eps));
  return sum(mul(left, right), {dim});
}

Tensor pairwise_distance_decomp(const Tensor& x1, const Tensor& x2, double p, double eps,
                                bool keepdim) {
  return linalg_vector_norm(add(sub(x1, x2), eps), p, {-1}, keepdim);
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
     .decomp = fn<cosine_similarity_decomp>},
    {.schema =
         "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
         "bool keepdim=False) -> Tensor",
     .decomp = fn<pairwise_distance_decomp>},
    {.schema = "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
     .decomp = [](const Tensor& self, const Tensor& other,
                  Number p) { return linalg_vector_norm(sub(self, other), p); }},
};

extern constinit const OpFamily op_family_linalg_distance{rows};

}  // namespace tenon::ops
