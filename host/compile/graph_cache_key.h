// Keys of the cache of compiled graphs: all that can make the code of a graph another one.
#pragma once

#include "backend/backend.h"
#include "backend/compile/cache_identity.h"
#include "cache/artifact_cache.h"
#include "graph/graph.h"

#include <string>

namespace tenon {

struct GraphKey {
  std::string folder;  ///< below "aot/" and "artifacts/": owner and fingerprint
  std::string digest;  ///< of the graph and of how it is compiled
  std::string bypass;  ///< why the graph has no key; empty: it has one
};

/// The key of a recorded graph. Names of nodes, places in sources, numbers of symbols and example
/// sizes do not count; names of inputs do under functorch.autograd_cache_normalize_inputs = false.
GraphKey graph_key(const Graph& graph, const CompileRequest& request, const CacheIdentity& backend);

/// A key that no other graph has.
std::string random_digest();

}  // namespace tenon
