// Convolution gradients: primitives for a number of images, and running the parts.
#include "convolution_backward.h"

#include "engine.h"
#include "packed_weights.h"
#include "plan_cache.h"
#include "types.h"

#include <tenon/plugin.hpp>

#include <algorithm>

namespace onednn {

namespace {

using tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

/// What one part runs: reorders into oneDNN's layouts and back, around two primitives.
struct Part {
  Reorder source, gradient, weights;  // of the inputs; `gradient` for the data primitive
  Reorder gradient_of_weights_call;   // and for the weights primitive
  Reorder source_gradient, weights_gradient;
  dnnl::primitive data, for_weights;
  Desc data_scratch, weights_scratch, bias;
};

Dims grouped(const ConvolutionShape& c, int64_t outer, int64_t inner) {
  Dims sizes{outer, inner, c.kernel[0], c.kernel[1]};
  if (c.groups == 1) return sizes;
  sizes[0] /= c.groups;
  sizes.insert(sizes.begin(), c.groups);
  return sizes;
}

Dims strides_of(const int64_t* strides) { return {strides[0], strides[1], strides[2], strides[3]}; }

Dims grouped_strides(const ConvolutionGradients& c) {
  Dims strides = strides_of(c.weights_strides);
  const ConvolutionShape& s = c.shape;
  if (s.groups > 1) strides.insert(strides.begin(), s.out_channels / s.groups * strides[0]);
  return strides;
}

Dims dense(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
  return strides;
}

class PartMaker {
 public:
  PartMaker(const ConvolutionGradients& call, int64_t images)
      : call_(call),
        c_(call.shape),
        source_{images, c_.channels, c_.height, c_.width},
        result_{images, c_.out_channels, c_.out_height, c_.out_width},
        weights_(grouped(c_, c_.out_channels, c_.channels / c_.groups)),
        stride_{c_.stride[0], c_.stride[1]},
        dilation_{c_.dilation[0] - 1, c_.dilation[1] - 1},
        begin_{c_.padding[0], c_.padding[1]},
        end_{past_end(0, c_.height, c_.out_height), past_end(1, c_.width, c_.out_width)} {}

  std::shared_ptr<Part> make() {
    auto part = std::make_shared<Part>();
    bool good = (!call_.of_source || add_data(*part)) && (!call_.of_weights || add_weights(*part));
    return good ? part : nullptr;
  }

 private:
  int64_t past_end(int d, int64_t length, int64_t out_length) const {
    return (out_length - 1) * c_.stride[d] + (c_.kernel[d] - 1) * c_.dilation[d] + 1 - length -
           c_.padding[d];
  }
  static Desc any(const Dims& sizes) { return {sizes, f32, tag::any}; }

  dnnl::convolution_forward::primitive_desc hint() const {
    dnnl::convolution_forward::desc desc(
        dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any(source_),
        any(weights_), any(result_), stride_, dilation_, begin_, end_);
    return {desc, attributes(), engine()};
  }

  Desc given_gradient() const { return {result_, f32, strides_of(call_.gradient_strides)}; }

  bool add_data(Part& p) const {
    using conv = dnnl::convolution_backward_data;
    conv::desc desc(dnnl::algorithm::convolution_direct, any(source_), any(weights_), any(result_),
                    stride_, dilation_, begin_, end_);
    conv::primitive_desc pd(desc, attributes(), engine(), hint());
    if (is_reference(pd)) return false;
    p.data = conv(pd);
    p.data_scratch = pd.scratchpad_desc();
    p.gradient = Reorder(given_gradient(), pd.diff_dst_desc());
    p.weights = Reorder(Desc(weights_, f32, grouped_strides(call_)), pd.weights_desc());
    p.source_gradient =
        Reorder(pd.diff_src_desc(), Desc(source_, f32, strides_of(call_.of_source_strides)));
    return true;
  }

  bool add_weights(Part& p) const {
    using conv = dnnl::convolution_backward_weights;
    p.bias = call_.of_bias ? Desc({c_.out_channels}, f32, tag::x) : Desc();
    auto direct = dnnl::algorithm::convolution_direct;
    conv::desc desc = call_.of_bias ? conv::desc(direct, any(source_), any(weights_), p.bias,
                                                 any(result_), stride_, dilation_, begin_, end_)
                                    : conv::desc(direct, any(source_), any(weights_), any(result_),
                                                 stride_, dilation_, begin_, end_);
    conv::primitive_desc pd(desc, attributes(), engine(), hint());
    if (is_reference(pd)) return false;
    p.for_weights = conv(pd);
    p.weights_scratch = pd.scratchpad_desc();
    p.source = Reorder(Desc(source_, f32, strides_of(c_.source_strides)), pd.src_desc());
    p.gradient_of_weights_call = Reorder(given_gradient(), pd.diff_dst_desc());
    p.weights_gradient = Reorder(pd.diff_weights_desc(), Desc(weights_, f32, dense(weights_)));
    return true;
  }

  const ConvolutionGradients& call_;
  const ConvolutionShape& c_;
  Dims source_, result_, weights_, stride_, dilation_, begin_, end_;
};

std::shared_ptr<const Part> part_for(const ConvolutionGradients& call, int64_t images) {
  static auto& plans = *new PlanCache<Part>;
  const ConvolutionShape& c = call.shape;
  PlanKey key{images,
              c.channels,
              c.height,
              c.width,
              c.out_channels,
              c.groups,
              call.of_source != nullptr,
              call.of_weights != nullptr,
              call.of_bias != nullptr};
  for (const auto& pair : {c.kernel, c.stride, c.padding, c.dilation})
    key.insert(key.end(), pair, pair + 2);
  for (const auto& strides :
       {c.source_strides, call.gradient_strides, call.weights_strides, call.of_source_strides})
    key.insert(key.end(), strides, strides + 4);
  return plans.get(key, [&] {
    return unless_unsupported([&] {
      OneThread limit;
      return PartMaker(call, images).make();
    });
  });
}

const void* brought(const Reorder& r, const void* from, Scratch tile) {
  void* to = scratch(tile, r.to.get_size());
  r(from, to);
  return to;
}

void run_data(const ConvolutionGradients& call, const Part& p, int64_t image) {
  const ConvolutionShape& c = call.shape;
  const void* grad = at(call.gradient, image * call.gradient_strides[0], c.dtype);
  const void* g = brought(p.gradient, grad, Scratch::gradient_tile);
  const void* w = brought(p.weights, call.weights, Scratch::weights_tile);
  void* result = scratch(Scratch::result_tile, p.source_gradient.from.get_size());
  execute(p.data, p.data_scratch,
          {{DNNL_ARG_DIFF_DST, p.gradient.to, g},
           {DNNL_ARG_WEIGHTS, p.weights.to, w},
           {DNNL_ARG_DIFF_SRC, p.source_gradient.from, result}});
  p.source_gradient(result, call.of_source + image * call.of_source_strides[0]);
}

void run_weights(const ConvolutionGradients& call, const Part& p, int64_t image, float* weights,
                 float* bias) {
  const ConvolutionShape& c = call.shape;
  const void* grad = at(call.gradient, image * call.gradient_strides[0], c.dtype);
  const void* g = brought(p.gradient_of_weights_call, grad, Scratch::gradient_tile);
  const void* x = brought(p.source, at(call.source, image * c.source_strides[0], c.dtype),
                          Scratch::source_tile);
  void* result = scratch(Scratch::result_tile, p.weights_gradient.from.get_size());
  execute(p.for_weights, p.weights_scratch,
          {{DNNL_ARG_DIFF_DST, p.gradient_of_weights_call.to, g},
           {DNNL_ARG_SRC, p.source.to, x},
           {DNNL_ARG_DIFF_WEIGHTS, p.weights_gradient.from, result},
           {DNNL_ARG_DIFF_BIAS, p.bias, bias}});
  p.weights_gradient(result, weights);
}

int64_t n_parts(const ConvolutionShape& c, int64_t workers) {
  int64_t work = c.images * c.out_channels * c.out_height * c.out_width * (c.channels / c.groups) *
                 c.kernel[0] * c.kernel[1];
  if (work < small_work) return 1;
  return std::min(workers, c.images);
}

void add(const std::vector<float>& from, float* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace

bool run_convolution_gradients(const ConvolutionGradients& call) {
  const ConvolutionShape& c = call.shape;
  int64_t parts = n_parts(c, call.workers);
  auto first_image = [&](int64_t part) { return c.images * part / parts; };
  std::vector<std::shared_ptr<const Part>> plans;
  for (int64_t i = 0; i < parts; ++i) {
    plans.push_back(part_for(call, first_image(i + 1) - first_image(i)));
    if (!plans.back()) return false;
  }
  auto n_weights =
      static_cast<size_t>(c.out_channels * (c.channels / c.groups) * c.kernel[0] * c.kernel[1]);
  // The first part writes the result, the others what is added to it.
  std::vector<std::vector<float>> weights(static_cast<size_t>(parts)), biases(weights.size());
  for (size_t i = 1; call.of_weights && i < weights.size(); ++i) {
    weights[i].resize(n_weights);
    biases[i].resize(call.of_bias ? static_cast<size_t>(c.out_channels) : 0);
  }
  tenon::plugin::parallel_chunks(parts, [&](int64_t part, int32_t) {
    OneThread limit;
    auto i = static_cast<size_t>(part);
    if (call.of_source) run_data(call, *plans[i], first_image(part));
    if (call.of_weights)
      run_weights(call, *plans[i], first_image(part), i ? weights[i].data() : call.of_weights,
                  i && call.of_bias ? biases[i].data() : call.of_bias);
  });
  for (size_t i = 1; call.of_weights && i < weights.size(); ++i) {
    add(weights[i], call.of_weights);
    if (call.of_bias) add(biases[i], call.of_bias);
  }
  return true;
}

}  // namespace onednn
