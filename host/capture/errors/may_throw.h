// Whether an exception that is thrown here reaches a handler.
#pragma once

namespace tenon {

/// False where a function around the caller that must not throw (a destructor, one that is noexcept)
/// would end the process, before any handler. Known of code that g++ has compiled; clang++ gives such
/// functions handlers that look like others.
bool is_exception_caught();

}  // namespace tenon
