// Statuses of the plugin ABI and the barrier that keeps exceptions inside the host.
#pragma once

#include "backend/life/lifetime.h"
#include "core/error.h"

#include <tenon/plugin.h>

#include <exception>
#include <new>
#include <string>

/// Made and freed by the host only; completes the type that plugins see as opaque.
struct tn_status {
  int32_t code;
  std::string text;
  bool is_static = false;               ///< the one for "no memory left", never freed
  tenon::PluginLife* holder = nullptr;  ///< who got it, while that is counted
  std::exception_ptr cause = nullptr;   ///< of code of the program, such as a kernel of its own
};

namespace tenon {

/// Never fails: without memory it gives a static status.
tn_status* make_status(int32_t code, std::string_view text) noexcept;
void free_status(tn_status* status) noexcept;
/// Statuses made and not yet freed, by whomever.
int64_t live_statuses() noexcept;
/// The TN_ code that an error of the host becomes.
int32_t status_code_of(const Error& error);

/// The status of an error of Tenon's, which is no longer what the program threw, if that caused it.
tn_status* status_of(const Error& error) noexcept;
/// Inside of a handler: the status of what is being handled, which is no error of Tenon's.
tn_status* status_with_cause(int32_t code, std::string_view text) noexcept;
/// Throws what code of the program threw, if the status tells of it: by itself, or since a plugin
/// has handed its text on. Frees the status then.
void throw_cause(tn_status* status);

/// Runs `f`; what it throws becomes a status.
template <class F>
tn_status* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const Error& e) {
    return status_of(e);
  } catch (const std::bad_alloc&) {
    return make_status(TN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return status_with_cause(TN_INTERNAL, e.what());
  } catch (...) {
    return status_with_cause(TN_UNKNOWN, "an exception of unknown type");
  }
}

/// Throws BackendError for a status (which it frees): "`what` failed: text".
[[noreturn]] void throw_status(tn_status* status, ErrorCode code, std::string_view what);
/// Throws for a status of code that was called with values (which it frees): UserError for what it
/// says of these or does not compute on them, else BackendError. `who`: "kernel x of plugin y".
[[noreturn]] void throw_of_call(tn_status* status, std::string_view who);
/// Throws for a tn_* function of the host that reports a bad argument: becomes TN_INVALID_ARGUMENT.
inline std::string_view view_of(tn_str s) { return {s.data, s.size}; }
inline tn_str str_of(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace tenon
