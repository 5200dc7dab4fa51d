// The convolutions of ATen: arguments to oneDNN calls, results in ATen's shapes and strides.
#include "kernels.h"

#include <dnn/convolution.h>
#include <dnn/convolution_backward.h>

#include <algorithm>
#include <array>
#include <vector>

namespace onednn {

using tenon::plugin::tensor;

namespace {

/// The arguments that all spellings share, by position in the schema.
struct Arguments {
  const tn_tensor *source, *weights, *bias;
  const tn_arg &stride, &padding, &dilation;
  int64_t groups;
};

// One number stands for all dimensions. False where the list has another length.
bool read_space(const tn_arg& a, int spatial, int64_t otherwise, int64_t (&out)[3]) {
  std::fill_n(out, 3, otherwise);
  if (a.kind == TN_ARG_INT || (a.kind == TN_ARG_INTS && a.count == 1)) {
    int64_t value = a.kind == TN_ARG_INT ? a.u.i : a.u.ints[0];
    std::fill_n(out + 3 - spatial, spatial, value);
    return true;
  }
  if (a.kind != TN_ARG_INTS || static_cast<int>(a.count) != spatial) return false;
  std::copy_n(a.u.ints, spatial, out + 3 - spatial);
  return true;
}

/// Sizes and strides with dimensions of length 1 put in where a tensor has less than three of
/// space.
struct View {
  int64_t sizes[5], strides[5];

  explicit View(const tn_tensor* t) {
    int missing = 5 - t->ndim;
    for (int d = 0; d < 5; ++d) {
      bool made_up = d >= 2 && d < 2 + missing;
      int from = d < 2 ? d : d - missing;
      sizes[d] = made_up ? 1 : t->sizes[from];
      strides[d] = made_up ? t->sizes[2] * t->strides[2] : t->strides[from];
    }
  }
};

/// The host's test, which looks at no stride of a dimension of length 1.
bool is_channels_last(const tn_tensor* t) {
  return (t->flags & (TN_T_CONTIGUOUS | TN_T_CHANNELS_LAST)) == TN_T_CHANNELS_LAST;
}

bool has_zero_stride(const View& v) {
  for (int d = 0; d < 5; ++d)
    if (v.sizes[d] > 1 && v.strides[d] == 0) return true;
  return false;
}

bool fill_geometry(const Arguments& a, int spatial, ConvolutionShape& c) {
  if (!read_space(a.stride, spatial, 1, c.stride) ||
      !read_space(a.padding, spatial, 0, c.padding) ||
      !read_space(a.dilation, spatial, 1, c.dilation))
    return false;
  View x(a.source), w(a.weights);
  c.images = x.sizes[0];
  c.channels = x.sizes[1];
  c.out_channels = w.sizes[0];
  c.groups = a.groups;
  if (c.groups < 1 || w.sizes[1] * c.groups != c.channels || c.out_channels % c.groups)
    return false;
  for (int d = 0; d < 3; ++d) {
    c.source[d] = x.sizes[2 + d];
    c.kernel[d] = w.sizes[2 + d];
    if (c.stride[d] < 1 || c.dilation[d] < 1 || c.padding[d] < 0) return false;
    int64_t room = c.source[d] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1;
    if (room < 0) return false;
    c.result[d] = room / c.stride[d] + 1;
  }
  std::copy_n(x.strides, 5, c.source_strides);
  return !has_zero_stride(x) && !has_zero_stride(w);
}

// The result in the layout that ATen gives it: channels-last when source or weights are.
tensor make_result(const Arguments& a, int spatial, ConvolutionShape& c) {
  bool last = spatial > 1 && (is_channels_last(a.source) || is_channels_last(a.weights));
  int64_t* by = c.result_strides;
  int64_t step = last ? c.out_channels : 1;
  for (int d = 2; d >= 0; --d) by[2 + d] = step, step *= c.result[d];
  by[1] = last ? 1 : step;
  by[0] = last ? step : step * c.out_channels;
  std::vector<int64_t> sizes{c.images, c.out_channels}, strides{by[0], by[1]};
  sizes.insert(sizes.end(), c.result + 3 - spatial, c.result + 3);
  strides.insert(strides.end(), by + 5 - spatial, by + 5);
  return tensor::strided(sizes, strides, c.dtype);
}

bool run(const kernel_call& call, const Arguments& a, int spatial) {
  if (!is_plain(a.source) || !is_plain(a.weights) || a.source->dtype != a.weights->dtype ||
      a.source->ndim != spatial + 2 || a.weights->ndim != spatial + 2)
    return false;
  bool bias_fits = !a.bias || (is_plain(a.bias) && a.bias->dtype == a.source->dtype &&
                               a.bias->ndim == 1 && a.bias->sizes[0] == a.weights->sizes[0] &&
                               (a.bias->strides[0] == 1 || a.bias->sizes[0] == 1));
  Convolution c{};
  if (!bias_fits || !fill_geometry(a, spatial, c.shape)) return false;
  c.shape.dtype = a.source->dtype;
  c.shape.bias = a.bias != nullptr;
  std::copy_n(View(a.weights).strides, 5, c.weights_strides);
  c.source = a.source->data;
  c.weights = a.weights;
  c.bias = a.bias ? a.bias->data : nullptr;
  tensor out = make_result(a, spatial, c.shape);
  c.result = out->data;
  if (!run_convolution(c)) return false;
  call.give(0, std::move(out));
  return true;
}

// conv1d to conv3d: input, weight, bias, stride, padding, dilation, groups.
bool run_short(const kernel_call& call, int spatial) {
  if (call.args[6].kind != TN_ARG_INT) return false;
  return run(call,
             {call.tensor_at(0), call.tensor_at(1), call.tensor_at(2), call.args[3], call.args[4],
              call.args[5], call.args[6].u.i},
             spatial);
}

}  // namespace

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups.
bool convolution(const kernel_call& call) {
  const tn_tensor* source = call.tensor_at(0);
  bool transposed = call.args[6].u.i != 0;
  if (!source || transposed || call.args[8].kind != TN_ARG_INT) return false;
  if (source->ndim < 3 || source->ndim > 5) return false;
  return run(call,
             {source, call.tensor_at(1), call.tensor_at(2), call.args[3], call.args[4],
              call.args[5], call.args[8].u.i},
             source->ndim - 2);
}

namespace {

bool is_f32(const tn_tensor* t, int rank) {
  return is_plain(t) && t->dtype == TN_F32 && t->ndim == rank;
}

tensor dense_like(const tn_tensor* t) {
  return tensor::empty(std::span(t->sizes, static_cast<size_t>(t->ndim)), t->dtype);
}

}  // namespace

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask.
bool convolution_backward(const kernel_call& call) {
  const tn_tensor *grad = call.tensor_at(0), *source = call.tensor_at(1),
                  *weights = call.tensor_at(2);
  int rank = source ? source->ndim : 0;
  if (rank < 3 || rank > 5 || call.args[7].u.i != 0 || call.args[9].kind != TN_ARG_INT ||
      call.args[10].kind != TN_ARG_BOOLS || call.args[10].count != 3)
    return false;
  if (!is_f32(grad, rank) || !is_f32(source, rank) || !is_f32(weights, rank)) return false;
  View g(grad);
  if (has_zero_stride(g) || is_channels_last(source) || is_channels_last(weights)) return false;
  ConvolutionGradients gradients{};
  Arguments arguments{source,       weights,      nullptr,         call.args[4],
                      call.args[5], call.args[6], call.args[9].u.i};
  if (!fill_geometry(arguments, rank - 2, gradients.shape)) return false;
  gradients.shape.dtype = TN_F32;
  std::copy_n(View(weights).strides, 5, gradients.weights_strides);
  gradients.source = source->data;
  gradients.weights = weights->data;
  gradients.workers = tenon::plugin::host->svc->num_threads();
  gradients.gradient = grad->data;
  std::copy_n(g.strides, 5, gradients.gradient_strides);
  const uint8_t* wanted = call.args[10].u.bools;
  tensor of_source, of_weights, of_bias;
  if (wanted[0]) of_source = dense_like(source);
  if (wanted[1]) of_weights = dense_like(weights);
  if (wanted[2]) of_bias = tensor::empty(std::array{weights->sizes[0]}, TN_F32);
  if (wanted[2] && !wanted[1]) return false;
  if (wanted[0]) std::copy_n(View(of_source.get()).strides, 5, gradients.of_source_strides);
  gradients.of_source_dtype = TN_F32;
  gradients.of_source = wanted[0] ? of_source->data : nullptr;
  gradients.of_weights = wanted[1] ? static_cast<float*>(of_weights->data) : nullptr;
  gradients.of_bias = wanted[2] ? static_cast<float*>(of_bias->data) : nullptr;
  if (!run_convolution_gradients(gradients)) return false;
  if (wanted[0]) call.give(0, std::move(of_source));
  if (wanted[1]) call.give(1, std::move(of_weights));
  if (wanted[2]) call.give(2, std::move(of_bias));
  return true;
}

bool conv1d(const kernel_call& call) { return run_short(call, 1); }
bool conv2d(const kernel_call& call) { return run_short(call, 2); }
bool conv3d(const kernel_call& call) { return run_short(call, 3); }

}  // namespace onednn
