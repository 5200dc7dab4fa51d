// The joint graph as the partitioner sees it: forward and backward of one function in one list.
//
// Nodes are values in the order in which they are computed: an op with several results is a tuple
// and one `getitem` for each result that is read; a size that the graph uses as a number is a node
// of its own. What a node is called, what it costs and how it is tagged is all that decisions are
// made on, so that graphs of this project and recordings of other ones are cut by the same code.
//
// Threads: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::partition {

using JointId = uint32_t;
constexpr JointId no_node = ~JointId{0};

struct JointNode {
  enum class Kind : uint8_t { primal, forward_seed, tangent, backward_seed, call };
  enum class Type : uint8_t { tensor, tuple, sym_int, sym_float, sym_bool, opaque, none };
  enum class Tag : uint8_t { forward, backward, must_be_in_forward, must_be_in_backward };
  enum class Recompute : uint8_t { free, must_save, prefer_save, must_recompute, prefer_recompute };

  std::string name;    ///< unique: "primals_1", "mul", "getitem_2"
  std::string target;  ///< of calls: "aten.mul.Tensor", "getitem"; else empty
  Kind kind = Kind::call;
  Type type = Type::tensor;
  Tag tag = Tag::forward;
  Recompute recompute = Recompute::free;
  int32_t region = -1;          ///< the checkpointed region that `recompute` comes from
  bool backward_hook = false;   ///< a user's hook on its gradient: kept if it leaves its region
  std::vector<JointId> inputs;  ///< every node among the arguments, with repeats, in their order
  uint32_t n_direct = 0;        ///< how many of the first are positional arguments themselves, not
                                ///< parts of lists
  /// The arguments as text, `%` and an id where a node stands: equal texts and equal targets are
  /// equal calls. 1 and 1.0 differ.
  std::string arguments;
  int64_t bytes = 0;                    ///< with symbolic sizes by their hints; what a save costs
  std::vector<int64_t> sizes, strides;  ///< of tensors; symbols by their hints
  int64_t storage = -1;                 ///< equal where tensors share memory; -1: of its own
  std::vector<std::string> symbols;     ///< free symbols of its sizes, strides and value
  std::string binds;                    ///< of numbers: the symbol that the value is, or empty
  bool effect = false;                  ///< runs even where nobody reads it
  /// Runs even where nobody reads it, in the half that it was recorded in: later draws go on from
  /// where it has left the generator.
  bool draws = false;
  /// Finds out a size or a number from the data, which a symbol stands for: each run finds out all
  /// of its own, so that what runs again would bind the symbol twice.
  bool binds_symbol = false;
  bool builtin = true;  ///< not an op that a user added
};

struct JointGraph {
  std::string name;
  std::vector<JointNode> nodes;
  std::vector<JointId> outputs;  ///< forward outputs, then a gradient or no_node for each primal
  uint32_t n_forward_outputs = 0;
  std::vector<JointId> static_inputs;  ///< primals whose memory lives on anyway: parameters
};

}  // namespace tenon::partition
