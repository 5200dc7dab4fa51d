// The file formats that Tenon reads, and how to tell which one a file has.
#pragma once

#include "formats/byte_reader.h"

#include <string>
#include <string_view>

namespace tenon::formats {

struct FormatDef {
  std::string_view name;           ///< "pt2"
  std::string_view description;    ///< for `tenon` and messages
  std::string_view extension;      ///< ".pt2"
  bool (*matches)(ByteSpan file);  ///< whether the beginning of `file` looks like it
};

/// The format of a file by its content. Throws UserError(bad_file) when it is none of them, naming
/// them and `also`: what else the caller takes, such as ".tng".
const FormatDef& find_format(const std::string& path, std::string_view also = "");

}  // namespace tenon::formats
