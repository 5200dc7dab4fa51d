// Tensors on devices: their storages, and moving their elements.
#pragma once

#include "core/tensor/tensor_impl.h"

namespace tenon {

/// Uninitialised memory on a device, in the order of the thread's current stream; goes back there
/// behind the work of the streams that record_stream() named. `bytes` may be 0. Throws what the
/// provider throws: no such device, no memory.
StorageRef make_device_storage(Device device, uint64_t bytes);

/// The tensor itself where it is on the CPU; else one there with the same elements, sizes and
/// strides. Waits for the work on the thread's current stream.
Tensor on_host(const Tensor& t);
/// The same sizes, strides and dtype on the CPU, uninitialised.
Tensor host_like(const Tensor& t);

/// Copies `from`, which broadcasts to `to`, wherever the two lie; casts. They do not overlap.
/// Between tensors of one layout and dtype the bytes go as they are; others are converted on the
/// device that both are on, or, where nobody does that, on the CPU. A number of the CPU is spread out
/// on the device.
void copy_across(const Tensor& to, const Tensor& from);
/// Copies between tensors of one device and any layouts and dtypes; false where nobody can. Filled
/// in by ops/device_call.cpp.
extern bool (*copy_on_device_slot)(const Tensor& to, const Tensor& from);
/// Every element of a tensor on a device becomes `number`, a CPU tensor of its dtype without
/// dimensions. Enqueued.
void fill_there(const Tensor& to, const Tensor& number);
/// Copies raw bytes between two addresses, at least one of them on a device. Enqueued.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, uint64_t bytes);

}  // namespace tenon
