// Derivatives of upsampling by its input.
#include "ops/nn/resample.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/nn.h>

namespace tenon::ops {

namespace {

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
  for (size_t d = 0; d < n; ++d)
    require(expect_true(input_size[d + 2] > 0) && expect_true(size[d] > 0),
            "upsample backward: sizes must be positive, found input_size {} and output_size {}",
            input_size, size);
  return {grad.dtype(), grad.device(), dims_of(input_size),
          strides_for(input_size, suggest_memory_format(grad))};
}

// ATen leaves the three-dimensional ones row-major.
template <class... S>
TensorMeta nearest_backward_meta(const Tensor& grad, SymIntList size, SymIntList input_size, S...) {
  TensorMeta meta = backward_meta(grad, size, input_size, sizeof...(S));
  if (sizeof...(S) == 3) meta.strides = contiguous_strides(list_of(meta.sizes));
  return meta;
}

template <Interpolation kind, class... S>
void nearest_backward_kernel(Tensor& out, const Tensor& grad, SymIntList, SymIntList, S... scales) {
  resample_backward(out, grad, {kind, false, false, {scales...}, sizeof...(S)});
}

template <class... S>
TensorMeta weighted_backward_meta(const Tensor& grad, SymIntList size, SymIntList input_size, bool,
                                  S...) {
  check_weighted(grad.dtype());
  return backward_meta(grad, size, input_size, sizeof...(S));
}

template <Interpolation kind, bool antialias, class... S>
void weighted_backward_kernel(Tensor& out, const Tensor& grad, SymIntList, SymIntList,
                              bool align_corners, S... scales) {
  resample_backward(out, grad, {kind, align_corners, antialias, {scales...}, sizeof...(S)});
}

}  // namespace

static constexpr OpDef nn_upsample_backward_rows[] = {
    {.schema = "upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, "
               "SymInt[3] input_size, float? scales=None) -> Tensor",
     .meta = fn<nearest_backward_meta<Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales",
              [](const Tensor& g, SymIntList out, std::optional<double> s0) {
                return upsample_nearest1d(g, out, s0);
              }}}},
    {.schema = "upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, float? scales_h=None, float? scales_w=None) -> "
               "Tensor",
     .meta = fn<nearest_backward_meta<Scale, Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, std::optional<double> s0,
                 std::optional<double> s1) { return upsample_nearest2d(g, out, s0, s1); }}}},
    {.schema = "upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, "
               "SymInt[5] input_size, float? scales_d=None, float? scales_h=None, float?"
               " scales_w=None) -> Tensor",
     .meta = fn<nearest_backward_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest, Scale, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales_d, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, std::optional<double> s0,
                 std::optional<double> s1,
                 std::optional<double> s2) { return upsample_nearest3d(g, out, s0, s1, s2); }}}},
    {.schema = "_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] "
               "output_size, SymInt[3] input_size, float? scales=None) -> Tensor",
     .meta = fn<nearest_backward_meta<Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest_exact, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales",
              [](const Tensor& g, SymIntList out, std::optional<double> s0) {
                return _upsample_nearest_exact1d(g, out, s0);
              }}}},
    {.schema = "_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<nearest_backward_meta<Scale, Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest_exact, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, std::optional<double> s0,
                 std::optional<double> s1) { return _upsample_nearest_exact2d(g, out, s0, s1); }}}},
    {.schema = "_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] "
               "output_size, SymInt[5] input_size, float? scales_d=None, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<nearest_backward_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_backward_kernel<Interpolation::nearest_exact, Scale, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, scales_d, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, std::optional<double> s0,
                 std::optional<double> s1, std::optional<double> s2) {
                return _upsample_nearest_exact3d(g, out, s0, s1, s2);
              }}}},
    {.schema = "upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, "
               "SymInt[3] input_size, bool align_corners, float? scales=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::linear, false, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0) {
                return upsample_linear1d(g, out, align, s0);
              }}}},
    {.schema = "upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale, Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::linear, false, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0,
                 std::optional<double> s1) {
                return upsample_bilinear2d(g, out, align, s0, s1);
              }}}},
    {.schema = "upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size,"
               " SymInt[5] input_size, bool align_corners, float? scales_d=None, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale, Scale, Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::linear, false, Scale, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales_d, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0,
                 std::optional<double> s1, std::optional<double> s2) {
                return upsample_trilinear3d(g, out, align, s0, s1, s2);
              }}}},
    {.schema = "upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, "
               "SymInt[4] input_size, bool align_corners, float? scales_h=None, float? "
               "scales_w=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale, Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::cubic, false, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0,
                 std::optional<double> s1) { return upsample_bicubic2d(g, out, align, s0, s1); }}}},
    {.schema = "_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale, Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::linear, true, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0,
                 std::optional<double> s1) {
                return _upsample_bilinear2d_aa(g, out, align, s0, s1);
              }}}},
    {.schema = "_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] "
               "output_size, SymInt[4] input_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_backward_meta<Scale, Scale>>,
     .eager = fn<weighted_backward_kernel<Interpolation::cubic, true, Scale, Scale>>,
     .vjp = {{"grad_output", "grad, output_size, align_corners, scales_h, scales_w",
              [](const Tensor& g, SymIntList out, bool align, std::optional<double> s0,
                 std::optional<double> s1) {
                return _upsample_bicubic2d_aa(g, out, align, s0, s1);
              }}}},
};

extern constinit const OpFamily op_family_nn_upsample_backward{nn_upsample_backward_rows};

}  // namespace tenon::ops
