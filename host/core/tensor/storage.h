// Storage: counted memory that one or more tensors view, with its version counter.
#pragma once

#include <tenon/tensor.h>

#include <atomic>
#include <utility>

namespace tenon {

/// Memory of one device. Owned memory comes from the host allocator and, on the CPU, lies in one
/// block with this header; borrowed memory is released through `deleter`. A fake storage has no
/// memory: it only tells which fake tensors alias.
struct Storage {
  std::atomic<int32_t> references{1};
  Device device;
  void* data = nullptr;
  uint64_t bytes = 0;
  uint64_t id = 0;       ///< never reused within the process
  uint64_t version = 0;  ///< counts writes; shared by all views
  void (*deleter)(void*) = nullptr;
  void* deleter_arg = nullptr;
  bool fake = false;
  /// Views of it that look as if they needed no gradient may need one: a write brought it.
  bool stale_views = false;
  uint64_t block_bytes = 0;  ///< size of the block that holds header and data
};

/// Counted pointer to a Storage.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* owned) : storage_(owned) {}
  StorageRef(const StorageRef& other) : storage_(other.storage_) { retain(); }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_ && detail::drops_last(storage_->references)) destroy(storage_);
  }
  Storage* get() const { return storage_; }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  void retain() const {
    if (storage_) storage_->references.fetch_add(1, std::memory_order_relaxed);
  }
  static void destroy(Storage* storage);

  Storage* storage_ = nullptr;
};

/// Uninitialised CPU memory, 64-byte aligned; `bytes` may be 0. Throws UserError when memory is
/// gone.
StorageRef make_storage(uint64_t bytes);
/// Memory owned by somebody else; `deleter(deleter_arg)` runs when the last tensor is gone.
StorageRef make_borrowed_storage(void* data, uint64_t bytes, Device device, void (*deleter)(void*),
                                 void* deleter_arg);
/// No memory, only identity.
StorageRef make_fake_storage(Device device);

}  // namespace tenon
