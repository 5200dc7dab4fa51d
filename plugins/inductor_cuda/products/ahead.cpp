// Planning and loading on a thread of its own.
#include "ahead.h"

#include "../measuring/timing_driver.h"

#include <loopir/program.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <system_error>

namespace inductor_cuda {

using tenon::plugin::tensor;

namespace {

constexpr int64_t most_scratch_bytes = int64_t{16} << 20;
constexpr int64_t place_alignment = 256;  // in bytes

/// Kernels that threads of this process have loaded.
class LoadedKernels {
 public:
  bool contains(const std::string& key) {
    std::lock_guard lock(guarding_);
    return keys_.contains(key);
  }
  void add(const std::string& key) {
    std::lock_guard lock(guarding_);
    keys_.insert(key);
  }

 private:
  std::mutex guarding_;
  std::set<std::string> keys_;
};
LoadedKernels& loaded_kernels() {
  static auto& one = *new LoadedKernels;
  return one;
}

// ---- a small problem like another one

constexpr int64_t step = 256;

/// At most 511, and a multiple of the same powers of two.
int64_t shortened(int64_t size) { return size < 2 * step ? size : step + size % step; }

/// A multiple of the same powers of two as `stride`, for what is `least` long at least.
int64_t stride_like(int64_t stride, int64_t least) {
  return stride < 2 * step ? stride : (least + step - 1) / step * step + stride % step;
}

/// Matrices behind one another in one piece of memory.
struct Layout {
  int64_t bytes = 0;
  std::vector<int64_t> places = {};  // by buffer

  void put(Matrix& matrix, int64_t elements, int32_t dtype) {
    matrix.buffer = static_cast<Id>(places.size());
    matrix.offset = 0;
    places.push_back(bytes);
    int64_t own = elements * loopir::item_size(dtype);
    bytes += (own + place_alignment - 1) / place_alignment * place_alignment;
  }
  void put(Matrix& m, int64_t batches, int64_t rows, int64_t columns, int32_t dtype) {
    const bool is_by_rows = m.column == 1 || columns == 1;
    int64_t& next = is_by_rows ? m.row : m.column;
    const int64_t line = is_by_rows ? columns : rows, lines = is_by_rows ? rows : columns;
    next = stride_like(next, line);
    m.batch = stride_like(m.batch, next * lines);
    put(m, m.batch * batches, dtype);
  }
};

/// The problem with its sizes cut down, and its buffers numbered by `layout`.
Problem small_one(const Problem& problem, Layout& layout) {
  Problem out = problem;
  out.batches = std::min<int64_t>(problem.batches, 2);
  out.m = shortened(problem.m), out.n = shortened(problem.n), out.k = shortened(problem.k);
  layout.put(out.left, out.batches, out.m, out.k, out.dtype);
  layout.put(out.right, out.batches, out.k, out.n, out.dtype);
  layout.put(out.result, out.batches, out.m, out.n, out.result_dtype);
  if (out.bias)
    layout.put(*out.bias, out.n * std::max<int64_t>(out.bias->column, 1), out.bias_dtype);
  if (!out.added) return out;
  out.added = problem.added;
  layout.put(*out.added, out.batches, out.m, out.n, out.result_dtype);
  return out;
}

/// A stream and memory behind the work that the device has.
class Side {
 public:
  Side(const Device& device, int64_t bytes) : driver_(device) {
    memory_ = tensor::empty({&bytes, 1}, TN_U8, device.type, device.index);
    constexpr unsigned non_blocking = 1, no_timing = 2;
    TimingDriver::done(driver_.cuStreamCreateWithPriority(&stream_, non_blocking, 0), "a stream");
    TimingDriver::done(driver_.cuEventCreate(&event_, no_timing), "an event");
    // Whoever had the memory before may still use it on the device's standard stream.
    TimingDriver::done(driver_.cuEventRecord(event_, native_stream(device, nullptr)), "an event");
    TimingDriver::done(driver_.cuStreamWaitEvent(stream_, event_, 0), "an event");
  }
  Side(const Side&) = delete;
  ~Side() {
    if (stream_) driver_.cuStreamSynchronize(stream_);
    if (event_) driver_.cuEventDestroy(event_);
    if (stream_) driver_.cuStreamDestroy(stream_);
  }
  lt::Stream stream() const { return static_cast<lt::Stream>(stream_); }
  std::byte* memory() { return memory_.data<std::byte>(); }

 private:
  TimingDriver driver_;
  tensor memory_;
  void *stream_ = nullptr, *event_ = nullptr;
};

}  // namespace

ProductsAhead::ProductsAhead(const Device& device, const Library& library, const LtOptions& options,
                             const std::vector<Problem>& problems)
    : device_(device), library_(library), options_(options) {
  for (const Problem& problem : problems) {
    auto [at, is_new] = entries_.try_emplace(LtPlan::key_of(problem, options), problem);
    if (is_new) in_order_.push_back(&at->second);
  }
  try {
    working_ = std::async(std::launch::async, [this] { work(); });
  } catch (const std::system_error&) {  // no more threads: each product is planned by its call
    entries_.clear();
  }
}

std::optional<ProductsAhead::Outcome> ProductsAhead::plan(const Problem& problem) const {
  auto at = entries_.find(LtPlan::key_of(problem, options_));
  if (at == entries_.end()) return std::nullopt;
  try {
    return at->second.outcome.get();
  } catch (const tenon::plugin::error&) {
    if (at->second.is_told.exchange(true)) return std::nullopt;
    throw;
  }
}

void ProductsAhead::work() {
  std::vector<Entry*> planned;
  for (Entry* entry : in_order_) try {
      native_stream(device_, nullptr);  // the library looks at the thread's device
      Outcome out;
      out.plan = LtPlan::find(library_, entry->problem, best_alignments, options_,
                              most_workspace_bytes, out.why_not);
      if (out.plan && !loaded_kernels().contains(out.plan->kernel_key(entry->problem)))
        planned.push_back(entry);
      entry->promise.set_value(std::move(out));
    } catch (...) {
      entry->promise.set_exception(std::current_exception());
    }
  if (!planned.empty()) load(planned);
}

// Its failures are those of the products' own calls, which tell of them.
void ProductsAhead::load(const std::vector<Entry*>& planned) try {
  Side side(device_, most_scratch_bytes);
  for (Entry* entry : planned) {
    const LtPlan& plan = *entry->outcome.get().plan;
    Layout layout;
    Problem small = small_one(entry->problem, layout);
    if (layout.bytes > most_scratch_bytes) continue;
    std::vector<void*> pointers;
    for (int64_t place : layout.places) pointers.push_back(side.memory() + place);
    bool is_loaded = plan.runs_another(small, options_, pointers, side.memory() + layout.bytes,
                                       most_scratch_bytes - layout.bytes, side.stream());
    if (is_loaded) loaded_kernels().add(plan.kernel_key(entry->problem));
  }
} catch (const std::exception&) {
}

}  // namespace inductor_cuda
