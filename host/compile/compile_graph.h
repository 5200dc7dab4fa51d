// The pipeline from a captured graph to code, for compiled callables and for the command line.
#pragma once

#include "backend/backend.h"
#include "graph/graph.h"

#include <memory>
#include <string>

namespace tenon {

struct CompileGraphOptions {
  std::string backend;  ///< empty: inductor where installed, else aot_eager
  std::string mode;
  std::string options_toml;
  std::string compile_id = "0/0";
  bool dynamic = false;
  bool use_cache = true;  ///< false: the backend is asked, whatever the cache on disk has
};

/// Lowers the graph as the backend's manifest asks and compiles it. The artifact has the inputs,
/// outputs and effects of `graph`.
std::shared_ptr<Artifact> compile_graph(const std::shared_ptr<Graph>& graph,
                                        const CompileGraphOptions& options);

/// The graph as compile_graph() hands it to the backend.
std::shared_ptr<Graph> graph_for_backend(const std::shared_ptr<Graph>& graph,
                                         const std::string& backend);

}  // namespace tenon
