// Copying a graph node by node, with other calls in the place of some.
//
//     GraphCopy copy(graph);
//     RecordScope scope(copy.recorder());
//     copy.add_inputs();
//     copy.add_constants();
//     for (NodeId n = 0; n < graph.nodes().size(); ++n) {
//       copy.add_node(n);
//       if (...) copy.replace(graph.node(n).first_result, cos(copy.fake(v)));  // recorded
//     }
//     auto changed = copy.finish();
//
// Nodes are copied as they are: no meta function runs, and data-dependent symbols stay those of the
// original. What is recorded in between gets symbols of its own. Threads: one at a time.
#pragma once

#include "core/arguments.h"
#include "graph/record.h"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tenon {

/// A copy gets name, place, half and facts of the node.
void label_as(const Node& node, Node& copy);

class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  /// First of all; more inputs may be recorded between the two.
  void add_inputs();
  void add_constants();
  /// Copies a node over what stands for its arguments now.
  void add_node(NodeId n);
  /// What stands for a value of the original, which was copied by now; numbers have no fake.
  const Tensor& fake(ValueId original) const { return fakes_[original]; }
  /// The arguments of a node of the original as a call takes them, over what stands for them now;
  /// good until the next question.
  std::span<const Value> call_arguments(NodeId n);
  /// From here on `by`, a fake of this recording, stands for the value. Throws UserError unless
  /// sizes, dtype and device agree; another layout is copied into the original's.
  void replace(ValueId original, Tensor by);
  /// Ends the copy: the outputs are what stands for those of the original.
  std::shared_ptr<Graph> finish();

  GraphRecorder& recorder() { return recorder_; }

 private:
  GraphValue described(const GraphValue& value) const;
  StorageRef storage_of(const GraphValue& value);
  Tensor fake_of_result(const Node& node, const GraphValue& value);
  void map(ValueId original, ValueId copied, const Tensor& fake);
  std::vector<Value> arguments(const Node& node);
  void bind_symbols(ValueSource source, uint32_t node);
  void follow(const Node& node);

  const Graph& from_;
  GraphRecorder recorder_;
  std::vector<ValueId> ids_;                 // by value of the original
  std::vector<Tensor> fakes_;                // likewise
  std::map<uint32_t, StorageRef> storages_;  // by alias group of the original
  ArgumentLists lists_;
  std::vector<Value> asked_;  // of the last call_arguments()
};

}  // namespace tenon
