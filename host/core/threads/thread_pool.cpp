// The thread pool.
//
// Problem: a graph is hundreds of kernels of 1 to 500 us each. Splitting one over cores must cost
// less than a microsecond when the machine is idle, and must never cost milliseconds when it is
// not: a barrier among threads waits for the one that the scheduler has just taken off its core.
//
// Method. One job at a time is published in a single word `state_`: generation, an open bit and
// the number of threads inside. Each participant owns a range of chunks with a counter; who is
// through with its own range takes from the others'. Joining is one compare-and-swap that succeeds
// only while the job is open, so the caller closes it when no chunk is left to begin and then waits
// for those inside: no late worker ever sees a job that is gone.
//   - An idle worker spins 50 us, then sleeps; while the caller still works on the last job, up to
//     500 us. A worker that finds itself on the caller's CPU sleeps at once, as it would only take
//     that core away from the caller.
//   - Waking costs the caller some 9 us and takes 40, so sleepers are woken only for 50 us of
//     work, in one call or in calls that follow each other closely, by two, each of whom wakes two
//     more; after that not again for 200 us. Where no time is estimated, that of the calls before
//     counts, as it was: else two long chunks would both be the caller's before anyone wakes.
//   - The caller spins 20 us for chunks that others have begun, then sleeps. A wait above 100 us
//     plus twice its own time means that a worker has lost its core. If such waits take more than
//     an eighth of the time, calls are serial for the next 10 ms, for twice as long whenever it
//     recurs, up to 320 ms; rarer ones cost less than one thread alone would.
//   - Affinity is never changed: where threads run is the user's and the scheduler's business.
// Several callers: the first has the workers, the others do all their chunks themselves.
// Fork: the child has no workers and runs everything serially.
// Rounding, denormal numbers, traps: a job is computed as the thread of its caller computes, so no
// result depends on who took a chunk; comparing costs a worker two nanoseconds a job.
//
// Cost on two cores: 0.1-0.2 us a call when workers are spinning.
#include "core/threads/thread_pool.h"

#include "core/error.h"
#include "core/float_mode.h"
#include "core/threads/signals_blocked.h"
#include "core/threads/thread_count.h"
#include "core/threads/thread_pool_policy.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
using Body = FunctionRef<void(int64_t, int)>;

constexpr double longest_spin_us = 500;
constexpr double caller_spin_us = 20;
constexpr double worth_waking_us = 50;
constexpr double worth_sharing_us = 2;  // below, the hand-over costs more than it gains
constexpr double wake_pause_us = 200;

double now_us() {
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int n) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, n, nullptr, nullptr, 0);
}

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());  // more CPUs than cpu_set_t has bits
}

// What a thread is doing; -1 outside of any body.
thread_local int current_worker = -1;

struct BodyScope {
  explicit BodyScope(int worker) : before(current_worker) { current_worker = worker; }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;
  ~BodyScope() { current_worker = before; }
  int before;
};

void run_serially(int64_t n_chunks, Body body) {
  const BodyScope scope(std::max(current_worker, 0));
  for (int64_t c = 0; c < n_chunks; ++c) body(c, current_worker);
}

// The chunks that are offered to one worker first.
struct alignas(64) Range {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

class ThreadPool {
 public:
  ThreadPool() : n_threads_(initial_threads(available_cpus())) {}

  int size() const { return n_threads_.load(std::memory_order_relaxed); }
  void resize(int n);
  void run(int64_t n_chunks, Body body, double estimated_us);
  void forget_workers() { forked_.store(true, std::memory_order_relaxed); }

 private:
  // state_: bits 0-9 threads inside, 10 open, 11 the caller sleeps, 12-31 generation.
  static constexpr uint32_t inside_mask = 1023;
  static constexpr uint32_t open_bit = 1024;
  static constexpr uint32_t caller_sleeps_bit = 2048;
  static constexpr uint32_t one_generation = 4096;

  void start_missing_workers();
  void run_shared(int64_t n_chunks, Body body, double estimated_us, double start);
  void publish(int64_t n_chunks, const Body& body);
  void work(int worker);
  void work_as_caller(int64_t n_chunks, double estimated_us, double start);
  int64_t take(Range& range);
  void run_chunk(int64_t chunk, int worker);
  void wait_for_others(double start);
  void wake_sleepers(double now, int n);
  void wake_two();

  void worker_main(int worker);
  bool spin_for_job(uint32_t seen_generation);
  void sleep_until_job(uint32_t seen_generation);
  void sleep_until_counted_in(int worker);
  bool join(uint32_t& seen_generation);
  void leave();
  bool job_waits(uint32_t state, uint32_t seen) const {
    return (state & open_bit) && state / one_generation != seen;
  }

  std::atomic<int> n_threads_;
  std::atomic<bool> forked_{false};
  std::mutex busy_;  // held by the caller that has the workers; guards the next five
  std::vector<std::unique_ptr<Range>> ranges_;
  int started_ = 0;
  double last_wake_us_ = 0;
  BackOff back_off_;
  Streak streak_;
  const Body* body_ = nullptr;  // from here to ranges: read by workers inside the job
  int job_threads_ = 0;
  FloatMode float_mode_;  // of the caller
  std::atomic<bool> cancelled_{false};
  std::exception_ptr error_;
  std::atomic<bool> error_taken_{false};

  alignas(64) std::atomic<uint32_t> state_{0};
  std::atomic<int> caller_cpu_{-1};
  alignas(64) std::atomic<uint32_t> wake_word_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int> to_wake_{0};
  std::atomic<uint32_t> size_word_{0};  // changes with n_threads_
};

// ---- the caller ----

void ThreadPool::run(int64_t n_chunks, Body body, double estimated_us) {
  if (n_chunks <= 1) {
    if (n_chunks == 1) body(0, std::max(current_worker, 0));
    return;
  }
  const bool small = estimated_us >= 0 && estimated_us < worth_sharing_us;
  if (small || size() == 1 || current_worker >= 0 || forked_.load(std::memory_order_relaxed) ||
      !busy_.try_lock())
    return run_serially(n_chunks, body);
  std::lock_guard guard(busy_, std::adopt_lock);
  const double start = now_us();
  if (back_off_.active(start)) return run_serially(n_chunks, body);
  run_shared(n_chunks, body, estimated_us, start);
}

void ThreadPool::run_shared(int64_t n_chunks, Body body, double estimated_us, double start) {
  start_missing_workers();
  publish(n_chunks, body);
  if (streak_.begin(start, estimated_us) >= worth_waking_us)
    wake_sleepers(start, static_cast<int>(std::min<int64_t>(n_chunks, job_threads_) - 1));
  {
    const BodyScope scope(0);
    work_as_caller(n_chunks, estimated_us, start);
  }
  const uint32_t before = state_.fetch_and(~open_bit);
  if ((before & inside_mask) != 0) wait_for_others(start);
  if (estimated_us < 0) streak_.end(start, now_us());
  if (error_taken_.load(std::memory_order_relaxed)) {
    error_taken_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::publish(int64_t n_chunks, const Body& body) {
  const int threads = size();
  job_threads_ = threads;
  body_ = &body;
  float_mode_ = FloatMode::now();
  cancelled_.store(false, std::memory_order_relaxed);
  int64_t begin = 0;
  for (int w = 0; w < threads; ++w) {  // chunk c lies in range w when w = c * threads / n_chunks
    const auto end = static_cast<int64_t>((__int128{w + 1} * n_chunks + threads - 1) / threads);
    Range& range = *ranges_[static_cast<size_t>(w)];
    range.next.store(begin, std::memory_order_relaxed);
    range.end = end;
    begin = end;
  }
  caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  const uint32_t generation = state_.load(std::memory_order_relaxed) / one_generation + 1;
  state_.store(generation * one_generation | open_bit);
}

int64_t ThreadPool::take(Range& range) {
  if (range.next.load(std::memory_order_relaxed) >= range.end) return -1;
  const int64_t chunk = range.next.fetch_add(1, std::memory_order_relaxed);
  return chunk < range.end ? chunk : -1;
}

void ThreadPool::run_chunk(int64_t chunk, int worker) {
  if (cancelled_.load(std::memory_order_relaxed)) return;
  try {
    (*body_)(chunk, worker);
  } catch (...) {
    if (!error_taken_.exchange(true)) error_ = std::current_exception();
    cancelled_.store(true, std::memory_order_relaxed);
  }
}

// Own range first, then those of the others in turn.
void ThreadPool::work(int worker) {
  for (int i = 0; i < job_threads_; ++i) {
    Range& range = *ranges_[static_cast<size_t>((worker + i) % job_threads_)];
    for (int64_t chunk = take(range); chunk >= 0; chunk = take(range)) run_chunk(chunk, worker);
  }
}

// As work(0), and wakes sleepers once its own pace shows that the rest is worth it: the estimate
// was missing or wrong, or the woken ones landed on this CPU and went back to sleep.
void ThreadPool::work_as_caller(int64_t n_chunks, double estimated_us, double start) {
  int64_t done = 0;
  for (int i = 0; i < job_threads_; ++i) {
    Range& range = *ranges_[static_cast<size_t>(i)];
    for (int64_t chunk = take(range); chunk >= 0; chunk = take(range)) {
      run_chunk(chunk, 0);
      ++done;
      const bool short_job = estimated_us >= 0 && estimated_us < worth_waking_us;
      if (short_job || sleepers_.load(std::memory_order_relaxed) == 0) continue;
      const double now = now_us();
      const auto left = static_cast<double>(n_chunks - done);
      if ((now - start) / static_cast<double>(done) * left >= worth_waking_us)
        wake_sleepers(now, job_threads_ - 1);
    }
  }
}

void ThreadPool::wait_for_others(double start) {
  const double begin = now_us();
  double now = begin;
  while ((state_.load() & inside_mask) != 0 && now - begin < caller_spin_us) {
    for (int i = 0; i < 16 && (state_.load() & inside_mask) != 0; ++i) pause_cpu();
    now = now_us();
  }
  uint32_t state = state_.load();
  if ((state & inside_mask) != 0) state = state_.fetch_or(caller_sleeps_bit) | caller_sleeps_bit;
  while ((state & inside_mask) != 0) {
    futex_wait(state_, state);
    state = state_.load();
  }
  state_.fetch_and(~caller_sleeps_bit);
  now = now_us();
  if (now - begin > 100 + 2 * (begin - start)) back_off_.long_wait(begin, now);
}

// ---- waking ----

void ThreadPool::wake_sleepers(double now, int n) {
  const int asleep = sleepers_.load();
  if (asleep == 0 || now - last_wake_us_ <= wake_pause_us) return;
  last_wake_us_ = now;
  to_wake_.store(std::min(n, asleep));
  wake_two();
}

// Takes up to two from the number that is still to be woken. The woken ones do the same, so the
// caller's cost does not grow with the number of threads.
void ThreadPool::wake_two() {
  int left = to_wake_.load(std::memory_order_relaxed);
  while (left > 0 && !to_wake_.compare_exchange_weak(left, std::max(0, left - 2))) continue;
  if (left <= 0) return;
  wake_word_.fetch_add(1);
  futex_wake(wake_word_, std::min(left, 2));
}

// ---- the workers ----

void ThreadPool::start_missing_workers() {
  const int threads = size();
  while (static_cast<int>(ranges_.size()) < threads) ranges_.push_back(std::make_unique<Range>());
  if (started_ >= threads - 1) return;
  const SignalsBlocked scope;
  try {
    for (; started_ < threads - 1; ++started_)
      std::thread([this, worker = started_ + 1] { worker_main(worker); }).detach();
  } catch (const std::exception&) {
    // The system gives no more threads, or no memory for one: the work is done by those that there
    // are. set_num_threads() tries again.
    n_threads_.store(started_ + 1);
    if (fewer_threads_slot) fewer_threads_slot(threads, started_ + 1);
  }
}

void ThreadPool::worker_main(int worker) {
  pthread_setname_np(pthread_self(), ("tenon-" + std::to_string(worker)).c_str());
  current_worker = worker;
  uint32_t seen = 0;
  for (;;) {
    if (worker >= size()) sleep_until_counted_in(worker);
    if (!spin_for_job(seen)) sleep_until_job(seen);
    if (!join(seen)) continue;
    if (worker < job_threads_) {
      // It has the mode of the thread that started it, or of the caller before.
      if (FloatMode::now() != float_mode_) float_mode_.set();
      work(worker);
    }
    leave();
  }
}

// The size of the pool was lowered: such a worker must not use up the wakes of others.
void ThreadPool::sleep_until_counted_in(int worker) {
  for (;;) {
    const uint32_t word = size_word_.load();
    if (worker < size()) return;
    futex_wait(size_word_, word);
  }
}

// Whether a job came within the spinning time.
bool ThreadPool::spin_for_job(uint32_t seen) {
  const double begin = now_us();
  double idle_since = begin, now = begin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (job_waits(state_.load(std::memory_order_acquire), seen)) return true;
      pause_cpu();
    }
    if (sched_getcpu() == caller_cpu_.load(std::memory_order_relaxed)) return false;
    now = now_us();
    // The caller is still inside the job of which no chunk is left.
    if ((state_.load(std::memory_order_relaxed) & open_bit) && now - begin < longest_spin_us)
      idle_since = now;
  } while (now - idle_since < worker_spin_us);
  return false;
}

void ThreadPool::sleep_until_job(uint32_t seen) {
  const uint32_t word = wake_word_.load();
  sleepers_.fetch_add(1);
  // A caller that came before it saw this sleeper did not wake it: look once more.
  if (!job_waits(state_.load(), seen) ||
      sched_getcpu() == caller_cpu_.load(std::memory_order_relaxed))
    futex_wait(wake_word_, word);
  sleepers_.fetch_sub(1);
  wake_two();
}

bool ThreadPool::join(uint32_t& seen) {
  uint32_t state = state_.load();
  while (job_waits(state, seen))
    if (state_.compare_exchange_weak(state, state + 1)) {
      seen = state / one_generation;
      return true;
    }
  return false;
}

void ThreadPool::leave() {
  const uint32_t before = state_.fetch_sub(1);
  if ((before & caller_sleeps_bit) && (before & inside_mask) == 1) futex_wake(state_, 1);
}

// ---- size ----

void ThreadPool::resize(int n) {
  if (forked_.load(std::memory_order_relaxed)) return n_threads_.store(n);
  std::lock_guard guard(busy_);
  n_threads_.store(n);
  size_word_.fetch_add(1);
  futex_wake(size_word_, INT_MAX);
  wake_word_.fetch_add(1);
  futex_wake(wake_word_, INT_MAX);
}

ThreadPool& pool() {
  static ThreadPool* const instance = [] {
    auto* made = new ThreadPool;  // lives as long as the process: its threads are never joined
    pthread_atfork(nullptr, nullptr, [] { pool().forget_workers(); });
    return made;
  }();
  return *instance;
}

}  // namespace

void (*fewer_threads_slot)(int wanted, int got) noexcept = nullptr;

void parallel_chunks(int64_t n_chunks, FunctionRef<void(int64_t, int)> body, double estimated_us) {
  pool().run(n_chunks, body, estimated_us);
}

void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  FunctionRef<void(int64_t, int64_t)> body, double us_per_item) {
  const int64_t n = end - begin;
  if (n <= 0) return;
  const int threads = num_threads();
  const double total_us = us_per_item < 0 ? unknown_time : us_per_item * static_cast<double>(n);
  // Four chunks a thread even out uneven threads; short work is not worth more than one.
  const bool is_short = total_us >= 0 && total_us < 40.0 * threads;
  const int64_t most = is_short ? threads : int64_t{4} * threads;
  const int64_t per_chunk = std::max({grain, (n + most - 1) / most, int64_t{1}});
  const int64_t n_chunks = (n + per_chunk - 1) / per_chunk;
  if (n_chunks == 1) return body(begin, end);
  parallel_chunks(
      n_chunks,
      [&](int64_t chunk, int) {
        const int64_t lo = begin + chunk * per_chunk;
        body(lo, std::min(lo + per_chunk, end));
      },
      total_us);
}

int num_threads() { return pool().size(); }

void set_num_threads(int n) {
  require(n >= 1 && n <= max_threads, "set_num_threads: expected 1 to {}, found {}", max_threads,
          n);
  require(!in_parallel(),
          "set_num_threads: called from within parallel work; call it between operations");
  pool().resize(n);
}

bool in_parallel() { return current_worker >= 0; }

}  // namespace tenon
