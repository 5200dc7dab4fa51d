// Which sizes and numbers of a call's arguments become symbols.
#pragma once

#include "runtime/call.h"

namespace tenon {

/// Joins the arguments to what the site remembers and decides for each size, stride and number:
/// the marks first, then the lists of the environment (compiler.dynamic_sources, unbacked_sources
/// and dynamic_values), then options.dynamic and the flags, then what earlier calls have shown.
/// For a backend that does not take symbols all are constants.
TracePolicy trace_policy(detail::Site& site, const detail::Leaves& leaves,
                         bool backend_takes_symbols);

}  // namespace tenon
