// What the flags of module shapes want to hear about symbols while a function is captured.
#pragma once

#include "core/sym/shape_env.h"

namespace tenon {

/// Sets the watch of a new environment: shapes.symbol_guard_limit_before_specialize, and the log
/// lines of shapes.extended_debug_guard_added and extended_debug_create_symbol.
void watch_symbols(ShapeEnv& env);
/// Flag shapes.print_specializations: a log line for each symbol that became a constant.
void log_specializations(const ShapeEnv& env);

}  // namespace tenon
