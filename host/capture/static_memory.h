// Whether an address lies in the writable data of a loaded program or library: a global variable.
#pragma once

namespace tenon {

bool is_static_memory(const void* address);

}  // namespace tenon
