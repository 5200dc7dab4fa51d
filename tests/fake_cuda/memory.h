// Memory of the double's devices.
#pragma once

#include "../../plugins/cuda/api/driver.h"

#include <map>
#include <optional>

namespace fake_cuda {

using tenon::cuda::api::Address;

/// The memory of all devices: one range of addresses that nobody but the double can touch.
class Memory {
 public:
  /// `bytes` a device. Aborts when the system refuses.
  Memory(int devices, size_t bytes);
  Memory(const Memory&) = delete;

  /// An address of `device`, 512-byte aligned; nothing when it has no room.
  std::optional<Address> allocate(int device, size_t bytes);
  /// Marks as given back; the content is overwritten.
  void release(Address address);

  // Addresses whose pages are mapped one by one: for recordings.
  static constexpr size_t page = size_t{64} << 10;
  std::optional<Address> reserve(size_t bytes);
  /// Pages count as memory of the device from their making on.
  bool take_pages(int device, size_t bytes);
  void give_pages(int device, size_t bytes);
  /// Within what was reserved, and not mapped yet. The content is overwritten.
  bool map(Address address, size_t bytes);
  /// Exactly what was mapped in one call.
  bool unmap(Address address, size_t bytes);
  bool allow(Address address, size_t bytes);
  size_t mapped_bytes() const;

  bool is_device(Address address) const;
  /// Where the double may touch `bytes` at `address`: of a live allocation, else null.
  void* work(Address address, size_t bytes);
  /// Whether programs' addresses can be read and written: while a kernel runs.
  void open(bool for_all);

  size_t used(int device) const { return used_[device]; }
  size_t peak(int device) const { return peak_[device]; }
  size_t capacity() const { return bytes_; }
  size_t live() const { return live_.size(); }
  size_t live_bytes() const;

 private:
  struct Block {
    size_t bytes;
    int device;
  };
  struct Mapping {
    size_t bytes;
    bool is_allowed;
  };
  size_t offset_of(Address address) const { return address - base_; }
  void* work_mapped(size_t offset, size_t bytes);

  size_t bytes_;
  Address base_;          // what programs see
  char* work_;            // the same memory, for the double
  size_t total_, whole_;  // of allocations; with what can be reserved behind them
  size_t reserved_ = 0;
  int changes_ = 0;                    // of who may touch it
  std::map<size_t, Mapping> mapped_;   // by offset
  std::map<size_t, Block> live_;       // by offset
  std::map<size_t, size_t> free_[16];  // offset to bytes
  size_t used_[16] = {}, peak_[16] = {};
};

}  // namespace fake_cuda
