// What a run has failed with, and what looks find from then on.
#include "capture/errors/error_of_run.h"

#include "capture/body_scope.h"
#include "capture/errors/before_failure.h"
#include "capture/errors/may_throw.h"
#include "capture/follow/follow.h"
#include "capture/tape/run_again.h"
#include "capture/trace.h"
#include "core/arguments.h"
#include "core/symbols_in_errors.h"
#include "core/tensor/stand_in.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"

#include <tenon/ops/create.h>

#include <algorithm>
#include <utility>

namespace tenon {

thread_local constinit ErrorOfRun* ErrorOfRun::innermost_ = nullptr;

ErrorOfRun::ErrorOfRun()
    : outer_(std::exchange(innermost_, this)), n_exceptions_(std::uncaught_exceptions()) {}

void ErrorOfRun::run_to_end(detail::ResultTensors& given, FunctionRef<void()> body) {
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    if (ends_thread()) throw;
    thrown = std::current_exception();
  }
  is_over_ = true;
  if (error_) [[unlikely]] {
    given.clear();
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (thrown) std::rethrow_exception(thrown);
}

void ErrorOfRun::note(std::exception_ptr error) {
  if (innermost_ && !innermost_->is_over_ && !innermost_->error_)
    innermost_->error_ = std::move(error);
}

void ErrorOfRun::note(std::exception_ptr error, const std::shared_ptr<Graph>& graph,
                      std::span<detail::TensorHead* const> inputs, std::span<const int64_t> symbols,
                      size_t n_outputs, FunctionRef<const Tensor&(size_t)> fake_of) {
  note(std::move(error));
  if (!innermost_ || innermost_->is_over_ || innermost_->failed_) return;
  Failed& failed = *(innermost_->failed_ = std::make_unique<Failed>());
  failed.graph = graph;
  failed.symbols.assign(symbols.begin(), symbols.end());
  for (detail::TensorHead* head : inputs) failed.inputs.push_back(head ? share(head) : Tensor());
  for (size_t i = 0; i < n_outputs; ++i) failed.outputs.push_back(fake_of(i).head());
}

bool ErrorOfRun::may_throw() const {
  return std::uncaught_exceptions() <= n_exceptions_ && is_exception_caught();
}

bool ErrorOfRun::throw_or_ignore() const {
  if (may_throw()) std::rethrow_exception(error_);
  return true;
}

const Tensor& ErrorOfRun::look(const Tensor& t, FunctionRef<const Tensor&()> read) {
  if (is_to_be_ignored()) return value_of(t);
  try {
    return read();
  } catch (...) {
    if (ends_thread() || !is_noted() || innermost_->may_throw()) throw;
  }
  return value_of(t);
}

void ErrorOfRun::run_or_ignore(FunctionRef<void()> f) {
  if (is_to_be_ignored()) return;
  try {
    f();
  } catch (...) {
    if (ends_thread() || !is_noted() || innermost_->may_throw()) throw;
  }
}

const Tensor& ErrorOfRun::value_of(const Tensor& t) {
  if (!t.defined() || !t.is_fake()) return t;
  const Follower* follower = Follower::current();
  const Tensor& real = follower ? follower->walk().real_of(t) : concrete_of(t);
  return real.defined() || !innermost_ ? real : innermost_->instead_of(t);
}

namespace {

// One output of a graph, of which other parts have failed; undefined where it needs those, random
// numbers or effects.
Tensor compute_alone(const Graph& failed, ValueId output, std::span<const Tensor> inputs,
                     std::span<const int64_t> symbols) {
  std::shared_ptr<Graph> graph = clone(failed);
  graph->set_outputs({output});
  leave_out_writes(*graph);
  remove_dead_code(*graph);
  if (has_effects(*graph, /*random=*/true)) return Tensor();
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<int64_t> words(symbols.begin(), symbols.end());
  words.resize(graph->symbols.size());
  Tensor value;
  try {
    Interpreter(graph).run(heads, words, {&value, 1});
  } catch (const std::exception&) {
    return Tensor();
  }
  return value;
}

Tensor zeros_for(const Tensor& fake) {
  std::vector<SymInt> sizes;
  for (int64_t d = 0; d < fake.dim(); ++d)
    sizes.emplace_back(std::max<int64_t>(fake.head()->sizes[d], 0));
  return zeros(SymIntList(sizes.data(), sizes.size()), fake.dtype(), std::nullopt, fake.device());
}

}  // namespace

const Tensor& ErrorOfRun::instead_of(const Tensor& fake) {
  PauseRecording pause;
  Tensor value;
  if (failed_)
    if (auto at = std::ranges::find(failed_->outputs, fake.head()); at != failed_->outputs.end())
      value =
          compute_alone(*failed_->graph, failed_->graph->outputs()[at - failed_->outputs.begin()],
                        failed_->inputs, failed_->symbols);
  return made_up_.emplace_back(value.defined() ? std::move(value) : zeros_for(fake));
}

void run_at_once(const CallArgs& call) {
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  auto plain = [](Number n) {
    return n.is_floating() ? Number(n.to_double()) : n.is_integer() ? Number(n.to_int()) : n;
  };
  map_arguments(
      args, lists, [](const Tensor& t) { return Tensor(ErrorOfRun::value_of(t)); }, plain);
  PauseRecording pause;
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
}

namespace {

// Errors that say to code of the body that it cannot be recorded, which no plain run throws.
bool is_refusal(ErrorCode code) {
  if (code != ErrorCode::graph_break && code != ErrorCode::data_dependent) return false;
  if (!thread_modes.tracer || thread_modes.follower) return thread_modes.follower != nullptr;
  const Trace* trace = Trace::current();
  const GraphRecorder& recorder = recorder_of_thread();
  bool records_body =
      trace && (trace->records(recorder) || BodyScope::is_inside()) && !recorder.for_metas;
  return records_body && !recorder.op_in_meta();
}

const bool notes_refusals = (
    user_error_slot =
        [](const UserError& error) {
          if (is_refusal(error.code())) ErrorOfRun::note(std::make_exception_ptr(error));
        },
    true);

}  // namespace

}  // namespace tenon
