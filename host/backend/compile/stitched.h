// A graph that was compiled in pieces, as one artifact.
#pragma once

#include "graph/artifact.h"
#include "graph/extract.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct CompiledPiece {
  std::vector<NodeId> nodes;  ///< of the outer graph
  Extracted part;
  std::shared_ptr<Artifact> artifact;
  std::string title;  ///< "region 1, 3 nodes by mine", for texts
  bool is_region = false;
};

/// The pieces must hold every node of `graph` once and be in an order in which they can run. A
/// value lives from the piece that gives it to the last one that reads it, and goes to that one for
/// good. An in-place result is the object that was written, whatever the piece gave back.
std::shared_ptr<Artifact> stitch(std::shared_ptr<const Graph> graph,
                                 std::vector<CompiledPiece> pieces);

}  // namespace tenon
