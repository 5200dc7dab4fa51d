// Steps, and results that end with them.
#include "lent.h"

#include <algorithm>
#include <atomic>
#include <map>

namespace tenon::cuda::trees {

using plugin::check;
using plugin::error;
using plugin::host;
using plugin::tensor;
using plugin::text;

namespace {

/// Results of all managers that are over, by their storage.
struct Over {
  std::mutex changing;  // guards by_storage, and lent_ and the fields of Lent
  std::map<uint64_t, std::string> by_storage;
  uint64_t count = 0;  // read without the lock
};

Over& over() {
  static auto* const all = new Over;
  return *all;
}

void set_count(Over& o) {
  std::atomic_ref(o.count).store(o.by_storage.size(), std::memory_order_release);
}

std::atomic<uint64_t> steps{0};
thread_local constinit uint64_t invocations = 0;

}  // namespace

/// Belongs to the tensor's storage, whose deleter frees it.
struct LentResults::Lent {
  LentResults* owner;
  Range range;
  uint64_t storage_id = 0;
  std::string what;
  bool is_over = false;

  static void give_back(void* self) {
    std::unique_ptr<Lent> lent(static_cast<Lent*>(self));
    std::lock_guard lock(over().changing);
    if (lent->is_over) {
      over().by_storage.erase(lent->storage_id);
      set_count(over());
    } else {
      std::erase(lent->owner->lent_, lent.get());
      lent->owner->n_lent_ = lent->owner->lent_.size();
      lent->owner->arena_.release(reinterpret_cast<void*>(lent->range.begin));
    }
  }
};

tensor LentResults::lend(Range range, std::span<const int64_t> sizes,
                         std::span<const int64_t> strides, int32_t dtype, int32_t device,
                         const std::string& what) {
  auto lent = std::make_unique<Lent>(Lent{this, range, 0, what});
  Lent* kept = lent.get();
  arena_.place(range);
  {
    std::lock_guard lock(over().changing);
    lent_.push_back(kept);
    n_lent_ = lent_.size();
  }
  tn_tensor* made = nullptr;
  // Runs the deleter also where it fails.
  check(host->tensor->from_memory(reinterpret_cast<void*>(range.begin), sizes.data(),
                                  strides.data(), static_cast<int32_t>(sizes.size()), dtype,
                                  TN_DEV_CUDA, device, Lent::give_back, lent.release(), &made));
  kept->storage_id = made->storage_id;
  return tensor(made);
}

void LentResults::note_saved(Range range) { saved_.push_back(range); }

bool LentResults::is_backward_due() {
  std::erase_if(saved_, [&](const Range& r) { return arena_.are_free({&r, 1}); });
  return !saved_.empty();
}

// Calls in a row that would have begun a step but for values that wait for a backward.
void LentResults::warn_of_waiting(const std::string& function) {
  constexpr uint64_t calls_to_warn = 16;
  if (++waited_ != calls_to_warn) return;
  plugin::log(
      TN_LOG_WARN, "cudagraphs",
      "{} was called {} times while values of an earlier forward wait for their backward, so "
      "no step begins and results stay in memory: call cudagraph_mark_step_begin() at each "
      "step, or run forwards without a backward under no_grad",
      function, calls_to_warn);
}

bool LentResults::is_new_step(const std::string& function, std::span<tn_tensor* const> inputs) {
  uint64_t marked = steps.load(std::memory_order_acquire);
  bool is_marked = marked != std::exchange(marked_, marked);
  bool is_outermost = invocations == 0 || invocations != std::exchange(invocation_, invocations);
  bool holds = holds_any();
  if (!holds) saved_.clear();
  if (is_marked || !holds) return is_marked;
  bool continues = std::ranges::any_of(
      inputs, [&](const tn_tensor* t) { return t && t->storage && arena_.contains(t->storage); });
  if (!is_outermost || continues) return false;
  bool is_due = is_backward_due();
  if (is_due) warn_of_waiting(function);
  return !is_due;
}

void LentResults::begin(const std::string& function, std::span<tn_tensor* const> inputs) {
  if (is_new_step(function, inputs)) end_step();
  if (std::atomic_ref(over().count).load(std::memory_order_acquire) == 0) return;
  for (const tn_tensor* t : inputs)
    if (t) check_result(t->storage_id);
}

void LentResults::end_step() {
  saved_.clear();
  waited_ = 0;
  std::lock_guard lock(over().changing);
  for (Lent* lent : lent_) {
    lent->is_over = true;
    over().by_storage[lent->storage_id] = lent->what;
    arena_.release(reinterpret_cast<void*>(lent->range.begin));
  }
  lent_.clear();
  n_lent_ = 0;
  set_count(over());
}

void mark_step() { steps.fetch_add(1, std::memory_order_acq_rel); }
void begin_call() { ++invocations; }

const uint64_t* overwritten_results() { return &over().count; }

void check_result(uint64_t storage_id) {
  std::lock_guard lock(over().changing);
  auto at = over().by_storage.find(storage_id);
  if (at == over().by_storage.end()) return;
  throw error(TN_FAILED_PRECONDITION,
              text("a result of a recorded graph was overwritten by a later run: {}. Clone it "
                   "outside of the compiled function before the next step begins; for a gradient, "
                   "keep its memory outside of the recording, or set it to none",
                   at->second));
}

}  // namespace tenon::cuda::trees
