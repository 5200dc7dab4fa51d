// What the unit of a report hears of the graphs that are compiled for it (report/unit.h).
//
// Threads: the unit is the one that the calling thread is at work for.
#pragma once

#include "compile/staged_graph.h"

namespace tenon {

/// Code whose time counts for the unit, which also hears what became of each graph. Without a unit
/// it is `make` itself.
MakeCode telling_unit(MakeCode make);

/// Where a joint graph is cut, and why.
void tell_cut(const StagedGraph& staged, const std::string& compile_id);

}  // namespace tenon
