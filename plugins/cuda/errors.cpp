// What the driver's statuses become: an error with the name of the call; a device that is lost.
#include "errors.h"

#include "gpu.h"

#include <tenon/plugin.hpp>

namespace tenon::cuda {

using plugin::text;

bool is_fatal(api::Result result) {
  switch (result) {
    case api::error_deinitialized:
    case api::error_ecc_uncorrectable:
    case api::error_nvlink_uncorrectable:
    case api::error_contained:
    case api::error_illegal_address:
    case api::error_launch_timeout:
    case api::error_context_is_destroyed:
    case api::error_assert:
    case api::error_hardware_stack:
    case api::error_illegal_instruction:
    case api::error_misaligned_address:
    case api::error_invalid_address_space:
    case api::error_invalid_pc:
    case api::error_launch_failed:
      return true;
    default:
      return false;
  }
}

namespace {

std::string describe(api::Result result) {
  const char *name = nullptr, *meaning = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &meaning);
  return text("{} ({}: {})", name ? name : "unknown error", result, meaning ? meaning : "unknown");
}

}  // namespace

void check(Gpu& gpu, api::Result result, std::string_view call, std::string_view what) {
  if (result == api::success) return;
  std::string why = text("{}: {} failed on cuda:{}: {}", what, call, gpu.index(), describe(result));
  if (is_fatal(result)) {
    gpu.lose(why);
    gpu.require_alive();
  }
  throw plugin::error(result == api::error_out_of_memory ? TN_OUT_OF_MEMORY : TN_INTERNAL, why);
}

}  // namespace tenon::cuda
