// Gradients of convolutions: oneDNN for the shapes that it has kernels for, plain loops for others.
#include "library_calls.h"
#include "placed.h"

#include <dnn/convolution_backward.h>

#include <algorithm>

namespace inductor {

using loopir::ConvolutionGradient;
using loopir::Program;

namespace {

class GradientCall final : public LibraryCall {
 public:
  GradientCall(const Program& p, const ConvolutionGradient& g, const Workers& workers)
      : program_(p), g_(g), workers_(workers) {}

  Memory pack(std::span<void* const>, std::span<const int64_t>) const override { return Memory(); }
  bool is_fast(std::span<const int64_t>) const override { return true; }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void*) const override {
    auto kept = plans_.get(symbols, [&] { return make_plan(symbols); });
    const Plan& plan = **kept;
    if (is_empty(plan.result)) return;
    if (is_empty(plan.gradient) || is_empty(plan.operand)) return fill_zeros(plan, pointers);
    if (!run_library(plan, pointers)) run_plain(plan, pointers);
  }

 private:
  struct Plan {
    Placed gradient, operand, result;
    const Placed &source, &weights;  // two of them, or what has their shape
    onednn::ConvolutionShape shape{};

    Plan(const Program& p, const ConvolutionGradient& g, std::span<const int64_t> symbols)
        : gradient(p, g.gradient, symbols),
          operand(p, g.operand, symbols),
          result(p, g.result, symbols),
          source(g.of_weights ? operand : result),
          weights(g.of_weights ? result : operand) {}
    Plan(const Plan&) = delete;
  };

  std::unique_ptr<Plan> make_plan(std::span<const int64_t> symbols) const {
    auto plan = std::make_unique<Plan>(program_, g_, symbols);
    const auto &s = plan->source.sizes, &r = plan->gradient.sizes;
    onednn::ConvolutionShape& shape = plan->shape;
    shape.dtype = TN_F32;
    shape.images = s[0], shape.channels = s[1], shape.height = s[2], shape.width = s[3];
    shape.out_channels = r[1], shape.out_height = r[2], shape.out_width = r[3];
    shape.groups = g_.groups;
    for (size_t d = 0; d < 2; ++d) {
      shape.kernel[d] = plan->weights.sizes[2 + d];
      shape.stride[d] = g_.stride[d];
      shape.padding[d] = g_.padding[d];
      shape.dilation[d] = g_.dilation[d];
    }
    std::copy(plan->source.strides.begin(), plan->source.strides.end(), shape.source_strides);
    std::copy(plan->gradient.strides.begin(), plan->gradient.strides.end(), shape.result_strides);
    return plan;
  }

  static bool is_empty(const Placed& v) {
    return std::find(v.sizes.begin(), v.sizes.end(), 0) != v.sizes.end();
  }

  bool run_library(const Plan& plan, std::span<void* const> pointers) const {
    onednn::ConvolutionGradients call{};
    call.shape = plan.shape;
    call.source = plan.source.data(pointers);
    call.weights = plan.weights.data(pointers);
    call.gradient = plan.gradient.data(pointers);
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), call.weights_strides);
    std::copy(plan.gradient.strides.begin(), plan.gradient.strides.end(), call.gradient_strides);
    std::copy(plan.source.strides.begin(), plan.source.strides.end(), call.of_source_strides);
    (g_.of_weights ? call.of_weights : call.of_source) = plan.result.data(pointers);
    call.workers = workers_.slices();
    return onednn::run_convolution_gradients(call);
  }

  static int64_t at(const Placed& v, int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * v.strides[0] + b * v.strides[1] + c * v.strides[2] + d * v.strides[3];
  }
  template <class F>
  static void for_each_element(const Placed& v, F&& f) {
    for (int64_t a = 0; a < v.sizes[0]; ++a)
      for (int64_t b = 0; b < v.sizes[1]; ++b)
        for (int64_t c = 0; c < v.sizes[2]; ++c)
          for (int64_t d = 0; d < v.sizes[3]; ++d) f(a, b, c, d);
  }
  void fill_zeros(const Plan& plan, std::span<void* const> pointers) const {
    float* to = plan.result.data(pointers);
    for_each_element(plan.result, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
      to[at(plan.result, a, b, c, d)] = 0;
    });
  }

  // Each element of the result takes its own sum, so threads share them out.
  void run_plain(const Plan& plan, std::span<void* const> pointers) const {
    const Placed& r = plan.result;
    workers_.run(r.sizes[0] * r.sizes[1], [&](int64_t plane) {
      int64_t a = plane / r.sizes[1], b = plane % r.sizes[1];
      for (int64_t c = 0; c < r.sizes[2]; ++c)
        for (int64_t d = 0; d < r.sizes[3]; ++d)
          r.data(pointers)[at(r, a, b, c, d)] =
              float(g_.of_weights ? weight_sum(plan, pointers, a, b, c, d)
                                  : source_sum(plan, pointers, a, b, c, d));
    });
  }
  // Result positions whose window has (y, x) at kernel position (i, j).
  bool window_at(const Plan& plan, int64_t y, int64_t x, int64_t i, int64_t j, int64_t& oy,
                 int64_t& ox) const {
    int64_t up = y + g_.padding[0] - i * g_.dilation[0],
            left = x + g_.padding[1] - j * g_.dilation[1];
    if (up < 0 || left < 0 || up % g_.stride[0] || left % g_.stride[1]) return false;
    oy = up / g_.stride[0], ox = left / g_.stride[1];
    return oy < plan.gradient.sizes[2] && ox < plan.gradient.sizes[3];
  }
  double source_sum(const Plan& plan, std::span<void* const> pointers, int64_t image, int64_t c,
                    int64_t y, int64_t x) const {
    const Placed &g = plan.gradient, &w = plan.weights;
    int64_t outs = w.sizes[0] / g_.groups, group = c / w.sizes[1], oy, ox;
    double sum = 0;
    for (int64_t i = 0; i < w.sizes[2]; ++i)
      for (int64_t j = 0; j < w.sizes[3]; ++j) {
        if (!window_at(plan, y, x, i, j, oy, ox)) continue;
        for (int64_t o = group * outs; o < (group + 1) * outs; ++o)
          sum += double(g.data(pointers)[at(g, image, o, oy, ox)]) *
                 double(w.data(pointers)[at(w, o, c % w.sizes[1], i, j)]);
      }
    return sum;
  }
  double weight_sum(const Plan& plan, std::span<void* const> pointers, int64_t o, int64_t c,
                    int64_t i, int64_t j) const {
    const Placed &g = plan.gradient, &s = plan.source;
    int64_t channel = o / (g.sizes[1] / g_.groups) * plan.weights.sizes[1] + c;
    double sum = 0;
    for (int64_t image = 0; image < g.sizes[0]; ++image)
      for (int64_t oy = 0; oy < g.sizes[2]; ++oy)
        for (int64_t ox = 0; ox < g.sizes[3]; ++ox) {
          int64_t y = oy * g_.stride[0] - g_.padding[0] + i * g_.dilation[0];
          int64_t x = ox * g_.stride[1] - g_.padding[1] + j * g_.dilation[1];
          if (y < 0 || y >= s.sizes[2] || x < 0 || x >= s.sizes[3]) continue;
          sum += double(g.data(pointers)[at(g, image, o, oy, ox)]) *
                 double(s.data(pointers)[at(s, image, channel, y, x)]);
        }
    return sum;
  }

  const Program& program_;
  const ConvolutionGradient& g_;
  Workers workers_;
  Plans<std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const ConvolutionGradient& gradient,
                                     const Workers& workers) {
  return std::make_unique<GradientCall>(program, gradient, workers);
}

}  // namespace inductor
