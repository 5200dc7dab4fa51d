// Gradients of convolutions: oneDNN for the shapes that it has kernels for, plain loops for others.
#include "convolution_shape.h"
#include "direct_convolution.h"
#include "library_calls.h"
#include "plain_convolution.h"

#include <dnn/convolution_backward.h>

#include <algorithm>

namespace inductor {

using loopir::ConvolutionGradient;
using loopir::Program;

namespace {

class GradientCall final : public LibraryCall {
 public:
  GradientCall(const Program& p, const ConvolutionGradient& g, const Workers& workers)
      : program_(p),
        g_(g),
        workers_(workers),
        plans_(symbols_of(p, {&g.gradient, &g.operand, &g.result})) {}

  Memory pack(std::span<void* const>, std::span<const int64_t>) const override { return Memory(); }
  bool is_fast(std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = **kept;
    if (plan.result.is_empty() || plan.gradient.is_empty() || plan.operand.is_empty()) return true;
    if (g_.dtype == TN_F64) return plan.direct || plan.correlation;
    onednn::ConvolutionGradients call = described(plan);
    float wanted = 0;  // its address says that something is
    if (g_.of_weights)
      call.of_weights = &wanted;
    else
      call.of_source = &wanted;
    return onednn::has_convolution_gradients(call);
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void*) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = **kept;
    if (plan.result.is_empty()) return;
    bool has_sums = !plan.gradient.is_empty() && !plan.operand.is_empty();
    if (has_sums && plan.direct) return run_direct(plan, pointers);
    if (has_sums && plan.correlation) return run_correlation(plan, pointers);
    bool is_done = has_sums && g_.dtype != TN_F64 && run_library(plan, pointers);
    if (!is_done) run_plain(plan, pointers);
  }

 private:
  struct Plan {
    Placed gradient, operand, result;
    const Placed &source, &weights;  // two of them, or what has their shape
    onednn::ConvolutionShape shape{};
    std::optional<microkernel::DirectConvolution> direct;
    std::optional<microkernel::DirectCorrelation> correlation;

    Plan(const Program& p, const ConvolutionGradient& g, std::span<const int64_t> symbols)
        : gradient(p, g.gradient, symbols),
          operand(p, g.operand, symbols),
          result(p, g.result, symbols),
          source(g.of_weights ? operand : result),
          weights(g.of_weights ? result : operand) {}
    Plan(const Plan&) = delete;
  };

  std::shared_ptr<const std::unique_ptr<Plan>> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      auto plan = std::make_unique<Plan>(program_, g_, symbols);
      plan->shape = shape_of(g_, plan->source, plan->weights, plan->gradient);
      if (g_.of_weights)
        plan->correlation = direct_correlation(g_, plan->source, plan->gradient, plan->weights);
      else
        plan->direct = direct_convolution(g_, plan->gradient, plan->weights, plan->source, true);
      return plan;
    });
  }

  // While the graph is lowered, it is nowhere yet, and will have the gradient's own dtype.
  int32_t result_dtype() const {
    loopir::Id buffer = g_.result.buffer;
    return buffer == loopir::none ? g_.dtype : program_.buffers[buffer].dtype;
  }

  onednn::ConvolutionGradients described(const Plan& plan) const {
    onednn::ConvolutionGradients call{};
    call.shape = plan.shape;
    std::copy_n(plan.weights.strides.begin(), 5, call.weights_strides);
    std::copy_n(plan.gradient.strides.begin(), 5, call.gradient_strides);
    std::copy_n(plan.source.strides.begin(), 5, call.of_source_strides);
    call.of_source_dtype = result_dtype();
    call.workers = workers_.slices();
    return call;
  }

  bool run_library(const Plan& plan, std::span<void* const> pointers) const {
    onednn::ConvolutionGradients call = described(plan);
    const void* operand = plan.operand.address(pointers, g_.dtype);
    (g_.of_weights ? call.source : call.weights) = operand;
    call.gradient = plan.gradient.address(pointers, g_.dtype);
    if (g_.of_weights)
      call.of_weights = plan.result.data(pointers);
    else
      call.of_source = plan.result.address(pointers, result_dtype());
    return onednn::run_convolution_gradients(call);
  }

  static double* numbers(const Placed& v, std::span<void* const> pointers) {
    return static_cast<double*>(v.address(pointers, TN_F64));
  }

  void run_direct(const Plan& plan, std::span<void* const> pointers) const {
    Memory packed(static_cast<size_t>(plan.direct->packed_size()) * sizeof(double));
    auto* weights = reinterpret_cast<double*>(packed.data());
    auto given = direct_weights(plan.weights, g_.groups, numbers(plan.weights, pointers), true);
    workers_.run(plan.direct->pack_parts(),
                 [&](int64_t part) { plan.direct->pack(part, given, weights); });
    workers_.run(plan.direct->parts(), [&](int64_t part) {
      plan.direct->run(part, numbers(plan.gradient, pointers), weights, nullptr,
                       numbers(plan.source, pointers));
    });
  }
  void run_correlation(const Plan& plan, std::span<void* const> pointers) const {
    workers_.run(plan.correlation->parts(), [&](int64_t part) {
      plan.correlation->run(part, numbers(plan.source, pointers), numbers(plan.gradient, pointers),
                            numbers(plan.weights, pointers));
    });
  }

  void run_plain(const Plan& plan, std::span<void* const> pointers) const {
    Operand gradient(plan.gradient, g_.dtype, pointers), operand(plan.operand, g_.dtype, pointers);
    Operand result(plan.result, result_dtype(), pointers);
    auto run = g_.of_weights ? weights_gradient_plainly : source_gradient_plainly;
    run(Geometry(g_), gradient, operand, result, workers_);
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
