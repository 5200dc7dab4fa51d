// DLPack capsules: layout of the standard, checks on what comes in.
#include "formats/dlpack.h"

#include "core/device/provider.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "formats/limits.h"

#include <cstdint>
#include <memory>

namespace tenon {

namespace {

// The structs of the DLPack standard, version 1.
struct DlDevice {
  int32_t type, id;
};
struct DlDtype {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManaged {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlManaged*);
  uint64_t flags;
  DlTensor tensor;
};

constexpr int32_t dl_cpu = 1, dl_cuda = 2;
constexpr uint64_t dl_read_only = 1;

struct DtypeRow {
  Dtype dtype;
  uint8_t code, bits;
};
constexpr DtypeRow dtypes[] = {
    {Dtype::i8, 0, 8},    {Dtype::i16, 0, 16},      {Dtype::i32, 0, 32},    {Dtype::i64, 0, 64},
    {Dtype::u8, 1, 8},    {Dtype::f16, 2, 16},      {Dtype::f32, 2, 32},    {Dtype::f64, 2, 64},
    {Dtype::bf16, 4, 16}, {Dtype::c32, 5, 32},      {Dtype::c64, 5, 64},    {Dtype::c128, 5, 128},
    {Dtype::bool_, 6, 8}, {Dtype::f8e4m3fn, 10, 8}, {Dtype::f8e5m2, 12, 8},
};

/// A capsule of ours with what it keeps alive.
struct Exported {
  DlManaged managed{};
  Tensor tensor;
  std::vector<int64_t> sizes, strides;
};

Dtype dtype_of_dl(DlDtype d) {
  require(d.lanes == 1, ErrorCode::unsupported,
          "DLPack: vectors of {} lanes are not supported; expected 1", d.lanes);
  for (const DtypeRow& row : dtypes)
    if (row.code == d.code && row.bits == d.bits) return row.dtype;
  fail(ErrorCode::unsupported, "DLPack: type code {} with {} bits has no dtype here", d.code,
       d.bits);
}

Device device_of_dl(DlDevice d) {
  require(d.type == dl_cpu || d.type == dl_cuda, ErrorCode::unsupported,
          "DLPack: device type {} is neither the CPU (1) nor CUDA (2)", d.type);
  return d.type == dl_cpu ? kCPU : Device(DeviceType::cuda, d.id);
}
DlDevice dl_of(Device device) {
  if (device.type == DeviceType::cpu) return {dl_cpu, 0};
  require(device.type == DeviceType::cuda, ErrorCode::unsupported,
          "to_dlpack: device {} has no number in DLPack", device);
  return {dl_cuda, device.index};
}

Tensor import(DlManaged& m) {
  const DlTensor& t = m.tensor;
  require(m.major == 1, ErrorCode::unsupported,
          "DLPack: the capsule has version {}.{}, expected 1.x", m.major, m.minor);
  Device device = device_of_dl(t.device);
  require(!(m.flags & dl_read_only), ErrorCode::unsupported,
          "DLPack: the memory is read-only; copy it before passing it on");
  require(t.ndim >= 0 && t.ndim <= 64 && (t.ndim == 0 || t.shape), ErrorCode::bad_file,
          "DLPack: expected 0 to 64 dimensions with a shape, found {}", t.ndim);
  Dtype dtype = dtype_of_dl(t.dtype);
  const std::string subject = "DLPack capsule";
  std::span<const int64_t> sizes(t.shape, static_cast<size_t>(t.ndim));
  int64_t numel = formats::checked_numel(sizes, dtype, subject);
  require(t.data || numel == 0, ErrorCode::bad_file, "DLPack: a tensor with elements has no data");
  OptIntList strides;
  if (t.strides) {
    std::span<const int64_t> given(t.strides, sizes.size());
    // How much memory there is, the capsule does not say.
    constexpr uint64_t most = uint64_t{1} << 62;
    formats::check_view({dtype, sizes, given}, most, subject);
    strides = IntList(given.data(), given.size());
  }
  void* data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  auto release = [](void* capsule) {
    auto* managed = static_cast<DlManaged*>(capsule);
    if (managed->deleter) managed->deleter(managed);
  };
  return from_memory_on(device, data, IntList(sizes.data(), sizes.size()), dtype, strides, release,
                        &m);
}

}  // namespace

void* to_dlpack(const Tensor& t) {
  require(t.defined() && !t.is_fake(), "to_dlpack: the tensor has no data");
  DlDevice device = dl_of(t.device());
  // Who takes it knows no stream of ours: the work on it is done first.
  if (device.type != dl_cpu) Stream::current(t.device()).synchronize();
  auto exported = std::make_unique<Exported>();
  const detail::TensorHead* head = t.head();
  exported->sizes.assign(head->sizes, head->sizes + head->ndim);
  exported->strides.assign(head->strides, head->strides + head->ndim);
  DlManaged& m = exported->managed;
  m.major = 1;
  m.context = exported.get();
  m.deleter = [](DlManaged* self) { delete static_cast<Exported*>(self->context); };
  m.tensor.data = t.data();  // exposes it
  m.tensor.device = device;
  m.tensor.ndim = head->ndim;
  m.tensor.shape = exported->sizes.data();
  m.tensor.strides = exported->strides.data();
  for (const DtypeRow& row : dtypes)
    if (row.dtype == t.dtype()) m.tensor.dtype = {row.code, row.bits, 1};
  exported->tensor = t;
  return &exported.release()->managed;
}

const void* dlpack_deleter(const void* capsule) {
  if (!capsule) return nullptr;
  return reinterpret_cast<const void*>(static_cast<const DlManaged*>(capsule)->deleter);
}

Tensor from_dlpack(void* capsule) {
  require(capsule, "from_dlpack: the capsule is null");
  auto& managed = *static_cast<DlManaged*>(capsule);
  try {
    return import(managed);
  } catch (...) {
    if (managed.deleter) managed.deleter(&managed);
    throw;
  }
}

}  // namespace tenon
