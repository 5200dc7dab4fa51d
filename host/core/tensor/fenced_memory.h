// Blocks of pages of their own, whose last byte (of 64) lies before a page that nobody may read: what
// reads or writes behind one is stopped there, in generated code too, which no sanitizer sees.
#pragma once

#include <cstddef>

namespace tenon {

/// `bytes`, rounded up to host_alignment, the first 64 MiB filled with 0xFF (NaN in every dtype); null
/// without memory. Some 5 us. Any thread.
void* take_fenced(size_t bytes) noexcept;
/// Gives one back; `bytes` as they were asked for. Any thread.
void give_fenced(void* block, size_t bytes) noexcept;

}  // namespace tenon
