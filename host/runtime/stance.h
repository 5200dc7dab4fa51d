// The stance of the process: what calls of compiled callables do besides what their options say.
//
// One word tells it, 0 for the usual one, so that calls ask with one load.
// Threads: all functions may be called from any thread.
#pragma once

#include <tenon/compiler.h>

#include <atomic>
#include <cstdint>

namespace tenon {

/// The stance, and two bits for its options.
extern constinit std::atomic<uint32_t> stance_word;
/// Whether this thread asks what callables would do, see explain(): no stance counts for it.
extern constinit thread_local bool ignores_stance;
inline uint32_t stance_in_effect() {
  return ignores_stance ? 0 : stance_word.load(std::memory_order_relaxed);
}
constexpr uint32_t stance_of(compiler::Stance stance) { return static_cast<uint32_t>(stance); }
constexpr bool is_in(uint32_t word, compiler::Stance stance) {
  return (word & 0xff) == stance_of(stance);
}
constexpr bool skips_guards_in(uint32_t word) { return word >> 8 & 1; }

/// Serves the call where the stance says how; false: as usual.
bool serve_by_stance(detail::Site& site, const detail::Leaves& leaves, const detail::Body& body,
                     detail::CallResult& result);

}  // namespace tenon
