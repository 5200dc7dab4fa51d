// Activations: functions of one value and numbers, same shape; and the backward ops of those that
// have one.
#include "core/scalar/fast_formulas.h"
#include "ops/op.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::ops {

static constexpr OpDef pointwise_activation_rows[] = {
    {.schema = "relu(Tensor self) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>(fast::relu),
     .vjp = {{"self", "grad, result",
              [](const Tensor& g, const Tensor& y) { return threshold_backward(g, y, 0); }}}},
    {.schema = "relu6(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise<numbers>(fast::relu6),
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return hardtanh_backward(g, x, 0, 6); }}}},
    {.schema = "silu(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x) { return x * sigmoid(x); }),
     .decomp = [](const Tensor& x) { return x * x.sigmoid(); },
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return silu_backward(g, x); }}}},
    {.schema = "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
     .formula = pointwise([](auto g, auto x) {
       auto s = sigmoid(x);
       return g * s * (1 + x * (1 - s));
     })},
    {.schema = "mish(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x) { return x * tanh(max(x, 0) + log1p(exp(-abs(x)))); })},
    {.schema = "gelu(Tensor self, *, str approximate='none') -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = by_arg("approximate",
                       {{"none", pointwise(fast::gelu)}, {"tanh", pointwise(fast::gelu_tanh)}}),
     .vjp = {{"self", "grad, self, approximate",
              [](const Tensor& g, const Tensor& x, std::string_view approximate) {
                return gelu_backward(g, x, approximate);
              }}}},
    {.schema =
         "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
     .formula =
         by_arg("approximate", {{"none", pointwise([](auto g, auto x) {
                                   auto cdf = 0.5 * (1 + erf(x * 0.70710678118654752440));
                                   auto pdf = exp(x * x * -0.5) * 0.39894228040143267794;
                                   return g * (cdf + x * pdf);
                                 })},
                                {"tanh", pointwise([](auto g, auto x) {
                                   auto inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
                                   auto t = tanh(inner);
                                   auto slope = 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
                                   return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
                                 })}})},
    {.schema = "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
     .variants = in_place,
     .formula = pointwise<numbers>(fast::hardtanh),
     .vjp = {{"self", "grad, self, min_val, max_val",
              [](const Tensor& g, const Tensor& x, Number lo, Number hi) {
                return hardtanh_backward(g, x, lo, hi);
              }}}},
    {.schema = "hardsigmoid(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise(fast::hardsigmoid),
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return hardsigmoid_backward(g, x); }}}},
    {.schema = "hardswish(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise(fast::hardswish),
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return hardswish_backward(g, x); }}}},
    {.schema = "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
     // ATen multiplies by 1/6 in f32, for f64 too.
     .formula = pointwise(
         [](auto g, auto x) { return select((x > -3) & (x < 3), g * 0.16666667163372039795, 0); })},
    {.schema = "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
     .formula = pointwise(
         [](auto g, auto x) { return select(x <= -3, 0, select(x < 3, g * (x / 3 + 0.5), g)); })},
    {.schema = "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) "
               "-> Tensor",
     .formula = pointwise(
         [](auto g, auto x, auto lo, auto hi) { return select((x <= lo) | (x >= hi), 0, g); })},
    {.schema = "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise(fast::leaky_relu),
     .vjp = {{"self", "grad, self, negative_slope",
              [](const Tensor& g, const Tensor& x, Number slope) {
                return leaky_relu_backward(g, x, slope, false);
              }}}},
    {.schema = "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
               "self_is_result) -> Tensor",
     .formula =
         pointwise([](auto g, auto x, auto slope, auto) { return select(x > 0, g, g * slope); })},
    {.schema = "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise([](auto x, auto alpha, auto scale, auto input_scale) {
       return select(x < 0, expm1(x * input_scale) * (alpha * scale), x * scale);
     }),
     .vjp = {{"self", "grad, self, alpha, scale, input_scale",
              [](const Tensor& g, const Tensor& x, Number alpha, Number scale, Number input_scale) {
                return elu_backward(g, alpha, scale, input_scale, false, x);
              }}}},
    {.schema = "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
               "bool is_result, Tensor self_or_result) -> Tensor",
     .formula =
         pointwise([](auto g, auto alpha, auto scale, auto input_scale, auto is_result, auto x) {
           auto from_result = g * input_scale * (x + alpha * scale);
           auto from_self = g * input_scale * alpha * scale * exp(x * input_scale);
           return select(x <= 0, select(is_result != 0, from_result, from_self), g * scale);
         })},
    {.schema = "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
     .variants = in_place,
     .formula =
         pointwise([](auto x, auto alpha) { return select(x <= 0, expm1(x / alpha) * alpha, x); })},
    {.schema = "selu(Tensor self) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x) {
       constexpr double scale = 1.0507009873554804934193349852946,
                        alpha = 1.6732632423543772848170429916717;
       return select(x <= 0, expm1(x) * (alpha * scale), x * scale);
     })},
    {.schema = "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
     .formula = pointwise([](auto x, auto beta, auto threshold) {
       return select(x * beta > threshold, x, log1p(exp(min(x * beta, threshold))) / beta);
     }),
     .vjp = {{"self", "grad, self, beta, threshold",
              [](const Tensor& g, const Tensor& x, Number beta, Number threshold) {
                return softplus_backward(g, x, beta, threshold);
              }}}},
    {.schema = "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) "
               "-> Tensor",
     .formula = pointwise([](auto g, auto x, auto beta, auto threshold) {
       return select(x * beta > threshold, g, g * sigmoid(x * beta));
     })},
    {.schema = "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
     .formula = pointwise([](auto x, auto lambd) {
       return select(x > lambd, x - lambd, select(x < -lambd, x + lambd, x * 0));
     }),
     .vjp = {{"self", "grad, self, lambd",
              [](const Tensor& g, const Tensor& x,
                 Number lambd) { return softshrink_backward(g, x, lambd); }}}},
    {.schema = "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
     .formula =
         pointwise([](auto x, auto lambd) { return select((x >= -lambd) & (x <= lambd), 0, x); })},
    {.schema = "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
     .formula = pointwise(
         [](auto g, auto x, auto lambd) { return select((x >= -lambd) & (x <= lambd), 0, g); })},
    {.schema = "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
     .formula = pointwise(
         [](auto g, auto x, auto lambd) { return select((x >= -lambd) & (x <= lambd), 0, g); })},
    {.schema = "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
     .variants = in_place,
     .formula = pointwise<numbers>(
         [](auto x, auto threshold, auto value) { return select(x <= threshold, value, x); }),
     .vjp = {{"self", "grad, self, threshold",
              [](const Tensor& g, const Tensor& x, Number threshold) {
                return threshold_backward(g, x, threshold);
              }}}},
    {.schema = "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
     .formula = pointwise<numbers>(fast::threshold_backward)},
    {.schema = "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
     .formula = pointwise(fast::sigmoid_backward)},
    {.schema = "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
     .formula = pointwise(fast::tanh_backward)},
    {.schema = "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
     .formula = pointwise([](auto x) {
       auto z = exp(-abs(x));
       return outputs(min(x, 0) - log1p(z), z);
     }),
     .vjp = {{"self", "grad, self, result1", fn<log_sigmoid_backward>}}},
    // At 0 the formula has two kinks, which make up for each other.
    {.schema = "log_sigmoid(Tensor self) -> Tensor",
     .formula = pointwise([](auto x) { return min(x, 0) - log1p(exp(-abs(x))); }),
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return log_sigmoid_backward(g, x, x); }}}},
    {.schema = "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
     .formula = pointwise([](auto g, auto x, auto) { return g * sigmoid(-x); })},
    {.schema = "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
     .formula = by_presence({{0, pointwise([](auto g, auto x) {
                                auto slope = g / (x * (1 - x));
                                return select((x < 0) | (x > 1), NAN, slope);
                              })},
                             {1, pointwise([](auto g, auto x, auto eps) {
                                auto slope = g / (x * (1 - x));
                                return select((x < eps) | (x > 1 - eps), 0, slope);
                              })}})},
    {.schema = "mish_backward(Tensor grad_output, Tensor self) -> Tensor",
     .formula = pointwise([](auto g, auto x) {
       auto t = tanh(max(x, 0) + log1p(exp(-abs(x))));
       return g * (t + x * sigmoid(x) * (1 - t * t));
     })},
    {.schema = "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
     .decomp =
         [](const Tensor& grad, const Tensor& self, int64_t dim) {
           SymInt half = self.size(dim) / 2;
           Tensor value = self.narrow(dim, 0, half), gate = self.narrow(dim, half, half).sigmoid();
           return cat({grad * gate, (-gate + 1) * gate * grad * value}, dim);
         }},
    {.schema = "rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar "
               "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> "
               "Tensor",
     .tags = OpTags::random,
     .decomp =
         [](const Tensor& self, const Tensor& noise, Number lower, Number upper, bool training,
            Value) {
           double low = lower.to_double(), high = upper.to_double();
           if (!training) return leaky_relu(self, (low + high) / 2);
           Tensor slope = rand_like(self) * (high - low) + low;
           copy_(noise, where(self.le(0), slope, 1));
           return self * noise;
         }},
    {.schema = "rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar "
               "upper=0.33333333333333331, bool training=False, Generator? generator=None) -> "
               "(Tensor, Tensor noise_out)",
     .tags = OpTags::random,
     .decomp =
         [](const Tensor& self, const Tensor& noise, Number lower, Number upper, bool training,
            Value) {
           Tensor drawn = clone(noise);
           Tensor y = rrelu_with_noise(self, drawn, lower, upper, training);
           return std::tuple(y, drawn);
         }},
    {.schema = "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar "
               "lower, Scalar upper, bool training, bool self_is_result) -> Tensor",
     .decomp =
         [](const Tensor& grad, const Tensor& self, const Tensor& noise, Number lower, Number upper,
            bool training, bool self_is_result) {
           double low = lower.to_double(), high = upper.to_double();
           if (training && high - low > 1e-6) return grad * noise;
           return leaky_relu_backward(grad, self, (low + high) / 2, self_is_result);
         }},
    {.schema = "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool "
               "training=False, Generator? generator=None) -> Tensor",
     .variants = in_place,
     .tags = OpTags::random,
     .decomp =
         [](const Tensor& self, Number lower, Number upper, bool training, Value) {
           return rrelu_with_noise(self, empty_like(self), lower, upper, training);
         }},
    {.schema = "softsign(Tensor self) -> Tensor",
     .decomp = [](const Tensor& x) { return x / (x.abs() + 1); }},
    {.schema = "_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
     .formula = pointwise([](auto x, auto w) { return select(x > 0, x, x * w); })},
    {.schema = "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, "
               "Tensor)",
     .formula = pointwise([](auto g, auto x, auto w) {
       return outputs(select(x > 0, g, g * w), select(x > 0, 0, x * g));
     })},
    {.schema = "prelu(Tensor self, Tensor weight) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& weight) {
           require(weight.dim() <= 1, "prelu: weight must have at most one dimension, found {}",
                   weight.dim());
           bool per_channel = weight.dim() == 1 && weight.size(0) != 1;
           std::vector<SymInt> shape(static_cast<size_t>(self.dim()), SymInt(1));
           if (per_channel && self.dim() > 0) shape[self.dim() > 1] = weight.size(0);
           return _prelu_kernel(self, weight.reshape(SymIntList(List<SymInt>(shape))));
         },
     .autocast = Autocast::lower},
    {.schema = "glu(Tensor self, int dim=-1) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim) {
           require(self.dim() > 0, "glu: a 0-dim tensor cannot be halved");
           int64_t d = dim < 0 ? dim + self.dim() : dim;
           SymInt size = self.size(d);
           require(bool(size % 2 == 0), "glu: the size of dimension {} must be even, found {}", dim,
                   size);
           SymInt half = size / 2;
           return self.narrow(d, 0, half) * self.narrow(d, half, half).sigmoid();
         }},
};

extern constinit const OpFamily op_family_pointwise_activation{pointwise_activation_rows};

}  // namespace tenon::ops
