// Derivatives of upsampling by its input.
#include "ops/nn/resample.h"
#include "ops/op.h"
#include "ops/shapes.h"

namespace tenon::ops {

namespace {

using Scale = std::optional<double>;

// Whether `grad` has the shape that upsampling `input_size` to `size` gives.
bool is_result_shape(const Tensor& grad, SymIntList size, SymIntList input_size, size_t n) {
  if (static_cast<size_t>(grad.dim()) != n + 2 || size.size() != n || input_size.size() != n + 2)
    return false;
  bool same =
      sizes_match(grad.sizes()[0], input_size[0]) && sizes_match(grad.sizes()[1], input_size[1]);
  for (size_t d = 0; same && d < n; ++d) same = sizes_match(grad.sizes()[d + 2], size[d]);
  return same;
}

TensorMeta backward_meta(const Tensor& grad, SymIntList size, SymIntList input_size, size_t n) {
  require(is_result_shape(grad, size, input_size, n),
          "upsample backward: the gradient must have {} dimensions, the first two of input_size, "
          "then output_size; found shape {} for output_size {} and input_size {}",
          n + 2, grad.sizes(), size, input_size);
  return {grad.dtype(), grad.device(), dims_of(input_size),
          strides_for(input_size, suggest_memory_format(grad))};
}

// ATen leaves the three-dimensional ones row-major.
template <class... S>
TensorMeta nearest_meta(const Tensor& grad, SymIntList size, SymIntList input_size, S...) {
  TensorMeta meta = backward_meta(grad, size, input_size, sizeof...(S));
  if (sizeof...(S) == 3) meta.strides = contiguous_strides(list_of(meta.sizes));
  return meta;
}

template <Interpolation kind, class... S>
void nearest_kernel(Tensor& out, const Tensor& grad, SymIntList, SymIntList, S... scales) {
  resample_backward(out, grad, {kind, false, false, {scales...}, sizeof...(S)});
}

template <class... S>
TensorMeta weighted_meta(const Tensor& grad, SymIntList size, SymIntList input_size, bool, S...) {
  return backward_meta(grad, size, input_size, sizeof...(S));
}

template <Interpolation kind, bool antialias, class... S>
void weighted_kernel(Tensor& out, const Tensor& grad, SymIntList, SymIntList, bool align_corners,
                     S... scales) {
  resample_backward(out, grad, {kind, align_corners, antialias, {scales...}, sizeof...(S)});
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, "
               "SymInt[3] input_size, float? scales=None) -> Tensor",
     .meta = fn<nearest_meta<Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale>>},
    {.schema = "upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> "
               "Tensor",
     .meta = fn<nearest_meta<Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale, Scale>>},
    {.schema = "upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, "
               "SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float?"
               " scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale, Scale, Scale>>},
    {.schema = "_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] "
               "output_size, SymInt[3] input_size, float? scales=None) -> Tensor",
     .meta = fn<nearest_meta<Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale>>},
    {.schema = "_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale, Scale>>},
    {.schema = "_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] "
               "output_size, SymInt[5] input_size, float? scales_d=None, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale, Scale, Scale>>},
    {.schema = "upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, "
               "SymInt[3] input_size, bool align_corners, float? scales=None) -> Tensor",
     .meta = fn<weighted_meta<Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale>>},
    {.schema = "upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale, Scale>>},
    {.schema = "upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size,"
               " SymInt[5] input_size, bool align_corners, float? scales_d=None, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale, Scale, Scale>>},
    {.schema = "upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::cubic, false, Scale, Scale>>},
    {.schema = "_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, true, Scale, Scale>>},
    {.schema = "_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::cubic, true, Scale, Scale>>},
};

extern constinit const OpFamily op_family_nn_upsample_backward{rows};

}  // namespace tenon::ops
