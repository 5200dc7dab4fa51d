// The options of one compile: declared in the manifest, set by flags, environment, mode and call.
#pragma once

#include "backend/abi/compile_context.h"

namespace tenon {

/// Makes the options of a backend flags `<backend>.<option>`, which files, environment, --set and
/// config::set() may give values. Throws UserError for what these say wrongly.
void declare_options(const BackendManifest& manifest);

/// Every declared option with its value. Low to high: manifest default, flags (file, environment,
/// set, patch), mode, options of the call, TENON_FORCE_<BACKEND>_<OPTION>. Throws UserError for an
/// option that is not declared (with the nearest names), a value that does not fit, or a mode that
/// the backend does not have.
tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request);

}  // namespace tenon
