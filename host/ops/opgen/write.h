// The generated files, as text.
#pragma once

#include "ops/opgen/functions.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::opgen {

/// How many files the stubs are spread over, so that they compile in parallel.
inline constexpr size_t n_stub_files = 4;

/// Path below the output folder -> text, for all rows and the forms derived from them. Throws
/// UserError where two rows define one overload.
std::map<std::string, std::string> generate(const std::vector<RowFile>& files);

}  // namespace tenon::opgen
