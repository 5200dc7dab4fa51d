// The backward half of a function of which some results got no gradient.
#pragma once

#include "graph/extract.h"

#include <optional>
#include <vector>

namespace tenon {

/// A backward half without what only undefined tangents led to. Positions count the inputs, symbols
/// and outputs of the half that it was made from.
struct MaskedBackward {
  Extracted half;
  std::vector<uint32_t> inputs;   ///< by input: where it stands in the whole half
  std::vector<uint32_t> outputs;  ///< likewise; the others are undefined
};

/// `undefined` marks tangents among the inputs. Sums lose the parts that are gone, and what is
/// linear in a part that is gone is gone, too; where neither is known, zeros take its place.
/// Nothing where no call falls away.
std::optional<MaskedBackward> without_tangents(const Graph& backward,
                                               const std::vector<bool>& undefined);

/// By output: the tangents that it is computed from; empty where there is none. The inputs are saved
/// values, then tangents. Cost: the nodes times the tangents.
std::vector<std::vector<bool>> tangents_of_outputs(const Graph& backward, size_t n_saved,
                                                   size_t n_tangents);

}  // namespace tenon
