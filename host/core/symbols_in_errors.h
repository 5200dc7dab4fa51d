// What rooms above say to errors that are thrown. The symbols in their text: people know their sizes, not
// "s0".
#pragma once

#include "core/function_ref.h"

#include <tenon/error.h>

#include <string>

namespace tenon {

/// The text that `write` gives. Where it tells symbols of the thread's ShapeEnv, their source and value
/// stand at its end. Filled in by core/sym/sym_int.cpp.
extern std::string (*explain_symbols_slot)(FunctionRef<std::string()> write);

/// Called with each UserError of fail() and require() before it is thrown. Filled in by
/// capture/errors/error_of_run.cpp.
extern void (*user_error_slot)(const UserError& error);

}  // namespace tenon
