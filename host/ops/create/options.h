// The options that every creation op takes, under short names for its rows.
#pragma once

#include <tenon/dtype.h>
#include <tenon/types.h>

#include <optional>

namespace tenon::ops {

using Type = std::optional<Dtype>;
using Lay = std::optional<Layout>;
using Dev = std::optional<Device>;
using Pin = std::optional<bool>;
using Format = std::optional<MemoryFormat>;

}  // namespace tenon::ops
