// Upsampling of one to three dimensions; each op with its form that takes scale factors.
#include "core/sym/sym_int.h"
#include "ops/nn/resample.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/nn.h>

namespace tenon::ops {

namespace {

TensorMeta upsample_meta(const Tensor& self, SymIntList size, size_t n) {
  require(static_cast<size_t>(self.dim()) == n + 2,
          "upsample: input must have {} dimensions, found shape {}", n + 2, self.sizes());
  require(size.size() == n, "upsample: output_size must have {} values, found {}", n, size);
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < n; ++d) {
    const SymInt in = sizes[d + 2], out = size[d];
    require(expect_true(in > 0) && expect_true(out > 0),
            "upsample: sizes must be positive, found input {} and output_size {}", self.sizes(),
            size);
    sizes[d + 2] = out;
  }
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

template <class... S>
TensorMeta nearest_meta(const Tensor& self, SymIntList size, S...) {
  return upsample_meta(self, size, sizeof...(S));
}

template <Interpolation kind, class... S>
void nearest_kernel(Tensor& out, const Tensor& self, SymIntList, S... scales) {
  resample(out, self, {kind, false, false, {scales...}, sizeof...(S)});
}

template <class... S>
TensorMeta weighted_meta(const Tensor& self, SymIntList size, bool, S...) {
  check_weighted(self.dtype());
  return upsample_meta(self, size, sizeof...(S));
}

template <Interpolation kind, bool antialias, class... S>
void weighted_kernel(Tensor& out, const Tensor& self, SymIntList, bool align_corners, S... scales) {
  resample(out, self, {kind, align_corners, antialias, {scales...}, sizeof...(S)});
}

// ---- by scale factors

struct Target {
  Dims sizes;
  Scale scales[3];
};

SymInt scaled_size(SymInt size, double factor) {
  if (!size.is_symbolic()) return static_cast<int64_t>(static_cast<double>(size.word()) * factor);
  return sym_round(SymOp::trunc, sym_float_op(SymOp::mul, sym_to_float(size), factor));
}

Target target_of(const Tensor& input, OptSymIntList size, OptDoubleList factors, size_t n) {
  require(size.has_value() != factors.has_value(),
          "upsample: one of output_size and scale_factors must be given");
  require(static_cast<size_t>(input.dim()) == n + 2,
          "upsample: input must have {} dimensions, found shape {}", n + 2, input.sizes());
  if (size) return {dims_of(*size), {}};
  require(factors->size() == n, "upsample: scale_factors must have {} values, found {}", n,
          factors->size());
  Target t;
  for (size_t d = 0; d < n; ++d) {
    t.sizes.push_back(scaled_size(input.sizes()[d + 2], (*factors)[d]));
    t.scales[d] = (*factors)[d];
  }
  return t;
}

Tensor upsample_nearest1d_vec(const Tensor& input, OptSymIntList size, OptDoubleList factors) {
  Target t = target_of(input, size, factors, 1);
  return upsample_nearest1d(input, list_of(t.sizes), t.scales[0]);
}
Tensor upsample_nearest_exact1d_vec(const Tensor& input, OptSymIntList size,
                                    OptDoubleList factors) {
  Target t = target_of(input, size, factors, 1);
  return _upsample_nearest_exact1d(input, list_of(t.sizes), t.scales[0]);
}
Tensor upsample_nearest2d_vec(const Tensor& input, OptSymIntList size, OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return upsample_nearest2d(input, list_of(t.sizes), t.scales[0], t.scales[1]);
}
Tensor upsample_nearest_exact2d_vec(const Tensor& input, OptSymIntList size,
                                    OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return _upsample_nearest_exact2d(input, list_of(t.sizes), t.scales[0], t.scales[1]);
}
Tensor upsample_nearest3d_vec(const Tensor& input, OptSymIntList size, OptDoubleList factors) {
  Target t = target_of(input, size, factors, 3);
  return upsample_nearest3d(input, list_of(t.sizes), t.scales[0], t.scales[1], t.scales[2]);
}
Tensor upsample_nearest_exact3d_vec(const Tensor& input, OptSymIntList size,
                                    OptDoubleList factors) {
  Target t = target_of(input, size, factors, 3);
  return _upsample_nearest_exact3d(input, list_of(t.sizes), t.scales[0], t.scales[1], t.scales[2]);
}
Tensor upsample_linear1d_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                             OptDoubleList factors) {
  Target t = target_of(input, size, factors, 1);
  return upsample_linear1d(input, list_of(t.sizes), align_corners, t.scales[0]);
}
Tensor upsample_bilinear2d_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                               OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return upsample_bilinear2d(input, list_of(t.sizes), align_corners, t.scales[0], t.scales[1]);
}
Tensor upsample_trilinear3d_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                                OptDoubleList factors) {
  Target t = target_of(input, size, factors, 3);
  return upsample_trilinear3d(input, list_of(t.sizes), align_corners, t.scales[0], t.scales[1],
                              t.scales[2]);
}
Tensor upsample_bicubic2d_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                              OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return upsample_bicubic2d(input, list_of(t.sizes), align_corners, t.scales[0], t.scales[1]);
}
Tensor upsample_bilinear2d_aa_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                                  OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return _upsample_bilinear2d_aa(input, list_of(t.sizes), align_corners, t.scales[0], t.scales[1]);
}
Tensor upsample_bicubic2d_aa_vec(const Tensor& input, OptSymIntList size, bool align_corners,
                                 OptDoubleList factors) {
  Target t = target_of(input, size, factors, 2);
  return _upsample_bicubic2d_aa(input, list_of(t.sizes), align_corners, t.scales[0], t.scales[1]);
}

}  // namespace

static constexpr OpDef nn_upsample_rows[] = {
    {.schema =
         "upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
     .meta = fn<nearest_meta<Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales", fn<upsample_nearest1d_backward>}},
     .linear = "self"},
    {.schema = "upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .decomp = fn<upsample_nearest1d_vec>},
    {.schema = "_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) "
               "-> Tensor",
     .meta = fn<nearest_meta<Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales",
              fn<_upsample_nearest_exact1d_backward>}},
     .linear = "self"},
    {.schema = "_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .decomp = fn<upsample_nearest_exact1d_vec>},
    {.schema = "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, "
               "float? scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales_h, scales_w",
              fn<upsample_nearest2d_backward>}},
     .linear = "self"},
    {.schema = "upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .core = true,
     .decomp = fn<upsample_nearest2d_vec>},
    {.schema = "_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales_h, scales_w",
              fn<_upsample_nearest_exact2d_backward>}},
     .linear = "self"},
    {.schema = "_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .decomp = fn<upsample_nearest_exact2d_vec>},
    {.schema = "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, "
               "float? scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest, Scale, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales_d, scales_h, scales_w",
              fn<upsample_nearest3d_backward>}},
     .linear = "self"},
    {.schema = "upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .decomp = fn<upsample_nearest3d_vec>},
    {.schema = "_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? "
               "scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<nearest_meta<Scale, Scale, Scale>>,
     .eager = fn<nearest_kernel<Interpolation::nearest_exact, Scale, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, scales_d, scales_h, scales_w",
              fn<_upsample_nearest_exact3d_backward>}},
     .linear = "self"},
    {.schema = "_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? "
               "scale_factors) -> Tensor",
     .decomp = fn<upsample_nearest_exact3d_vec>},
    {.schema = "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? "
               "scales=None) -> Tensor",
     .meta = fn<weighted_meta<Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales",
              fn<upsample_linear1d_backward>}},
     .linear = "self"},
    {.schema = "upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
               "float[]? scale_factors) -> Tensor",
     .decomp = fn<upsample_linear1d_vec>},
    {.schema = "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales_h, scales_w",
              fn<upsample_bilinear2d_backward>}},
     .linear = "self"},
    {.schema = "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
               "float[]? scale_factors) -> Tensor",
     .core = true,
     .decomp = fn<upsample_bilinear2d_vec>},
    {.schema = "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, "
               "float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, false, Scale, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales_d, scales_h, scales_w",
              fn<upsample_trilinear3d_backward>}},
     .linear = "self"},
    {.schema = "upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
               "float[]? scale_factors) -> Tensor",
     .decomp = fn<upsample_trilinear3d_vec>},
    {.schema = "upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? "
               "scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::cubic, false, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales_h, scales_w",
              fn<upsample_bicubic2d_backward>}},
     .linear = "self"},
    {.schema = "upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, "
               "float[]? scale_factors) -> Tensor",
     .decomp = fn<upsample_bicubic2d_vec>},
    {.schema = "_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
               "float? scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::linear, true, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales_h, scales_w",
              fn<_upsample_bilinear2d_aa_backward>}},
     .linear = "self"},
    {.schema = "_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool "
               "align_corners, float[]? scale_factors) -> Tensor",
     .decomp = fn<upsample_bilinear2d_aa_vec>},
    {.schema = "_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
               "float? scales_h=None, float? scales_w=None) -> Tensor",
     .meta = fn<weighted_meta<Scale, Scale>>,
     .eager = fn<weighted_kernel<Interpolation::cubic, true, Scale, Scale>>,
     .vjp = {{"self", "grad, output_size, self.sizes, align_corners, scales_h, scales_w",
              fn<_upsample_bicubic2d_aa_backward>}},
     .linear = "self"},
    {.schema = "_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool "
               "align_corners, float[]? scale_factors) -> Tensor",
     .decomp = fn<upsample_bicubic2d_aa_vec>},
};

extern constinit const OpFamily op_family_nn_upsample{nn_upsample_rows};

}  // namespace tenon::ops
