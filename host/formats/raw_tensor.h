// A tensor of a file as plain data: what safetensors and npy read and write.
#pragma once

#include "formats/byte_reader.h"

#include <tenon/dtype.h>

#include <cstdint>
#include <vector>

namespace tenon::formats {

/// Element i of `data` is at `sum(index * strides)`, counted in elements.
struct RawTensor {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  Bytes data;
};

}  // namespace tenon::formats
