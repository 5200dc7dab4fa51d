// The items of a call: kernels, library calls, regions of rows, ops of the host.
#include "executable_call.h"

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

}  // namespace

/// A kernel with the addresses of one call.
class Executable::KernelCall {
 public:
  KernelCall(const Executable& owner, const Call& call, size_t item)
      : program_(owner.parts_.program),
        writes_(owner.parts_.accesses[item].writes),
        kernel_(owner.parts_.kernels[item]),
        symbols_(call.symbols),
        run_(owner.parts_.functions[item]),
        name_(owner.kernel_name(item)) {
    size_t n = kernel_.buffers.size();
    if (n > most) many_.resize(n), pointers_ = many_.data();
    for (size_t i = 0; i < n; ++i) {
      void* p = call.context.pointers[kernel_.buffers[i]];
      pointers_[i] = p ? p : nothing;
    }
  }
  KernelCall(const KernelCall&) = delete;

  void operator()(int64_t begin, int64_t end) const {
    void* rows =
        kernel_.scratch_bytes ? thread_bytes(static_cast<size_t>(kernel_.scratch_bytes)) : nullptr;
    uint32_t errors = run_(pointers_, symbols_.data(), begin, end, rows);
    if (errors && makes_elements()) fail(errors);
  }

 private:
  // What is the same for all elements is checked before any of them is made.
  bool makes_elements() const {
    return std::ranges::any_of(writes_, [&](Id b) {
      return std::ranges::none_of(program_.buffers[b].sizes, [&](Id size) {
        return program_.expressions.evaluate(size, symbols_) == 0;
      });
    });
  }
  [[noreturn]] void fail(uint32_t errors) const {
    if (errors & division_by_zero)
      throw error(TN_INVALID_ARGUMENT,
                  "kernel " + name_ +
                      ": an integer is divided by zero; expected no 0 in the divisor, mask it out "
                      "or divide floating numbers");
    throw error(TN_OUT_OF_RANGE,
                "index out of range in self: a position read by kernel " + name_ +
                    " is not within the tensor that it indexes; check the indices");
  }

  static constexpr size_t most = 64;
  const loopir::Program& program_;
  const loopir::Ids& writes_;
  const KernelInterface& kernel_;
  std::span<const int64_t> symbols_;
  const KernelCode& run_;
  const std::string& name_;
  void* own_[most];
  std::vector<void*> many_;
  void** pointers_ = own_;
};

void Executable::run_kernel(Call& call, size_t item) {
  const KernelInterface& k = parts_.kernels[item];
  KernelCall run(*this, call, item);
  int64_t units = parts_.program.expressions.evaluate(k.units, call.symbols);
  // Of the default about 5 µs of work.
  constexpr double cost_of_element = 0.75;
  double worth_a_thread =
      cost_of_element * static_cast<double>(parts_.options.workers.fewest_elements);
  double total = static_cast<double>(units) * k.cost;
  int64_t threads = total > worth_a_thread ? parts_.options.workers.threads() : 1;
  int64_t chunks = threads > 1 ? std::min(units, 4 * threads) : 1;
  if (chunks == 1) return run(0, units);
  parts_.options.workers.run(chunks,
                             [&](int64_t c) { run(units * c / chunks, units * (c + 1) / chunks); });
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
      KernelCall(*this, call, i)(begin * step, row_end == rows ? units : end * step);
    }
  };
  parts_.options.workers.run(chunks, run_chunk);
  return true;
}

// Whether the tensor lies in the arena: an op that gave back its operand.
bool Executable::is_borrowed(const Call& call, const tn_tensor* t) const {
  if (!t) return false;
  auto* data = static_cast<const std::byte*>(t->data);
  auto has = [&](const Memory& m) {
    return m.data() && data >= m.data() && data < m.data() + m.size();
  };
  const std::vector<Memory>& blocks = call.context.blocks;
  return has(call.context.arena) || (call.prepacked && has(call.prepacked->memory)) ||
         std::any_of(blocks.begin(), blocks.end(), has);
}

void Executable::run_extern(Call& call, size_t item) {
  const loopir::ExternCall& e = parts_.externs.at(item);
  std::vector<tensor> results =
      e.run(parts_.program.expressions, call.symbols,
            [&](const View& view) { return tensor_of(call, view, e.looks_by_place()); });
  bool is_prepacked = parts_.is_prepacked[item];
  for (size_t r = 0; r < results.size(); ++r) {
    Id buffer = e.results()[r];
    if (buffer == none) continue;
    // Memory of the arena must not leave the call, nor be read after it is used again.
    bool is_lent = is_borrowed(call, results[r].get());
    results[r] = e.as_promised(r, std::move(results[r]), parts_.program, call.symbols, is_lent, {});
    call.context.pointers[buffer] = results[r]->data;
    if (is_prepacked) call.prepacked->pointers[buffer] = results[r]->data;
    (is_prepacked ? call.prepacked->tensors : call.context.tensors)[buffer] = std::move(results[r]);
  }
}

void Executable::run_items(Call& call, bool prepacks) {
  auto region = parts_.regions.begin();
  for (size_t i = 0; i < parts_.accesses.size(); ++i) {
    if (prepacks)
      for (Id b : parts_.accesses[i].writes)
        if (parts_.is_prepacked[i]) call.context.pointers[b] = call.prepacked->pointers[b];
    if (parts_.is_prepacked[i] != prepacks) continue;
    if (!prepacks)
      for (size_t output : lives_.begin_of(i)) call.context.make_output(output);
    bool begins = !prepacks && region != parts_.regions.end() && region->first == i;
    auto start =
        times_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    bool is_done = begins && run_region(call, *region);
    if (!is_done) run_item(call, i);
    if (times_) {
      times_[i].nanoseconds += (std::chrono::steady_clock::now() - start).count();
      ++times_[i].calls;
    }
    if (is_done) i = region->last;
    if (begins) ++region;
    if (!prepacks) lives_.end_inputs(call.c, i);
  }
}

void Executable::run_item(Call& call, size_t i) {
  if (library_calls_[i]) {
    const void* packed = packs_[i] ? call.context.packed.by_item[i]->data() : nullptr;
    library_calls_[i]->run(call.context.pointers, call.symbols, packed);
  } else if (parts_.externs.contains(i)) {
    run_extern(call, i);
  } else {
    run_kernel(call, i);
  }
}

}  // namespace inductor
