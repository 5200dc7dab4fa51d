// What every saved form of compiled code shares: a head that tells damaged and foreign bytes, and a
// program that belongs to the graph that it is loaded for.
#pragma once

#include "loopir/verify.h"

#include <span>
#include <string>
#include <string_view>

namespace loopir {

/// What saved bytes begin with.
struct SavedHead {
  std::string_view magic;  // of one plugin
  uint32_t version;        // of its fields: code of another version is compiled anew
};
/// Head, digest, then the body.
std::string with_head(const SavedHead& head, std::string_view body);
/// The body again. Throws `error`: TN_DATA_LOSS for bytes that are damaged, or another plugin's;
/// TN_FAILED_PRECONDITION for those of another version.
std::string_view body_of(const SavedHead& head, std::string_view bytes);

/// Throws `error` (TN_DATA_LOSS) with `what` was found unless it holds.
void expect_saved(bool holds, const char* what);

/// What is done once the fields of a program are read: its constants are those of the request's
/// graph. Throws `error` (TN_DATA_LOSS) where calls would rely on what is not there, or the graph is
/// another one.
void bind_saved(Program& program, const tn_compile_request& request);
/// Likewise for its items, of code for a processor that multiplies so.
void check_saved(const Program& program, const Item& item, Multiplier by);

}  // namespace loopir
