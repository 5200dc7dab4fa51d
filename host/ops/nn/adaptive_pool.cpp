// Pooling to a given size: adaptive_avg_pool and adaptive_max_pool in one to three dimensions.
#include "ops/nn/window.h"
#include "ops/op.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/nn.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

TensorMeta adaptive_meta(std::string_view op, const Tensor& self, SymIntList size, size_t n) {
  size_t rank = self.sizes().size();
  require(size.size() == n, "{}: output_size must have {} values, found {}", op, n, size);
  require(rank == n + 1 || rank == n + 2, "{}: input must have {} or {} dimensions, found shape {}",
          op, n + 1, n + 2, self.sizes());
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < n; ++d) {
    const SymInt& in = sizes[rank - n + d];
    require(expect_true(in > 0), "{}: the input of shape {} is empty in space", op, self.sizes());
    require(expect_true(size[d] >= 0), "{}: output_size must not be negative, found {}", op, size);
    sizes[rank - n + d] = size[d];
  }
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

Windows windows_to(const Tensor& out, const Tensor& in, size_t n) {
  Windows windows = one_window_each();
  size_t rank = static_cast<size_t>(in.dim());
  for (size_t d = 0; d < n; ++d)
    windows[3 - n + d] = adaptive_windows(sizes_of(in)[rank - n + d], sizes_of(out)[rank - n + d]);
  return windows;
}

template <size_t n>
TensorMeta adaptive_avg_meta(const Tensor& self, SymIntList size) {
  require(is_floating(self.dtype()), "adaptive_avg_pool{}d: a floating dtype is expected, found {}",
          n, self.dtype());
  return adaptive_meta("adaptive_avg_pool", self, size, n);
}

template <size_t n>
void adaptive_avg_kernel(Tensor& out, const Tensor& self, SymIntList) {
  mean_over_windows(out, self, windows_to(out, self, n), n, 0);
}

template <size_t n>
std::array<TensorMeta, 2> adaptive_max_metas(const Tensor& self, IntList size) {
  TensorMeta out = adaptive_meta("adaptive_max_pool", self, size, n), indices = out;
  indices.dtype = Dtype::i64;
  return {std::move(out), std::move(indices)};
}

template <size_t n>
void adaptive_max_kernel(Tensor& out, Tensor& indices, const Tensor& self, IntList) {
  max_over_windows(out, indices, self, windows_to(out, self, n), n);
}

bool all_ones(SymIntList sizes) {
  for (SymInt s : sizes)
    if (!is_one(s)) return false;
  return true;
}

// To one position: a mean over space, in the input's memory format.
Tensor mean_over_space(const Tensor& self, std::initializer_list<int64_t> dims) {
  Tensor out = mean(self, dims, true);
  MemoryFormat format = suggest_memory_format(self);
  return format == MemoryFormat::contiguous
             ? out
             : as_strided(out, out.sizes(), list_of(strides_for(out.sizes(), format)));
}

Tensor adaptive_avg_pool2d_decomp(const Tensor& self, SymIntList size) {
  require(size.size() == 2, "adaptive_avg_pool2d: output_size must have 2 values, found {}", size);
  return all_ones(size) ? mean_over_space(self, {-1, -2}) : _adaptive_avg_pool2d(self, size);
}

Tensor adaptive_avg_pool3d_decomp(const Tensor& self, SymIntList size) {
  require(size.size() == 3, "adaptive_avg_pool3d: output_size must have 3 values, found {}", size);
  return all_ones(size) ? mean_over_space(self, {-1, -2, -3}) : _adaptive_avg_pool3d(self, size);
}

std::tuple<Tensor, Tensor> adaptive_max_pool1d_decomp(const Tensor& self, IntList size) {
  require(size.size() == 1, "adaptive_max_pool1d: output_size must have 1 value, found {}", size);
  auto [out, indices] = adaptive_max_pool2d(unsqueeze(self, -2), {1, size[0]});
  return {squeeze(out, -2), squeeze(indices, -2)};
}

}  // namespace

static constexpr OpDef nn_adaptive_pool_rows[] = {
    {.schema = "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
     .core = true,
     .meta = [](const Tensor& self, IntList size) { return adaptive_avg_meta<1>(self, size); },
     .eager = [](Tensor& out, const Tensor& self,
                 IntList) { adaptive_avg_kernel<1>(out, self, {}); },
     .decomp =
         [](const Tensor& self, IntList size) {
           return squeeze(adaptive_avg_pool2d(unsqueeze(self, -2), {1, size[0]}), -2);
         }},
    {.schema = "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     .decomp = fn<adaptive_avg_pool2d_decomp>},
    {.schema = "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     .decomp = fn<adaptive_avg_pool3d_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     .core = true,
     .meta = fn<adaptive_avg_meta<2>>,
     .eager = fn<adaptive_avg_kernel<2>>,
     .vjp = {{"self", "grad, self.meta",
              [](const Tensor& g, const Tensor& self) {
                return _adaptive_avg_pool2d_backward(g, g.new_empty(self.sizes()));
              }}},
     .linear = "self"},
    {.schema = "_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     .core = true,
     .meta = fn<adaptive_avg_meta<3>>,
     .eager = fn<adaptive_avg_kernel<3>>,
     .vjp = {{"self", "grad, self.meta",
              [](const Tensor& g, const Tensor& self) {
                return _adaptive_avg_pool3d_backward(g, g.new_empty(self.sizes()));
              }}},
     .linear = "self"},
    {.schema = "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
     .decomp = fn<adaptive_max_pool1d_decomp>},
    {.schema = "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
     .meta = fn<adaptive_max_metas<2>>,
     .eager = fn<adaptive_max_kernel<2>>,
     .vjp = {{"self", "grad, self, result1", fn<adaptive_max_pool2d_backward>}}},
    {.schema = "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
     .meta = fn<adaptive_max_metas<3>>,
     .eager = fn<adaptive_max_kernel<3>>,
     .vjp = {{"self", "grad, self, result1", fn<adaptive_max_pool3d_backward>}},
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_nn_adaptive_pool{nn_adaptive_pool_rows};

}  // namespace tenon::ops
