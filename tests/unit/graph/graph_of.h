// Graphs of tests from their statements.
#pragma once

#include "graph/text/parse.h"

#include <memory>
#include <string>

namespace tenon {

inline std::shared_ptr<Graph> graph_of(const std::string& body) {
  return parse_graph("tng 1\ngraph {\n" + body + "\n}\n");
}

}  // namespace tenon
