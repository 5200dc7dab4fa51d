// Statuses: making, freeing, and the way to and from the host's errors.
#include "backend/abi/status.h"

#include <atomic>

namespace tenon {

namespace {

std::atomic<int64_t> statuses{0};

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
  delete status;
}

int64_t live_statuses() noexcept { return statuses.load(std::memory_order_relaxed); }

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

void throw_about_values(tn_status* status, std::string_view who, ErrorCode code) {
  UserError error(code, message("{} ({})", status->text, who));
  free_status(status);
  throw error;
}

}  // namespace tenon
