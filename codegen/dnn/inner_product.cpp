// Linear layers for eager kernels: plans by shape, packed weights by tensor.
#include "inner_product.h"

#include "packed_weights.h"
#include "plan_cache.h"
#include "prepared.h"

#include <tenon/plugin.hpp>

namespace onednn {

bool run_inner_product(const InnerProduct& c) {
  static auto& plans = *new PlanCache<PreparedInnerProduct>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  InnerProductShape shape{c.dtype, c.m, c.k, c.n, c.bias != nullptr};
  auto plan = plans.get({c.dtype, c.m, c.k, c.n, shape.bias, workers},
                        [&] { return PreparedInnerProduct::make(shape, workers); });
  if (!plan) return false;
  int64_t n_stride = c.weights_n_stride, k_stride = c.weights_k_stride;
  WeightsKey key(*c.weights, {n_stride, k_stride}, plan->packed_layout());
  auto pack = [&](int64_t part, void* packed) {
    plan->pack_part(part, c.weights->data, n_stride, k_stride, packed);
  };
  PackedPtr weights =
      find_or_pack(*c.weights, key, plan->packed_bytes(), plan->pack_parts(), pack, c.keeps_packed);
  tenon::plugin::parallel_chunks(plan->slices(), [&](int64_t slice, int32_t) {
    plan->run(slice, c.source, weights->data(), c.bias, c.result);
  });
  return true;
}

}  // namespace onednn
