// The plan of outputs that an archive has: which results a caller gets, and which are effects.
#pragma once

#include "formats/pt2/pt2_call.h"

#include <map>
#include <string>
#include <vector>

namespace tenon {

/// The user's outputs out of the graph's results; what the functional form of a model returns is
/// copied into the inputs that it stands for.
std::vector<Tensor> apply_plan(const formats::ImportedModel& model, const formats::BoundCall& call,
                               const std::vector<Tensor>& results,
                               std::map<std::string, Tensor>& gradients);

}  // namespace tenon
