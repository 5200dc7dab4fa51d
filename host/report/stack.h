// The native call stack as text, for messages under the flag dynamo.verbose.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::report {

/// The name of a mangled function or type as it stood in the source; `name` itself where it is not
/// mangled.
std::string demangled(const std::string& name);
/// One line a frame, innermost first, without the innermost `skip` frames: "  #0 name (library)".
/// Names are those of exported symbols; other frames have their address in the library.
std::string stack_text(int skip = 1);
/// The same of the innermost frames outside of Tenon's file, at most `most`; "" where the program and
/// Tenon are one file.
std::string program_stack(int64_t most);
/// "" unless dynamo.verbose: else a line break and the stack, to be put behind a message.
std::string stack_if_verbose();

}  // namespace tenon::report
