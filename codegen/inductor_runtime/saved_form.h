// Executables as bytes, so that other processes run what this one compiled.
#pragma once

#include "executable.h"

#include <memory>
#include <string>
#include <string_view>

namespace inductor {

/// What load_executable() needs: the object code of the kernels and all that calls read, without
/// the constants of the graph. The parts are not changed.
std::string saved_form(Parts& parts);

/// The executable again, over the constants of the request's graph. Throws `error`: TN_DATA_LOSS
/// for bytes that are damaged or belong to another graph, TN_FAILED_PRECONDITION where they are of
/// another version or the code needs features that this processor lacks.
std::unique_ptr<Executable> load_executable(const tn_compile_request& request,
                                            std::string_view bytes);

/// What every form does once the fields are read: the constants of the graph, the ops of the host.
/// Throws `error` (TN_DATA_LOSS) where calls would rely on what is not there, or the graph is
/// another one.
void bind_loaded(Parts& parts, const tn_compile_request& request);

}  // namespace inductor
