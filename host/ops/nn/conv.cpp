// Convolutions: `convolution` is the kernel; the named forms of one to three dimensions lead to it.
#include "core/kernels/conv.h"
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"

#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <optional>

namespace tenon::ops {

namespace {

// Per-dimension settings; a list of one stands for all dimensions.
struct ConvSettings {
  Dims stride, padding, dilation, output_padding;
  bool transposed;
  SymInt groups;
};

Dims per_dimension(std::string_view name, SymIntList values, size_t n) {
  require(values.size() == n || values.size() == 1,
          "convolution: {} must have 1 or {} values, found {}", name, n, values);
  return values.size() == n ? dims_of(values) : Dims(n, values[0]);
}

bool all_at_least(const Dims& values, int64_t least) {
  return std::all_of(values.begin(), values.end(),
                     [&](SymInt v) { return expect_true(v >= least); });
}

ConvSettings settings_of(const Tensor& weight, SymIntList stride, SymIntList padding,
                         SymIntList dilation, bool transposed, SymIntList output_padding,
                         SymInt groups) {
  size_t n = weight.sizes().size() - 2;
  ConvSettings s{per_dimension("stride", stride, n),
                 per_dimension("padding", padding, n),
                 per_dimension("dilation", dilation, n),
                 per_dimension("output_padding", output_padding, n),
                 transposed,
                 groups};
  require(all_at_least(s.stride, 1) && all_at_least(s.dilation, 1),
          "convolution: stride and dilation must be positive, found {} and {}", stride, dilation);
  require(all_at_least(s.padding, 0) && all_at_least(s.output_padding, 0),
          "convolution: padding and output_padding must not be negative, found {} and {}", padding,
          output_padding);
  return s;
}

void check_channels(const Tensor& input, const Tensor& weight, const Tensor& bias, bool transposed,
                    SymInt groups) {
  require(weight.dim() >= 3 && weight.dim() <= 5,
          "convolution: weight must have 3 to 5 dimensions, found shape {}", weight.sizes());
  require(input.dim() == weight.dim(),
          "convolution: input of shape {} and weight of shape {} have different ranks",
          input.sizes(), weight.sizes());
  require_factors("convolution", input, weight);
  SymInt split = weight.size(0);
  require(expect_true(groups > 0) && expect_true(split % groups == 0),
          "convolution: {} groups cannot share out the first dimension of a weight of shape {}",
          groups, weight.sizes());
  SymInt taken = transposed ? weight.size(0) : weight.size(1) * groups;
  require(
      sizes_match(input.size(1), taken),
      "convolution: input of shape {} has {} channels, weight of shape {} with {} groups takes {}",
      input.sizes(), input.size(1), weight.sizes(), groups, taken);
  SymInt given = transposed ? weight.size(1) * groups : weight.size(0);
  require(!bias.defined() || (bias.dim() == 1 && sizes_match(bias.size(0), given)),
          "convolution: bias must have shape [{}], found {}", given,
          bias.defined() ? bias.sizes() : SymIntList());
}

// Nothing where the kernel does not fit, which the size need not tell: it may come out as 0.
std::optional<SymInt> output_size(SymInt input, SymInt kernel, const ConvSettings& s, size_t d) {
  SymInt reach = s.dilation[d] * (kernel - 1) + 1;
  SymInt room = s.transposed
                    ? (input - 1) * s.stride[d] - s.padding[d] * 2 + reach + s.output_padding[d]
                    : input + s.padding[d] * 2 - reach;
  if (!expect_true(room >= 0)) return std::nullopt;
  return s.transposed ? room : room / s.stride[d] + 1;
}

// channels_last where one of the two is laid out so.
MemoryFormat conv_format(const Tensor& input, const Tensor& weight) {
  MemoryFormat format = suggest_memory_format(input);
  return format == MemoryFormat::contiguous ? suggest_memory_format(weight) : format;
}

TensorMeta convolution_meta(const Tensor& input, const Tensor& weight, const Tensor& bias,
                            SymIntList stride, SymIntList padding, SymIntList dilation,
                            bool transposed, SymIntList output_padding, SymInt groups) {
  require(is_computing(input.dtype()), ErrorCode::unsupported,
          "convolution does not compute on dtype {}; cast the input", input.dtype());
  check_channels(input, weight, bias, transposed, groups);
  ConvSettings s =
      settings_of(weight, stride, padding, dilation, transposed, output_padding, groups);
  Dims sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  // As in PyTorch: of no channels none are made, whatever the weight says.
  if (guard_or_false(input.size(1) == 0)) sizes[1] = 0;
  for (size_t d = 0; d < s.stride.size(); ++d) {
    auto size = output_size(input.sizes()[d + 2], weight.sizes()[d + 2], s, d);
    require(size.has_value(),
            "convolution: the kernel of shape {} does not fit into the padded input of shape {}",
            weight.sizes(), input.sizes());
    sizes.push_back(*size);
  }
  Dims strides = strides_for(list_of(sizes), conv_format(input, weight));
  return {input.dtype(), input.device(), std::move(sizes), std::move(strides)};
}

// Missing leading dimensions of space are 1, with neutral settings.
kernels::ConvShape kernel_shape(const Tensor& out, const Tensor& input, const Tensor& weight,
                                const ConvSettings& s) {
  kernels::ConvShape shape;
  shape.batch = sizes_of(input)[0];
  shape.in_channels = sizes_of(input)[1];
  shape.out_channels = sizes_of(out)[1];
  shape.groups = s.groups;
  size_t n = s.stride.size();
  for (size_t d = 0; d < n; ++d) {
    size_t at = 3 - n + d;
    shape.input[at] = sizes_of(input)[d + 2];
    shape.kernel[at] = sizes_of(weight)[d + 2];
    shape.output[at] = sizes_of(out)[d + 2];
    shape.stride[at] = s.stride[d];
    shape.padding[at] = s.padding[d];
    shape.dilation[at] = s.dilation[d];
  }
  return shape;
}

void convolution_kernel(Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        SymIntList stride, SymIntList padding, SymIntList dilation, bool transposed,
                        SymIntList output_padding, SymInt groups) {
  if (numel_of(out) == 0) return;
  Dtype dtype = is_floating(input.dtype()) ? input.dtype() : Dtype::i64;
  Tensor x = converted(input, dtype), w = converted(weight, dtype);
  Tensor b = bias.defined() ? converted(bias, dtype) : Tensor();
  bool direct = out.is_contiguous() && out.dtype() == dtype;
  Tensor y = direct ? out : make_tensor(contiguous_meta(out.sizes(), dtype));
  kernels::ConvShape shape = kernel_shape(
      out, input, weight,
      settings_of(weight, stride, padding, dilation, transposed, output_padding, groups));
  auto run = [&]<class T>(auto conv) {
    conv(shape, data_of<T>(x), data_of<T>(w), b.defined() ? data_of<T>(b) : nullptr, data_of<T>(y));
  };
  if (dtype == Dtype::i64)
    run.template operator()<int64_t>(
        [&](const auto& s, auto... data) { kernels::conv_integers(s, transposed, data...); });
  else
    dispatch_floating(dtype, "convolution", [&]<class T>() {
      run.template operator()<T>(transposed ? kernels::conv_transposed<T> : kernels::conv<T>);
    });
  if (!direct) copy_elements(out, y);
}

// ---- derivatives

// The shape whose forward convolution takes `wide` to `narrow`: the call itself, or for a
// transposed one the convolution from its result back to its input.
kernels::ConvShape forward_shape(const Tensor& wide, const Tensor& narrow, const Tensor& weight,
                                 const ConvSettings& s) {
  return kernel_shape(narrow, wide, weight, s);
}

// The same seen from the other end, as conv_transposed takes it.
kernels::ConvShape reversed(kernels::ConvShape shape) {
  std::swap(shape.in_channels, shape.out_channels);
  std::swap(shape.input, shape.output);
  return shape;
}

std::array<TensorMeta, 3> backward_metas(const Tensor& grad, const Tensor& input,
                                         const Tensor& weight, OptSymIntList, SymIntList stride,
                                         SymIntList padding, SymIntList dilation, bool transposed,
                                         SymIntList output_padding, SymInt groups,
                                         BoolList wanted) {
  require(wanted.size() == 3, "convolution_backward: output_mask must have 3 values, found {}",
          wanted.size());
  TensorMeta result = convolution_meta(input, weight, undefined_tensor(), stride, padding, dilation,
                                       transposed, output_padding, groups);
  require_shape("convolution_backward", "grad_output", grad, list_of(result.sizes));
  require_same_dtype("convolution_backward", grad, input);
  MemoryFormat format = conv_format(input, weight);
  auto like = [&](const Tensor& t, bool is_wanted) {
    return TensorMeta{t.dtype(), t.device(), dims_of(t.sizes()), strides_for(t.sizes(), format),
                      is_wanted};
  };
  // Of no channels grad_output has none, either; a bias may have been given.
  bool is_bare = guard_or_false(input.size(1) == 0);
  SymInt channels = is_bare && !transposed ? weight.size(0) : grad.size(1);
  TensorMeta bias = contiguous_meta({channels}, grad.dtype(), grad.device());
  bias.defined = wanted[2];
  return {like(input, wanted[0]), like(weight, wanted[1]), std::move(bias)};
}

template <class T>
void weight_grad(const Tensor& out, const Tensor& wide, const Tensor& narrow,
                 const kernels::ConvShape& shape) {
  Tensor found = make_tensor(contiguous_meta(out.sizes(), out.dtype()));
  kernels::conv_weight_grad<T>(shape, data_of<T>(wide), data_of<T>(narrow), data_of<T>(found));
  copy_elements(out, found);
}

template <class T>
void input_grad(const Tensor& out, const Tensor& grad, const Tensor& weight,
                const kernels::ConvShape& forward, bool transposed) {
  Tensor found = make_tensor(contiguous_meta(out.sizes(), out.dtype()));
  if (transposed)
    kernels::conv<T>(forward, data_of<T>(grad), data_of<T>(weight), nullptr, data_of<T>(found));
  else
    kernels::conv_transposed<T>(reversed(forward), data_of<T>(grad), data_of<T>(weight), nullptr,
                                data_of<T>(found));
  copy_elements(out, found);
}

void convolution_backward_kernel(Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias,
                                 const Tensor& grad, const Tensor& input, const Tensor& weight,
                                 OptSymIntList, SymIntList stride, SymIntList padding,
                                 SymIntList dilation, bool transposed, SymIntList output_padding,
                                 SymInt groups, BoolList) {
  Tensor g = contiguous_of(grad), x = contiguous_of(input), w = contiguous_of(weight);
  ConvSettings s =
      settings_of(weight, stride, padding, dilation, transposed, output_padding, groups);
  const Tensor &wide = transposed ? g : x, &narrow = transposed ? x : g;
  kernels::ConvShape shape = forward_shape(wide, narrow, w, s);
  bool empty = numel_of(g) == 0 || numel_of(x) == 0;
  for (Tensor* t : {&grad_input, &grad_weight})
    if (t->defined() && empty) fill_elements(*t, 0);
  dispatch_floating(grad.dtype(), "convolution_backward", [&]<class T>() {
    if (grad_input.defined() && !empty) input_grad<T>(grad_input, g, w, shape, transposed);
    if (grad_weight.defined() && !empty) weight_grad<T>(grad_weight, wide, narrow, shape);
  });
  if (!grad_bias.defined()) return;
  if (numel_of(g) == 0) return fill_elements(grad_bias, 0);
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
  copy_elements(grad_bias, sum(g, dims));
}

// ---- the named forms

// An input without a batch dimension gets one for the call.
template <class F>
Tensor with_batch(const Tensor& input, const Tensor& weight, const F& f) {
  bool batched = input.dim() == weight.dim();
  require(weight.dim() >= 3, "convolution: weight must have 3 to 5 dimensions, found shape {}",
          weight.sizes());
  require(batched || input.dim() + 1 == weight.dim(),
          "convolution: input of shape {} does not fit weight of shape {}", input.sizes(),
          weight.sizes());
  Tensor out = f(batched ? input : unsqueeze(input, 0));
  return batched ? out : squeeze(out, 0);
}

// A convolution is linear in its input and in its weight.
Tensor complex_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           SymIntList stride, SymIntList padding, SymIntList dilation,
                           bool transposed, SymIntList output_padding, SymInt groups) {
  require_same_dtype("convolution", input, weight);
  if (bias.defined()) require_same_dtype("convolution", input, bias);
  auto apply = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups);
  };
  Tensor x = real(input), y = imag(input), a = real(weight), b = imag(weight), none;
  Tensor of_real = bias.defined() ? real(bias) : none, of_imag = bias.defined() ? imag(bias) : none;
  return complex(sub(apply(x, a, of_real), apply(y, b, none)),
                 add(apply(x, b, of_imag), apply(y, a, none)));
}

Tensor conv_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias, SymIntList stride,
                   SymIntList padding, SymIntList dilation, SymInt groups) {
  return with_batch(input, weight, [&](const Tensor& x) {
    Dims zeros(weight.sizes().size() - 2, SymInt(0));
    return convolution(x, weight, bias, stride, padding, dilation, false, list_of(zeros), groups);
  });
}

Tensor conv_transpose_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                             SymIntList stride, SymIntList padding, SymIntList output_padding,
                             SymInt groups, SymIntList dilation) {
  return with_batch(input, weight, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, true, output_padding, groups);
  });
}

// Padding such that the output has the input's size; what is uneven goes to the right.
Tensor same_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, SymIntList stride,
                 SymIntList dilation, SymInt groups) {
  size_t n = weight.sizes().size() - 2;
  Dims steps = per_dimension("stride", stride, n), reach = per_dimension("dilation", dilation, n);
  Dims padding(n), extra(2 * n, SymInt(0));
  bool uneven = false;
  for (size_t d = 0; d < n; ++d) {
    require(is_one(steps[d]), "convolution: padding 'same' needs stride 1, found {}", stride);
    SymInt total = reach[d] * (weight.sizes()[d + 2] - 1);
    padding[d] = total / 2;
    extra[2 * (n - 1 - d) + 1] = total - padding[d] * 2;
    uneven = uneven || is_one(total - padding[d] * 2);
  }
  Dims zeros(n, SymInt(0));
  return convolution(uneven ? constant_pad_nd(x, list_of(extra), 0) : x, weight, bias, stride,
                     list_of(padding), dilation, false, list_of(zeros), groups);
}

Tensor conv_padding_decomp(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           SymIntList stride, std::string_view padding, SymIntList dilation,
                           SymInt groups) {
  require(padding == "same" || padding == "valid",
          "convolution: padding must be 'same' or 'valid', found '{}'", padding);
  if (padding == "valid")
    return conv_decomp(input, weight, bias, stride, SymInt(0), dilation, groups);
  return with_batch(input, weight, [&](const Tensor& x) {
    return same_conv(x, weight, bias, stride, dilation, groups);
  });
}

}  // namespace

namespace {

// A convolution is linear in each of its two inputs, and so is its backward in each of three.
std::tuple<Tensor, Tensor, Tensor> convolution_backward_vjp(
    const Tensor& g_input, const Tensor& g_weight, const Tensor& g_bias, const Tensor& grad_output,
    const Tensor& input, const Tensor& weight, SymIntList stride, SymIntList padding,
    SymIntList dilation, bool transposed, SymIntList output_padding, SymInt groups) {
  auto forward = [&](const Tensor& x, const Tensor& w) {
    return convolution(x, w, {}, stride, padding, dilation, transposed, output_padding, groups);
  };
  auto backward = [&](const Tensor& x, const Tensor& w, bool of_input) {
    bool mask[3] = {of_input, !of_input, false};
    auto [gx, gw, gb] = convolution_backward(grad_output, x, w, {}, stride, padding, dilation,
                                             transposed, output_padding, groups, BoolList(mask, 3));
    return of_input ? gx : gw;
  };
  Tensor out, of_input, of_weight;
  auto add = [](Tensor& sum, const Tensor& part) { sum = sum.defined() ? sum.add(part) : part; };
  if (g_input.defined()) {
    add(out, forward(g_input, weight));
    of_weight = backward(g_input, weight, false);
  }
  if (g_weight.defined()) {
    add(out, forward(input, g_weight));
    of_input = backward(input, g_weight, true);
  }
  if (g_bias.defined()) {
    Dims shape(grad_output.sizes().size(), SymInt(1));
    shape[1] = g_bias.numel();
    add(out, g_bias.reshape(list_of(shape)).expand(grad_output.sizes()));
  }
  return {out, of_input, of_weight};
}

}  // namespace

static constexpr OpDef nn_conv_rows[] = {
    {.schema =
         "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
         "padding, "
         "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
     .tags = OpTags::convolution,
     .core = true,
     .meta = fn<convolution_meta>,
     .eager = fn<convolution_kernel>,
     .complex = fn<complex_convolution>,
     .vjp = {{"input, weight, bias",
              "grad, input, weight, bias.sizes, stride, padding, dilation, transposed, "
              "output_padding, groups, needs",
              fn<convolution_backward>}},
     .linear = "input * weight + bias"},
    {.schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? "
               "bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
               "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, "
               "Tensor)",
     .tags = OpTags::convolution,
     .core = true,
     .meta = fn<backward_metas>,
     .eager = fn<convolution_backward_kernel>,
     .vjp = {{"grad_output, input, weight",
              "grad0?, grad1?, grad2?, grad_output, input, weight, stride, padding, dilation, "
              "transposed, output_padding, groups",
              fn<convolution_backward_vjp>}}},
    {.schema = "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, "
               "SymInt[1] padding=0, "
               "SymInt[1] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
               "SymInt[2] padding=0, "
               "SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, "
               "SymInt[3] padding=0, "
               "SymInt[3] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, "
               "str padding=\"valid\", SymInt[1] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_padding_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
               "str padding=\"valid\", SymInt[2] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_padding_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, "
               "str padding=\"valid\", SymInt[3] dilation=1, SymInt groups=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_padding_decomp>,
     .autocast = Autocast::lower},
    // [time, batch, channels]
    {.schema = "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
           Tensor out = conv1d(permute(self, {1, 2, 0}), permute(weight, {2, 1, 0}), bias,
                               {SymInt(1)}, {SymInt(pad)});
           return permute(out, {2, 0, 1}).contiguous();
         }},
    {.schema =
         "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, "
         "SymInt[1] padding=0, SymInt[1] output_padding=0, SymInt groups=1, SymInt[1] dilation=1) "
         "-> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_transpose_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] "
               "stride=1, "
               "SymInt[2] padding=0, SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] "
               "dilation=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_transpose_decomp>,
     .autocast = Autocast::lower},
    {.schema = "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] "
               "stride=1, "
               "SymInt[3] padding=0, SymInt[3] output_padding=0, SymInt groups=1, SymInt[3] "
               "dilation=1) -> Tensor",
     .tags = OpTags::convolution,
     .decomp = fn<conv_transpose_decomp>,
     .autocast = Autocast::lower},
};

extern constinit const OpFamily op_family_nn_conv{nn_conv_rows};

}  // namespace tenon::ops
