// Opening the library, and what its statuses become.
#include "library.h"

#include <map>
#include <memory>
#include <mutex>

namespace inductor_cuda {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

constexpr std::string_view file = "libcublasLt.so.13";

template <class F>
void look_up(const Device& device, std::string_view name, F*& out) {
  void* found = nullptr;
  tenon::plugin::check(
      device.api->library_symbol(tenon::plugin::str(file), tenon::plugin::str(name), &found));
  out = reinterpret_cast<F*>(found);
}

}  // namespace

struct Library::Found {
  std::unique_ptr<const Library> library;
  std::string why_not;
};

Library::Library(const Device& device) {
#define LOOK_UP(result, name, parameters) look_up(device, #name, functions_.name);
  TENON_CUBLASLT_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  native_stream(device, nullptr);
  check(functions_.cublasLtCreate(&handle_), "cublasLtCreate", "cuBLASLt does not start");
}

Library::Found Library::find(const Device& device) {
  if (!device.api->library_symbol) return {nullptr, "the device has no libraries of a vendor"};
  if (!TN_HAS(device.api, native_stream) || !device.api->native_stream)
    return {nullptr, "the plugin cuda is too old to lend its streams"};
  try {
    return {std::unique_ptr<const Library>(new Library(device)), ""};
  } catch (const error& e) {
    return {nullptr, e.what()};
  }
}

const Library* Library::of(const Device& device, std::string* why_not) {
  static std::mutex finding;
  static auto& all = *new std::map<std::pair<const tn_cuda_api*, int32_t>, Found>;
  std::lock_guard lock(finding);
  auto [at, is_new] = all.try_emplace({device.api, device.index});
  if (is_new) at->second = find(device);
  if (why_not) *why_not = at->second.why_not;
  return at->second.library.get();
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
