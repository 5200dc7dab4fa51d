// Whether the process ends: plugins are shut down for that, and what is called then does without them.
#pragma once

#include <atomic>

namespace tenon {

namespace detail {
inline std::atomic<bool> process_ends{false};
}

inline bool is_process_ending() { return detail::process_ends.load(std::memory_order_relaxed); }
inline void note_process_ends() { detail::process_ends = true; }

}  // namespace tenon
