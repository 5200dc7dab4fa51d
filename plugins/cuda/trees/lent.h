// Results that lie in the arena until the next step: TN_CUDA_OUTPUTS_POOL.
#pragma once

#include <tenon/plugin.hpp>

#include "arena.h"

#include <atomic>
#include <list>
#include <memory>

namespace tenon::cuda::trees {

/// Results of one manager that users hold, and when their step ends. A step ends when a later call
/// begins another one: behind mark_step(), or as the thread's next outermost call while no forward
/// waits for its backward, unless that call works on results of the step. What is still held then
/// is over: its memory is free, and check_result() tells who asks for it. Threads: its manager's
/// lock; results go back on any thread.
class LentResults {
 public:
  explicit LentResults(Arena& arena) : arena_(arena) {}

  /// A tensor over the block, which is free. `what` made it, for the message.
  plugin::tensor lend(Range range, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                      int32_t dtype, int32_t device, const std::string& what);
  /// A value that a backward waits for.
  void note_saved(Range range);
  /// A call of the thread begins; ends the step where it has to.
  void begin(const std::string& function, std::span<tn_tensor* const> inputs);

 private:
  struct Lent;
  bool is_new_step(const std::string& function, std::span<tn_tensor* const> inputs);
  void warn_of_waiting(const std::string& function);
  bool holds_any() const { return n_lent_.load(std::memory_order_acquire) != 0; }
  bool is_backward_due();
  void end_step();

  Arena& arena_;
  uint64_t marked_ = 0, invocation_ = 0, waited_ = 0;
  std::list<Lent*> lent_;  // of this step, guarded by the lock of all lent results
  std::atomic<size_t> n_lent_{0};
  std::vector<Range> saved_;  // of this step
};

void mark_step();
void begin_call();
/// How many results are over and still held.
const uint64_t* overwritten_results();
/// Throws TN_FAILED_PRECONDITION for the storage of one that is.
void check_result(uint64_t storage_id);

}  // namespace tenon::cuda::trees
