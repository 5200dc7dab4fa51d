// Reads the rows of an op family out of a C++ source file.
//
// Only two things of C++ are understood: `.schema = "..."` (adjacent literals are joined) and
// `.variants = in_place | out` after it in the same row. Comments and other literals are skipped.
#pragma once

#include "ops/schema.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::opgen {

struct Row {
  Schema schema;
  bool in_place = false, out = false;
  std::string place;  ///< "file:line:column", for messages
};

struct RowFile {
  std::string path;
  std::string room;    ///< "pointwise" of host/ops/pointwise/activation.cpp
  std::string family;  ///< "pointwise_activation"
  std::vector<Row> rows;
};

/// Throws UserError that begins with file, line and column. A file without rows is not an error.
RowFile scan_rows(std::string_view path, std::string_view source);

}  // namespace tenon::opgen
