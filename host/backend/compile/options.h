// The options of one compile: declared in the manifest, set by flags, environment, mode and call.
#pragma once

#include "backend/abi/compile_context.h"

namespace tenon {

/// Makes the options of a backend, and those that plugins for other devices have under its name,
/// flags `<backend>.<option>`, which files, environment, --set and config::set() may give values.
/// Throws UserError for what these say wrongly.
void declare_options(const BackendManifest& manifest);

/// Every declared option with its value. Low to high: manifest default, flags (file, environment,
/// set, patch), mode, options of the call, TENON_FORCE_<BACKEND>_<OPTION>. What only plugins for
/// other devices declare under the name is checked and left out. Throws UserError for an option that
/// none declares (with the nearest names), a value that does not fit, or a mode that none has.
tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request);

}  // namespace tenon
