// One GPU: its context, its pool of memory, its streams and events, and whether it is lost.
#pragma once

#include "errors.h"
#include "kept_blocks.h"
#include "staging.h"

#include <tenon/cuda.h>
#include <tenon/device.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::cuda::trees {
class Recording;
}

/// A queue of work. Those that stand for a handle of the program are not destroyed.
struct tn_stream {
  tenon::cuda::Gpu* gpu;
  tenon::cuda::api::Stream handle;
  int priority;
  bool foreign;
  // Both by atomic_ref: see trees::StreamUse.
  tenon::cuda::trees::Recording* recording = nullptr;       // under way
  int32_t uses = 0;                                         // threads that enqueue something now
  std::unique_ptr<tenon::cuda::KeptBlocks> kept = nullptr;  // of streams that are not foreign
};
struct tn_event {
  tenon::cuda::Gpu* gpu;
  tenon::cuda::api::Event handle;
  bool timing;
};

namespace tenon::cuda {

inline api::Address address_of(const void* memory) {
  return reinterpret_cast<api::Address>(memory);
}

/// Threads: any. A stream is used by one thread at a time.
class Gpu {
 public:
  explicit Gpu(int index);
  Gpu(const Gpu&) = delete;

  int index() const { return index_; }
  /// Makes it the calling thread's device. Throws TN_UNAVAILABLE where it is lost.
  void bind();
  void require_alive() const;
  /// The first cause is kept.
  void lose(const std::string& why);
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }

  void fill(tn_device_props& out);
  void fill(tn_cuda_facts& out);
  void synchronize();
  void synchronize(tn_stream* stream);
  /// Where kernels write what is wrong with their values. Who waits for the device tells of it.
  tn_cuda_error_flag& error_flag();
  /// Throws for a stream of another device.
  api::Stream handle_of(const tn_stream* stream) const;
  /// Null until it was bound.
  api::Context context() const { return context_; }

  /// Memory of the stream's order, 512-byte aligned.
  void* allocate(size_t bytes, tn_stream* stream);
  void release(void* memory, size_t bytes, tn_stream* stream) noexcept;
  /// Gives what no tensor holds back to the driver.
  void trim();
  void fill(tn_device_memory& out);

  void copy(void* to, const void* from, size_t bytes, int32_t direction, tn_stream* stream);
  void set(void* to, uint8_t byte, size_t bytes, tn_stream* stream);

  /// Streams go back to a list of the priority, events to another.
  tn_stream* new_stream(int priority);
  tn_stream* wrap(void* handle);
  void put_back(tn_stream* stream) noexcept;
  tn_event* new_event(bool timing);
  void put_back(tn_event* event) noexcept;

 private:
  void open();
  api::Address try_allocate(size_t bytes, tn_stream* stream);
  void give_back_kept(tn_stream& stream);
  size_t kept_bytes();

  int index_;
  std::mutex opening_;
  std::atomic<bool> is_open_{false};
  api::Context context_ = nullptr;
  api::Pool pool_ = nullptr;
  tn_cuda_error_flag* flag_ = nullptr;
  std::atomic<uint64_t> allocations_{0};
  std::unique_ptr<Staging> staging_;
  std::mutex lists_;                 // guards those below
  std::vector<tn_stream*> streams_;  // those that are not foreign
  std::map<int, std::vector<api::Stream>> idle_streams_;
  std::vector<api::Event> idle_events_;
  mutable std::mutex losing_;  // guards cause_
  std::string cause_;
  std::atomic<bool> lost_{false};
};

/// The device of an index. Throws TN_UNAVAILABLE without a driver, TN_INVALID_ARGUMENT for an index
/// that there is not.
Gpu& gpu_at(int32_t index);

}  // namespace tenon::cuda
