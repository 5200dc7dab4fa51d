// Convolutions: transformed to products by tiles where that is allowed and worth it; products of
// windows where weights are many and pixels few; else prepared oneDNN calls, one for each set of
// sizes; plain loops where oneDNN has nothing fast.
#include "epilogue_calls.h"
#include "library_calls.h"
#include "placed.h"

#include <dnn/prepared.h>
#include <microkernel/windows.h>
#include <microkernel/winograd.h>

#include <algorithm>

namespace inductor {

using loopir::Convolution;
using loopir::Program;

namespace {

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(const Program& p, const Convolution& c, bool constant, const Workers& workers)
      : program_(p),
        convolution_(c),
        constant_(constant),
        workers_(workers),
        finish_(finish_of(c.epilogue)) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.winograd) return pack_transformed(plan, pointers);
    if (plan.windows) return pack_windows(plan, pointers);
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
    if (plan.winograd) return run_transformed(plan, pointers, packed);
    if (plan.windows) return run_windows(plan, pointers, packed);
    const float* bias = plan.bias ? plan.bias->data(pointers) : nullptr;
    float *source = plan.source.data(pointers), *result = plan.result.data(pointers);
    if (!plan.prepared) return run_plain(plan, pointers);
    const void* operand = operand_of(convolution_.epilogue, pointers);
    if (!packed) {
      void* own = thread_bytes(plan.prepared->packed_bytes());
      pack_into(plan, pointers, own);
      packed = own;
    }
    workers_.run(plan.prepared->slices(), [&](int64_t slice) {
      plan.prepared->run(slice, source, packed, bias, operand, result);
    });
  }

  bool is_fast(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->is_empty || plan->prepared || plan->winograd || plan->windows;
  }

 private:
  struct Plan {
    Placed source, weights, result;
    std::optional<Placed> bias;
    bool is_empty = false;
    std::shared_ptr<const onednn::PreparedConvolution> prepared;
    std::optional<microkernel::WinogradConvolution> winograd;
    std::optional<microkernel::Windows> windows;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, convolution_.source, symbols},
                {program_, convolution_.weights, symbols},
                {program_, convolution_.result, symbols},
                std::nullopt,
                false,
                nullptr,
                std::nullopt,
                std::nullopt};
      if (convolution_.bias) plan.bias.emplace(program_, *convolution_.bias, symbols);
      for (int64_t s : plan.result.sizes) plan.is_empty |= s == 0;
      if (!plan.is_empty) choose(plan);
      return plan;
    });
  }

  void choose(Plan& plan) const {
    const auto &s = plan.source.sizes, &r = plan.result.sizes, &w = plan.weights.sizes;
    if (plan.bias && plan.bias->strides[0] != 1) return;
    plan.winograd = transformed(plan);
    if (!plan.winograd) plan.windows = as_windows(plan);
    if (plan.winograd || plan.windows) return;
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

  // ---- Winograd's method

  std::optional<microkernel::WinogradConvolution> transformed(const Plan& plan) const {
    const Convolution& c = convolution_;
    const Placed &s = plan.source, &r = plan.result, &w = plan.weights;
    bool is_possible = constant_ && c.may_transform && finish_ && c.groups == 1 &&
                       w.sizes[2] == 3 && w.sizes[3] == 3 && c.stride[0] == 1 && c.stride[1] == 1 &&
                       c.dilation[0] == 1 && c.dilation[1] == 1 && s.strides[1] == 1 &&
                       r.strides[1] == 1;
    if (!is_possible) return std::nullopt;
    microkernel::WinogradConvolution out{
        s.sizes[0],   s.sizes[1],   s.sizes[2],   s.sizes[3],
        r.sizes[1],   r.sizes[2],   r.sizes[3],   {c.padding[0], c.padding[1]},
        s.strides[0], s.strides[2], s.strides[3], r.strides[0],
        r.strides[2], r.strides[3]};
    if (!out.is_worth_it()) return std::nullopt;
    return out;
  }

  Memory pack_transformed(const Plan& plan, std::span<void* const> pointers) const {
    Memory out(size_t(plan.winograd->packed_size()) * sizeof(float));
    int64_t strides[4];
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), strides);
    workers_.run(plan.winograd->pack_parts(), [&](int64_t part) {
      plan.winograd->pack(part, plan.weights.data(pointers), strides,
                          reinterpret_cast<float*>(out.data()));
    });
    return out;
  }

  void run_transformed(const Plan& plan, std::span<void* const> pointers,
                       const void* packed) const {
    Memory own;
    if (!packed) own = pack_transformed(plan, pointers), packed = own.data();
    FinishList finish(*finish_, convolution_.epilogue, pointers);
    microkernel::WinogradConvolution::Operands operands{
        plan.source.data(pointers), static_cast<const float*>(packed),
        plan.bias ? plan.bias->data(pointers) : nullptr, plan.result.data(pointers), finish};
    auto cut = plan.winograd->cut(workers_.slices());
    workers_.run(cut.chunks, [&](int64_t chunk) {
      plan.winograd->run(cut, chunk, operands, thread_floats(plan.winograd->scratch_size(cut)));
    });
  }

  // ---- products of windows

  std::optional<microkernel::Windows> as_windows(const Plan& plan) const {
    constexpr int64_t most_pixels = 128, many_weights = 256 << 10;
    const Convolution& c = convolution_;
    const Placed &s = plan.source, &r = plan.result, &w = plan.weights;
    int64_t pixels = r.sizes[0] * r.sizes[2] * r.sizes[3];
    int64_t weights = w.sizes[0] * w.sizes[1] * w.sizes[2] * w.sizes[3];
    // Packing is slow beside oneDNN's: not for weights that are being trained.
    bool is_possible = constant_ && c.may_transform && finish_ && c.groups == 1 &&
                       s.strides[1] == 1 && r.strides[1] == 1 && has_dense_pixels(r) &&
                       pixels <= most_pixels && weights >= many_weights;
    if (!is_possible) return std::nullopt;
    return microkernel::Windows{s.sizes[0],
                                s.sizes[1],
                                s.sizes[2],
                                s.sizes[3],
                                r.sizes[2],
                                r.sizes[3],
                                {w.sizes[2], w.sizes[3]},
                                {c.stride[0], c.stride[1]},
                                {c.padding[0], c.padding[1]},
                                {c.dilation[0], c.dilation[1]},
                                s.strides[0],
                                s.strides[2],
                                s.strides[3]};
  }
  // Pixels of all images one behind the other.
  static bool has_dense_pixels(const Placed& v) {
    return v.strides[2] == v.sizes[3] * v.strides[3] && v.strides[0] == v.sizes[2] * v.strides[2];
  }

  Memory pack_windows(const Plan& plan, std::span<void* const> pointers) const {
    int64_t n = plan.weights.sizes[0];
    microkernel::Panels panels{plan.windows->columns(), n};
    Memory out(size_t(panels.size()) * sizeof(float));
    int64_t strides[4];
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), strides);
    workers_.run(panels.count(), [&](int64_t panel) {
      plan.windows->pack(plan.weights.data(pointers), strides, n, panel, panel + 1,
                         reinterpret_cast<float*>(out.data()));
    });
    return out;
  }

  void run_windows(const Plan& plan, std::span<void* const> pointers, const void* packed) const {
    const microkernel::Windows& windows = *plan.windows;
    Memory own;
    if (!packed) own = pack_windows(plan, pointers), packed = own.data();
    int64_t rows = windows.rows(), columns = windows.columns(), threads = workers_.threads();
    float* matrix = thread_floats(rows * columns);
    const float* source = plan.source.data(pointers);
    int64_t parts = std::min(rows, 4 * threads);
    workers_.run(parts, [&](int64_t p) {
      windows.gather(source, rows * p / parts, rows * (p + 1) / parts, matrix);
    });
    FinishList finish(*finish_, convolution_.epilogue, pointers);
    microkernel::Product product{{columns, plan.weights.sizes[0]},
                                 matrix,
                                 columns,
                                 1,
                                 static_cast<const float*>(packed),
                                 0,
                                 plan.bias ? plan.bias->data(pointers) : nullptr,
                                 plan.result.data(pointers),
                                 plan.result.strides[3],
                                 finish};
    int64_t count = product.panels.count(), chunks = std::min(count, 2 * threads);
    workers_.run(chunks, [&](int64_t c) {
      microkernel::multiply(product, 0, rows, count * c / chunks, count * (c + 1) / chunks);
    });
  }

  // ---- oneDNN

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
  std::optional<std::vector<microkernel::Finish>> finish_;  // the epilogue, where it can be that
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Convolution& convolution,
                                     bool constant_weights, const Workers& workers) {
  return std::make_unique<ConvolutionCall>(program, convolution, constant_weights, workers);
}

}  // namespace inductor
