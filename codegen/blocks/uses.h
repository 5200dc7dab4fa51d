// How often a kernel's values are used.
#pragma once

#include <loopir/kernel.h>

#include <map>

namespace blocks {

using loopir::Id;
using loopir::none;

/// By value: how often it is an operand, or what a statement is about.
using Uses = std::map<Id, int>;
Uses uses_in(const loopir::Program& program, const loopir::Kernel& kernel);

}  // namespace blocks
