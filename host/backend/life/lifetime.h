// How long a plugin must stay: who is inside it, who holds something of it, what it holds of ours.
//
// Before the `shutdown` of a plugin may run, three things must be so, and after it nothing may
// reach its code again:
//
//   nobody is inside      every call of a function of a plugin is between an InPlugin's beginning
//                         and end (call_plugin makes it). Closing the gate makes new ones fail;
//                         then the threads that are inside are awaited.
//   its artifacts are     each is a Retirable: shutdown destroys them, newest first, so that those
//   gone                  which are made of others go before their parts
//   nobody holds it       a PluginRef stands for each artifact and for memory whose deleter is its
//                         code
//
// Cost. Entering writes two words of this thread and reads one flag; the expensive barrier that
// makes this enough is on the side of the one that closes the gate (membarrier).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// What of the host's a plugin can leave behind.
enum class Held : uint8_t { tensor, status, artifact, blob };

/// The part of a plugin's state that its uses change. Lives as long as the process. Threads: any.
class PluginLife {
 public:
  explicit PluginLife(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  /// How many PluginRefs there are.
  int64_t n_references() const { return references_.load(std::memory_order_acquire); }
  /// After the plugin's `shutdown` has been called. Nothing enters it any more.
  bool is_down() const { return down_.load(std::memory_order_acquire); }
  void set_down() { down_.store(true, std::memory_order_release); }

  void add_held(Held kind, int64_t n) {
    held_[static_cast<size_t>(kind)].fetch_add(n, std::memory_order_relaxed);
  }
  /// "2 tensors, 1 status"; empty when it holds nothing, or when nothing was counted.
  std::string held_text() const;

 private:
  friend class PluginRef;
  std::string name_;
  std::atomic<int64_t> references_{0};
  std::atomic<bool> down_{false};
  std::array<std::atomic<int64_t>, 4> held_{};
};

/// A counted reference: while there is one, the plugin stays ready.
class PluginRef {
 public:
  explicit PluginRef(PluginLife& life) : life_(life) {
    life_.references_.fetch_add(1, std::memory_order_relaxed);
  }
  ~PluginRef() { life_.references_.fetch_sub(1, std::memory_order_release); }
  PluginRef(const PluginRef&) = delete;
  PluginRef& operator=(const PluginRef&) = delete;

 private:
  PluginLife& life_;
};

namespace detail {

inline constexpr size_t max_noted = 8;

/// Where one thread is. Written by that thread only.
struct ThreadNote {
  std::atomic<uint32_t> depth{0};
  std::atomic<PluginLife*> inside[max_noted] = {};
  std::string_view places[max_noted];  ///< for the report of a crash
  std::atomic<bool> in_use{true};
  ThreadNote* next = nullptr;

  void leave() {
    depth.store(depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
};

extern constinit thread_local ThreadNote* my_note;
/// The gate is closed, or threads must order their notes themselves.
extern std::atomic<bool> ask_on_entry;

}  // namespace detail

/// This thread is inside a function of a plugin while it lives, if it was let in.
class InPlugin {
 public:
  enum class Purpose : uint8_t {
    use,       ///< not once the gate is closed, but for what runs on behalf of a call let in before
    cleanup,   ///< giving back what the plugin made: until it is down or the process ends
    shutdown,  ///< the last call
  };
  /// `place` tells a report of a crash where that was; it must outlive this.
  explicit InPlugin(const PluginLife& life, Purpose purpose = Purpose::use,
                    std::string_view place = {})
      : note_(detail::my_note) {
    if (!note_) [[unlikely]] {
      note_ = first_note();
      if (!note_) return;
    }
    note(life, place);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the closer has the other half of it
    if (detail::ask_on_entry.load(std::memory_order_relaxed)) [[unlikely]]
      ask_at_gate(life, purpose);
  }
  ~InPlugin() {
    if (note_) note_->leave();
  }
  InPlugin(const InPlugin&) = delete;
  InPlugin& operator=(const InPlugin&) = delete;
  explicit operator bool() const { return note_ != nullptr; }

  /// The innermost plugin that this thread is in, or null.
  static PluginLife* current();
  /// f(plugin, place, is_own) for the innermost plugin of each thread that is in one, this thread
  /// first. For handlers of signals: takes no lock, allocates nothing; the place of another thread
  /// is empty, since it may be changing.
  static void each_inside(void (*f)(const PluginLife& life, std::string_view place, bool is_own));

 private:
  void note(const PluginLife& life, std::string_view place) {
    uint32_t depth = note_->depth.load(std::memory_order_relaxed);
    if (depth < detail::max_noted) {
      note_->inside[depth].store(const_cast<PluginLife*>(&life), std::memory_order_relaxed);
      note_->places[depth] = place;
    }
    note_->depth.store(depth + 1, std::memory_order_release);
  }
  /// Null where there is no memory for one.
  static detail::ThreadNote* first_note();
  /// Leaves again if the gate is closed, unless the purpose lets this thread in all the same.
  void ask_at_gate(const PluginLife& life, Purpose purpose);

  detail::ThreadNote* note_;  ///< null: not let in
};

/// Something that a plugin made and that must be gone before it is shut down.
class Retirable {
 public:
  virtual ~Retirable() = default;
  /// Gives it back now; called once at most, no call in flight.
  virtual void retire() noexcept = 0;

 protected:
  /// At the end of the constructor, and at the beginning of the destructor. False when it has been
  /// retired.
  void join();
  bool leave();

 private:
  friend void retire_all();
  std::list<Retirable*>::iterator place_;
  bool listed_ = false;
};
/// Retires all there are, newest first.
void retire_all();

/// What the messages of a closed gate say.
extern const char* const closed_text;
/// Whether plugins take no more calls.
bool is_gate_closed();
/// From here on no call is let in.
void close_gate();
/// From here on nothing is given back either: what is left ends with the process.
void end_cleanup();
/// Waits until no other thread is inside a plugin, at most `seconds`. The names of those that are
/// still busy then.
std::vector<const PluginLife*> wait_for_calls(double seconds);
/// To be called once before the first plugin is entered.
void prepare_gate();

namespace detail {
extern std::atomic<bool> counting_held;
void add_held_by_current(Held kind, int64_t n);
}  // namespace detail

/// Whether what plugins hold is counted: in debug builds and with plugins.check_leaks.
inline bool is_counting_held() { return detail::counting_held.load(std::memory_order_relaxed); }
/// Something went to the plugin that this thread is in (n > 0), or came back.
inline void note_held(Held kind, int64_t n) {
  if (is_counting_held()) [[unlikely]]
    detail::add_held_by_current(kind, n);
}

}  // namespace tenon
