// What a segment of a body computes before one of its operations fails.
//
// Problem: the body assigns results to handles of the program, and goes on, before the segment runs.
// When an operation fails then (an index out of range, a division by zero), a plain run has the
// results of those before it, and has done their writes. Model: code that runs op by op has stopped
// where the plain run stops, and gives what it has. Other code writes at its end; where it has
// written nothing, the operations run one by one up to the one that fails, with the random numbers
// that the code has drawn. So handles get what a plain run gives them. Where nobody has computed what
// a handle got, it gets back what it had, so that the next call is served, or its tensor is marked
// as lost.
//
// Threads: any.
#pragma once

#include "core/function_ref.h"

#include <tenon/tensor.h>

#include <exception>
#include <memory>
#include <span>

namespace tenon {

class TraceInputs;
struct Segment;
namespace detail {
struct Body;
}

/// While an error is handled: whether it says that a body cannot be recorded as one graph.
bool is_refusal_in_flight();

/// Runs the code of the segment. Where it throws, gives the error, which the run has noted, and the
/// outputs that are known by then; the others are undefined. `fake_of(i)` is what stands for output i.
std::exception_ptr run_or_rescue(FunctionRef<void()> code, const Segment& segment,
                                 std::span<detail::TensorHead*> inputs,
                                 std::span<const int64_t> symbols, std::span<Tensor> outputs,
                                 FunctionRef<const Tensor&(size_t)> fake_of);

/// A call has failed. `lost` are fakes that no code has computed: variables that it captures by
/// address and that hold one hold again what they held when the body named them. What others hold
/// says from now on why it has no data.
void give_up(const TraceInputs& inputs, const detail::Body& body, std::span<const Tensor> lost);

}  // namespace tenon
