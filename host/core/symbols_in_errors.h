// What the symbols in the text of an error stand for: people know their sizes, not "s0".
#pragma once

#include "core/function_ref.h"

#include <string>

namespace tenon {

/// The text that `write` gives. Where it tells symbols of the thread's ShapeEnv, their source and value
/// stand at its end. Filled in by core/sym/sym_int.cpp.
extern std::string (*explain_symbols_slot)(FunctionRef<std::string()> write);

}  // namespace tenon
