// A backend of which a part only is at work, to find the part that fails.
//
// The halves of training: one by the backend, the other one by debug_nop, which runs the same graphs
// op by op. Regions: the first ones by the backend, those that follow by its fallback.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

enum class TrainingHalf : uint8_t { both, forward, backward };
/// "forward", "backward", or empty for both.
std::string_view name_of(TrainingHalf half);
/// The other way round; throws UserError.
TrainingHalf half_named(std::string_view name);

struct BackendPart {
  TrainingHalf half = TrainingHalf::both;
  int64_t regions = -1;  ///< that the backend gets, in the order of compilation; -1: all
};

/// The name of a backend that is this part of `backend`. For processes that judge one candidate: the
/// limit of regions stays.
std::string backend_for_part(const std::string& backend, const BackendPart& part);

/// Regions that this process has compiled since, or left to fallbacks.
int64_t regions_of_part();

bool has_halves(const std::string& backend);
bool has_regions(const std::string& backend);

}  // namespace tenon
