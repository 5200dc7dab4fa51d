// The measurement: the best of a few rounds, since other programs only ever make one slower.
#include "peaks.h"

#include "inductor_runtime/calls/library_calls.h"

#include <microkernel/product.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace inductor {

namespace {

constexpr int rounds = 5;

template <class F>
double best_seconds(F&& work) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

double bandwidth(int64_t threads) {
  constexpr int64_t bytes = 64 << 20;
  Memory from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);
  int64_t chunks = 4 * threads;
  double seconds = best_seconds([&] {
    tenon::plugin::parallel_chunks(chunks, [&](int64_t c, int32_t) {
      int64_t begin = bytes * c / chunks, end = bytes * (c + 1) / chunks;
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * bytes / seconds;
}

double arithmetic(int64_t threads) {
  constexpr int64_t rows = 96, depth = 128, columns = 32, repeats = 400;
  microkernel::Panels panels{depth, columns};
  std::vector<float> left(rows * depth, 0.5f), right(depth * columns, 0.5f);
  Memory packed(static_cast<size_t>(panels.size()) * sizeof(float));
  auto* weights = reinterpret_cast<float*>(packed.data());
  panels.pack(right.data(), columns, 1, 0, panels.count(), weights);
  std::vector<float> results(static_cast<size_t>(threads * rows * columns));
  double seconds = best_seconds([&] {
    tenon::plugin::parallel_chunks(threads, [&](int64_t c, int32_t) {
      float* result = results.data() + c * rows * columns;
      for (int64_t i = 0; i < repeats; ++i)
        microkernel::multiply(
            {panels, left.data(), depth, 1, weights, 0, nullptr, result, columns, {}}, 0, rows, 0,
            panels.count());
    });
  });
  return 2.0 * static_cast<double>(threads * repeats * rows * depth * columns) / seconds;
}

}  // namespace

const Peaks& measured_peaks() {
  static const Peaks peaks = [] {
    int64_t threads = tenon::plugin::host->svc->num_threads();
    return Peaks{bandwidth(threads), arithmetic(threads)};
  }();
  return peaks;
}

}  // namespace inductor
