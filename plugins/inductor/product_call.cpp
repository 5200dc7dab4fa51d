// Products by the microkernel: constant weights are packed once, other right sides at each call.
#include "epilogue_calls.h"
#include "library_calls.h"
#include "placed.h"

#include <microkernel/product.h>

#include <algorithm>

namespace inductor {

using loopir::Product;
using loopir::Program;

namespace {

constexpr int64_t small_work = 1 << 19, small_matrix = 192 << 10;  // not worth another thread

class ProductCall final : public LibraryCall {
 public:
  ProductCall(const Program& p, const Product& product, bool constant, const Workers& workers)
      : program_(p),
        product_(product),
        constant_(constant && product.result.sizes.size() == 2),
        workers_(workers),
        finish_(finish_of(product.epilogue)) {
    if (finish_ && product.alpha != 1 && finish_->size() == most_finishes) finish_.reset();
    if (finish_ && product.alpha != 1)
      finish_->insert(finish_->begin(),
                      {microkernel::Finish::Kind::scale, nullptr, float(product.alpha)});
  }

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    if (!constant_ || kept->is_empty) return Memory();
    Memory out(size_t(kept->panels.size()) * sizeof(float));
    pack_right(*kept, kept->right.data(pointers), reinterpret_cast<float*>(out.data()));
    return out;
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.is_empty) return;
    Operands operands(*this, plan, pointers);
    if (packed && constant_) {
      operands.product.right = static_cast<const float*>(packed);
      return run_parts(operands.product, plan.m);
    }
    run_batches(plan, operands.product);
  }

  bool runs_by_rows(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    return constant_ && is_cut_by_rows(plan->m, plan->panels);
  }
  void run_rows(std::span<void* const> pointers, std::span<const int64_t> symbols,
                const void* packed, int64_t row, int64_t end) const override {
    auto kept = plan_for(symbols);
    if (kept->is_empty) return;
    Operands operands(*this, *kept, pointers);
    operands.product.right = static_cast<const float*>(packed);
    microkernel::multiply(operands.product, row, end, 0, kept->panels.count());
  }

  bool is_fast(std::span<const int64_t>) const override { return finish_.has_value(); }

 private:
  struct Plan {
    Placed left, right, result;
    std::optional<Placed> bias;
    bool is_empty;
    int64_t batches, m;
    microkernel::Panels panels;
  };
  /// The product of one call with all but a packed right side, and what it points to.
  struct Operands {
    FinishList finish;
    std::vector<float> bias;  // where it does not lie densely
    microkernel::Product product;

    Operands(const ProductCall& call, const Plan& plan, std::span<void* const> pointers)
        : finish(call.finish(), call.product_.epilogue, pointers),
          product{plan.panels,
                  plan.left.data(pointers),
                  stride(plan.left, 2),
                  stride(plan.left, 1),
                  plan.right.data(pointers),
                  0,
                  plan.bias ? plan.bias->data(pointers) : nullptr,
                  plan.result.data(pointers),
                  stride(plan.result, 2),
                  finish} {
      if (!plan.bias || plan.bias->strides[0] == 1) return;
      for (int64_t j = 0; j < plan.panels.n; ++j)
        bias.push_back(product.bias[j * plan.bias->strides[0]]);
      product.bias = bias.data();
    }
    Operands(const Operands&) = delete;
  };

  std::span<const microkernel::Finish> finish() const {
    if (!finish_)
      throw tenon::plugin::error(TN_INTERNAL, "a product has an epilogue that is none of its own");
    return *finish_;
  }

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      Plan plan{{program_, product_.left, symbols},
                {program_, product_.right, symbols},
                {program_, product_.result, symbols},
                std::nullopt,
                false,
                1,
                0,
                {0, 0}};
      if (product_.bias) plan.bias.emplace(program_, *product_.bias, symbols);
      for (int64_t s : plan.result.sizes) plan.is_empty |= s == 0;
      size_t rank = plan.result.sizes.size();
      if (rank == 3) plan.batches = plan.result.sizes[0];
      plan.m = plan.result.sizes[rank - 2];
      plan.panels = {plan.left.sizes[rank - 1], plan.result.sizes[rank - 1]};
      return plan;
    });
  }

  // From a dimension's next element, counted from the last dimension.
  static int64_t stride(const Placed& v, size_t back) {
    return v.strides.size() < back ? 0 : v.strides[v.strides.size() - back];
  }

  void pack_right(const Plan& plan, const float* right, float* packed) const {
    const microkernel::Panels& panels = plan.panels;
    int64_t k_stride = stride(plan.right, 2), n_stride = stride(plan.right, 1);
    int64_t count = panels.count();
    bool is_small = panels.k * panels.n < small_matrix;
    int64_t chunks = is_small ? 1 : std::min(count, 4 * workers_.threads());
    workers_.run(chunks, [&](int64_t c) {
      panels.pack(right, k_stride, n_stride, count * c / chunks, count * (c + 1) / chunks, packed);
    });
  }

  // Whether rather each chunk takes rows and reads all of the right side than all rows and some
  // columns: what is read more than once had better be small.
  static bool is_cut_by_rows(int64_t m, const microkernel::Panels& panels) {
    constexpr int64_t near = 512 << 10;  // stays in the second- or third-level cache
    int64_t size = panels.k * panels.n;
    return size <= near || m * (panels.k + panels.n) > 2 * size;
  }

  // Many rows: each chunk takes rows. Few: each takes columns.
  void run_parts(const microkernel::Product& product, int64_t m) const {
    const microkernel::Panels& panels = product.panels;
    int64_t count = panels.count(), threads = workers_.threads();
    bool is_small = m * panels.k * panels.n < small_work && panels.k * panels.n < small_matrix;
    if (threads == 1 || is_small) return microkernel::multiply(product, 0, m, 0, count);
    if (int64_t chunks = workers_.row_chunks(m); chunks > 0 && is_cut_by_rows(m, panels)) {
      workers_.run(chunks, [&](int64_t c) {
        microkernel::multiply(product, m * c / chunks, m * (c + 1) / chunks, 0, count);
      });
      return;
    }
    int64_t chunks = std::min(count, 2 * threads);
    workers_.run(chunks, [&](int64_t c) {
      microkernel::multiply(product, 0, m, count * c / chunks, count * (c + 1) / chunks);
    });
  }

  // ---- right sides that are no constants

  // Whether the right side is read as it lies: packing it is not worth the few rows.
  static bool reads_in_place(const Plan& plan) {
    constexpr int64_t few_rows = 32;
    return plan.m < few_rows && stride(plan.right, 1) == 1 &&
           plan.panels.n % microkernel::whole_columns() == 0;
  }

  // One of them; where its right side is packed, into memory of this thread by pack(right, packed).
  template <class Pack>
  microkernel::Product batch_of(const Plan& plan, const microkernel::Product& whole, int64_t batch,
                                Pack&& pack) const {
    microkernel::Product out = whole;
    out.left += batch * stride(plan.left, 3);
    out.right += batch * stride(plan.right, 3);
    out.place = batch * stride(plan.result, 3);
    if (reads_in_place(plan)) {
      out.right_row = stride(plan.right, 2);
      return out;
    }
    float* packed = thread_floats(plan.panels.size());
    pack(out.right, packed);
    out.right = packed;
    return out;
  }

  void run_batches(const Plan& plan, const microkernel::Product& whole) const {
    int64_t work = plan.m * plan.panels.k * plan.panels.n, threads = workers_.threads();
    int64_t count = plan.panels.count();
    bool is_small = work * plan.batches < small_work;
    if (plan.batches < 2 * threads && !is_small) {  // each on all threads
      auto pack = [&](const float* right, float* packed) { pack_right(plan, right, packed); };
      for (int64_t b = 0; b < plan.batches; ++b) run_parts(batch_of(plan, whole, b, pack), plan.m);
      return;
    }
    auto pack = [&](const float* right, float* packed) {
      plan.panels.pack(right, stride(plan.right, 2), stride(plan.right, 1), 0, count, packed);
    };
    int64_t chunks = is_small ? 1 : std::min(plan.batches, 4 * threads);
    workers_.run(chunks, [&](int64_t c) {
      for (int64_t b = plan.batches * c / chunks; b < plan.batches * (c + 1) / chunks; ++b)
        microkernel::multiply(batch_of(plan, whole, b, pack), 0, plan.m, 0, count);
    });
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
