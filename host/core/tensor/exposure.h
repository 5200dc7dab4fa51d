// Whether the memory of a tensor can be written where nobody counts it.
//
// Ops count what they write (Storage::version), so what was made of a tensor's content, such as a
// packed copy, can be kept until the version moves. Whoever was given an address may write at any
// time, and memory that the program lent may be written by the program: of these nothing is kept
// that eager ops would read instead.
#pragma once

#include "core/tensor/storage.h"

#include <tenon/tensor.h>

namespace tenon {

/// An address of its memory was given out, for good.
void expose(const Storage& storage);
/// Memory that was borrowed, but from nobody who writes to it: a mapped file of weights. Before the
/// tensor is given to anybody.
void keep_private(const Storage& storage);
/// Told of memory that a body under a tracer borrows from the program, which may write it between
/// ops. Set by capture/api.cpp.
extern void (*memory_lent_slot)(const Tensor& lent);
/// False for owned memory of which no address was given out, and what was kept private.
bool is_exposed(const Storage& storage);

}  // namespace tenon
