// Convolutions: prepared oneDNN calls, one for each set of sizes; plain loops where oneDNN has
// nothing fast.
#include "epilogue_calls.h"
#include "library_calls.h"
#include "placed.h"

#include <dnn/prepared.h>

#include <algorithm>

namespace inductor {

using loopir::Convolution;
using loopir::Program;

namespace {

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(const Program& p, const Convolution& c, bool constant, const Workers& workers)
      : program_(p), convolution_(c), constant_(constant), workers_(workers) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (!plan.prepared) return Memory();
    Memory out(plan.prepared->packed_bytes());
    pack_into(plan, pointers, out.data());
    return out;
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.is_empty) return;
    const float* bias = plan.bias ? plan.bias->data(pointers) : nullptr;
    float *source = plan.source.data(pointers), *result = plan.result.data(pointers);
    if (!plan.prepared) return run_plain(plan, pointers);
    Operands operands(convolution_.epilogue, pointers);
    Memory own;
    if (!packed) {
      own = Memory(plan.prepared->packed_bytes());
      pack_into(plan, pointers, own.data());
      packed = own.data();
    }
    workers_.run(plan.prepared->slices(), [&](int64_t slice) {
      plan.prepared->run(slice, source, packed, bias, operands.data, result);
    });
  }

  bool is_fast(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->is_empty || plan->prepared;
  }

 private:
  struct Plan {
    Placed source, weights, result;
    std::optional<Placed> bias;
    bool is_empty = false;
    std::shared_ptr<const onednn::PreparedConvolution> prepared;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, convolution_.source, symbols},
                {program_, convolution_.weights, symbols},
                {program_, convolution_.result, symbols},
                std::nullopt,
                false,
                nullptr};
      if (convolution_.bias) plan.bias.emplace(program_, *convolution_.bias, symbols);
      for (int64_t s : plan.result.sizes) plan.is_empty |= s == 0;
      if (!plan.is_empty) choose(plan);
      return plan;
    });
  }

  void choose(Plan& plan) const {
    const auto &s = plan.source.sizes, &r = plan.result.sizes, &w = plan.weights.sizes;
    if (plan.bias && plan.bias->strides[0] != 1) return;
    onednn::ConvolutionShape shape{};
    shape.dtype = TN_F32;
    shape.images = s[0], shape.channels = s[1], shape.height = s[2], shape.width = s[3];
    shape.out_channels = r[1], shape.out_height = r[2], shape.out_width = r[3];
    shape.groups = convolution_.groups;
    shape.bias = plan.bias.has_value();
    for (size_t d = 0; d < 2; ++d) {
      shape.kernel[d] = w[2 + d];
      shape.stride[d] = convolution_.stride[d];
      shape.padding[d] = convolution_.padding[d];
      shape.dilation[d] = convolution_.dilation[d];
    }
    std::copy(plan.source.strides.begin(), plan.source.strides.end(), shape.source_strides);
    std::copy(plan.result.strides.begin(), plan.result.strides.end(), shape.result_strides);
    plan.prepared =
        onednn::PreparedConvolution::make(shape, post_ops_of(convolution_.epilogue), parts(shape));
  }

  // Slices of rows are more than the threads, so that a thread that comes late leaves work to the
  // others; of few rows the weights are the heavy part, which more slices would read more often.
  int64_t parts(const onednn::ConvolutionShape& shape) const {
    constexpr int64_t few_rows = 14;
    int64_t threads = workers_.slices();
    return threads > 1 && shape.out_height > few_rows ? 2 * threads : threads;
  }

  void pack_into(const Plan& plan, std::span<void* const> pointers, void* out) const {
    int64_t strides[4];
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), strides);
    workers_.run(plan.prepared->pack_parts(), [&](int64_t part) {
      plan.prepared->pack_part(part, plan.weights.data(pointers), strides, out);
    });
  }

  void run_plain(const Plan& plan, std::span<void* const> pointers) const {
    const auto &s = plan.source, &w = plan.weights, &r = plan.result;
    int64_t per_group = r.sizes[1] / convolution_.groups;
    workers_.run(r.sizes[0] * r.sizes[1], [&](int64_t at) {
      int64_t image = at / r.sizes[1], o = at % r.sizes[1];
      const float* source =
          s.data(pointers) + image * s.strides[0] + o / per_group * w.sizes[1] * s.strides[1];
      const float* weights = w.data(pointers) + o * w.strides[0];
      float* result = r.data(pointers) + image * r.strides[0] + o * r.strides[1];
      double first = plan.bias ? double(plan.bias->data(pointers)[o * plan.bias->strides[0]]) : 0;
      for (int64_t y = 0; y < r.sizes[2]; ++y)
        for (int64_t x = 0; x < r.sizes[3]; ++x) {
          float& to = result[y * r.strides[2] + x * r.strides[3]];
          to = finished(float(first + window_sum(plan, source, weights, y, x)),
                        convolution_.epilogue, pointers, &to - r.data(pointers));
        }
    });
  }
  double window_sum(const Plan& plan, const float* source, const float* weights, int64_t y,
                    int64_t x) const {
    const auto &s = plan.source, &w = plan.weights;
    double sum = 0;
    for (int64_t c = 0; c < w.sizes[1]; ++c)
      for (int64_t i = 0; i < w.sizes[2]; ++i)
        for (int64_t j = 0; j < w.sizes[3]; ++j) {
          int64_t row =
              y * convolution_.stride[0] - convolution_.padding[0] + i * convolution_.dilation[0];
          int64_t column =
              x * convolution_.stride[1] - convolution_.padding[1] + j * convolution_.dilation[1];
          if (row < 0 || row >= s.sizes[2] || column < 0 || column >= s.sizes[3]) continue;
          sum += double(source[c * s.strides[1] + row * s.strides[2] + column * s.strides[3]]) *
                 double(weights[c * w.strides[1] + i * w.strides[2] + j * w.strides[3]]);
        }
    return sum;
  }

  const Program& program_;
  const Convolution& convolution_;
  bool constant_;
  Workers workers_;
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Convolution& convolution,
                                     bool constant_weights, const Workers& workers) {
  return std::make_unique<ConvolutionCall>(program, convolution, constant_weights, workers);
}

}  // namespace inductor
