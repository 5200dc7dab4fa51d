// The stages that a graph goes through on its way to a backend's code.
#pragma once

#include "graph/graph.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cli {

/// "captured", "decomposed", ... in their order.
std::span<const std::string_view> graph_stages();
/// Throws UserError for a name that is not a stage, with the nearest.
void require_stage(const std::string& stage);

/// The graph of a stage before code. As `backend` gets it, by its manifest and the flags; without
/// one, decomposed is into core ops, joint without decompositions, and min_cut makes the halves.
std::shared_ptr<Graph> graph_of_stage(const std::shared_ptr<Graph>& captured,
                                      const std::string& stage, const std::string& backend);
/// The loops that a backend makes of the graph, after fusion; of a training step (`grad`) those of
/// its halves, each under its name. Throws UserError for backends that make none.
std::string fused_text(const std::shared_ptr<Graph>& captured, const std::string& backend,
                       bool grad);

}  // namespace tenon::cli
