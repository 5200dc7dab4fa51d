// Convolutions for eager kernels: plans by shape and strides, packed weights by tensor.
#include "convolution.h"

#include "packed_weights.h"
#include "plan_cache.h"

#include <tenon/plugin.hpp>

namespace onednn {

namespace {

PlanKey key_of(const ConvolutionShape& c, int64_t workers) {
  PlanKey key{c.dtype,  workers,    c.bias,         c.bias_dtype(),
              c.images, c.channels, c.out_channels, c.groups};
  for (const auto& space : {c.source, c.kernel, c.stride, c.padding, c.dilation})
    key.insert(key.end(), space, space + 3);
  for (const auto& strides : {c.source_strides, c.result_strides})
    key.insert(key.end(), strides, strides + 5);
  return key;
}

}  // namespace

bool run_convolution(const Convolution& c) {
  static auto& plans = *new PlanCache<PreparedConvolution>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  auto plan = plans.get(key_of(c.shape, workers),
                        [&] { return PreparedConvolution::make(c.shape, {}, workers); });
  if (!plan) return false;
  WeightsKey key(*c.weights, {c.shape.groups}, plan->packed_layout());
  auto pack = [&](int64_t part, void* packed) {
    plan->pack_part(part, c.weights->data, c.weights_strides, packed);
  };
  PackedPtr weights = find_or_pack(*c.weights, key, plan->packed_bytes(), plan->pack_parts(), pack);
  tenon::plugin::parallel_chunks(plan->slices(), [&](int64_t slice, int32_t) {
    plan->run(slice, c.source, weights->data(), c.bias, nullptr, c.result);
  });
  return true;
}

}  // namespace onednn
