// What libraries of the vendor share: opened at run time, one object a device for the process.
#pragma once

#include "machine.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace inductor_cuda {

/// Throws the error of the device where there is no such file or function.
template <class F>
void look_up(const Device& device, std::string_view file, std::string_view name, F*& out) {
  void* found = nullptr;
  tenon::plugin::check(
      device.api->library_symbol(tenon::plugin::str(file), tenon::plugin::str(name), &found));
  out = reinterpret_cast<F*>(found);
}

/// Around what a library enqueues: another thread's recording of the stream is not to take it in.
class LibraryWork {
 public:
  LibraryWork(const Device& device, tn_stream* stream)
      : api_(TN_HAS(device.api, leave_stream) ? device.api : nullptr), stream_(stream) {
    if (api_) tenon::plugin::check(api_->enter_stream(stream_));
  }
  ~LibraryWork() {
    if (api_) api_->leave_stream(stream_);
  }
  LibraryWork(const LibraryWork&) = delete;

 private:
  const tn_cuda_api* api_;
  tn_stream* stream_;
};

/// Why a device has no such libraries; empty where it may have.
inline std::string why_no_library(const Device& device) {
  if (!device.api->library_symbol) return "the device has no libraries of a vendor";
  if (!TN_HAS(device.api, native_stream) || !device.api->native_stream)
    return "the plugin cuda is too old to lend its streams";
  return "";
}

/// What `open(device)` has made of a device, or null with the reason. Found out once for each L and
/// device. Threads: any.
template <class L>
const L* opened(const Device& device, std::string* why_not,
                std::unique_ptr<const L> (*open)(const Device&)) {
  struct Found {
    std::unique_ptr<const L> library;
    std::string why_not;
  };
  static std::mutex finding;
  static auto& all = *new std::map<std::pair<const tn_cuda_api*, int32_t>, Found>;
  std::lock_guard lock(finding);
  auto [at, is_new] = all.try_emplace({device.api, device.index});
  Found& found = at->second;
  if (is_new) {
    found.why_not = why_no_library(device);
    if (found.why_not.empty()) try {
        found.library = open(device);
      } catch (const tenon::plugin::error& e) {
        found.why_not = e.what();
      }
  }
  if (why_not) *why_not = found.why_not;
  return found.library.get();
}

}  // namespace inductor_cuda
