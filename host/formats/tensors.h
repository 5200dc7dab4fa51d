// Files of named tensors as Tensors: .safetensors and .npy.
#pragma once

#include <tenon/tensor.h>

#include <map>
#include <string>

namespace tenon::formats {

struct RawTensor;

struct NamedTensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// A contiguous copy in memory of its own, which may be written.
Tensor to_tensor(const RawTensor& raw);
/// The elements in row-major order; they stay alive as long as the result.
RawTensor to_raw(const Tensor& tensor);

/// Reads a file by its ending; the one tensor of a .npy file is called "".
NamedTensors read_tensors(const std::string& path);
/// Writes .safetensors, or .npy where the path ends so and there is one tensor.
void write_tensors(const std::string& path, const NamedTensors& content);

}  // namespace tenon::formats
