// Pooling with a kernel that slides: max_pool and avg_pool in one to three dimensions.
#include "ops/nn/pool_settings.h"
#include "ops/op.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

TensorMeta pool_meta(std::string_view op, const Tensor& self, const PoolSettings& s) {
  Dims sizes = pooled_sizes(op, self, s);
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

// ---- max

template <size_t n>
std::array<TensorMeta, 2> max_pool_metas(const Tensor& self, IntList kernel, IntList stride,
                                         IntList padding, IntList dilation, bool ceil_mode) {
  TensorMeta out =
      pool_meta("max_pool", self, pool_settings(n, kernel, stride, padding, dilation, ceil_mode));
  TensorMeta indices = out;
  indices.dtype = Dtype::i64;
  return {std::move(out), std::move(indices)};
}

template <size_t n>
TensorMeta max_pool_meta(const Tensor& self, IntList kernel, IntList stride, IntList padding,
                         IntList dilation, bool ceil_mode) {
  return pool_meta("max_pool", self,
                   pool_settings(n, kernel, stride, padding, dilation, ceil_mode));
}

template <size_t n>
void max_pool_with_indices_kernel(Tensor& out, Tensor& indices, const Tensor& self, IntList kernel,
                                  IntList stride, IntList padding, IntList dilation,
                                  bool ceil_mode) {
  PoolSettings s = pool_settings(n, kernel, stride, padding, dilation, ceil_mode);
  max_over_windows(out, indices, self, windows_of(out, self, s, false), n);
}

template <size_t n>
void max_pool_kernel(Tensor& out, const Tensor& self, IntList kernel, IntList stride,
                     IntList padding, IntList dilation, bool ceil_mode) {
  PoolSettings s = pool_settings(n, kernel, stride, padding, dilation, ceil_mode);
  max_over_windows(out, Tensor(), self, windows_of(out, self, s, false), n);
}

// The one value for width behind `height`; nothing stays nothing.
std::vector<int64_t> behind(int64_t height, IntList width) {
  if (width.empty()) return {};
  return {height, width[0]};
}

// Packed: a transposed row would count as channels-last, and so would the result.
Tensor as_one_row(const Tensor& self) { return unsqueeze(contiguous(self), -2); }

std::tuple<Tensor, Tensor> max_pool1d_decomp(const Tensor& self, IntList kernel, IntList stride,
                                             IntList padding, IntList dilation, bool ceil_mode) {
  auto [out, indices] =
      max_pool2d_with_indices(as_one_row(self), behind(1, kernel), behind(1, stride),
                              behind(0, padding), behind(1, dilation), ceil_mode);
  return {squeeze(out, -2), squeeze(indices, -2)};
}

// ---- average

template <size_t n>
TensorMeta avg_pool_meta(const Tensor& self, IntList kernel, IntList stride, IntList padding,
                         bool ceil_mode, bool, std::optional<int64_t> divisor) {
  require(!divisor || *divisor != 0, "avg_pool: divisor_override must not be 0");
  return pool_meta("avg_pool", self, pool_settings(n, kernel, stride, padding, {1}, ceil_mode));
}

template <size_t n>
void avg_pool_kernel(Tensor& out, const Tensor& self, IntList kernel, IntList stride,
                     IntList padding, bool ceil_mode, bool with_padding,
                     std::optional<int64_t> divisor) {
  PoolSettings s = pool_settings(n, kernel, stride, padding, {1}, ceil_mode);
  mean_over_windows(out, self, windows_of(out, self, s, with_padding), n, divisor.value_or(0));
}

}  // namespace

static constexpr OpDef nn_pool_rows[] = {
    {.schema = "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, "
               "int[1] dilation=1, bool ceil_mode=False) -> Tensor",
     .meta = fn<max_pool_meta<1>>,
     .eager = fn<max_pool_kernel<1>>,
     .decomp =
         [](const Tensor& self, IntList kernel, IntList stride, IntList padding, IntList dilation,
            bool ceil_mode) {
           return std::get<0>(
               max_pool1d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
         }},
    {.schema = "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
               "int[2] dilation=1, bool ceil_mode=False) -> Tensor",
     .meta = fn<max_pool_meta<2>>,
     .eager = fn<max_pool_kernel<2>>,
     .decomp =
         [](const Tensor& self, IntList kernel, IntList stride, IntList padding, IntList dilation,
            bool ceil_mode) {
           return std::get<0>(
               max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
         }},
    {.schema = "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
               "int[3] dilation=1, bool ceil_mode=False) -> Tensor",
     .meta = fn<max_pool_meta<3>>,
     .eager = fn<max_pool_kernel<3>>,
     .decomp =
         [](const Tensor& self, IntList kernel, IntList stride, IntList padding, IntList dilation,
            bool ceil_mode) {
           return std::get<0>(
               max_pool3d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
         },
     .autocast = Autocast::fp32},
    {.schema = "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] "
               "padding=0, "
               "int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     .decomp = fn<max_pool1d_decomp>},
    {.schema = "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] "
               "padding=0, "
               "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     .core = true,
     .meta = fn<max_pool_metas<2>>,
     .eager = fn<max_pool_with_indices_kernel<2>>,
     .vjp = {{"self", "grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1",
              fn<max_pool2d_with_indices_backward>}}},
    {.schema = "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] "
               "padding=0, "
               "int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     .core = true,
     .meta = fn<max_pool_metas<3>>,
     .eager = fn<max_pool_with_indices_kernel<3>>,
     .vjp = {{"self", "grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1",
              fn<max_pool3d_with_indices_backward>}}},
    {.schema = "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, "
               "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
     .core = true,
     .meta =
         [](const Tensor& self, IntList kernel, IntList stride, IntList padding, bool ceil_mode,
            bool) { return avg_pool_meta<1>(self, kernel, stride, padding, ceil_mode, true, {}); },
     .eager =
         [](Tensor& out, const Tensor& self, IntList kernel, IntList stride, IntList padding,
            bool ceil_mode, bool with_padding) {
           avg_pool_kernel<1>(out, self, kernel, stride, padding, ceil_mode, with_padding, {});
         },
     .decomp =
         [](const Tensor& self, IntList kernel, IntList stride, IntList padding, bool ceil_mode,
            bool with_padding) {
           return squeeze(avg_pool2d(as_one_row(self), behind(1, kernel), behind(1, stride),
                                     behind(0, padding), ceil_mode, with_padding),
                          -2);
         }},
    {.schema =
         "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
         "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     .core = true,
     .meta = fn<avg_pool_meta<2>>,
     .eager = fn<avg_pool_kernel<2>>,
     .vjp = {{"self",
              "grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, "
              "divisor_override",
              fn<avg_pool2d_backward>}}},
    {.schema =
         "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
         "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     .core = true,
     .meta = fn<avg_pool_meta<3>>,
     .eager = fn<avg_pool_kernel<3>>,
     .vjp = {{"self",
              "grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, "
              "divisor_override",
              fn<avg_pool3d_backward>}},
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_nn_pool{nn_pool_rows};

}  // namespace tenon::ops
