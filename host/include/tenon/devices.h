// SPDX-License-Identifier: Apache-2.0
// Devices: which there are, what they are, streams, events and memory.
//
//     if (device_count(DeviceType::cuda) > 0) {
//       Device gpu(DeviceType::cuda);
//       Tensor x = randn({1000, 1000}).to(gpu, Dtype::f32);
//       Stream beside(gpu);
//       StreamGuard on(beside);             // this thread's work on `gpu` goes there
//       Tensor y = x.clone();
//       beside.synchronize();
//     }
//
// There is no current device: a Device names its index, 0 by default. Each thread has a current
// stream a device; they begin with one that all threads share. Work is enqueued on it and runs in
// its order; reading numbers (item, to_vector, a copy to the CPU) waits for them. The plugin of a
// device is loaded when its device is first asked for.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

/// How many devices of a type there are; 0 without a plugin or a driver. Any thread.
TENON_API int device_count(DeviceType type);
/// Why device_count() is 0: "library libcuda.so.1 not found". Empty where it is not 0.
TENON_API std::string why_no_device(DeviceType type);

struct DeviceProperties {
  std::string name;  ///< the vendor's
  std::string arch;  ///< what code is made for, "sm_90"
  int compute_units = 0;
  int capability_major = 0, capability_minor = 0;
  int64_t total_bytes = 0, free_bytes = 0;
};
/// Throws UserError where there is no such device, with the reason.
TENON_API DeviceProperties device_properties(Device device);
/// Waits until all work on the device is done.
TENON_API void synchronize(Device device);

/// Where the calling thread's factories (zeros, arange, randn, tensor({1, 2}), modules' parameters) make
/// tensors when they name no device: the CPU at first. What is like another tensor lies where that
/// one does. Compiled functions make them where the plain call would. Throws UserError where there is
/// no such device, with the reason.
TENON_API void set_default_device(Device device);
TENON_API Device default_device();
/// Sets it while one lives.
class TENON_API DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;

 private:
  Device before_;
};

/// How devices multiply f32 matrices in what the calling thread calls and compiles from now on; code
/// compiled otherwise is compiled anew. "highest", the default: in f32. "high" and "medium": operands
/// are rounded to tf32 (11 bits in place of 24) where a device is faster then, eight times on an
/// H100. Sums are in f32 in any case; the CPU is not concerned. Throws UserError for another name.
TENON_API void set_float32_matmul_precision(std::string_view precision);
TENON_API std::string get_float32_matmul_precision();

struct DeviceMemoryStats {
  int64_t allocated_bytes = 0;  ///< held by tensors
  int64_t reserved_bytes = 0;   ///< taken from the driver
  int64_t peak_bytes = 0;       ///< the most that was ever held
  int64_t allocations = 0;      ///< since the start
};
TENON_API DeviceMemoryStats memory_stats(Device device);
/// Gives memory that no tensor holds back to the driver.
TENON_API void empty_cache(Device device);

class Event;
namespace detail {
struct StreamState;
struct EventState;
}  // namespace detail

/// A queue of work on a device; copies of a handle mean the same one. Threads: work is enqueued by
/// one thread at a time.
class TENON_API Stream {
 public:
  /// A new one, whose work runs beside that of others; lower priorities go first.
  explicit Stream(Device device, int priority = 0);
  /// That of the calling thread.
  static Stream current(Device device);
  /// One of the program's own, such as a CUstream, which must outlive the handle.
  static Stream wrap(Device device, void* native);

  Device device() const;
  /// The vendor's handle.
  void* native() const;
  /// Waits until all work on it is done.
  void synchronize() const;
  /// What is enqueued from now on begins after the event.
  void wait(const Event& event) const;
  friend bool operator==(const Stream&, const Stream&) = default;

  explicit Stream(std::shared_ptr<detail::StreamState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::StreamState> state_;
};

/// Makes a stream the thread's current one of its device while it lives.
class TENON_API StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// A mark in a stream.
class TENON_API Event {
 public:
  explicit Event(Device device, bool timing = false);
  /// Marks the work that is on the stream by now; a second time moves the mark.
  void record(const Stream& stream) const;
  bool is_done() const;
  /// Waits for it.
  void synchronize() const;
  /// From this one to a later one, both with timing and done.
  double elapsed_ms(const Event& later) const;
  const std::shared_ptr<detail::EventState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::EventState> state_;
};

/// Tells that work on `stream` uses the tensor, which was made on another one: its memory then goes
/// back behind that work. Without effect on CPU tensors.
TENON_API void record_stream(const Tensor& t, const Stream& stream);
/// A copy in memory that devices of the type copy from and to without a detour. Its copies to a
/// device are enqueued and read it when they run.
TENON_API Tensor pin_memory(const Tensor& t, DeviceType type = DeviceType::cuda);
/// Whether a tensor lies in such memory.
TENON_API bool is_pinned(const Tensor& t);

}  // namespace tenon
