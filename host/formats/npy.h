// npy files: one array of NumPy.
#pragma once

#include "formats/raw_tensor.h"

#include <ostream>
#include <string>

namespace tenon::formats {

/// Reads versions 1 to 3, in C or Fortran order (which becomes strides); the data is a span of the
/// mapping. Throws UserError: bad_file for a malformed file, unsupported for big-endian, structured
/// and other dtypes that Tenon has not.
RawTensor read_npy(const std::string& path);
RawTensor read_npy(const Bytes& file, const std::string& subject);

/// Writes a contiguous tensor as version 1, data at a multiple of 64 bytes.
void write_npy(std::ostream& out, const RawTensor& tensor);
void write_npy(const std::string& path, const RawTensor& tensor);

}  // namespace tenon::formats
