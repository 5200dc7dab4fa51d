// A compiled backward pass: what stands in the engine's place.
//
// Problem: between the derivatives of ops, which can be compiled, a pass calls user code (hooks,
// functions with a derivative of their own) and adds gradients up, which cannot. Model: a program
// is a list of steps over numbered values: pieces of code without effects, and between them the
// calls, in the order of the engine. What is on its way to other nodes is known at each call, so
// that the engine can take the pass over there when user code does what was not foreseen: gives a
// gradient of another shape, or none.
// Threads: a program is constant; any number of threads may run it.
#pragma once

#include "graph/artifact.h"
#include "tape/walk.h"

#include "core/sym/sym_program.h"

#include <memory>
#include <optional>
#include <vector>

namespace tenon::tape {

using ValueNumber = uint32_t;

struct Step {
  enum class Kind : uint8_t {
    code,          ///< a compiled graph
    tensor_hooks,  ///< those of a node's inputs, retain_grad() included
    before_hooks,
    unpack,    ///< saved tensors of a node that hooks bring back
    function,  ///< of a node that can only be called, with its hooks
    after_hooks,
    retain,      ///< keeps a gradient for retain_grad()
    accumulate,  ///< into the gradient of a leaf; then its hooks
    update       ///< code that writes leaves, after their gradients are there
  };
  Kind kind = Kind::code;
  uint32_t place = 0;  ///< of the node, in TapeWalk::order
  uint32_t input = 0;  ///< of retain
  /// Values; no_value where a gradient is undefined. Of after_hooks: the outputs, then the inputs.
  /// Of unpack: the gradients of the node.
  std::vector<ValueNumber> reads, writes;

  /// Of hooks, by value that they give: not laid out like the one that they get, but contiguous.
  std::vector<bool> contiguous;

  // ---- of code and update
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Artifact> artifact;
  std::vector<uint32_t> numbers;  ///< by symbol of the graph: Collector::numbers
  /// A node that has run once the code was called, by its place, and its inputs with gradients.
  struct Done {
    uint32_t place;
    uint64_t reached;
  };
  std::vector<Done> done;
  /// Saved tensors that calls before it may have written: of Program::late_reads.
  std::vector<uint32_t> late_reads;

  /// Of update: a leaf, by the place of its node, its gradient and itself.
  struct Updated {
    uint32_t place;
    ValueNumber grad, leaf;
  };
  std::vector<Updated> updated;

  // ---- of calls
  /// A gradient on its way to a node.
  struct Pending {
    uint32_t visit, input;
    ValueNumber value;
  };
  std::vector<Pending> pending;
  std::vector<ValueNumber> dying;  ///< values that nobody reads after the step
  std::vector<bool> moves;         ///< by read: the value dies here and is not read again
};
std::string_view name_of(Step::Kind kind);

struct Program {
  std::vector<Step> steps;
  std::vector<ValueNumber> captured;                         ///< by wanted edge
  std::vector<std::pair<uint32_t, uint32_t>> captured_from;  ///< the visit and input of each
  uint32_t n_lifted = 0, n_values = 0;
  std::vector<ValueNumber> late_reads;
  std::string first_call;  ///< "tensor hooks of MulBackward (NodeCall 2)"; empty: only code runs
  /// Under which it holds, over those of Collector::numbers.
  SymProgram conditions;
  std::vector<uint32_t> condition_numbers;
  /// Numbers that it holds for only as they were, where sizes are not dynamic.
  std::vector<std::pair<uint32_t, int64_t>> fixed;

  bool serves(std::span<const int64_t> numbers) const;
};

/// Why a program was left: the node whose user code did what was not foreseen.
struct Departure {
  uint32_t place;
  std::vector<bool> defined;  ///< of a function: which of its gradients were
};

/// Runs the program for the tape that the walk has gone over, whose collected tensors go. Throws
/// what user code and backends throw; nodes that have run are then as the engine leaves them.
std::vector<Tensor> run_program(const Program& program, TapeWalk& walk,
                                const autograd::PassRequest& request,
                                std::optional<Departure>& departure);

}  // namespace tenon::tape
