// safetensors files: named tensors and a map of texts.
#pragma once

#include "formats/raw_tensor.h"

#include <map>
#include <ostream>
#include <string>

namespace tenon::formats {

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, RawTensor> tensors;
};

/// Reads a file; the tensors' bytes are spans of the mapping, contiguous, and may be unaligned.
/// Throws UserError: bad_file for a malformed file, unsupported for a dtype that Tenon has not.
Safetensors read_safetensors(const std::string& path);
/// The same for bytes in memory; `subject` stands for the file's name in messages.
Safetensors read_safetensors(const Bytes& file, const std::string& subject);

/// Writes contiguous tensors, the ones with larger elements first so that all are aligned. Data
/// begins at a multiple of 64 bytes.
void write_safetensors(std::ostream& out, const Safetensors& content);
void write_safetensors(const std::string& path, const Safetensors& content);

}  // namespace tenon::formats
