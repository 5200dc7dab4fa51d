// Bodies: the sub-graphs of control flow, how they are run and how they are made.
#pragma once

#include "core/sym/sym_eval.h"
#include "graph/record.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

// ---- running

/// Who runs the bodies of the node that is being called: the interpreter of the graph around it,
/// which knows their code and the values of symbols.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// False when the body is not one of its own.
  virtual bool run(const Graph& body, std::span<const Tensor> inputs,
                   std::span<Tensor> outputs) const = 0;
};

/// Makes a runner the one of this thread for the lifetime of a scope.
class BodyRunnerScope {
 public:
  explicit BodyRunnerScope(const BodyRunner& runner);
  ~BodyRunnerScope();
  BodyRunnerScope(const BodyRunnerScope&) = delete;

 private:
  const BodyRunner* before_;
};

/// Runs a body: by this thread's runner, else node by node with the symbols that its inputs show.
std::vector<Tensor> run_body(const Graph& body, std::span<const Tensor> inputs);

// ---- making

/// Results that are inputs or constants, share memory with them or with another result become
/// copies, so that whoever runs the body may keep or write them.
void isolate_outputs(Graph& body);
/// Symbols that an input shows bare are read from there.
void bind_shown_symbols(Graph& body);

/// The nodes of a body once more, on fakes of the recording in progress. Throws UserError
/// (unsupported) for bodies with sizes that only the run knows.
std::vector<Tensor> replay_body(const Graph& body, std::span<const Tensor> inputs);

using BodyFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A body as `fn` on fakes like `inputs` makes it: a recording within the one in progress, which
/// takes ops apart as that does. With `on_tape` ops go through the tape, and the inputs of which
/// `needs_grad` says so need a gradient.
std::shared_ptr<Graph> record_body(std::span<const TensorMeta> inputs, const BodyFn& fn,
                                   bool on_tape = false, const std::vector<bool>& needs_grad = {});

/// A pointer argument for a body, which `graph` keeps alive from here on.
Value keep_body(Graph& graph, std::shared_ptr<Graph> body);

}  // namespace tenon
