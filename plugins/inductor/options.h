// The options that plugin.toml declares, read from a request.
#pragma once

#include <inductor_runtime/options.h>
#include <tenon/plugin.hpp>

namespace inductor {

/// Throws `error` (TN_INVALID_ARGUMENT) for values that this machine cannot serve.
Options options_of(const tn_compile_request& request);

}  // namespace inductor
