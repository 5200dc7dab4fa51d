// The summary at exit (TENON_LOGS=summary): a line for each callable that something happened to.
#pragma once

#include "runtime/call.h"

namespace tenon {

/// Writes the summary when the process ends. Once; further calls do nothing.
void write_summary_at_exit();
/// A callable goes; what it has to tell is kept while the summary is wanted.
void keep_for_summary(const detail::Site& site) noexcept;

}  // namespace tenon
