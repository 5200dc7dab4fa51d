// What stands around the code of a lowered graph, as text: for files of compiled models and for the
// cache on disk.
#pragma once

#include "aot/lower.h"

#include <string>
#include <string_view>

namespace tenon {

/// JSON: how inputs become those of the functional graph and its results those of the caller, and
/// which of them are gradients. Throws UserError unsupported for views that have no text.
std::string plan_text(const Lowered& lowered);

/// The same again, around the functional graph, for callers that pass `n_inputs`. `subject` names
/// the file in errors. Throws UserError bad_file where the text does not fit the graph.
Lowered read_plan(std::string_view text, std::shared_ptr<Graph> graph, size_t n_inputs,
                  const std::string& subject);

}  // namespace tenon
