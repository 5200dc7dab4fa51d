// How the work of a graph is cut and shared among the host's threads.
#pragma once

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstdint>

namespace inductor {

struct Workers {
  int64_t most = 0;                 // threads that one call uses; 0: all of the host's
  bool is_fixed = false;            // library calls are cut in the same way whatever the threads
  int64_t fewest_elements = 16384;  // of a sum of two tensors that are worth another thread

  int64_t threads() const {
    int64_t all = tenon::plugin::host->svc->num_threads();
    return most > 0 ? std::min(most, all) : all;
  }
  /// How many pieces library calls are cut into, at least. Another cut may round differently.
  int64_t slices() const {
    constexpr int64_t fixed = 16;
    return is_fixed ? fixed : threads();
  }

  /// Into how many chunks rows are cut, each of which reads all of a product's right side; 0: they
  /// are too few for that.
  int64_t row_chunks(int64_t rows) const {
    constexpr int64_t fewest = 24, usual = 96;
    int64_t n = threads();
    return rows < fewest * n ? 0 : n * std::max<int64_t>(rows / (usual * n), 1);
  }

  /// body(i) for each i < n.
  template <class F>
  void run(int64_t n, F&& body) const {
    if (n == 1) return body(0);
    if (most == 0 || n <= most)
      return tenon::plugin::parallel_chunks(n, [&](int64_t i, int32_t) { body(i); });
    int64_t chunks = threads();
    tenon::plugin::parallel_chunks(chunks, [&](int64_t c, int32_t) {
      for (int64_t i = n * c / chunks; i < n * (c + 1) / chunks; ++i) body(i);
    });
  }
};

}  // namespace inductor
