// What a parallel call costs beside its work: median, p99 and mean of calls of W us a thread, idle
// and beside a busy process. Times in us; `serial` is the same work on one thread.
//   thread_pool [--hog] [--seconds 0.5]
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"

namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Work that takes a fixed number of steps, so that losing the core lengthens it.
void work(int64_t steps) {
  double x = 1;
  for (int64_t i = 0; i < steps; ++i) {
    x = x * 1.0000001 + 1e-9;
    asm volatile("" : "+x"(x));
  }
}

double steps_per_us() {
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const double start = now_us();
    work(100000);
    best = std::max(best, 100000 / (now_us() - start));
  }
  return best;
}

void report(const char* name, double w, std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  double sum = 0;
  int64_t jumps = 0;
  for (double t : times) sum += t, jumps += t > 1000 + 2 * w;
  std::printf("%-8s W %6.1f  median %9.2f  p99 %9.2f  mean %9.2f  jumps %lld of %zu\n", name, w,
              times[times.size() / 2], times[times.size() * 99 / 100],
              sum / static_cast<double>(times.size()), static_cast<long long>(jumps), times.size());
}

template <class Call>
void measure(const char* name, double w, double seconds, Call call) {
  std::vector<double> times;
  for (const double end = now_us() + seconds * 1e6; now_us() < end;) {
    const double start = now_us();
    call();
    times.push_back(now_us() - start);
  }
  report(name, w, times);
}

void measure_pool(double seconds) {
  const double rate = steps_per_us();
  const int threads = tenon::num_threads();
  for (double w : {0.0, 1.4, 20.0, 500.0}) {
    const int64_t n_chunks = w < 20 ? threads : 4 * threads;
    const double chunk_us = w * threads / static_cast<double>(n_chunks);
    const auto steps = static_cast<int64_t>(chunk_us * rate);
    measure("serial", w, seconds, [&] {
      for (int64_t c = 0; c < n_chunks; ++c) work(steps);
    });
    // No estimate for empty work: it would rightly stay on the caller.
    const double estimate = w > 0 ? w * threads : tenon::unknown_time;
    measure("pool", w, seconds, [&] {
      tenon::parallel_chunks(
          n_chunks, [&](int64_t, int) { work(steps); }, estimate);
    });
  }
}

void measure_allocator() {
  for (size_t bytes : {size_t{64}, size_t{4096}, size_t{65536}, size_t{8} << 20}) {
    constexpr int n = 1000000;
    const double start = now_us();
    for (int i = 0; i < n; ++i) {
      void* block = tenon::allocate(bytes);
      asm volatile("" ::"r"(block) : "memory");
      tenon::deallocate(block, bytes);
    }
    std::printf("allocate and deallocate %8zu bytes: %.1f ns\n", bytes,
                (now_us() - start) * 1e3 / n);
  }
}

pid_t start_hog() {
  const pid_t hog = fork();
  if (hog == 0)
    for (;;) work(1000000);
  return hog;
}

}  // namespace

int main(int argc, char** argv) {
  bool hog = false;
  double seconds = 0.5;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--hog") == 0) hog = true;
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) seconds = std::atof(argv[++i]);
  }
  std::printf("%d threads%s\n", tenon::num_threads(), hog ? ", beside one busy process" : "");
  const pid_t process = hog ? start_hog() : 0;
  measure_pool(seconds);
  if (process > 0) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  measure_allocator();
}
