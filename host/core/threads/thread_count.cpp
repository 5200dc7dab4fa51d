// The flag compiler.threads: read when the pool is made, followed when it changes.
#include "core/threads/thread_count.h"

#include "config/flags.h"
#include "core/threads/thread_pool.h"

#include <tenon/config.h>
#include <tenon/threads.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace tenon {

namespace {

// Reading the flags for the first time publishes them, which must not ask for the pool again.
thread_local bool making_pool = false;

int bounded(int64_t wanted) { return static_cast<int>(std::min<int64_t>(wanted, max_threads)); }

// The flag when it was changed; 0 leaves the number as it is.
void follow_flag(const config::Flags& flags) noexcept try {
  int64_t wanted = flags.compiler.threads;
  static std::atomic<int64_t> followed{0};
  if (wanted == 0 || making_pool || in_parallel() || followed.exchange(wanted) == wanted) return;
  set_num_threads(bounded(wanted));
} catch (const std::exception&) {
  return;  // no threads to be had: those that there are serve
}

const struct FillSlots {
  FillSlots() { config::published_slot = &follow_flag; }
} fill_slots;

}  // namespace

int initial_threads(int otherwise) noexcept try {
  making_pool = true;
  int64_t wanted = config::flags().compiler.threads;
  making_pool = false;
  return wanted > 0 ? bounded(wanted) : otherwise;
} catch (const std::exception&) {
  making_pool = false;
  return otherwise;
}

int get_num_threads() { return num_threads(); }

void set_num_threads(int64_t n) {
  require(n >= 1 && n <= max_threads, "set_num_threads: expected 1 to {} threads, found {}",
          max_threads, n);
  config::set("compiler.threads", n);
}

}  // namespace tenon
