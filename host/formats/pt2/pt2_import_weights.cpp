// Weights of .pt2 programs as tensors over the mapped file, or as copies where they are written.
#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/passes/aliasing.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <cstring>

namespace tenon::formats {

namespace {

int64_t span_in_elements(const Pt2Weight& w) {
  int64_t last = w.offset;
  for (size_t d = 0; d < w.sizes.size(); ++d) {
    if (w.sizes[d] == 0) return 0;
    last += (w.sizes[d] - 1) * w.strides[d];  // checked when the file was read
  }
  return last + 1;
}

// Small values of both signs that differ from weight to weight, the same in every run.
Tensor random_base(const Pt2Weight& weight, int64_t n) {
  Tensor base = make_tensor(IntList{n}, weight.dtype);
  std::memset(base.data(), 0, static_cast<size_t>(n * itemsize(weight.dtype)));
  if (!is_floating(weight.dtype) || !is_computing(weight.dtype)) return base;
  uint64_t state = std::hash<std::string>()(weight.name) | 1;
  Tensor values = make_tensor(IntList{n}, Dtype::f32);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.data_ptr<float>()[i] = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-35f;
  }
  copy_(base, values);
  return base;
}

}  // namespace

// A tensor of rank 1 over the whole record.
Tensor Pt2Weights::base(const Pt2Weight& weight, bool is_written) {
  int64_t needed = span_in_elements(weight);
  bool random = options_.random_weights || (!weight.has_data && needed > 0);
  if (random) return random_base(weight, needed);
  auto n = static_cast<int64_t>(weight.storage.span.size()) / itemsize(weight.dtype);
  auto* data = const_cast<std::byte*>(weight.storage.span.data());
  if (is_written || n == 0) {
    Tensor copy = make_tensor(IntList{n}, weight.dtype);
    if (n) std::memcpy(copy.data(), data, static_cast<size_t>(n * itemsize(weight.dtype)));
    return copy;
  }
  auto* owner = new std::shared_ptr<const void>(weight.storage.owner);
  Tensor mapped = from_memory(
      data, {n}, weight.dtype, {},
      [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); }, owner);
  keep_private(*impl_of(mapped)->storage_ref.get());
  return mapped;
}

Tensor Pt2Weights::tensor(const Pt2Weight& weight, bool is_written) {
  Tensor& found = bases_[{weight.record, weight.dtype}];
  bool too_short = found.defined() && found.numel().guard_int() < span_in_elements(weight);
  if (!found.defined() || too_short) {
    found = base(weight, is_written);
    if (options_.device != kCPU) found = found.to(options_.device, found.dtype());
  }
  return make_view(found, SymIntList(weight.sizes), SymIntList(weight.strides), weight.offset);
}

std::vector<bool> written_inputs(const Graph& graph) {
  AliasClasses classes(graph);
  std::vector<bool> written(graph.inputs().size());
  for (size_t i = 0; i < written.size(); ++i)
    written[i] = graph.value(graph.inputs()[i]).kind == ValueKind::tensor &&
                 classes.is_written(graph.inputs()[i]);
  return written;
}

}  // namespace tenon::formats
