// The gate of the plugins: threads note where they are, the one that closes it reads the notes.
//
// A thread writes "I am inside" and then reads "closed"; the closer writes "closed" and then reads
// who is inside. One of the two must see the other, which takes a full barrier on both sides, or
// membarrier() on the side of the closer, which puts one into every running thread. Where the
// kernel lacks it, threads pay for the barrier themselves.
#include "backend/life/lifetime.h"

#include "core/error.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

namespace tenon {

const char* const closed_text =
    "plugins are shut down: tenon::shutdown() was called, or the process is ending";

namespace detail {
constinit thread_local ThreadNote* my_note = nullptr;
std::atomic<bool> ask_on_entry{true};
}  // namespace detail

namespace {

using detail::ask_on_entry, detail::max_noted, detail::my_note, detail::ThreadNote;

/// Without membarrier, threads pay for the order of note and flag themselves.
std::atomic<bool> gate_closed{false}, threads_need_barrier{true};
std::atomic<ThreadNote*> all_notes{nullptr};
std::atomic<bool> cleanup_ended{false};

int membarrier(int command) { return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0)); }

/// Makes the note free for another thread. A thread that calls exit() inside a plugin loses its
/// objects while it is still in there: it keeps the note, so that the shutdown at the end of the
/// process does not wait for its own thread.
struct GiveBack {
  ~GiveBack() {
    if (!my_note || my_note->depth.load(std::memory_order_relaxed) > 0) return;
    my_note->in_use.store(false, std::memory_order_release);
    my_note = nullptr;
  }
};

ThreadNote* take_note() {
  static thread_local GiveBack at_end_of_thread;
  (void)at_end_of_thread;
  for (ThreadNote* n = all_notes.load(std::memory_order_acquire); n; n = n->next) {
    bool free = false;
    if (n->in_use.compare_exchange_strong(free, true)) return my_note = n;
  }
  auto* note = new (std::nothrow) ThreadNote;  // never deleted: the closer walks over all of them
  if (!note) return nullptr;
  note->next = all_notes.load(std::memory_order_relaxed);
  while (!all_notes.compare_exchange_weak(note->next, note, std::memory_order_release)) {
  }
  return my_note = note;
}

void order_flag_before_notes() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!threads_need_barrier) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace

void prepare_gate() {
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) return;
  threads_need_barrier = false;
  ask_on_entry = false;
  if (gate_closed) ask_on_entry = true;  // it was closed meanwhile
}

ThreadNote* InPlugin::first_note() { return take_note(); }

void InPlugin::ask_at_gate(const PluginLife& life, Purpose purpose) {
  if (threads_need_barrier.load(std::memory_order_relaxed))
    std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!gate_closed.load(std::memory_order_relaxed)) return;
  bool on_behalf = note_->depth.load(std::memory_order_relaxed) > 1;
  bool let_in = on_behalf || purpose == Purpose::shutdown ||
                (purpose == Purpose::cleanup && !cleanup_ended && !life.is_down());
  if (let_in) return;
  note_->leave();
  note_ = nullptr;
}

PluginLife* InPlugin::current() {
  uint32_t depth = my_note ? my_note->depth.load(std::memory_order_relaxed) : 0;
  if (depth == 0) return nullptr;
  return my_note->inside[std::min<size_t>(depth, max_noted) - 1].load(std::memory_order_relaxed);
}

void InPlugin::each_inside(void (*f)(const PluginLife&, std::string_view, bool)) {
  auto tell = [&](const ThreadNote& n) {
    uint32_t depth = std::min<uint32_t>(n.depth.load(std::memory_order_acquire), max_noted);
    const PluginLife* life = depth ? n.inside[depth - 1].load(std::memory_order_relaxed) : nullptr;
    bool is_own = &n == my_note;
    if (life) f(*life, is_own ? n.places[depth - 1] : std::string_view(), is_own);
  };
  if (my_note) tell(*my_note);
  for (ThreadNote* n = all_notes.load(std::memory_order_acquire); n; n = n->next)
    if (n != my_note) tell(*n);
}

bool is_gate_closed() { return gate_closed.load(std::memory_order_relaxed); }

void close_gate() {
  gate_closed = true;
  ask_on_entry = true;
  order_flag_before_notes();
}

void end_cleanup() {
  cleanup_ended = true;
  order_flag_before_notes();
}

static std::vector<const PluginLife*> busy_elsewhere() {
  std::vector<const PluginLife*> out;
  for (ThreadNote* n = all_notes.load(std::memory_order_acquire); n; n = n->next) {
    if (n == my_note) continue;
    size_t depth = std::min<size_t>(n->depth.load(std::memory_order_acquire), max_noted);
    for (size_t i = 0; i < depth; ++i) {
      const PluginLife* life = n->inside[i].load(std::memory_order_relaxed);
      if (life && std::find(out.begin(), out.end(), life) == out.end()) out.push_back(life);
    }
  }
  return out;
}

std::vector<const PluginLife*> wait_for_calls(double seconds) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(seconds));
  std::vector<const PluginLife*> busy = busy_elsewhere();
  while (!busy.empty() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    busy = busy_elsewhere();
  }
  return busy;
}

// ---- what is retired

namespace {

/// Leaked. Recursive: what is retired may release others.
struct Retirables {
  std::recursive_mutex listing;
  std::list<Retirable*> all;
};
Retirables& retirables() {
  static auto* instance = new Retirables;
  return *instance;
}

}  // namespace

void Retirable::join() {
  Retirables& r = retirables();
  std::lock_guard lock(r.listing);
  place_ = r.all.insert(r.all.end(), this);
  listed_ = true;
}

bool Retirable::leave() {
  Retirables& r = retirables();
  std::lock_guard lock(r.listing);
  if (!listed_) return false;
  r.all.erase(place_);
  listed_ = false;
  return true;
}

void retire_all() {
  Retirables& r = retirables();
  std::lock_guard lock(r.listing);
  while (!r.all.empty()) {
    Retirable* newest = r.all.back();
    newest->leave();
    newest->retire();
  }
}

// ---- what plugins hold

namespace detail {
std::atomic<bool> counting_held{false};

void add_held_by_current(Held kind, int64_t n) {
  if (PluginLife* life = InPlugin::current()) life->add_held(kind, n);
}
}  // namespace detail

std::string PluginLife::held_text() const {
  constexpr std::string_view one[] = {"tensor", "status", "artifact", "blob"};
  constexpr std::string_view more[] = {"tensors", "statuses", "artifacts", "blobs"};
  std::string out;
  for (size_t kind = 0; kind < held_.size(); ++kind) {
    int64_t n = held_[kind].load(std::memory_order_relaxed);
    if (n > 0)
      out += message("{}{} {}", out.empty() ? "" : ", ", n, n == 1 ? one[kind] : more[kind]);
  }
  return out;
}

}  // namespace tenon
