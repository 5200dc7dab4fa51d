// Which nodes of a graph a backend is given: what its manifest admits, and what it says of each.
#pragma once

#include "backend/compile/call_backend.h"
#include "graph/regions.h"

#include <string>
#include <vector>

namespace tenon {

/// Why a graph lies outside of what the manifest admits (`devices`, `dtypes`, `stages`): "its
/// manifest says dtypes = [f32], %i is i64"; empty where it does not. Backends that judge nodes
/// are asked about dtypes node by node, with verdicts_on().
std::string outside_of_manifest(const BackendManifest& manifest, const CompileRequest& request,
                                bool with_dtypes);

/// What a backend says of the nodes of a graph.
struct Verdicts {
  std::vector<Support> support;      ///< by node
  std::vector<std::string> reasons;  ///< by node; empty: none was given
  std::vector<uint32_t> groups;      ///< by node; 0: none
  tn_status* declined = nullptr;     ///< set: it declines the graph as a whole; the caller frees it
};

/// Whether the backend is one that judges nodes.
bool judges_nodes(const tn_backend& table);
/// Asks its `judge`, or else its `supports`. Throws BackendError for a failure, and for verdicts
/// that do not exist.
Verdicts verdicts_on(const PluginBackend& backend, AbiRequest& request);

/// Takes the nodes that run as the caller has it, with gradients on, and leaves the others.
Verdicts verdicts_by_mode(const Graph& graph);

/// The pieces for verdicts and groups: a group that would not be whole in one region is left.
GraphPieces cut_by(const Graph& graph, Verdicts& verdicts, size_t min_region_ops);

}  // namespace tenon
