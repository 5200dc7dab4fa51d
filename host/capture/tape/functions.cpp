// Functions with a derivative of their own in bodies. Their forward is recorded like other
// operations, without gradients; the graph says where it ends, so that code of the graph stops there
// for a node of the tape. Their backward runs in the backward pass, as in a plain run.
#include "autograd/function.h"

#include "autograd/tape.h"
#include "capture/body_scope.h"
#include "capture/follow/follow.h"
#include "capture/tape/hooks.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace tenon {

using autograd::FunctionCall;
using autograd::FunctionPlace;
using autograd::FunctionTensors;
using autograd::WaitingFunction;

namespace {

std::optional<NodeId> last_operation(const Graph& graph) {
  for (size_t n = graph.nodes().size(); n-- > 0;)
    if (!is_assertion(graph.nodes()[n])) return static_cast<NodeId>(n);
  return std::nullopt;
}

// Its results must be made by the last nodes, which run without gradients.
bool is_forward(const Graph& graph, NodeId last, bool grad_enabled,
                std::span<const ValueId> results) {
  if (FunctionPlace::of(graph.node(last))) return false;
  NodeId begin = autograd::begin_of_forward(graph, last, grad_enabled);
  return std::ranges::all_of(results, [&](ValueId v) {
    return v == no_value ||
           (graph.value(v).source == ValueSource::node && graph.value(v).source_index >= begin);
  });
}

}  // namespace

bool put_into_graph(Trace& trace, const std::shared_ptr<const WaitingFunction>& function,
                    const FunctionTensors& tensors) {
  GraphRecorder& recorder = recorder_of_thread();
  auto values = [&](const std::vector<Tensor>& list) {
    std::vector<ValueId> ids;
    for (const Tensor& t : list) ids.push_back(recorder.value_of(t));
    return ids;
  };
  FunctionPlace place{values(tensors.inputs), values(tensors.results), values(tensors.saved),
                      function->kinds()};
  Graph& graph = recorder.graph();
  std::optional<NodeId> last = last_operation(graph);
  if (!last || !is_forward(graph, *last, recorder.grad_enabled(), place.results)) return false;
  for (uint32_t r = 0; r < place.results.size(); ++r) {
    if (std::ranges::find(place.kinds.fixed, r) != place.kinds.fixed.end()) continue;
    const Tensor& given = tensors.results[r];  // a captured tensor where it was written
    Tensor fake = given.is_fake() ? given : trace.inputs().stand_ins.fake_of(given);
    if (fake.defined()) mark_requires_grad(fake, true);
    graph.value(place.results[r]).flags.requires_grad = true;
  }
  mark_function(graph, *last, place);
  trace.requests().functions.push_back({*last, function});
  return true;
}

namespace {

// Whoever runs the operation that it is a part of runs it.
std::vector<Tensor> record_for_metas(FunctionCall& call) {
  std::vector<Tensor> results = call.run_forward().results;
  const std::vector<uint32_t>& fixed = call.waiting()->kinds().fixed;
  for (uint32_t r = 0; r < results.size(); ++r)
    if (results[r].defined() && std::ranges::find(fixed, r) == fixed.end())
      mark_requires_grad(results[r], true);
  return results;
}

// Why forward has no place in the graph.
std::string reason_outside(const Trace& trace, const FunctionTensors& tensors) {
  if (!config::flags().dynamo.capture_autograd_function)
    return "dynamo.capture_autograd_function = false";
  bool is_cut = std::ranges::any_of(tensors.results, [&](const Tensor& t) {
    return t.defined() && t.is_fake() && trace.inputs().is_made_here(t);
  });
  return is_cut ? "its forward looks at data, or gives a tensor from before a graph break"
                : "its forward records gradients itself, or gives a tensor that it has not made";
}

// What forward has given is there, and gets its history like what uncompiled code gives one.
void attach_between_segments(const std::string& what, const WaitingFunction& function,
                             const FunctionTensors& tensors) {
  std::vector<Tensor> reals;
  for (auto* list : {&tensors.inputs, &tensors.results, &tensors.saved})
    reals.insert(reals.end(), list->begin(), list->end());
  std::unique_ptr<void, decltype(&detail::leave_disabled)> outside(
      detail::enter_disabled(reals, what, {}), &detail::leave_disabled);
  auto next = reals.begin();
  auto taken = [&](const std::vector<Tensor>& list) {
    auto first = std::exchange(next, next + static_cast<std::ptrdiff_t>(list.size()));
    return std::vector<Tensor>(first, next);
  };
  FunctionTensors real{taken(tensors.inputs), taken(tensors.results), taken(tensors.saved)};
  function.attach(std::move(real), [](auto backward) { return backward; });
}

// A run along a path where the recording attached the function between two segments does the same.
bool passes_function(const FunctionCall& call) {
  Follower* follower = Follower::current();
  return follower && follower->passes_break(message("{} ends", call.name));
}

std::vector<Tensor> record_function(FunctionCall& call) {
  BodyScope::check_for_tape(message("{} has a derivative of its own", call.name));
  Follower* follower = Follower::current();
  if (!follower && recorder_of_thread().for_metas) return record_for_metas(call);
  Trace* trace = follower ? nullptr : Trace::current();
  require(follower || (trace && trace->records(recorder_of_thread())), ErrorCode::unsupported,
          "{}: a function with a derivative of its own cannot be recorded into a graph", call.name);
  if (is_on_own_tape()) return call.run(call.inputs);
  FunctionTensors tensors = call.run_forward();
  follower = Follower::current();
  if (follower && follower->takes_function(call, tensors)) return tensors.results;
  std::string what = call.name;
  if (!passes_function(call)) {
    trace = Trace::current();
    bool is_traced = config::flags().dynamo.capture_autograd_function;
    if (is_traced && put_into_graph(*trace, call.waiting(), tensors)) return tensors.results;
    what = message("{} ({})", call.name, reason_outside(*trace, tensors));
  }
  attach_between_segments(what, *call.waiting(), tensors);
  return tensors.results;
}

const bool installed_functions = (autograd::record_function_slot = &record_function, true);

}  // namespace

}  // namespace tenon
