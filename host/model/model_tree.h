// Trees of arguments and results of .pt2 models: to flattened leaves, and back.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <tenon/model.h>

#include <span>
#include <vector>

namespace tenon {

/// The leaves of a call, in the order of the model's; undefined where a constant is not given.
/// Throws UserError that names the argument whose structure is not the model's.
std::vector<Tensor> flatten_arguments(const formats::ImportedModel& model,
                                      const std::vector<Tree>& positional,
                                      const Model::Arguments& named);

/// The results of ModelRunner::run in the structure that forward returned.
Tree unflatten_results(const formats::ImportedModel& model, const formats::Pt2Program& program,
                       std::span<const Tensor> results);

/// A number among leaves and results: a 0-dim tensor. In a body a symbolic one is fixed.
Tensor number_leaf(Number n);

/// A value that the export fixed; None for what has no counterpart in a Tree.
Tree constant_tree(const formats::Pt2Argument& value);

}  // namespace tenon
