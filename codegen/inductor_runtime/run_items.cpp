// The items of a call: kernels, library calls, regions of rows, ops of the host.
#include "executable_call.h"
#include "lent_operands.h"

#include <algorithm>
#include <chrono>

namespace inductor {

using loopir::Buffer;
using loopir::Id;
using loopir::none;
using loopir::View;
using tenon::plugin::error;
using tenon::plugin::tensor;

namespace {

/// What an input of no elements points to: reads of masked lanes stay within it.
alignas(64) std::byte nothing[4096];

/// Into how many chunks work of so many vector instructions is cut.
int64_t chunks_of(double instructions, int64_t units, const Workers& workers) {
  constexpr double cost_of_element = 0.75;  // so that chunks are worth about 5 µs of the default
  if (instructions <= cost_of_element * static_cast<double>(workers.fewest_elements)) return 1;
  int64_t threads = workers.threads();
  return threads > 1 ? std::min(units, 4 * threads) : 1;
}

/// Adds the time while it lives to that of an item; null: nobody wants it.
class Timing {
 public:
  explicit Timing(ItemTime* item) : item_(item) {
    if (item_) start_ = std::chrono::steady_clock::now();
  }
  ~Timing() {
    if (!item_) return;
    item_->nanoseconds += (std::chrono::steady_clock::now() - start_).count();
    ++item_->calls;
  }
  Timing(const Timing&) = delete;

 private:
  ItemTime* item_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

/// A kernel with the addresses of one call.
class Executable::KernelCall {
 public:
  /// `address(i)`: of its i-th buffer.
  template <class Address>
  KernelCall(const Executable& owner, std::span<const int64_t> symbols, size_t item,
             Address address)
      : owner_(owner), symbols_(symbols), item_(item) {
    size_t n = owner.parts_.kernels[item].buffers.size();
    if (n > most) many_ = std::make_unique<void*[]>(n);
    pointers_ = many_ ? many_.get() : own_;
    for (size_t i = 0; i < n; ++i) {
      void* known = address(i);
      pointers_[i] = known ? known : nothing;
    }
  }
  /// With the addresses that the context has.
  static KernelCall of(const Executable& owner, const Call& call, size_t item) {
    const Id* buffers = owner.parts_.kernels[item].buffers.data();
    void* const* known = call.context.pointers.data();
    return {owner, call.symbols, item, [=](size_t i) { return known[buffers[i]]; }};
  }
  KernelCall(const KernelCall&) = delete;

  void operator()(int64_t begin, int64_t end) const {
    auto scratch = static_cast<size_t>(owner_.parts_.kernels[item_].scratch_bytes);
    void* rows = scratch ? thread_bytes(scratch) : nullptr;
    uint32_t errors = owner_.parts_.functions[item_](pointers_, symbols_.data(), begin, end, rows);
    if (errors && makes_elements()) [[unlikely]]
      fail(errors);
  }

 private:
  // What is the same for all elements is checked before any of them is made.
  bool makes_elements() const {
    const loopir::Program& program = owner_.parts_.program;
    return std::ranges::any_of(owner_.parts_.accesses[item_].writes, [&](Id b) {
      return std::ranges::none_of(program.buffers[b].sizes, [&](Id size) {
        return program.expressions.evaluate(size, symbols_) == 0;
      });
    });
  }
  [[noreturn]] void fail(uint32_t errors) const {
    const std::string& name = owner_.kernel_name(item_);
    if (errors & division_by_zero)
      throw error(TN_INVALID_ARGUMENT,
                  "kernel " + name +
                      ": an integer is divided by zero; expected no 0 in the divisor, mask it out "
                      "or divide floating numbers");
    throw error(TN_OUT_OF_RANGE,
                "index out of range in self: a position read by kernel " + name +
                    " is not within the tensor that it indexes; check the indices");
  }

  static constexpr size_t most = 64;
  const Executable& owner_;
  std::span<const int64_t> symbols_;
  size_t item_;
  void* own_[most];
  std::unique_ptr<void*[]> many_;
  void** pointers_;
};

void Executable::run_kernel(const KernelCall& kernel, size_t item,
                            std::span<const int64_t> symbols) {
  const KernelInterface& k = parts_.kernels[item];
  int64_t units = parts_.program.expressions.evaluate(k.units, symbols);
  int64_t chunks = chunks_of(static_cast<double>(units) * k.cost, units, parts_.options.workers);
  if (chunks == 1) return kernel(0, units);
  parts_.options.workers.run(
      chunks, [&](int64_t c) { kernel(units * c / chunks, units * (c + 1) / chunks); });
}

void Executable::fill_outputs(tn_call& c, std::span<const int64_t> symbols) {
  auto address = [&](size_t i) {
    const KernelOperand& operand = operands_[i];
    switch (operand.kind) {
      case KernelOperand::Kind::input:
        return c.inputs[operand.slot]->data;
      case KernelOperand::Kind::constant:
        return operand.constant;
      case KernelOperand::Kind::output:
        break;
    }
    void* data = c.outputs[operand.slot]->data;
    require_aligned(data);
    return data;
  };
  run_kernel(KernelCall(*this, symbols, 0, address), 0, symbols);
}

// Whether there are rows enough for chunks; else nothing is done.
bool Executable::run_region(Call& call, const Region& region) {
  int64_t rows = parts_.program.expressions.evaluate(region.rows, call.symbols);
  int64_t chunks = parts_.options.workers.row_chunks(rows);
  if (chunks == 0) return false;
  int64_t granules = (rows + region.granule - 1) / region.granule;
  auto run_chunk = [&](int64_t c) {
    int64_t begin = granules * c / chunks, end = granules * (c + 1) / chunks;
    int64_t row = begin * region.granule, row_end = std::min(end * region.granule, rows);
    if (row >= row_end) return;
    for (size_t i = region.first; i <= region.last; ++i) {
      if (parts_.is_prepacked[i]) continue;
      if (library_calls_[i]) {
        library_calls_[i]->run_rows(call.context.pointers, call.symbols,
                                    call.context.packed.by_item[i]->data(), row, row_end);
        continue;
      }
      int64_t step = region.units[i - region.first];
      int64_t units = parts_.program.expressions.evaluate(parts_.kernels[i].units, call.symbols);
      KernelCall::of(*this, call, i)(begin * step, row_end == rows ? units : end * step);
    }
  };
  parts_.options.workers.run(chunks, run_chunk);
  return true;
}

void Executable::run_extern(Call& call, size_t item) {
  const loopir::ExternCall& e = parts_.externs.at(item);
  Context& context = call.context;
  LentOperands operands(
      {context.arena, context.blocks, call.prepacked.get(), context.pointers, in_arena_},
      context.operands, keeps_operands_[item]);
  operands.during([&] {
    std::vector<tensor> results = e.run(
        parts_.program.expressions, call.symbols,
        [&](const View& view) { return operands.give(tensor_of(call, view, e.looks_by_place())); });
    bool is_prepacked = parts_.is_prepacked[item];
    for (size_t r = 0; r < results.size(); ++r) {
      Id buffer = e.results()[r];
      if (buffer == none) continue;
      // Memory of the arena must not leave the call, nor be read after it is used again.
      bool is_lent = operands.is_lent(results[r].get());
      tensor made =
          e.as_promised(r, std::move(results[r]), parts_.program, call.symbols, is_lent, {});
      context.pointers[buffer] = made->data;
      if (is_prepacked) call.prepacked->pointers[buffer] = made->data;
      (is_prepacked ? call.prepacked->tensors : context.tensors)[buffer] = std::move(made);
    }
  });
}

void Executable::prepack_items(Call& call) {
  for (size_t i = 0; i < parts_.accesses.size(); ++i) {
    if (!parts_.is_prepacked[i]) continue;
    for (Id b : parts_.accesses[i].writes) call.context.pointers[b] = call.prepacked->pointers[b];
    Timing timing(times_ ? &times_[i] : nullptr);
    run_item(call, i);
  }
}

void Executable::run_items(Call& call) {
  auto region = parts_.regions.begin();
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (parts_.is_prepacked[i]) continue;
    for (size_t output : lives_.begin_of(i)) call.context.make_output(output);
    bool begins = region != parts_.regions.end() && region->first == i;
    bool is_done = false;
    {
      Timing timing(times_ ? &times_[i] : nullptr);
      is_done = begins && run_region(call, *region);
      if (!is_done) run_item(call, i);
    }
    if (is_done) i = region->last;
    if (begins) ++region;
    lives_.end_inputs(call.c, i);
  }
}

void Executable::run_item(Call& call, size_t i) {
  switch (kinds_[i]) {
    case ItemKind::kernel:
      return run_kernel(KernelCall::of(*this, call, i), i, call.symbols);
    case ItemKind::host:
      return run_extern(call, i);
    case ItemKind::library:
      const void* packed = packs_[i] ? call.context.packed.by_item[i]->data() : nullptr;
      return library_calls_[i]->run(call.context.pointers, call.symbols, packed);
  }
}

}  // namespace inductor
