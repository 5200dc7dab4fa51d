// What depends on parameters and constants only: made once for their versions, read by all calls.
//
// Problem: weights are folded, and laid out for the libraries, by kernels that would take a third of
// a small network's time at each call. Model: their results lie in memory of the executable, at the
// same addresses as long as it lives, so recordings read them as they read constants. Method: each
// call compares the versions of the parameters with those that the memory is of, and runs the kernels
// where one differs; the host then waits once, so that calls on any stream may read. Who writes a
// parameter has waited for those that read it, and with that for those that read what was made of it.
#pragma once

#include "machine.h"

#include <loopir/kernel.h>

#include <functional>
#include <mutex>
#include <vector>

namespace inductor_cuda {

/// Threads: any, once made.
class Setup {
 public:
  /// `is_static` by item, `accesses` likewise.
  void plan(const loopir::Program& program, const std::vector<loopir::Access>& accesses,
            const std::vector<bool>& is_static);
  bool is_empty() const { return buffers_.empty(); }
  const loopir::Ids& buffers() const { return buffers_; }
  /// Empty before it was prepared.
  tn_tensor* memory() const { return memory_.get(); }

  using Place = std::function<void(loopir::Id buffer, void* address)>;
  /// Tells where the buffers lie.
  void place(const Place& tell) const;
  /// Calls `make`, which enqueues on the stream, unless what is there is of these inputs.
  void prepare(tn_tensor* const* inputs, const Device& device, tn_stream* stream,
               const std::function<void()>& make);

 private:
  std::vector<uint64_t> versions_of(tn_tensor* const* inputs) const;

  loopir::Ids buffers_;
  std::vector<int64_t> offsets_;   // of buffers_, in the memory
  std::vector<uint32_t> watched_;  // inputs
  int64_t bytes_ = 0;
  std::mutex guarding_;  // guards what follows
  tenon::plugin::tensor memory_;
  std::vector<uint64_t> versions_;
  bool is_made_ = false;
};

}  // namespace inductor_cuda
