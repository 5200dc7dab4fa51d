// Products of two values for eager kernels: plans by shape and strides.
#include "batched_product.h"

#include "plan_cache.h"

#include <tenon/plugin.hpp>

#include <bit>

namespace onednn {

namespace {

PlanKey key_of(const BatchedProductShape& c, int64_t workers) {
  PlanKey key{c.dtype,
              workers,
              c.bias,
              std::bit_cast<int32_t>(c.alpha),
              std::bit_cast<int32_t>(c.beta),
              static_cast<int64_t>(c.batch.size()),
              c.m,
              c.k,
              c.n};
  // Each but the last has a length that follows from the batch's.
  for (const auto& list : {c.batch, c.source_strides, c.other_strides, c.result_strides})
    key.insert(key.end(), list.begin(), list.end());
  return key;
}

}  // namespace

bool run_batched_product(const BatchedProduct& c) {
  static auto& plans = *new PlanCache<PreparedBatchedProduct>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  auto plan = plans.get(key_of(c.shape, workers),
                        [&] { return PreparedBatchedProduct::make(c.shape, workers); });
  if (!plan) return false;
  tenon::plugin::parallel_chunks(plan->slices(), [&](int64_t slice, int32_t) {
    plan->run(slice, c.source, c.other, c.result, c.bias);
  });
  return true;
}

}  // namespace onednn
