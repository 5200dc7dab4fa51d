// Whether this process may run code that it makes.
#pragma once

namespace tenon {

/// False where a policy of the system (PR_SET_MDWE, SELinux, systemd's MemoryDenyWriteExecute)
/// keeps memory that was written from being executed. Asks the system; costs some microseconds.
bool can_make_code();

}  // namespace tenon
