// What readers of files demand of them.
#pragma once

#include "core/error.h"

namespace tenon::formats {

/// `condition` or a UserError(bad_file).
template <class... Args>
void check(bool condition, std::string_view pattern, const Args&... args) {
  require(condition, ErrorCode::bad_file, pattern, args...);
}

}  // namespace tenon::formats
