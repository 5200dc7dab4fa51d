// Whether this process may run code that it makes: policies such as PR_SET_MDWE, SELinux's execmem
// or systemd's MemoryDenyWriteExecute forbid memory to become executable.
#pragma once

namespace onednn {

/// Why not, in the system's words; empty where it may. Asked once a process. Threads: any.
const char* why_no_new_code();

}  // namespace onednn
