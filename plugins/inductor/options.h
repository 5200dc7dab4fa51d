// What the options of plugin.toml ask of the parts of the compiler, where that is more than a
// value.
#pragma once

#include <inductor_options.h>
#include <inductor_runtime/run_options.h>
#include <loopir/program.h>

namespace inductor {

using Given = tenon::plugin::inductor_options;

/// Throws `error` (TN_INVALID_ARGUMENT) for values that this machine cannot serve.
RunOptions run_options(const Given& given, const tn_compile_request& request);
loopir::LoweringOptions lowering_options(const Given& given, const RunOptions& run,
                                         const tn_compile_request& request);

}  // namespace inductor
