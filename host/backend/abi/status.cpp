// Statuses: making, freeing, and the way to and from the host's errors.
#include "backend/abi/status.h"

#include <atomic>
#include <utility>

namespace tenon {

namespace {

std::atomic<int64_t> statuses{0};

/// What the program threw and no status tells of any more: plugins make statuses of their own of
/// those that they get.
struct Cause {
  int32_t code = TN_OK;
  std::string text;
  std::exception_ptr what;
};
thread_local Cause last_cause;

}  // namespace

tn_status* make_status(int32_t code, std::string_view text) noexcept {
  static tn_status no_memory{TN_OUT_OF_MEMORY, "out of memory", true};
  try {
    PluginLife* holder = is_counting_held() ? InPlugin::current() : nullptr;
    auto* status = new tn_status{code, std::string(text), false, holder};
    if (holder) holder->add_held(Held::status, 1);
    statuses.fetch_add(1, std::memory_order_relaxed);
    return status;
  } catch (...) {
    return &no_memory;
  }
}

void free_status(tn_status* status) noexcept {
  if (!status || status->is_static) return;
  if (status->holder) status->holder->add_held(Held::status, -1);
  statuses.fetch_sub(1, std::memory_order_relaxed);
  if (status->cause) last_cause = {status->code, std::move(status->text), std::move(status->cause)};
  delete status;
}

int64_t live_statuses() noexcept { return statuses.load(std::memory_order_relaxed); }

tn_status* status_of(const Error& error) noexcept {
  last_cause = {};
  return make_status(status_code_of(error), error.what());
}

tn_status* status_with_cause(int32_t code, std::string_view text) noexcept {
  tn_status* status = make_status(code, text);
  if (!status->is_static) status->cause = std::current_exception();
  return status;
}

void throw_cause(tn_status* status) {
  std::exception_ptr cause;
  if (!status->is_static) cause = std::exchange(status->cause, nullptr);
  Cause last = std::exchange(last_cause, {});
  bool is_last = last.what && last.code == status->code && !last.text.empty() &&
                 status->text.find(last.text) != std::string::npos;
  if (!cause && is_last) cause = std::move(last.what);
  if (!cause) return;
  free_status(status);
  std::rethrow_exception(std::move(cause));
}

int32_t status_code_of(const Error& error) {
  if (const auto* backend = dynamic_cast<const BackendError*>(&error)) return backend->status();
  switch (error.code()) {
    case ErrorCode::unsupported:
      return TN_UNIMPLEMENTED;
    case ErrorCode::internal:
      return TN_INTERNAL;
    case ErrorCode::data_dependent:
      return TN_DECLINED;
    case ErrorCode::invalid_backend:
      return TN_NOT_FOUND;
    case ErrorCode::bad_file:
      return TN_DATA_LOSS;
    default:
      return TN_INVALID_ARGUMENT;
  }
}

void throw_status(tn_status* status, ErrorCode code, std::string_view what) {
  BackendError error(code, status->code, message("{}: {}", what, status->text));
  free_status(status);
  throw error;
}

void throw_of_call(tn_status* status, std::string_view who) {
  bool is_argument = status->code == TN_INVALID_ARGUMENT || status->code == TN_OUT_OF_RANGE;
  if (!is_argument && status->code != TN_UNIMPLEMENTED)
    throw_status(status, ErrorCode::backend_call_failed, who);
  UserError error(is_argument ? ErrorCode::invalid_argument : ErrorCode::unsupported,
                  message("{} ({})", status->text, who));
  free_status(status);
  throw error;
}

}  // namespace tenon
