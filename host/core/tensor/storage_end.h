// Who is told when memory is gone.
#pragma once

#include "core/tensor/storage.h"

namespace tenon {

/// The end of this memory will be told, whoever lets go of it last.
void watch_end(const Storage& storage);
/// Told of watched memory when it ends, on any thread; throws nothing. Set by
/// backend/abi/bridge_memory.cpp.
extern void (*storage_ended_slot)(uint64_t storage_id);

}  // namespace tenon
