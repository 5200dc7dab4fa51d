// Statistics of a function whose code is in two halves.
#pragma once

#include <span>
#include <string>

namespace tenon {

/// The forward's (TN_DESC_STATS_JSON), and at the end of its lists "told" and "recorded" those of
/// its backwards. Texts that are no JSON objects add nothing.
std::string joined_statistics(std::string forward, std::span<const std::string> backwards);

}  // namespace tenon
