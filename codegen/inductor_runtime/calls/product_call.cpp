// Products by the microkernel: constant weights are packed once, other right sides at each call.
#include "epilogue_calls.h"
#include "library_calls.h"
#include "placed.h"

#include <microkernel/product.h>

#include <algorithm>

namespace inductor {

using loopir::Product;
using loopir::Program;
using loopir::Way;

namespace {

constexpr int64_t small_work = 1 << 19, small_matrix = 192 << 10;  // not worth another thread

microkernel::Element element_of(int32_t dtype) {
  using microkernel::Element;
  return dtype == TN_F64 ? Element::f64 : dtype == TN_BF16 ? Element::bf16 : Element::f32;
}

class ProductCall final : public LibraryCall {
 public:
  ProductCall(const Program& p, const Product& product, bool constant, const Workers& workers)
      : program_(p),
        product_(product),
        element_(element_of(dtype_of(product.left))),
        constant_(constant && product.result.sizes.size() == 2),
        workers_(workers),
        finish_(finish_of(product.epilogue)),
        plans_(symbols_of(p, {&product.left, &product.right, &product.result,
                              product.bias ? &*product.bias : nullptr})) {
    if (!microkernel::has_products_of(element_))
      throw tenon::plugin::error(TN_FAILED_PRECONDITION,
                                 "the code multiplies in bf16, and this processor has no "
                                 "AVX512-BF16; compile it for a lower level, such as cpu = "
                                 "\"x86-64-v3\"");
    if (finish_ && product.alpha != 1 && finish_->size() == most_finishes) finish_.reset();
    if (finish_ && product.alpha != 1)
      finish_->insert(finish_->begin(), {microkernel::Finish::Kind::scale, nullptr, product.alpha});
  }

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    auto kept = plan_for(symbols);
    if (!constant_ || kept->panels.k == 0 || kept->panels.n == 0) return Memory();
    Memory out(static_cast<size_t>(kept->panels.bytes()));
    pack_right(*kept, address(kept->right, pointers), out.data());
    return out;
  }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.is_empty) return;
    Operands operands(*this, plan, pointers);
    if (!packed || !constant_) return run_batches(plan, operands.product);
    operands.product.right = packed;
    if (!reads_left(plan)) {
      std::byte* memory = thread_bytes(static_cast<size_t>(packed_left(plan).bytes()));
      pack_left(plan, operands.product, memory);
    }
    run_parts(operands.product, plan.m);
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
    microkernel::Product& product = operands.product;
    product.right = packed;
    if (!reads_left(*kept)) {
      microkernel::PackedLeft form{end - row, kept->panels.k, element_};
      std::byte* memory = thread_bytes(static_cast<size_t>(form.bytes()));
      const void* first = moved(product.left, row * product.left_row);
      form.pack(first, product.left_row, stride(kept->left, 1), 0, form.steps(), memory);
      product.left = memory, product.left_row = form.row(), product.left_step = form.step();
      product.place = row * product.result_row;
      end -= row, row = 0;
    }
    microkernel::multiply(product, row, end, 0, kept->panels.count());
  }

  bool is_fast(std::span<const int64_t>) const override { return finish_.has_value(); }

  std::vector<Way> ways(std::span<const int64_t> symbols) const override {
    auto plan = plan_for(symbols);
    bool is_cut = plan->batches < 2 * workers_.threads();  // more are shared out whole
    if (plan->is_empty || workers_.threads() == 1 || !is_cut) return {Way::by_rule};
    std::vector<Way> out{Way::by_rule};
    for (Way way : {Way::rows, Way::columns, Way::one_thread})
      if (way != way_by_rule(plan->panels, plan->m)) out.push_back(way);
    return out;
  }

 private:
  struct Plan {
    Placed left, right, result;
    std::optional<Placed> bias;
    bool is_empty;
    int64_t batches, m;
    microkernel::Panels panels;
  };
  /// The product of one call with all but a packed side, and what it points to.
  struct Operands {
    FinishList finish;
    std::vector<std::byte> bias;  // where it does not lie densely
    microkernel::Product product;

    Operands(const ProductCall& call, const Plan& plan, std::span<void* const> pointers)
        : finish(call.finish(), call.product_.epilogue, pointers),
          product{plan.panels,
                  call.address(plan.left, pointers),
                  stride(plan.left, 2),
                  stride(plan.left, 1) * microkernel::step_of(plan.panels.element),
                  call.address(plan.right, pointers),
                  0,
                  plan.bias ? call.address(*plan.bias, pointers) : nullptr,
                  call.address(plan.result, pointers),
                  stride(plan.result, 2),
                  finish} {
      int32_t dtype = call.dtype_of(call.product_.result);
      product.is_rounded = loopir::item_size(dtype) < loopir::item_size(TN_F32);
      if (!plan.bias || plan.bias->strides[0] == 1) return;
      int64_t size = loopir::item_size(call.dtype_of(*call.product_.bias));
      bias.resize(static_cast<size_t>(plan.panels.n * size));
      auto* from = static_cast<const std::byte*>(product.bias);
      for (int64_t j = 0; j < plan.panels.n; ++j)
        std::copy_n(from + j * plan.bias->strides[0] * size, size, bias.data() + j * size);
      product.bias = bias.data();
    }
    Operands(const Operands&) = delete;
  };

  int32_t dtype_of(const loopir::View& v) const { return program_.buffers[v.buffer].dtype; }
  void* address(const Placed& v, std::span<void* const> pointers) const {
    return v.address(pointers, program_.buffers[v.buffer].dtype);
  }

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
                {0, 0, element_}};
      if (product_.bias) plan.bias.emplace(program_, *product_.bias, symbols);
      for (int64_t s : plan.result.sizes) plan.is_empty |= s == 0;
      size_t rank = plan.result.sizes.size();
      if (rank == 3) plan.batches = plan.result.sizes[0];
      plan.m = plan.result.sizes[rank - 2];
      plan.panels.k = plan.right.sizes[rank - 2];
      plan.panels.n = plan.right.sizes[rank - 1];
      return plan;
    });
  }

  // From a dimension's next element, counted from the last dimension.
  static int64_t stride(const Placed& v, size_t back) {
    return v.strides.size() < back ? 0 : v.strides[v.strides.size() - back];
  }
  /// So many numbers further on.
  const void* moved(const void* p, int64_t numbers) const {
    return static_cast<const std::byte*>(p) + numbers * microkernel::size_of(element_);
  }

  // ---- sides that are packed at each call

  void pack_right(const Plan& plan, const void* right, void* packed) const {
    const microkernel::Panels& panels = plan.panels;
    int64_t k_stride = stride(plan.right, 2), n_stride = stride(plan.right, 1);
    int64_t count = panels.count();
    bool is_small = panels.k * panels.n < small_matrix;
    int64_t chunks = is_small ? 1 : std::min(count, 4 * workers_.threads());
    workers_.run(chunks, [&](int64_t c) {
      panels.pack(right, k_stride, n_stride, count * c / chunks, count * (c + 1) / chunks, packed);
    });
  }

  // Whether the left side is read as it lies: the numbers of a step are side by side.
  static bool reads_left(const Plan& plan) {
    return microkernel::step_of(plan.panels.element) == 1 || plan.panels.k == 1 ||
           stride(plan.left, 1) == 1;
  }
  microkernel::PackedLeft packed_left(const Plan& plan) const {
    return {plan.m, plan.panels.k, element_};
  }
  void pack_left(const Plan& plan, microkernel::Product& product, std::byte* packed) const {
    microkernel::PackedLeft form = packed_left(plan);
    bool is_small = form.m * form.k < small_matrix;
    int64_t steps = form.steps(), chunks = is_small ? 1 : std::min(steps, 4 * workers_.threads());
    workers_.run(chunks, [&](int64_t c) {
      form.pack(product.left, product.left_row, stride(plan.left, 1), steps * c / chunks,
                steps * (c + 1) / chunks, packed);
    });
    product.left = packed, product.left_row = form.row(), product.left_step = form.step();
  }

  // Whether rather each chunk takes rows and reads all of the right side than all rows and some
  // columns: what is read more than once had better be small.
  static bool is_cut_by_rows(int64_t m, const microkernel::Panels& panels) {
    constexpr int64_t near = 2 << 20;  // bytes; stays in the second- or third-level cache
    int64_t size = panels.k * panels.n;
    return size * microkernel::size_of(panels.element) <= near ||
           m * (panels.k + panels.n) > 2 * size;
  }

  // Many rows: each chunk takes rows. Few: each takes columns.
  Way way_by_rule(const microkernel::Panels& panels, int64_t m) const {
    bool is_small = m * panels.k * panels.n < small_work && panels.k * panels.n < small_matrix;
    if (workers_.threads() == 1 || is_small) return Way::one_thread;
    return workers_.row_chunks(m) > 0 && is_cut_by_rows(m, panels) ? Way::rows : Way::columns;
  }

  void run_parts(const microkernel::Product& product, int64_t m) const {
    const microkernel::Panels& panels = product.panels;
    int64_t count = panels.count(), threads = workers_.threads();
    Way way = product_.way == Way::by_rule ? way_by_rule(panels, m) : product_.way;
    if (way == Way::one_thread) return microkernel::multiply(product, 0, m, 0, count);
    if (way == Way::rows) {
      int64_t chunks = std::max(workers_.row_chunks(m), std::min(m, threads));
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

  // ---- right sides that are not constants

  // Whether the right side is read as it lies: packing it is not worth it, at 96 rows by a tenth,
  // at 384 no more. A row that stands for all is packed: rows 0 apart mean panels.
  static bool reads_in_place(const Plan& plan) {
    constexpr int64_t few_rows = 256;
    return plan.m < few_rows && stride(plan.right, 1) == 1 && stride(plan.right, 2) != 0 &&
           plan.panels.n % microkernel::whole_columns(plan.panels.element) == 0;
  }

  // One of them; sides that are packed go into memory of this thread.
  // Within a chunk of work, packing runs on its thread.
  microkernel::Product batch_of(const Plan& plan, const microkernel::Product& whole,
                                int64_t batch) const {
    microkernel::Product out = whole;
    out.left = moved(out.left, batch * stride(plan.left, 3));
    out.right = moved(out.right, batch * stride(plan.right, 3));
    out.place = batch * stride(plan.result, 3);
    bool is_in_place = reads_in_place(plan), packs_left = !reads_left(plan);
    int64_t right_bytes = is_in_place ? 0 : (plan.panels.bytes() + 63) / 64 * 64;
    int64_t left_bytes = packs_left ? packed_left(plan).bytes() : 0;
    std::byte* memory = thread_bytes(static_cast<size_t>(right_bytes + left_bytes));
    if (packs_left) pack_left(plan, out, memory + right_bytes);
    if (is_in_place) {
      out.right_row = stride(plan.right, 2);
      return out;
    }
    pack_right(plan, out.right, memory);
    out.right = memory;
    return out;
  }

  void run_batches(const Plan& plan, const microkernel::Product& whole) const {
    int64_t work = plan.m * plan.panels.k * plan.panels.n, threads = workers_.threads();
    int64_t count = plan.panels.count();
    bool is_small = work * plan.batches < small_work;
    if (plan.batches < 2 * threads && !is_small) {  // each on all threads
      for (int64_t b = 0; b < plan.batches; ++b) run_parts(batch_of(plan, whole, b), plan.m);
      return;
    }
    int64_t chunks = is_small ? 1 : std::min(plan.batches, 4 * threads);
    workers_.run(chunks, [&](int64_t c) {
      for (int64_t b = plan.batches * c / chunks; b < plan.batches * (c + 1) / chunks; ++b)
        microkernel::multiply(batch_of(plan, whole, b), 0, plan.m, 0, count);
    });
  }

  const Program& program_;
  const Product& product_;
  microkernel::Element element_;
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
