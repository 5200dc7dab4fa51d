// What a segment of a body computes before one of its operations fails.
//
// The body assigns results to handles of the program, and goes on, before the segment runs. When an
// operation fails then (an index out of range, a division by zero), a plain run has the results of
// those before it; so the handles get them. Where nobody has computed what a handle got, it gets back
// what it had, so that the next call is served.
//
// Threads: any.
#pragma once

#include "core/function_ref.h"
#include "graph/graph.h"

#include <tenon/tensor.h>

#include <exception>
#include <memory>
#include <span>

namespace tenon {

class TraceInputs;
namespace detail {
struct Body;
}

/// While an error is handled: whether it says that a body cannot be recorded as one graph.
bool is_refusal_in_flight();

/// Runs the code of `graph`. Where it throws, gives the error, and the outputs that are known by
/// then; the others are undefined. All of them are where the graph has effects, which must not happen
/// twice.
std::exception_ptr run_or_rescue(FunctionRef<void()> code, const std::shared_ptr<Graph>& graph,
                                 std::span<detail::TensorHead*> inputs,
                                 std::span<const int64_t> symbols, std::span<Tensor> outputs);

/// A call has failed: variables that it captures by address and that hold one of `lost`, fakes that no
/// code has computed, hold again what they held when the body named them.
void give_back_variables(const TraceInputs& inputs, const detail::Body& body,
                         std::span<const Tensor> lost);

}  // namespace tenon
