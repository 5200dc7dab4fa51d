// Rounding to what few-bit integers hold, in floating numbers, as training before quantisation does.
//
// q = zero_point + round(x / scale), where a zero_point with a fraction is rounded together with the
// quotient; the result is (clamp(q) - zero_point) * scale. The derivative is 1 where q lies in the
// range and 0 elsewhere: the mask, the second result of the rows that the others are made of. As in
// PyTorch the scale is an f32 number, and its reciprocal is what multiplies.
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shape_check.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

void check_range(std::string_view op, const Tensor& self, int64_t low, int64_t high) {
  require(is_floating(self.dtype()), ErrorCode::unsupported,
          "{}: a floating dtype is expected, found {}", op, self.dtype());
  require(low <= high, "{}: quant_min must not be above quant_max, found {} and {}", op, low, high);
}

// Of numbers or of tensors that broadcast with self. What is not a number lies below the range.
template <class S, class I, class Z>
Pair quantized(const Tensor& self, const S& scale, const I& inverse, const Z& zero_point,
               int64_t low, int64_t high, bool is_whole = true) {
  Tensor x = to(self, self.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
  Tensor q =
      is_whole ? add(round(mul(x, inverse)), zero_point) : round(add(mul(x, inverse), zero_point));
  Tensor inside = logical_and(ge(q, low), le(q, high));
  Tensor kept = clamp(masked_fill(q, isnan(q), low), Number(low), Number(high));
  return {to(mul(sub(kept, zero_point), scale), self.dtype()), inside};
}

Pair by_numbers(const Tensor& self, double scale, int64_t zero_point, int64_t low, int64_t high) {
  constexpr auto name = "fake_quantize_per_tensor_affine";
  check_range(name, self, low, high);
  require(zero_point >= low && zero_point <= high,
          "{}: zero_point must lie between quant_min and quant_max, found {}", name, zero_point);
  auto narrow = static_cast<float>(scale);
  return quantized(self, Number(double(narrow)), Number(double(1 / narrow)), Number(zero_point),
                   low, high);
}

// Both hold one number; where fake_quant_enabled holds 0, self comes back as it is.
Pair by_tensors(const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                const Tensor& enabled, int64_t low, int64_t high) {
  check_range("fake_quantize_per_tensor_affine", self, low, high);
  auto first = [](const Tensor& t) { return select(flatten(t), 0, 0); };
  Tensor factor = to(first(scale), Dtype::f32);
  auto [values, inside] = quantized(self, factor, reciprocal(factor),
                                    to(to(first(zero_point), Dtype::i64), Dtype::f32), low, high);
  Tensor off = eq(first(enabled), 0);
  return {where(off, self, values), logical_or(inside, off)};
}

// The sizes in which one number a channel broadcasts with self.
Dims sizes_by_channel(std::string_view name, const Tensor& self, const Tensor& scale,
                      const Tensor& zero_point, int64_t axis) {
  require(axis >= 0 && axis < self.dim(), "{}: axis must be a dimension of self, found {} for {}",
          name, axis, self);
  require(scale.dim() == 1 && zero_point.dim() == 1 && bool(scale.size(0) == self.size(axis)) &&
              bool(zero_point.size(0) == self.size(axis)),
          "{}: a scale and a zero_point for each of {} channels are expected, found {} and {}",
          name, self.size(axis), scale, zero_point);
  Dims sizes(static_cast<size_t>(self.dim()), SymInt(1));
  sizes[static_cast<size_t>(axis)] = self.size(axis);
  return sizes;
}

Pair by_channel(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
                int64_t low, int64_t high) {
  constexpr auto name = "fake_quantize_per_channel_affine";
  check_range(name, self, low, high);
  Dims sizes = sizes_by_channel(name, self, scale, zero_point, axis);
  require(scale.dtype() == Dtype::f32 &&
              (zero_point.dtype() == Dtype::i32 || zero_point.dtype() == Dtype::f32 ||
               zero_point.dtype() == Dtype::f16),
          "{}: scales of f32 and zero points of i32, f32 or f16 are expected, found {} and {}",
          name, scale.dtype(), zero_point.dtype());
  Tensor factor = reshape(scale, list_of(sizes));
  return quantized(self, factor, reciprocal(factor),
                   reshape(to(zero_point, Dtype::f32), list_of(sizes)), low, high,
                   zero_point.dtype() == Dtype::i32);
}

/// A scale and a zero point that are trained, as they broadcast with self. All f32.
struct Learned {
  Tensor scale, zero_point;
};

// A zero point counts as the nearest whole number in the range, of two the even one. PyTorch's
// derivative by one scale adds a half and drops the fraction instead.
Tensor whole_zero_point(const Tensor& zero_point, int64_t low, int64_t high) {
  return clamp(round(zero_point), Number(low), Number(high));
}

// The scale or the zero point of a whole tensor, as a number.
Tensor only_element(const Tensor& t) {
  require(bool(t.numel() == 1),
          "_fake_quantize_learnable_per_tensor_affine: a scale and a zero_point of one element are "
          "expected, found {}; for one a channel call _fake_quantize_learnable_per_channel_affine",
          t);
  return to(reshape(t, SymIntList()), Dtype::f32);
}

Learned learned_of_channels(const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                            int64_t axis, int64_t low, int64_t high) {
  Dims sizes = sizes_by_channel("_fake_quantize_learnable_per_channel_affine", self, scale,
                                zero_point, axis);
  auto shaped = [&](const Tensor& t) { return reshape(to(t, Dtype::f32), list_of(sizes)); };
  return {shaped(scale), whole_zero_point(shaped(zero_point), low, high)};
}

Tensor by_learned(const Tensor& self, const Learned& l, int64_t low, int64_t high) {
  check_range("_fake_quantize_learnable", self, low, high);
  return std::get<0>(quantized(self, l.scale, reciprocal(l.scale), l.zero_point, low, high));
}

// The gradients of self and, by element, those of the scale and of the zero point.
Triple learned_gradients(const Tensor& grad, const Tensor& self, const Learned& l, int64_t low,
                         int64_t high, double factor) {
  check_range("_fake_quantize_learnable_backward", self, low, high);
  Tensor inverse = reciprocal(l.scale), x = to(self, Dtype::f32), g = to(grad, Dtype::f32);
  Tensor q = round(add(mul(x, inverse), l.zero_point));
  Tensor below = lt(q, low), above = gt(q, high), outside = logical_or(below, above);
  Tensor rounded = mul(sub(clamp(q, Number(low), Number(high)), l.zero_point), l.scale);
  Tensor at_end = where(below, rsub(l.zero_point, Number(low)), rsub(l.zero_point, Number(high)));
  Tensor of_scale = mul(where(outside, at_end, mul(sub(rounded, x), inverse)), g);
  Tensor of_zero_point = where(outside, neg(mul(g, l.scale)), zeros_like(g));
  return {masked_fill(grad, outside, 0), mul(of_scale, factor), mul(of_zero_point, factor)};
}

Triple learned_tensor_backward(const Tensor& grad, const Tensor& self, const Tensor& scale,
                               const Tensor& zero_point, int64_t low, int64_t high, double factor) {
  Tensor raised = add(only_element(zero_point), Number(0.5));
  Learned l{only_element(scale), trunc(clamp(raised, Number(low), Number(high)))};
  auto [of_self, of_scale, of_zero_point] = learned_gradients(grad, self, l, low, high, factor);
  return {of_self, reshape(sum(of_scale), scale.sizes()),
          reshape(sum(of_zero_point), zero_point.sizes())};
}

Triple learned_channel_backward(const Tensor& grad, const Tensor& self, const Tensor& scale,
                                const Tensor& zero_point, int64_t axis, int64_t low, int64_t high,
                                double factor) {
  Learned l = learned_of_channels(self, scale, zero_point, axis, low, high);
  auto [of_self, of_scale, of_zero_point] = learned_gradients(grad, self, l, low, high, factor);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != axis) others.push_back(d);
  auto of_channels = [&](const Tensor& t) { return others.empty() ? t : sum(t, others); };
  return {of_self, of_channels(of_scale), of_channels(of_zero_point)};
}

Tensor masked(const Tensor& grad, const Tensor& mask) {
  require(mask.dtype() == Dtype::bool_, "fake_quantize: a mask of bool is expected, found {}",
          mask.dtype());
  return mul(grad, mask);
}

constexpr Vjp through_mask = {{"self", "grad, result1", fn<masked>}};

}  // namespace

static constexpr OpDef nn_fake_quantize_rows[] = {
    {.schema = "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int "
               "quant_min, int quant_max) -> Tensor",
     .decomp =
         [](const Tensor& self, double scale, int64_t zero_point, int64_t low, int64_t high) {
           return fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, low, high)
               .output;
         }},
    {.schema = "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor "
               "zero_point, int quant_min, int quant_max) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t low,
            int64_t high) {
           return _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                      self, scale, zero_point, ones({1}, Dtype::i64, std::nullopt, self.device()),
                      low, high)
               .output;
         }},
    {.schema = "fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int "
               "zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     .decomp = fn<by_numbers>,
     .vjp = through_mask},
    {.schema = "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor "
               "scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int "
               "quant_max) -> (Tensor output, Tensor mask)",
     .decomp = fn<by_tensors>,
     .vjp = through_mask},
    {.schema = "fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> "
               "Tensor",
     .decomp = fn<masked>},
    {.schema = "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, "
               "int axis, int quant_min, int quant_max) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
            int64_t low, int64_t high) {
           return fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, low,
                                                             high)
               .output;
         }},
    {.schema = "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor "
               "zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor "
               "mask)",
     .decomp = fn<by_channel>,
     .vjp = through_mask},
    {.schema = "fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> "
               "Tensor",
     .decomp = fn<masked>},
    {.schema = "_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor "
               "zero_point, int quant_min, int quant_max, float grad_factor=1.) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t low,
            int64_t high, double) {
           return by_learned(
               self, {only_element(scale), whole_zero_point(only_element(zero_point), low, high)},
               low, high);
         },
     .vjp = {{"self, scale, zero_point",
              "grad, self, scale, zero_point, quant_min, quant_max, grad_factor",
              fn<_fake_quantize_learnable_per_tensor_affine_backward>}}},
    {.schema = "_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, Tensor self, "
               "Tensor scale, Tensor zero_point, int quant_min, int quant_max, float "
               "grad_factor=1.) -> (Tensor, Tensor, Tensor)",
     .decomp = fn<learned_tensor_backward>},
    {.schema = "_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor "
               "zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> "
               "Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
            int64_t low, int64_t high, double) {
           return by_learned(self, learned_of_channels(self, scale, zero_point, axis, low, high),
                             low, high);
         },
     .vjp = {{"self, scale, zero_point",
              "grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor",
              fn<_fake_quantize_learnable_per_channel_affine_backward>}}},
    {.schema = "_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, Tensor self, "
               "Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float "
               "grad_factor=1.) -> (Tensor, Tensor, Tensor)",
     .decomp = fn<learned_channel_backward>},
};

extern constinit const OpFamily op_family_nn_fake_quantize{nn_fake_quantize_rows};

}  // namespace tenon::ops
