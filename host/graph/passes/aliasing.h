// Which values of a graph may share memory, and what happens to that memory.
#pragma once

#include <vector>

#include "core/dispatch.h"
#include "graph/graph.h"
#include "ops/op_table.h"

namespace tenon {

/// Values in classes: two values that may share storage are in one class. Classes come from alias
/// groups, views, in-place results and the alias marks of schemas; an op that may alias, or that
/// has a sub-graph, puts all its tensors into one. Cost: near linear.
class AliasClasses {
 public:
  explicit AliasClasses(const Graph& graph);

  uint32_t of(ValueId v) const { return class_[v]; }
  /// Some node writes the memory, or changes the metadata of a value, of this class.
  bool is_written(ValueId v) const { return facts_[class_[v]].written; }
  /// An input or a constant is in the class: the memory outlives the call.
  bool is_external(ValueId v) const { return facts_[class_[v]].external; }
  /// An output is in the class.
  bool escapes(ValueId v) const { return facts_[class_[v]].escapes; }

 private:
  struct Facts {
    bool written = false, external = false, escapes = false;
  };
  uint32_t root(ValueId v);
  void join(ValueId a, ValueId b);
  void join_node(const Node& node);
  void note_facts(const Graph& graph);

  std::vector<uint32_t> class_;
  std::vector<Facts> facts_;  // by class
};

/// Whether the graph says of what nodes give which values share memory: one that was recorded does.
bool tells_aliases(const Graph& graph);

/// Whether the node has a sub-graph of which nothing is known: it may write its operands and give
/// them back. Control flow does neither.
bool has_opaque_body(const Node& node);

/// Results depend on the arguments only, and nothing but the results is changed.
bool is_pure(const Node& node);
/// Whether running the node draws random numbers, also in its bodies or as an added op whose parts do.
bool draws_numbers(const Node& node);
bool draws_numbers(const Graph& graph);
/// Whether running the graph acts on something besides tensors and the generator of random numbers;
/// checks do not.
bool has_side_effects(const Graph& graph);
/// Whether running the graph does more than compute its outputs: effects, writes to inputs or
/// constants, and, where they are asked for, random numbers and checks that may throw.
bool has_effects(const Graph& graph, bool random, bool checks = true);

/// Both are tensors with the same words for dtype, device, sizes, strides and offset.
bool same_meta(const GraphValue& a, const GraphValue& b);

/// Every use of value v becomes `replacement[v]`, where that is not no_value. The replaced values'
/// alias groups join those of their replacements, and output and saved flags go over.
void replace_values(Graph& graph, const std::vector<ValueId>& replacement);

}  // namespace tenon
