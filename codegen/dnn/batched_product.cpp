// Products of two values for eager kernels: plans by shape and strides.
#include "batched_product.h"

#include "engine.h"
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

std::shared_ptr<const PreparedBatchedProduct> plan_of(const BatchedProductShape& shape) {
  static auto& plans = *new PlanCache<PreparedBatchedProduct>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  return plans.get(key_of(shape, workers),
                   [&] { return PreparedBatchedProduct::make(shape, workers); });
}

}  // namespace

// Where each worker gets some columns of rows that lie behind each other, and for many rows on
// processors without AVX-512.
bool adds_in_other_order(const BatchedProductShape& shape) {
  constexpr int64_t many = 32;
  constexpr auto wide = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  if (shape.m > many && (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wide) != wide)
    return true;
  if (shape.other_strides.back() != 1) return false;
  auto plan = plan_of(shape);
  return plan && plan->slices() > 1 && plan->piece(0).dimension == shape.batch.size() + 1;
}

bool run_batched_product(const BatchedProduct& c) {
  auto plan = plan_of(c.shape);
  if (!plan) return false;
  tenon::plugin::parallel_chunks(plan->slices(), [&](int64_t slice, int32_t) {
    plan->run(slice, c.source, c.other, c.result, c.bias);
  });
  return true;
}

}  // namespace onednn
