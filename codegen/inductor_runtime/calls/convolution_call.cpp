// Convolutions: transformed to products by tiles where that is allowed and worth it; products of
// windows where weights are many and pixels few; else prepared oneDNN calls, one for each set of
// sizes; plain loops where oneDNN has nothing fast.
#include "convolution_shape.h"
#include "direct_convolution.h"
#include "epilogue_calls.h"
#include "library_calls.h"
#include "plain_convolution.h"

#include <dnn/prepared.h>
#include <microkernel/windows.h>
#include <microkernel/winograd.h>

#include <algorithm>

namespace inductor {

using loopir::Convolution;
using loopir::Program;
using loopir::Way;

namespace {

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(const Program& p, const Convolution& c, bool constant, const Workers& workers)
      : program_(p),
        convolution_(c),
        constant_(constant),
        workers_(workers),
        finish_(finish_of(c.epilogue)),
        plans_(symbols_of(p, {&c.source, &c.weights, &c.result, c.bias ? &*c.bias : nullptr})) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.direct) return pack_direct(plan, pointers);
    if (plan.winograd) return pack_transformed(plan, pointers);
    if (plan.windows) return pack_windows(plan, pointers);
    if (!plan.prepared) return Memory();
    Memory out(plan.prepared->packed_bytes());
    pack_into(plan, pointers, out.data());
    return out;
  }

  // The weights' own sizes do not change, so what chooses among forms is the way.
  uint64_t packing(std::span<const int64_t> symbols) const override {
    enum Form : uint64_t { nothing, direct, transformed, windows, n_forms };
    auto plan = plan_for(symbols);
    if (plan->prepared) return n_forms + plan->prepared->packed_layout();
    return plan->direct ? direct : plan->winograd ? transformed : plan->windows ? windows : nothing;
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.is_empty) return;
    if (plan.direct) return run_direct(plan, pointers, packed);
    if (plan.winograd) return run_transformed(plan, pointers, packed);
    if (plan.windows) return run_windows(plan, pointers, packed);
    if (!plan.prepared) return run_plain(plan, pointers);
    int32_t dtype = convolution_.dtype;
    const void* bias = plan.bias ? plan.bias->address(pointers, plan.bias_dtype) : nullptr;
    const void* source = plan.source.address(pointers, dtype);
    void* result = plan.result.address(pointers, dtype);
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
    if (plan->direct) return convolution_.epilogue.empty();
    return plan->is_empty || plan->prepared || plan->winograd || plan->windows;
  }
  std::vector<Way> ways(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    std::vector<Way> out{Way::by_rule};
    if (plan->is_empty || plan->direct || !is_fast(symbols)) return out;
    out.push_back(Way::direct);
    if (workers_.threads() > 1) out.push_back(Way::direct_in_halves);
    if (!plan->winograd && transformed(*plan)) out.push_back(Way::transformed);
    if (!plan->windows && as_windows(*plan)) out.push_back(Way::windows);
    return out;
  }
  bool needs_layout(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->winograd || plan->windows;
  }

 private:
  struct Plan {
    Placed source, weights, result;
    std::optional<Placed> bias;
    int32_t bias_dtype = TN_F32;
    bool is_empty = false;
    std::shared_ptr<const onednn::PreparedConvolution> prepared;
    std::optional<microkernel::WinogradConvolution> winograd;
    std::optional<microkernel::Windows> windows;
    std::optional<microkernel::DirectConvolution> direct;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, convolution_.source, symbols},
                {program_, convolution_.weights, symbols},
                {program_, convolution_.result, symbols},
                std::nullopt,
                TN_F32,
                false,
                nullptr,
                std::nullopt,
                std::nullopt,
                std::nullopt};
      if (convolution_.bias) plan.bias.emplace(program_, *convolution_.bias, symbols);
      if (convolution_.bias) plan.bias_dtype = bias_dtype();
      plan.is_empty = plan.result.is_empty();
      if (!plan.is_empty) choose(plan);
      return plan;
    });
  }

  // While the graph is lowered, it is nowhere yet, and will have the convolution's own dtype.
  int32_t bias_dtype() const {
    loopir::Id buffer = convolution_.bias->buffer;
    return buffer == loopir::none ? convolution_.dtype : program_.buffers[buffer].dtype;
  }

  void choose(Plan& plan) const {
    if (plan.source.is_empty()) return;  // sums of nothing: without channels, or padding only
    if (plan.bias && plan.bias->strides[0] != 1) return;
    if (convolution_.dtype == TN_F64) {
      plan.direct = direct_convolution(convolution_, plan.source, plan.weights, plan.result, false);
      return;
    }
    Way way = convolution_.way;
    bool is_by_rule = way == Way::by_rule;
    if (is_by_rule || way == Way::transformed) plan.winograd = transformed(plan);
    if (is_by_rule && plan.winograd && !plan.winograd->is_worth_it()) plan.winograd.reset();
    if (plan.winograd) return;
    if (is_by_rule || way == Way::windows) plan.windows = as_windows(plan);
    if (is_by_rule && plan.windows && !is_worth_it(*plan.windows, plan)) plan.windows.reset();
    if (plan.windows) return;
    onednn::ConvolutionShape shape = shape_of(convolution_, plan.source, plan.weights, plan.result);
    shape.bias = plan.bias.has_value();
    shape.has_wide_bias = plan.bias && plan.bias_dtype != convolution_.dtype;
    plan.prepared =
        onednn::PreparedConvolution::make(shape, post_ops_of(convolution_.epilogue), parts(shape));
  }

  // Of two dimensions of space, as the microkernels want it.
  bool is_flat(const Plan& plan) const {
    return convolution_.dtype == TN_F32 && plan.source.sizes[2] == 1 && plan.result.sizes[2] == 1 &&
           plan.weights.sizes[2] == 1;
  }
  static void copy_flat_strides(const Placed& v, int64_t (&out)[4]) {
    std::copy_n(v.strides.begin(), 2, out);
    std::copy_n(v.strides.begin() + 3, 2, out + 2);
  }

  // ---- Winograd's method

  std::optional<microkernel::WinogradConvolution> transformed(const Plan& plan) const {
    const Convolution& c = convolution_;
    const Placed &s = plan.source, &r = plan.result, &w = plan.weights;
    bool is_possible = constant_ && c.may_transform && is_flat(plan) && finish_ && c.groups == 1 &&
                       w.sizes[3] == 3 && w.sizes[4] == 3 && c.stride[1] == 1 && c.stride[2] == 1 &&
                       c.dilation[1] == 1 && c.dilation[2] == 1 && s.strides[1] == 1 &&
                       r.strides[1] == 1;
    if (!is_possible) return std::nullopt;
    microkernel::WinogradConvolution out{
        s.sizes[0],   s.sizes[1],   s.sizes[3],   s.sizes[4],
        r.sizes[1],   r.sizes[3],   r.sizes[4],   {c.padding[1], c.padding[2]},
        s.strides[0], s.strides[3], s.strides[4], r.strides[0],
        r.strides[3], r.strides[4]};
    return out;
  }

  Memory pack_transformed(const Plan& plan, std::span<void* const> pointers) const {
    Memory out(static_cast<size_t>(plan.winograd->packed_size()) * sizeof(float));
    int64_t strides[4];
    copy_flat_strides(plan.weights, strides);
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

  // Packing is slow beside oneDNN's: not for weights that are being trained.
  std::optional<microkernel::Windows> as_windows(const Plan& plan) const {
    constexpr int64_t most_floats = 16 << 20;  // of the matrix of windows
    const Convolution& c = convolution_;
    const Placed &s = plan.source, &r = plan.result, &w = plan.weights;
    int64_t pixels = r.sizes[0] * r.sizes[3] * r.sizes[4];
    bool is_possible = constant_ && c.may_transform && is_flat(plan) && finish_ && c.groups == 1 &&
                       s.strides[1] == 1 && r.strides[1] == 1 && has_dense_pixels(r) &&
                       pixels * w.sizes[1] * w.sizes[3] * w.sizes[4] <= most_floats;
    if (!is_possible) return std::nullopt;
    return microkernel::Windows{s.sizes[0],
                                s.sizes[1],
                                s.sizes[3],
                                s.sizes[4],
                                r.sizes[3],
                                r.sizes[4],
                                {w.sizes[3], w.sizes[4]},
                                {c.stride[1], c.stride[2]},
                                {c.padding[1], c.padding[2]},
                                {c.dilation[1], c.dilation[2]},
                                s.strides[0],
                                s.strides[3],
                                s.strides[4]};
  }
  static bool is_worth_it(const microkernel::Windows& windows, const Plan& plan) {
    constexpr int64_t most_pixels = 128, many_weights = 256 << 10;
    return windows.rows() <= most_pixels &&
           windows.columns() * plan.weights.sizes[0] >= many_weights;
  }
  // Pixels of all images one behind the other.
  static bool has_dense_pixels(const Placed& v) {
    return v.strides[3] == v.sizes[4] * v.strides[4] && v.strides[0] == v.sizes[3] * v.strides[3];
  }

  Memory pack_windows(const Plan& plan, std::span<void* const> pointers) const {
    int64_t n = plan.weights.sizes[0];
    microkernel::Panels panels{plan.windows->columns(), n};
    Memory out(static_cast<size_t>(panels.size()) * sizeof(float));
    int64_t strides[4];
    copy_flat_strides(plan.weights, strides);
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
                                 plan.result.strides[4],
                                 finish};
    int64_t count = product.panels.count(), chunks = std::min(count, 2 * threads);
    workers_.run(chunks, [&](int64_t c) {
      microkernel::multiply(product, 0, rows, count * c / chunks, count * (c + 1) / chunks);
    });
  }

  // ---- f64

  Memory pack_direct(const Plan& plan, std::span<void* const> pointers) const {
    Memory out(static_cast<size_t>(plan.direct->packed_size()) * sizeof(double));
    auto* weights = static_cast<const double*>(plan.weights.address(pointers, TN_F64));
    auto source = direct_weights(plan.weights, convolution_.groups, weights, false);
    workers_.run(plan.direct->pack_parts(), [&](int64_t part) {
      plan.direct->pack(part, source, reinterpret_cast<double*>(out.data()));
    });
    return out;
  }

  void run_direct(const Plan& plan, std::span<void* const> pointers, const void* packed) const {
    Memory own;
    if (!packed) own = pack_direct(plan, pointers), packed = own.data();
    auto numbers = [&](const Placed& v) {
      return static_cast<double*>(v.address(pointers, TN_F64));
    };
    const double* bias = plan.bias ? numbers(*plan.bias) : nullptr;
    workers_.run(plan.direct->parts(), [&](int64_t part) {
      plan.direct->run(part, numbers(plan.source), static_cast<const double*>(packed), bias,
                       numbers(plan.result));
    });
  }

  // ---- oneDNN

  // Slices of rows are more than the threads, so that a thread that comes late leaves work to the
  // others; of few rows the weights are the heavy part, which more slices would read more often.
  int64_t parts(const onednn::ConvolutionShape& shape) const {
    constexpr int64_t few_lines = 14;
    int64_t threads = workers_.slices();
    bool in_halves = threads > 1 && shape.result[0] * shape.result[1] > few_lines;
    if (convolution_.way != Way::by_rule) in_halves = convolution_.way == Way::direct_in_halves;
    return in_halves ? 2 * threads : threads;
  }

  void pack_into(const Plan& plan, std::span<void* const> pointers, void* out) const {
    int64_t strides[5];
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), strides);
    const void* weights = plan.weights.address(pointers, convolution_.dtype);
    workers_.run(plan.prepared->pack_parts(),
                 [&](int64_t part) { plan.prepared->pack_part(part, weights, strides, out); });
  }

  void run_plain(const Plan& plan, std::span<void* const> pointers) const {
    int32_t dtype = convolution_.dtype;
    std::optional<Operand> bias;
    if (plan.bias) bias.emplace(*plan.bias, plan.bias_dtype, pointers);
    convolve_plainly(
        Geometry(convolution_), {plan.source, dtype, pointers}, {plan.weights, dtype, pointers},
        bias ? &*bias : nullptr, {plan.result, dtype, pointers},
        [&](double sum, int64_t at) -> double {
          auto operand = [&](loopir::Id buffer) {
            return static_cast<float>(
                Elements{dtype, pointers[buffer]}.get(at + plan.result.offset));
          };
          if (convolution_.epilogue.empty()) return sum;
          return static_cast<double>(
              finished(static_cast<float>(sum), convolution_.epilogue, operand));
        },
        workers_);
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
