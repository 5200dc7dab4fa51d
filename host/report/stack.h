// The native call stack as text, for messages under the flag dynamo.verbose.
#pragma once

#include <string>

namespace tenon::report {

/// The name of a mangled function or type as it stood in the source; `name` itself where it is not
/// mangled.
std::string demangled(const std::string& name);
/// One line a frame, innermost first, without the innermost `skip` frames: "  #0 name (library)".
/// Names are those of exported symbols; other frames have their address in the library.
std::string stack_text(int skip = 1);
/// "" unless dynamo.verbose: else a line break and the stack, to be put behind a message.
std::string stack_if_verbose();

}  // namespace tenon::report
