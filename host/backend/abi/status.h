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
};

namespace tenon {

/// Never fails: without memory it gives a static status.
tn_status* make_status(int32_t code, std::string_view text) noexcept;
void free_status(tn_status* status) noexcept;
/// Statuses made and not yet freed, by whomever.
int64_t live_statuses() noexcept;
/// The TN_ code that an error of the host becomes.
int32_t status_code_of(const Error& error);

/// Runs `f`; what it throws becomes a status.
template <class F>
tn_status* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const Error& e) {
    return make_status(status_code_of(e), e.what());
  } catch (const std::bad_alloc&) {
    return make_status(TN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return make_status(TN_INTERNAL, e.what());
  } catch (...) {
    return make_status(TN_UNKNOWN, "an exception of unknown type");
  }
}

/// Throws BackendError for a status (which it frees): "`what` failed: text".
[[noreturn]] void throw_status(tn_status* status, ErrorCode code, std::string_view what);
/// Throws UserError for what a plugin says of values that it was called with (and frees it).
[[noreturn]] void throw_about_values(tn_status* status, std::string_view who,
                                     ErrorCode code = ErrorCode::invalid_argument);
/// Throws for a tn_* function of the host that reports a bad argument: becomes TN_INVALID_ARGUMENT.
inline std::string_view view_of(tn_str s) { return {s.data, s.size}; }
inline tn_str str_of(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace tenon
