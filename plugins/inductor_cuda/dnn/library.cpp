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

DnnLibrary::DnnLibrary(const Device& device) : device_(device) {
#define LOOK_UP(result, name, parameters) look_up(device, file, #name, functions_.name);
  TENON_CUDNN_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  identity_ = text("cudnn {} {} multiprocessors {} driver {}", functions_.cudnnGetVersion(),
                   device.arch, device.facts.multiprocessors, device.facts.driver_version);
  handle_ = new_handle();
}

dnn::Handle DnnLibrary::new_handle() const {
  native_stream(device_, nullptr);  // makes the device the thread's own
  dnn::Handle out = nullptr;
  check(functions_.cudnnCreate(&out), "cudnnCreate", "cuDNN does not start");
  return out;
}

// There are as many as threads have planned at once.
dnn::Handle DnnLibrary::lend_handle() const {
  {
    std::lock_guard lock(lending_);
    if (!idle_.empty()) {
      dnn::Handle out = idle_.back();
      idle_.pop_back();
      native_stream(device_, nullptr);
      return out;
    }
  }
  return new_handle();
}

void DnnLibrary::give_back(dnn::Handle handle) const {
  std::lock_guard lock(lending_);
  idle_.push_back(handle);
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
