// Library calls: shapes to prepared calls, one for each set of sizes; plain loops where oneDNN has
// nothing fast.
#include "library_calls.h"

#include "placed.h"

#include <dnn/prepared.h>
#include <sys/mman.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace inductor {

using loopir::Convolution;
using loopir::Product;
using loopir::Program;
using loopir::View;

// ---- memory

Memory::Memory(size_t bytes) : size_(bytes) {
  constexpr size_t huge = size_t{2} << 20;
  size_t align = bytes >= 2 * huge ? huge : 64;
  if (!bytes) return;
  data_ = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (!data_) throw std::bad_alloc();
  if (align == huge) madvise(data_, bytes, MADV_HUGEPAGE);
}
Memory::Memory(Memory&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
Memory& Memory::operator=(Memory&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}
Memory::~Memory() { std::free(data_); }

namespace {

template <class Prepared, class Run>
void run_slices(const Prepared& prepared, Run&& run) {
  int64_t n = prepared.slices();
  if (n == 1) return run(0);
  tenon::plugin::parallel_chunks(n, [&](int64_t slice, int32_t) { run(slice); });
}

// ---- epilogues

std::vector<onednn::PostOp> post_ops_of(const std::vector<loopir::EpilogueOp>& epilogue) {
  using From = loopir::EpilogueOp::Kind;
  using To = onednn::PostOp::Kind;
  std::vector<onednn::PostOp> out;
  for (const loopir::EpilogueOp& op : epilogue) {
    switch (op.kind) {
      case From::relu:
        out.push_back({To::relu});
        break;
      case From::hardswish:
        out.push_back({To::hardswish});
        break;
      case From::hardsigmoid:
        out.push_back({To::hardsigmoid});
        break;
      case From::silu:
        out.push_back({To::swish, 1});
        break;
      case From::gelu_erf:
        out.push_back({To::gelu_erf});
        break;
      case From::sigmoid:
        out.push_back({To::logistic});
        break;
      case From::tanh:
        out.push_back({To::tanh});
        break;
      case From::add:
        out.push_back({To::add});
        break;
    }
  }
  return out;
}

/// The operands of an epilogue, as run() of a prepared call wants them.
struct Operands {
  static constexpr size_t most = 4;  // make() gives null for more than one
  const void* data[most] = {};

  Operands(const std::vector<loopir::EpilogueOp>& epilogue, std::span<void* const> pointers) {
    size_t n = 0;
    for (const loopir::EpilogueOp& op : epilogue)
      if (op.kind == loopir::EpilogueOp::Kind::add && n < most)
        data[n++] = pointers[op.operand.buffer];
  }
};

/// Where the library has nothing fast: one element after the other.
float finished(float v, const std::vector<loopir::EpilogueOp>& epilogue,
               std::span<void* const> pointers, int64_t at) {
  using Kind = loopir::EpilogueOp::Kind;
  auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  for (const loopir::EpilogueOp& op : epilogue) {
    float clipped = std::clamp(v + 3, 0.0f, 6.0f) / 6;
    v = op.kind == Kind::relu          ? (v <= 0 ? 0 : v)
        : op.kind == Kind::hardswish   ? v * clipped
        : op.kind == Kind::hardsigmoid ? clipped
        : op.kind == Kind::silu        ? v * sigmoid(v)
        : op.kind == Kind::gelu_erf    ? v * 0.5f * (1 + std::erf(v * 0.70710678f))
        : op.kind == Kind::sigmoid     ? sigmoid(v)
        : op.kind == Kind::tanh        ? std::tanh(v)
                                       : v + static_cast<float*>(pointers[op.operand.buffer])[at];
  }
  return v;
}

// ---- products

bool has_dense_rows(const Placed& v) {
  return (v.strides[1] == 1 || v.sizes[1] == 1) && (v.strides[0] == v.sizes[1] || v.sizes[0] == 1);
}
bool reads_well(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return (column == 1 && (row >= columns || rows == 1)) ||
         (row == 1 && (column >= rows || columns == 1));
}

class ProductCall final : public LibraryCall {
 public:
  ProductCall(const Program& p, const Product& product, bool constant)
      : program_(p), product_(product), constant_(constant) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (!plan.inner) return Memory();
    Memory out(plan.inner->packed_bytes());
    const Placed& w = plan.right;
    tenon::plugin::parallel_chunks(plan.inner->pack_parts(), [&](int64_t part, int32_t) {
      plan.inner->pack_part(part, w.data(pointers), w.strides[1], w.strides[0], out.data());
    });
    return out;
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.is_empty) return;
    float *left = plan.left.data(pointers), *right = plan.right.data(pointers);
    float* result = plan.result.data(pointers);
    const float* bias = plan.bias ? plan.bias->data(pointers) : nullptr;
    Operands operands(product_.epilogue, pointers);
    if (plan.inner && packed)
      return run_slices(*plan.inner, [&](int64_t slice) {
        plan.inner->run(slice, left, packed, bias, operands.data, result);
      });
    if (plan.batched)
      run_slices(*plan.batched,
                 [&](int64_t slice) { plan.batched->run(slice, left, right, result, bias); });
    else
      run_plain(plan, left, right, bias, result);
    if (product_.epilogue.empty()) return;
    int64_t n = 1;
    for (int64_t s : plan.result.sizes) n *= s;
    for (int64_t i = 0; i < n; ++i) result[i] = finished(result[i], product_.epilogue, pointers, i);
  }

  bool is_fast(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->is_empty || plan->inner;
  }

 private:
  struct Plan {
    Placed left, right, result;
    std::optional<Placed> bias;
    bool is_empty = false;
    std::shared_ptr<const onednn::PreparedInnerProduct> inner;
    std::shared_ptr<const onednn::PreparedBatchedProduct> batched;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, product_.left, symbols},
                {program_, product_.right, symbols},
                {program_, product_.result, symbols},
                std::nullopt,
                false,
                nullptr,
                nullptr};
      if (product_.bias) plan.bias.emplace(program_, *product_.bias, symbols);
      for (int64_t s : plan.result.sizes) plan.is_empty |= s == 0;
      if (!plan.is_empty && plan.left.sizes.back() > 0) choose(plan);
      return plan;
    });
  }

  void choose(Plan& plan) const {
    const Placed &l = plan.left, &r = plan.right;
    size_t rank = l.sizes.size();
    int64_t workers = tenon::plugin::host->svc->num_threads();
    int64_t m = l.sizes[rank - 2], k = l.sizes[rank - 1], n = r.sizes[rank - 1];
    bool bias_is_dense = !plan.bias || plan.bias->strides[0] == 1 || n == 1;
    if (rank == 2 && constant_ && has_dense_rows(l) && product_.alpha == 1 && bias_is_dense)
      plan.inner = onednn::PreparedInnerProduct::make({TN_F32, m, k, n, plan.bias.has_value()},
                                                      post_ops_of(product_.epilogue), workers);
    if (plan.inner || !bias_is_dense) return;
    if (!reads_well(m, k, l.strides[rank - 2], l.strides[rank - 1]) ||
        !reads_well(k, n, r.strides[rank - 2], r.strides[rank - 1]))
      return;
    onednn::BatchedProductShape shape{TN_F32, {}, m, k, n, {}, {}};
    shape.bias = plan.bias.has_value();
    shape.alpha = float(product_.alpha);
    for (size_t d = 0; d + 2 < rank; ++d) shape.batch.push_back(l.sizes[d]);
    shape.source_strides = l.strides;
    shape.other_strides = r.strides;
    mend(shape.source_strides, rank, m, k);
    mend(shape.other_strides, rank, k, n);
    plan.batched = onednn::PreparedBatchedProduct::make(shape, workers);
  }
  // Strides of dimensions of size 1 say nothing; the library wants some that do.
  static void mend(std::vector<int64_t>& strides, size_t rank, int64_t rows, int64_t columns) {
    int64_t &row = strides[rank - 2], &column = strides[rank - 1];
    if (columns == 1) column = row == 1 && rows > 1 ? rows : 1;
    if (rows == 1) row = column == 1 ? columns : 1;
    if (rows == 1 && columns == 1) row = column = 1;
  }

  void run_plain(const Plan& plan, const float* left, const float* right, const float* bias,
                 float* result) const {
    size_t rank = plan.left.sizes.size();
    int64_t batches = rank == 3 ? plan.left.sizes[0] : 1;
    auto step = [&](const Placed& v, size_t back) { return v.strides[rank - back]; };
    int64_t m = plan.left.sizes[rank - 2], k = plan.left.sizes[rank - 1];
    int64_t n = plan.right.sizes[rank - 1];
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          const float* p = left + (rank == 3 ? b * step(plan.left, 3) : 0) + i * step(plan.left, 2);
          const float* q =
              right + (rank == 3 ? b * step(plan.right, 3) : 0) + j * step(plan.right, 1);
          for (int64_t x = 0; x < k; ++x)
            sum += double(p[x * step(plan.left, 1)]) * double(q[x * step(plan.right, 2)]);
          double more = bias ? double(bias[j * plan.bias->strides[0]]) : 0;
          result[(b * m + i) * n + j] = float(product_.alpha * sum + more);
        }
  }

  const Program& program_;
  const Product& product_;
  bool constant_;
  Plans<Plan> plans_;
};

// ---- convolutions

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(const Program& p, const Convolution& c, bool constant)
      : program_(p), convolution_(c), constant_(constant) {}

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
    run_slices(*plan.prepared, [&](int64_t slice) {
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
  static int64_t parts(const onednn::ConvolutionShape& shape) {
    constexpr int64_t few_rows = 14;
    int64_t threads = tenon::plugin::host->svc->num_threads();
    return threads > 1 && shape.out_height > few_rows ? 2 * threads : threads;
  }

  static void pack_into(const Plan& plan, std::span<void* const> pointers, void* out) {
    int64_t strides[4];
    std::copy(plan.weights.strides.begin(), plan.weights.strides.end(), strides);
    tenon::plugin::parallel_chunks(plan.prepared->pack_parts(), [&](int64_t part, int32_t) {
      plan.prepared->pack_part(part, plan.weights.data(pointers), strides, out);
    });
  }

  void run_plain(const Plan& plan, std::span<void* const> pointers) const {
    const auto &s = plan.source, &w = plan.weights, &r = plan.result;
    int64_t per_group = r.sizes[1] / convolution_.groups;
    tenon::plugin::parallel_chunks(r.sizes[0] * r.sizes[1], [&](int64_t at, int32_t) {
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
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Product& product,
                                     bool constant_weights) {
  return std::make_unique<ProductCall>(program, product, constant_weights);
}
std::unique_ptr<LibraryCall> prepare(const Program& program, const Convolution& convolution,
                                     bool constant_weights) {
  return std::make_unique<ConvolutionCall>(program, convolution, constant_weights);
}

}  // namespace inductor
