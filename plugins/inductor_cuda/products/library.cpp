// Opening the library, and what its statuses become.
#include "library.h"

#include "../vendor_library.h"

namespace inductor_cuda {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

constexpr std::string_view file = "libcublasLt.so.13";

}  // namespace

Library::Library(const Device& device) {
#define LOOK_UP(result, name, parameters) look_up(device, file, #name, functions_.name);
  TENON_CUBLASLT_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  native_stream(device, nullptr);
  check(functions_.cublasLtCreate(&handle_), "cublasLtCreate", "cuBLASLt does not start");
}

const Library* Library::of(const Device& device, std::string* why_not) {
  return opened<Library>(device, why_not, [](const Device& d) {
    return std::unique_ptr<const Library>(new Library(d));
  });
}

std::string Library::name_of(lt::Status status) const {
  const char* name = functions_.cublasLtGetStatusName(status);
  return name ? name : text("status {}", status);
}

void Library::check(lt::Status status, const char* call, const std::string& subject) const {
  if (status == lt::success) return;
  throw error(TN_UNKNOWN, text("{}: {} gives {} ({})", subject, call, status, name_of(status)));
}

lt::Stream native_stream(const Device& device, tn_stream* stream) {
  void* out = nullptr;
  tenon::plugin::check(device.api->native_stream(device.index, stream, &out));
  return static_cast<lt::Stream>(out);
}

}  // namespace inductor_cuda
