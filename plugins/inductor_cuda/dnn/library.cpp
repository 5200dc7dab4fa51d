// Opening the library, and what its statuses become.
#include "library.h"

#include "../products/library.h"

#include <map>
#include <memory>

namespace inductor_cuda {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

constexpr std::string_view file = "libcudnn.so.9";

template <class F>
void look_up(const Device& device, std::string_view name, F*& out) {
  void* found = nullptr;
  tenon::plugin::check(
      device.api->library_symbol(tenon::plugin::str(file), tenon::plugin::str(name), &found));
  out = reinterpret_cast<F*>(found);
}

}  // namespace

struct DnnLibrary::Found {
  std::unique_ptr<const DnnLibrary> library;
  std::string why_not;
};

DnnLibrary::DnnLibrary(const Device& device) {
#define LOOK_UP(result, name, parameters) look_up(device, #name, functions_.name);
  TENON_CUDNN_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  native_stream(device, nullptr);  // makes the device the thread's own
  check(functions_.cudnnCreate(&handle_), "cudnnCreate", "cuDNN does not start");
}

DnnLibrary::Found DnnLibrary::find(const Device& device) {
  if (!device.api->library_symbol) return {nullptr, "the device has no libraries of a vendor"};
  if (!TN_HAS(device.api, native_stream) || !device.api->native_stream)
    return {nullptr, "the plugin cuda is too old to lend its streams"};
  try {
    return {std::unique_ptr<const DnnLibrary>(new DnnLibrary(device)), ""};
  } catch (const error& e) {
    return {nullptr, e.what()};
  }
}

const DnnLibrary* DnnLibrary::of(const Device& device, std::string* why_not) {
  static std::mutex finding;
  static auto& all = *new std::map<std::pair<const tn_cuda_api*, int32_t>, Found>;
  std::lock_guard lock(finding);
  auto [at, is_new] = all.try_emplace({device.api, device.index});
  if (is_new) at->second = find(device);
  if (why_not) *why_not = at->second.why_not;
  return at->second.library.get();
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
