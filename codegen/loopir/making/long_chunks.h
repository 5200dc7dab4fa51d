// Work of milliseconds a piece, such as code that is compiled, on the host's threads.
#pragma once

#include <tenon/plugin.hpp>

#include <chrono>

namespace loopir {

/// body(chunk) once for each chunk, by all threads from the start. The host wakes threads that sleep
/// once a first chunk has shown that the work is worth it, which is 90 ms where that chunk is a large
/// kernel: so the first one only takes as long as it has to.
template <class F>
void run_long_chunks(int64_t n_chunks, F&& body) {
  if (n_chunks <= 0) return;
  if (n_chunks == 1) return body(int64_t{0});
  constexpr std::chrono::microseconds worth_waking{60};
  tenon::plugin::parallel_chunks(n_chunks + 1, [&](int64_t chunk, int32_t) {
    if (chunk > 0) return body(chunk - 1);
    auto end = std::chrono::steady_clock::now() + worth_waking;
    while (std::chrono::steady_clock::now() < end) continue;
  });
}

}  // namespace loopir
