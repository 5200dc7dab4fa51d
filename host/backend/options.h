// The options of one compile: declared in the manifest, set by flags, environment, mode and call.
#pragma once

#include "backend/compile_context.h"

namespace tenon {

/// Every declared option with its value. Throws UserError for an option that is not declared (with
/// the nearest names), a value that does not fit, or a mode that the backend does not have.
tn_options resolve_options(const BackendManifest& manifest, const CompileRequest& request);

}  // namespace tenon
