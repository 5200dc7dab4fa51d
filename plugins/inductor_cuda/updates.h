// New values of inputs, written by the kernels that make them.
//
// Problem: a graph that writes its inputs (an optimiser's step) ends with copies into them, which move
// as much memory as the step itself and are a launch each. Method: where one kernel makes a value of
// an input's layout, point by point, and is the last to read the input, at that point only, it writes
// into the input, and the copy goes. Cost: linear in the accesses of the graph.
#pragma once

#include <loopir/kernel.h>

#include <vector>

namespace inductor_cuda {

/// A buffer that lies where an input does.
struct Update {
  loopir::Id buffer, input;
};
/// Takes the copies that are not needed out of the schedule.
std::vector<Update> take_over_inputs(loopir::Program& program, loopir::Schedule& schedule);
/// Makes kernels of the others, small ones together, behind all else; returns the inputs written.
std::vector<loopir::Id> copy_by_kernels(loopir::Program& program, loopir::Schedule& schedule,
                                        const loopir::FusionOptions& options);

}  // namespace inductor_cuda
