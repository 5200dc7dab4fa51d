// The list of observers, and calling them.
#include "report/observers.h"

#include "core/error.h"
#include "core/threads/cancellation_off.h"
#include "report/log.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon::report {

void (*unrecorded_slot)(FunctionRef<void()> f) = nullptr;

namespace {

struct Observer {
  compiler::EventListener tell;
  mutable std::atomic<bool> has_thrown{false};
};
using Observers = std::vector<std::shared_ptr<const Observer>>;

// Whoever tells holds the list as it was: observers may come and go meanwhile.
struct State {
  std::mutex list_lock;
  std::shared_ptr<const Observers> list = std::make_shared<const Observers>();
  std::atomic<size_t> n{0};

  void change(FunctionRef<void(Observers&)> f) {
    std::shared_ptr<const Observers> before;  // goes outside of the lock
    std::lock_guard lock(list_lock);
    auto changed = std::make_shared<Observers>(*list);
    f(*changed);
    n.store(changed->size(), std::memory_order_relaxed);
    before = std::exchange(list, std::move(changed));
  }
};

State& state() {
  static State& state = *new State();
  return state;
}

thread_local bool is_telling = false;

// One that throws at each event says so once.
void warn_of(const Observer& observer, const std::string& what) {
  if (observer.has_thrown.exchange(true)) return;
  log_line(LogLevel::warning, "report", message("a callback of compiler::on_event threw{}", what));
}

void tell_one(const Observer& observer, const compiler::Event& event) {
  try {
    observer.tell(event);
  } catch (const std::exception& error) {
    warn_of(observer, message(": {}", error.what()));
  } catch (...) {
    warn_of(observer, " no std::exception");
  }
}

}  // namespace

bool has_observers() noexcept { return state().n.load(std::memory_order_relaxed) != 0; }

void tell_observers(compiler::EventKind kind, std::string_view callable,
                    std::string_view text) noexcept try {
  if (!has_observers() || is_telling) return;
  const CancellationOff until_told;
  std::shared_ptr<const Observers> list;
  {
    std::lock_guard lock(state().list_lock);
    list = state().list;
  }
  compiler::Event event{kind, std::string(callable), std::string(text)};
  is_telling = true;
  unrecorded_slot([&] {
    for (const auto& observer : *list) tell_one(*observer, event);
  });
  is_telling = false;
} catch (const std::exception&) {
  is_telling = false;  // without memory for the event nobody is told
}

}  // namespace tenon::report

namespace tenon::compiler {

std::shared_ptr<void> on_event(EventListener listener) {
  require(listener != nullptr, "on_event: the callback is empty; give one that can be called");
  auto kept = std::make_shared<report::Observer>(std::move(listener));
  report::state().change([&](auto& list) { list.push_back(kept); });
  return {kept.get(),
          [kept](void*) { report::state().change([&](auto& list) { std::erase(list, kept); }); }};
}

std::string_view name_of(EventKind kind) {
  constexpr std::string_view names[] = {"recompile", "graph_break", "fallback", "limit"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace tenon::compiler
