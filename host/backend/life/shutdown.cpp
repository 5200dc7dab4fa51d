// Shutting plugins down: order, waiting, leaks, unmapping.
//
// 1. The gate closes: compiles and calls fail from here on. 2. Running calls are awaited, at most
// 30 s; a plugin that is still busy then is left alone. 3. Artifacts are destroyed, newest first.
// 4. In reverse order of initialisation each plugin that nobody holds goes from ready over draining
// to down; one that is held stays ready, and so does each whose table it was given. Its `shutdown`
// runs on a thread of its own: where it does not return in time, it is left behind. 5. What a
// plugin kept of ours is told (P22). 6. Where plugins.unload asks for it, libraries are unmapped.
#include "backend/life/shutdown.h"

#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "backend/find/admission.h"
#include "config/flags.h"
#include "core/error.h"
#include "core/process_end.h"
#include "core/threads/signals_blocked.h"
#include "core/threads/thread_pool.h"
#include "report/log.h"

#include <tenon/plugins.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace tenon {

namespace {

constexpr double longest_wait = 30;  // seconds, for calls
constexpr std::chrono::seconds longest_shutdown{5};
#ifdef NDEBUG
constexpr bool counts_by_default = false;
#else
constexpr bool counts_by_default = true;
#endif

/// Leaked.
struct Ending {
  std::mutex one_at_a_time;
  pid_t process = 0;                                          // that loaded plugins
  std::mutex noting;                                          // guards the next one
  std::set<std::pair<const void*, const void*>> dependences;  // base of user, base of what it uses
  std::set<const LoadedPlugin*> stuck;  // whose `shutdown` has not returned; under one_at_a_time
  bool waited_in_vain = false;          // likewise
};
Ending& ending() {
  static auto* instance = new Ending;
  return *instance;
}

const void* base_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

using Log = report::LogLevel;

void set_state(const LoadedPlugin& plugin, PluginState state, Diagnosis diagnosis = {}) {
  plugin_catalog().set_state(plugin.path, state, std::move(diagnosis));
}

/// Why the plugin cannot be shut down now; empty when it can.
std::string hindrance(const LoadedPlugin& plugin, const std::vector<const PluginLife*>& busy) {
  if (std::find(busy.begin(), busy.end(), &plugin.net.life()) != busy.end())
    return message("a call has been running for more than {} s", longest_wait);
  if (ending().stuck.contains(&plugin)) return "its shutdown has not returned";
  if (int64_t n = plugin.net.life().n_references())
    return message("{} of its artifacts and tensors are in use", n);
  std::lock_guard lock(ending().noting);
  for (const LoadedPlugin* other : loaded_plugins())
    if (!other->net.life().is_down() && ending().dependences.contains({other->base, plugin.base}))
      return message("plugin {} uses it and is not down", other->name);
  return "";
}

Diagnosis leaks_of(const LoadedPlugin& plugin) {
  std::string held = plugin.net.life().held_text();
  if (held.empty()) return {};
  return {PluginFault::leaks, plugin.path, message("left {} behind at shutdown", held),
          "release what host functions give, free statuses, destroy artifacts that interpret and "
          "compile_with made"};
}

void call_shutdown(const LoadedPlugin& plugin) {
  InPlugin in(plugin.net.life(), InPlugin::Purpose::shutdown, "shutdown");
  log_and_free(plugin.net,
               call_plugin(plugin.net, "shutdown", [&] { return plugin.table.shutdown(); }));
}

/// Shared by those who wait for a shutdown and the thread that may be left behind in it.
struct LastCall {
  std::mutex changing;  // guards the next one
  bool done = false;
  std::condition_variable changed;
};

/// False when it did not return in time.
bool call_shutdown_in_time(const LoadedPlugin& plugin) {
  auto last = std::make_shared<LastCall>();
  try {
    const SignalsBlocked scope;
    std::thread([last, &plugin] {
      try {
        call_shutdown(plugin);
      } catch (const std::exception& e) {  // nobody is there to catch it
        report::log_line(Log::warning, "backend", e.what());
      }
      std::lock_guard lock(last->changing);
      last->done = true;
      last->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {  // no more threads: then without a bound
    call_shutdown(plugin);
    return true;
  }
  std::unique_lock lock(last->changing);
  return last->changed.wait_for(lock, longest_shutdown, [&] { return last->done; });
}

void shut_down(const LoadedPlugin& plugin) {
  set_state(plugin, PluginState::draining);
  if (plugin.table.shutdown && !call_shutdown_in_time(plugin)) {
    ending().stuck.insert(&plugin);
    ending().waited_in_vain = true;  // its thread stays inside of the plugin
    Diagnosis d{PluginFault::contract_broken, plugin.path,
                message("its shutdown did not return within {} s and is left alone",
                        longest_shutdown.count()),
                "a shutdown must not wait for what may never come"};
    report::log(Log::warning, "backend", "{}", to_text(d));
    return set_state(plugin, PluginState::draining, std::move(d));
  }
  Diagnosis leaks = leaks_of(plugin);
  if (leaks) report::log(Log::warning, "backend", "{}", to_text(leaks));
  plugin.net.life().set_down();
  set_state(plugin, PluginState::down, std::move(leaks));
  report::log(Log::info, "backend", "plugin {} is shut down", plugin.name);
}

void unmap_if_wanted(const LoadedPlugin& plugin) {
  if (config::flags().plugins.unload != "explicit" || !plugin.net.life().is_down()) return;
  unmap(plugin);
  bool stays = is_path_mapped(plugin.path);
  report::log(Log::info, "backend", "plugin {} {}", plugin.name,
              stays ? "stays mapped: something keeps its library, such as unique symbols, "
                      "destructors of threads or a library that it needs"
                    : "was unmapped");
}

void shut_down_all(bool exiting) {
  Ending& e = ending();
  std::lock_guard lock(e.one_at_a_time);
  close_gate();
  std::vector<const PluginLife*> busy = wait_for_calls(e.waited_in_vain ? 0 : longest_wait);
  e.waited_in_vain = !busy.empty();
  if (busy.empty()) retire_all();
  std::vector<const LoadedPlugin*> all = loaded_plugins();
  std::reverse(all.begin(), all.end());
  for (const LoadedPlugin* plugin : all) {
    if (plugin->net.life().is_down()) continue;
    std::string why = hindrance(*plugin, busy);
    if (why.empty())
      shut_down(*plugin);
    else
      report::log(exiting && busy.empty() ? Log::debug : Log::warning, "backend",
                  "plugin {} is not shut down: {}", plugin->name, why);
  }
  if (exiting) return end_cleanup();
  for (const LoadedPlugin* plugin : all) unmap_if_wanted(*plugin);
}

/// Called from inside a plugin, or from work that it may be waiting for, its code would be pulled
/// away under a thread that cannot leave it any more. A forked child has neither the threads of the
/// plugins nor a right to end what they share with its parent; nobody enters them from here on, as
/// their static objects go. There may be no memory left to say anything.
void at_exit() {
  if (InPlugin::current() || in_parallel()) return;
  note_process_ends();
  if (ending().process != ::getpid()) {
    close_gate();
    return end_cleanup();
  }
  try {
    shut_down_all(true);
  } catch (const std::exception& e) {
    report::log_line(Log::error, "backend", "plugins cannot be shut down");
    report::log_line(Log::error, "backend", e.what());
  }
}

}  // namespace

void throw_closed() { throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION, closed_text); }

void require_loading_allowed() {
  Ending& e = ending();
  if (is_gate_closed()) throw_closed();
  if (e.process == 0) {
    e.process = ::getpid();
    detail::counting_held = config::flags().plugins.check_leaks || counts_by_default;
    prepare_gate();
  }
  if (e.process != ::getpid())
    throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION,
                       message("process {} was forked from {} after that had loaded plugins, and "
                               "cannot load more; fork before the first compile, or exec",
                               ::getpid(), e.process));
}

void expect_shutdown() { std::atexit(at_exit); }

const LoadedPlugin* owner_of_code(const void* address) {
  const void* base = address ? base_of(address) : nullptr;
  for (const LoadedPlugin* p : loaded_plugins())
    if (base && p->base == base && !p->net.life().is_down()) return p;
  return nullptr;
}

void note_dependence(const void* user, const void* table) {
  const void *from = base_of(user), *to = base_of(table);
  if (!from || !to || from == to) return;
  std::lock_guard lock(ending().noting);
  ending().dependences.emplace(from, to);
}

void shutdown() {
  Ending& e = ending();
  require(InPlugin::current() == nullptr,
          "shutdown: called from inside plugin {}; call it when the call into it has returned",
          InPlugin::current() ? InPlugin::current()->name() : "");
  require(e.process == 0 || e.process == ::getpid(),
          "shutdown: this process was forked from {}, which has to shut the plugins down",
          e.process);
  shut_down_all(false);
}

}  // namespace tenon
