// Products: weights that are constant are packed for the microkernel; others go to oneDNN in
// batches; plain loops where neither is fast.
#include "epilogue_calls.h"
#include "library_calls.h"
#include "placed.h"

#include <dnn/prepared.h>
#include <microkernel/product.h>
#include <tenon/plugin.hpp>

#include <algorithm>

namespace inductor {

using loopir::Product;
using loopir::Program;

namespace {

bool reads_well(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  return (column == 1 && (row >= columns || rows == 1)) ||
         (row == 1 && (column >= rows || columns == 1));
}

class ProductCall final : public LibraryCall {
 public:
  ProductCall(const Program& p, const Product& product, bool constant, const Workers& workers)
      : program_(p),
        product_(product),
        constant_(constant),
        workers_(workers),
        finish_(finish_of(product.epilogue)) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (!plan.panels) return Memory();
    Memory out(size_t(plan.panels->size()) * sizeof(float));
    const Placed& w = plan.right;
    workers_.run(plan.panels->count(), [&](int64_t panel) {
      plan.panels->pack(w.data(pointers), w.strides[0], w.strides[1], panel, panel + 1,
                        reinterpret_cast<float*>(out.data()));
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
    if (plan.panels && packed) return run_packed(plan, pointers, packed);
    if (plan.batched)
      workers_.run(plan.batched->slices(),
                   [&](int64_t slice) { plan.batched->run(slice, left, right, result, bias); });
    else
      run_plain(plan, left, right, bias, result);
    if (product_.epilogue.empty()) return;
    int64_t n = 1;
    for (int64_t s : plan.result.sizes) n *= s;
    for (int64_t i = 0; i < n; ++i) result[i] = finished(result[i], product_.epilogue, pointers, i);
  }

  bool runs_by_rows(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->panels && is_cut_by_rows(*plan);
  }
  void run_rows(std::span<void* const> pointers, std::span<const int64_t> symbols,
                const void* packed, int64_t row, int64_t end) const override {
    auto kept = plan_for(symbols);
    run_part(*kept, pointers, packed, row, end, 0, kept->panels->count());
  }

  bool is_fast(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return plan->is_empty || plan->panels;
  }

 private:
  struct Plan {
    Placed left, right, result;
    std::optional<Placed> bias;
    bool is_empty = false;
    std::optional<microkernel::Panels> panels;
    std::shared_ptr<const onednn::PreparedBatchedProduct> batched;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, product_.left, symbols},
                {program_, product_.right, symbols},
                {program_, product_.result, symbols},
                std::nullopt,
                false,
                std::nullopt,
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
    int64_t workers = workers_.slices();
    int64_t m = l.sizes[rank - 2], k = l.sizes[rank - 1], n = r.sizes[rank - 1];
    bool bias_is_dense = !plan.bias || plan.bias->strides[0] == 1 || n == 1;
    if (rank == 2 && constant_ && finish_ && bias_is_dense && product_.alpha == 1 &&
        (l.strides[1] == 1 || k == 1))
      plan.panels = microkernel::Panels{k, n};
    if (plan.panels || !bias_is_dense) return;
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

  // Whether rather each chunk takes rows and reads all weights than all rows and some columns: what
  // is read more than once had better be small.
  static bool is_cut_by_rows(const Plan& plan) {
    constexpr int64_t near_weights = 512 << 10;  // they stay in the second- or third-level cache
    int64_t m = plan.left.sizes[0], weights = plan.panels->k * plan.panels->n;
    return weights <= near_weights || m * (plan.panels->k + plan.panels->n) > 2 * weights;
  }

  void run_packed(const Plan& plan, std::span<void* const> pointers, const void* packed) const {
    constexpr int64_t small_work = 1 << 19, small_weights = 192 << 10;  // not worth another thread
    constexpr int64_t chunk_rows = 96, fewest_rows = 24;
    const microkernel::Panels& panels = *plan.panels;
    int64_t m = plan.left.sizes[0], count = panels.count();
    int64_t threads = workers_.threads();
    bool is_small = m * panels.k * panels.n < small_work && panels.k * panels.n < small_weights;
    if (threads == 1 || is_small) return run_part(plan, pointers, packed, 0, m, 0, count);
    if (m >= fewest_rows * threads && is_cut_by_rows(plan)) {
      int64_t chunks = threads * std::max<int64_t>(m / (chunk_rows * threads), 1);
      workers_.run(chunks, [&](int64_t c) {
        run_part(plan, pointers, packed, m * c / chunks, m * (c + 1) / chunks, 0, count);
      });
      return;
    }
    int64_t chunks = std::min(count, 2 * threads);
    workers_.run(chunks, [&](int64_t c) {
      run_part(plan, pointers, packed, 0, m, count * c / chunks, count * (c + 1) / chunks);
    });
  }

  void run_part(const Plan& plan, std::span<void* const> pointers, const void* packed, int64_t row,
                int64_t row_end, int64_t panel, int64_t panel_end) const {
    std::vector<microkernel::Finish> finish = with_operands(*finish_, product_.epilogue, pointers);
    microkernel::multiply(
        {*plan.panels, plan.left.data(pointers), plan.left.strides[0],
         static_cast<const float*>(packed), plan.bias ? plan.bias->data(pointers) : nullptr,
         plan.result.data(pointers), plan.result.strides[0], finish},
        row, row_end, panel, panel_end);
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
  Workers workers_;
  std::optional<std::vector<microkernel::Finish>> finish_;  // the epilogue, where it can be that
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Product& product,
                                     bool constant_weights, const Workers& workers) {
  return std::make_unique<ProductCall>(program, product, constant_weights, workers);
}

}  // namespace inductor
