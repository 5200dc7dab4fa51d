// From a tape to a program: the pass is run on fakes, and its derivatives are recorded.
//
// Problem: the pass must be known as graphs before it runs, for tapes whose sizes differ. Method:
// the nodes are taken in the order of the engine; what they keep is read as fakes whose sizes are
// symbols, so that their rules, which are ops like others, are recorded with shapes known. What
// rules ask about sizes becomes conditions of the program. Calls of user code end a graph, and what
// they give is taken to look like what they get: program.h says what happens when it does not.
// Source: PyTorch's compiled autograd, without its second level.
#pragma once

#include "tape/fakes.h"
#include "tape/program.h"

#include <map>

namespace tenon::tape {

/// What runs of earlier programs for the tape have shown.
struct Experience {
  std::map<uint32_t, std::vector<bool>> defined;  ///< by place: see Departure
  /// Where sizes are not dynamic: those that have changed, by position in Collector::numbers.
  std::vector<bool> changed;
};

/// Graphs without code. `walk` kept its places. Throws UserError (unsupported, data_dependent)
/// where the pass cannot be recorded.
struct Traced {
  Program program;
  std::shared_ptr<const TapeFakes> fakes;
  std::shared_ptr<ShapeEnv> env;
  std::vector<std::string> notes;  ///< node by node, for the log
};
Traced trace_tape(const TapeWalk& walk, const autograd::PassRequest& request, bool dynamic,
                  const Experience& experience);
/// Sets the conditions, when code for all graphs is there, and what is freed after which step.
void finish_program(Traced& traced);

}  // namespace tenon::tape
