// The interpreter: runs a graph node by node through dispatch.
//
// It is what the backend `eager` calls, the fallback of every other backend, and the oracle of
// tests. Model: a frame with one slot a value; a slot is released right after its last use, so that
// memory is as low as in hand-written eager code. Symbols are bound from the inputs or the caller,
// data-dependent ones when their node has run. Cost: about 20 ns a node over the op itself.
#pragma once

#include "core/function_ref.h"
#include "core/sym/sym_eval.h"
#include "graph/graph.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace tenon {

class Artifact;
/// Compiled code of bodies. It leaves no tape: calls that need one interpret the body.
using BodyCode = std::map<const Graph*, std::shared_ptr<Artifact>>;

class Interpreter {
 public:
  explicit Interpreter(std::shared_ptr<const Graph> graph, const BodyCode& code = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  /// Runs the graph. `inputs` has one entry per graph input, null for scalars; they are borrowed,
  /// or, with `steal`, owned, released after their last use and nulled. `syms` has the values of
  /// `graph.symbols` in order (doubles as their bits); when empty, they are read from the inputs.
  /// Outputs that are numbers come as 0-dim tensors. Threads: any number at once. Of a body,
  /// `outer` knows the symbols of the graph around it.
  using Symbols = FunctionRef<std::optional<SymValue>(const Expr* symbol)>;
  void run(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
           std::span<Tensor> outputs, bool steal = false, const Symbols* outer = nullptr) const;

  /// Called after each node with its tensor results; undefined for numbers. For checks.
  using NodeObserver = std::function<void(const Node&, std::span<const Tensor> results)>;
  void on_results(NodeObserver observer) { observer_ = std::move(observer); }

  const Graph& graph() const { return *graph_; }

 private:
  struct Step {
    const OpEntry* op;
    uint32_t node;
    bool plain_args;                 ///< no argument refers to a value or a symbol
    bool has_bodies;                 ///< an argument is a graph
    std::optional<bool> grad;        ///< the grad mode, where the node has its own
    std::vector<ValueId> last_uses;  ///< values that nobody reads after this node
    std::vector<uint32_t> binds;     ///< symbols that its results bind
  };
  struct Frame;
  class IdleFrame;
  class Bodies;
  void fill(Frame& frame, std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            bool steal) const;
  void run_step(const Step& step, Frame& frame) const;
  void give_known(const Frame& frame, std::span<Tensor> outputs) const;
  void call(const Step& step, const Value* args, uint32_t n_args, std::span<Value> results,
            Frame& frame) const;

  std::shared_ptr<const Graph> graph_;
  std::unique_ptr<const Bodies> bodies_;  // null where the graph has none
  std::vector<Step> steps_;
  std::vector<ValueId> held_to_the_end_;
  std::unique_ptr<IdleFrame> idle_;
  NodeObserver observer_;
};

/// While one lives, a run of its thread into `outputs` that throws gives the tensors among them that
/// are known by then; what nodes to come would have written is as it was before them. The others are
/// undefined.
class KnownWhenFailed {
 public:
  explicit KnownWhenFailed(std::span<Tensor> outputs);
  /// What comes into `outputs` goes on to those of the one around it, if these are at `given`.
  KnownWhenFailed(std::span<Tensor> outputs, const void* given);
  ~KnownWhenFailed();
  KnownWhenFailed(const KnownWhenFailed&) = delete;
  /// Whether such a run has thrown, of a graph that writes: a functional one does not say which of
  /// its values are one tensor.
  bool are_all_given() const { return are_given_ && graph_writes_; }

 private:
  friend Interpreter;
  KnownWhenFailed* outer_;
  std::span<Tensor> outputs_;
  bool go_on_ = false, are_given_ = false, graph_writes_ = false;
};

/// The 0-dim tensor that stands for a number among outputs: i64, f64 or bool.
Tensor number_tensor(Number n);

}  // namespace tenon
