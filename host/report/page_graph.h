// A graph as a page draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::report {

struct PageNode {
  /// Ops of one kind have one colour, so that a picture can be read from afar.
  enum class Kind : uint8_t { other, input, constant, pointwise, reduction, product, view };
  std::string label;   ///< what stands in the box: "relu"
  std::string detail;  ///< what is shown for the box under the pointer: "%y: f32[64, 100]"
  Kind kind = Kind::other;
  std::vector<uint32_t> inputs = {};         ///< nodes that stand before it in the list
  bool is_output = false, is_saved = false;  ///< the latter: for the backward
  std::string run_by = {};                   ///< who, where it is not the backend of the graph
};

struct PageGraph {
  std::vector<PageNode> nodes;
  size_t n_nodes = 0;  ///< of the graph; one that has too many is not drawn
  std::string text;    ///< the whole graph
};

/// Beyond that a picture is no help.
constexpr size_t most_drawn_nodes = 1500;

/// As JSON that may stand in a script element: [[label, detail, kind, [inputs], flags, who]].
std::string to_json(const PageGraph& graph);

}  // namespace tenon::report
