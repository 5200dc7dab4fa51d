// What the cache keeps of a compiled graph, and its form on disk.
//
// An entry is a file of sections (formats/tenon_file.h) in memory:
//
//     entry                      JSON: kind, wrapper, cut, conditions, list of codes
//     graph/0, constant/DIGEST   the functional or joint graph, as text, and its constants
//     code/N                     bytes of a plugin, where the entry holds them itself
//
// Graph and codes have the form of `.tenon` files (saved/saved_artifact.h).
// The halves of a joint graph are cut out of it again when it is read: the cut is data.
#pragma once

#include "compile/staged_graph.h"
#include "graph/artifact.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// The code of one functional graph, or of a half.
struct KeptCode {
  Stage stage = Stage::inference;
  std::optional<SavedArtifact> code;  ///< none: the backend compiles the graph anew
  std::string digest;                 ///< of bytes that are an entry of their own, not in `code`
  std::string graph_hash;             ///< hash_text() of what it is the code of
};

struct CacheEntry {
  StagedGraph staged;
  /// What must hold for the symbols of the recorded graph, which are called s0, s1 ... in order.
  std::vector<std::string> conditions;
  std::vector<KeptCode> codes;
};

/// Throws UserError unsupported for what has no text.
std::string write_entry(const CacheEntry& entry);
/// For a recorded graph, whose inputs and outputs it has. Throws UserError for bytes that are none.
CacheEntry read_entry(std::string bytes, const Graph& recorded);

}  // namespace tenon
