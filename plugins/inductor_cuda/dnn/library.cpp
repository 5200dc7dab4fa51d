// Opening the library, and what its statuses become.
#include "library.h"

#include "../products/library.h"
#include "../vendor_library.h"

namespace inductor_cuda {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

constexpr std::string_view file = "libcudnn.so.9";

}  // namespace

DnnLibrary::DnnLibrary(const Device& device) {
#define LOOK_UP(result, name, parameters) look_up(device, file, #name, functions_.name);
  TENON_CUDNN_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  identity_ = text("cudnn {} {} multiprocessors {} driver {}", functions_.cudnnGetVersion(),
                   device.arch, device.facts.multiprocessors, device.facts.driver_version);
  native_stream(device, nullptr);  // makes the device the thread's own
  check(functions_.cudnnCreate(&handle_), "cudnnCreate", "cuDNN does not start");
}

const DnnLibrary* DnnLibrary::of(const Device& device, std::string* why_not) {
  return opened<DnnLibrary>(device, why_not, [](const Device& d) {
    return std::unique_ptr<const DnnLibrary>(new DnnLibrary(d));
  });
}

void DnnLibrary::check(dnn::Status status, const char* call, const std::string& subject) const {
  if (status == dnn::success) return;
  const char* name = functions_.cudnnGetErrorString(status);
  throw error(TN_UNKNOWN,
              text("{}: {} gives {} ({})", subject, call, status, name ? name : "unknown"));
}

void DnnLibrary::execute(dnn::Descriptor plan, dnn::Descriptor pack, dnn::Stream stream,
                         const std::string& subject) const {
  std::lock_guard lock(guarding_handle_);
  check(functions_.cudnnSetStream(handle_, stream), "cudnnSetStream", subject);
  check(functions_.cudnnBackendExecute(handle_, plan, pack), "cudnnBackendExecute", subject);
}

}  // namespace inductor_cuda
