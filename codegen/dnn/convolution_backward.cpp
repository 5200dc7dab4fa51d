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
using type = dnnl::memory::data_type;

/// What one part runs: reorders into oneDNN's layouts and back, around two primitives.
struct Part {
  Reorder source, gradient, weights;  // of the inputs; `gradient` for the data primitive
  Reorder gradient_of_weights_call;   // and for the weights primitive
  Reorder source_gradient, weights_gradient;
  dnnl::primitive data, for_weights;
  Desc data_scratch, weights_scratch, bias;
};

Dims grouped(const ConvolutionShape& c, int64_t outer, int64_t inner) {
  Dims sizes{outer, inner};
  sizes.insert(sizes.end(), c.kernel + c.first(), c.kernel + 3);
  if (c.groups == 1) return sizes;
  sizes[0] /= c.groups;
  sizes.insert(sizes.begin(), c.groups);
  return sizes;
}

Dims sizes_of(const ConvolutionShape& c, int64_t images, int64_t channels,
              const int64_t (&space)[3]) {
  Dims sizes{images, channels};
  sizes.insert(sizes.end(), space + c.first(), space + 3);
  return sizes;
}

Dims strides_of(const ConvolutionShape& c, const int64_t (&strides)[5]) {
  Dims out{strides[0], strides[1]};
  out.insert(out.end(), strides + 2 + c.first(), strides + 5);
  return out;
}

Dims grouped_strides(const ConvolutionGradients& c) {
  const ConvolutionShape& s = c.shape;
  Dims strides = strides_of(s, c.weights_strides);
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
        dtype_(data_type(c_.dtype)),
        source_(sizes_of(c_, images, c_.channels, c_.source)),
        result_(sizes_of(c_, images, c_.out_channels, c_.result)),
        weights_(grouped(c_, c_.out_channels, c_.channels / c_.groups)) {
    for (int d = c_.first(); d < 3; ++d) {
      stride_.push_back(c_.stride[d]);
      dilation_.push_back(c_.dilation[d] - 1);
      begin_.push_back(c_.padding[d]);
      end_.push_back(c_.padding_behind(d));
    }
  }

  std::shared_ptr<Part> make() {
    if (c_.is_depthwise() && c_.first() == 0) return nullptr;  // 3 GF/s
    auto part = std::make_shared<Part>();
    bool good = (!call_.of_source || add_data(*part)) && (!call_.of_weights || add_weights(*part));
    return good ? part : nullptr;
  }

 private:
  static Desc any(const Dims& sizes, type t) { return {sizes, t, tag::any}; }
  Desc any(const Dims& sizes) const { return any(sizes, dtype_); }

  dnnl::convolution_forward::primitive_desc hint() const {
    dnnl::convolution_forward::desc desc(
        dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any(source_),
        any(weights_), any(result_), stride_, dilation_, begin_, end_);
    return {desc, attributes(), engine()};
  }

  Desc given_gradient() const { return {result_, dtype_, strides_of(c_, call_.gradient_strides)}; }

  bool is_slow(const dnnl::primitive_desc_base& pd) const {
    return is_reference(pd) || (c_.dtype == TN_BF16 && emulates_bf16(pd));
  }

  bool add_data(Part& p) const {
    using conv = dnnl::convolution_backward_data;
    type to = data_type(call_.of_source_dtype);
    conv::desc desc(dnnl::algorithm::convolution_direct, any(source_, to), any(weights_),
                    any(result_), stride_, dilation_, begin_, end_);
    conv::primitive_desc pd(desc, attributes(), engine(), hint());
    if (is_slow(pd)) return false;
    p.data = conv(pd);
    p.data_scratch = pd.scratchpad_desc();
    p.gradient = Reorder(given_gradient(), pd.diff_dst_desc());
    p.weights = Reorder(Desc(weights_, dtype_, grouped_strides(call_)), pd.weights_desc());
    p.source_gradient =
        Reorder(pd.diff_src_desc(), Desc(source_, to, strides_of(c_, call_.of_source_strides)));
    return true;
  }

  bool add_weights(Part& p) const {
    using conv = dnnl::convolution_backward_weights;
    p.bias = call_.of_bias ? Desc({c_.out_channels}, type::f32, tag::x) : Desc();
    auto direct = dnnl::algorithm::convolution_direct;
    Desc sums = any(weights_, type::f32);
    conv::desc desc = call_.of_bias ? conv::desc(direct, any(source_), sums, p.bias, any(result_),
                                                 stride_, dilation_, begin_, end_)
                                    : conv::desc(direct, any(source_), sums, any(result_), stride_,
                                                 dilation_, begin_, end_);
    conv::primitive_desc pd(desc, attributes(), engine(), hint());
    if (is_slow(pd)) return false;
    p.for_weights = conv(pd);
    p.weights_scratch = pd.scratchpad_desc();
    p.source = Reorder(Desc(source_, dtype_, strides_of(c_, c_.source_strides)), pd.src_desc());
    p.gradient_of_weights_call = Reorder(given_gradient(), pd.diff_dst_desc());
    p.weights_gradient =
        Reorder(pd.diff_weights_desc(), Desc(weights_, type::f32, dense(weights_)));
    return true;
  }

  const ConvolutionGradients& call_;
  const ConvolutionShape& c_;
  type dtype_;
  Dims source_, result_, weights_, stride_, dilation_, begin_, end_;
};

std::shared_ptr<const Part> part_for(const ConvolutionGradients& call, int64_t images) {
  static auto& plans = *new PlanCache<Part>;
  const ConvolutionShape& c = call.shape;
  PlanKey key{c.dtype,
              call.of_source_dtype,
              images,
              c.channels,
              c.out_channels,
              c.groups,
              call.of_source != nullptr,
              call.of_weights != nullptr,
              call.of_bias != nullptr};
  for (const auto& space : {c.source, c.result, c.kernel, c.stride, c.padding, c.dilation})
    key.insert(key.end(), space, space + 3);
  for (const auto& strides :
       {c.source_strides, call.gradient_strides, call.weights_strides, call.of_source_strides})
    key.insert(key.end(), strides, strides + 5);
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
  p.source_gradient(result,
                    at(call.of_source, image * call.of_source_strides[0], call.of_source_dtype));
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

// ---- how the work is cut

/// A gradient of some images, by one primitive.
struct Job {
  ConvolutionGradients call;  // of the channels that it takes, with one gradient wanted
  int64_t image, images;
  size_t part;  // which of the images' parts; a gradient of weights is added up over them
  std::shared_ptr<const Part> plan = nullptr;
};

template <class T>
T* moved(T* address, int64_t elements, int32_t dtype) {
  return address ? static_cast<T*>(at(address, elements, dtype)) : nullptr;
}

/// The gradient of the source's channels [first, first + n).
ConvolutionGradients of_source_channels(ConvolutionGradients call, int64_t first, int64_t n) {
  call.shape.channels = n;
  call.weights = moved(call.weights, first * call.weights_strides[1], call.shape.dtype);
  call.of_source = moved(call.of_source, first * call.of_source_strides[1], call.of_source_dtype);
  call.of_weights = call.of_bias = nullptr;
  return call;
}
/// The gradient of the weights of the result's channels [first, first + n).
ConvolutionGradients of_result_channels(ConvolutionGradients call, int64_t first, int64_t n) {
  int64_t per_channel = call.shape.weights() / call.shape.out_channels;
  call.shape.out_channels = n;
  call.gradient = moved(call.gradient, first * call.gradient_strides[1], call.shape.dtype);
  call.of_source = nullptr;
  call.of_weights += first * per_channel;
  if (call.of_bias) call.of_bias += first;
  return call;
}

/// Images, and channels where there are more workers than images. Empty: no kernel is fast.
std::vector<Job> cut(const ConvolutionGradients& call) {
  constexpr int64_t channel_block = 16;
  const ConvolutionShape& c = call.shape;
  if (!c.fits_32_bits()) return {};
  int64_t workers = c.multiply_adds() < small_work ? 1 : call.workers;
  int64_t parts = std::min(workers, c.images);
  int64_t cuts = c.groups == 1 ? divide_up(workers, parts) : 1;
  std::vector<Job> jobs;
  for (int64_t i = 0; i < parts; ++i) {
    int64_t image = c.images * i / parts, images = c.images * (i + 1) / parts - image;
    auto add = [&](int64_t channels, auto&& of_channels) {
      int64_t block =
          cuts == 1 ? channels : divide_up(channels, cuts * channel_block) * channel_block;
      for (int64_t first = 0; first < channels; first += block)
        jobs.push_back({of_channels(call, first, std::min(block, channels - first)), image, images,
                        static_cast<size_t>(i)});
    };
    if (call.of_source) add(c.channels, of_source_channels);
    if (call.of_weights) add(c.out_channels, of_result_channels);
  }
  for (Job& job : jobs) {
    job.plan = part_for(job.call, job.images);
    if (!job.plan) return {};
  }
  return jobs;
}

/// What the parts of the images but the first give for weights and bias, until it is added up: the
/// first part writes the results.
class Sums {
 public:
  Sums(const ConvolutionGradients& call, size_t parts)
      : call_(call), weights_(parts), biases_(parts) {
    for (size_t i = 1; call.of_weights && i < parts; ++i) {
      weights_[i].resize(static_cast<size_t>(call.shape.weights()));
      biases_[i].resize(call.of_bias ? static_cast<size_t>(call.shape.out_channels) : 0);
    }
  }
  float* weights(const Job& job) {
    return job.part ? weights_[job.part].data() + (job.call.of_weights - call_.of_weights)
                    : job.call.of_weights;
  }
  float* bias(const Job& job) {
    return job.part && call_.of_bias ? biases_[job.part].data() + (job.call.of_bias - call_.of_bias)
                                     : job.call.of_bias;
  }
  void add_up() const {
    for (size_t i = 1; i < weights_.size(); ++i) {
      add(weights_[i], call_.of_weights);
      add(biases_[i], call_.of_bias);
    }
  }

 private:
  static void add(const std::vector<float>& from, float* to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  }
  const ConvolutionGradients& call_;
  std::vector<std::vector<float>> weights_, biases_;
};

}  // namespace

bool has_convolution_gradients(const ConvolutionGradients& call) { return !cut(call).empty(); }

bool run_convolution_gradients(const ConvolutionGradients& call) {
  std::vector<Job> jobs = cut(call);
  if (jobs.empty()) return false;
  Sums sums(call, jobs.back().part + 1);
  tenon::plugin::parallel_chunks(static_cast<int64_t>(jobs.size()), [&](int64_t i, int32_t) {
    OneThread limit;
    const Job& job = jobs[static_cast<size_t>(i)];
    if (job.call.of_source)
      run_data(job.call, *job.plan, job.image);
    else
      run_weights(job.call, *job.plan, job.image, sums.weights(job), sums.bias(job));
  });
  sums.add_up();
  return true;
}

}  // namespace onednn
