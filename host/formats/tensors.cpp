// Files of named tensors as Tensors.
#include "formats/tensors.h"

#include "core/device/device_memory.h"
#include "core/tensor/tensor_impl.h"
#include "formats/npy.h"
#include "formats/safetensors.h"

#include <tenon/ops/copy.h>

#include <cstring>

namespace tenon::formats {

Tensor to_tensor(const RawTensor& raw) {
  Tensor out = make_tensor(IntList(raw.sizes), raw.dtype);
  size_t bytes = static_cast<size_t>(out.numel().guard_int() * itemsize(raw.dtype));
  if (bytes == 0) return out;
  if (to_text(list_of(tenon::contiguous_strides(raw.sizes))) == to_text(IntList(raw.strides))) {
    std::memcpy(out.data(), raw.data.span.data(), bytes);
    return out;
  }
  Bytes whole = aligned(raw.data, "tensor");
  auto* data = const_cast<std::byte*>(whole.span.data());
  copy_(out, from_memory(data, raw.sizes, raw.dtype, OptIntList(raw.strides)));
  return out;
}

RawTensor to_raw(const Tensor& tensor) {
  RawTensor raw;
  raw.dtype = tensor.dtype();
  for (SymInt s : tensor.sizes()) raw.sizes.push_back(s.guard_int());
  for (SymInt s : tenon::contiguous_strides(tensor.sizes())) raw.strides.push_back(s.guard_int());
  Tensor host = on_host(tensor);
  auto kept = std::make_shared<Tensor>(host.is_contiguous() ? host : host.contiguous());
  size_t bytes = static_cast<size_t>(kept->numel().guard_int() * itemsize(raw.dtype));
  raw.data = {{static_cast<const std::byte*>(kept->data()), bytes}, kept};
  return raw;
}

NamedTensors read_tensors(const std::string& path) {
  NamedTensors out;
  if (path.ends_with(".npy")) {
    out.tensors[""] = to_tensor(read_npy(path));
    return out;
  }
  Safetensors file = read_safetensors(path);
  out.metadata = std::move(file.metadata);
  for (const auto& [name, raw] : file.tensors) out.tensors[name] = to_tensor(raw);
  return out;
}

void write_tensors(const std::string& path, const NamedTensors& content) {
  if (path.ends_with(".npy")) {
    require(content.tensors.size() == 1,
            "{}: a .npy file holds one tensor, found {}; write "
            ".safetensors instead",
            path, content.tensors.size());
    return write_npy(path, to_raw(content.tensors.begin()->second));
  }
  Safetensors file;
  file.metadata = content.metadata;
  for (const auto& [name, tensor] : content.tensors) file.tensors[name] = to_raw(tensor);
  write_safetensors(path, file);
}

}  // namespace tenon::formats
