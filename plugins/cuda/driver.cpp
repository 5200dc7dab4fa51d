// Finding NVIDIA's driver, and starting it.
#include "driver.h"

#include "libraries.h"

#include <tenon/plugin.hpp>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>

namespace tenon::cuda {

namespace {

using plugin::text;

constexpr const char* library_name = "libcuda.so.1";

std::string path_of(void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) != 0 && info.dli_fname ? info.dli_fname : library_name;
}

std::string version_text(int version) { return text("{}.{}", version / 1000, version % 1000 / 10); }

// Every function of the table, or the name of the first that the driver lacks.
const char* missing_function(api::Driver& driver, api::GetProcAddress find) {
  auto get = [&](const char* name, auto& function) {
    void* address = nullptr;
    int32_t found = 0;
    if (find(name, &address, api::driver_version, 0, &found) != api::success || !address)
      return false;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    return true;
  };
#define TENON_CUDA_FIND(name, parameters) \
  if (!get(#name, driver.name)) return #name;
  TENON_CUDA_DRIVER_FUNCTIONS(TENON_CUDA_FIND)
#undef TENON_CUDA_FIND
  return nullptr;
}

std::string name_of(const api::Driver& driver, api::Result error) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(error, &name) != api::success || !name) name = "unknown";
  return name;
}

// Starts the driver; the reason why it offers no device, or nothing.
std::string start(Opened& out) {
  const api::Driver& d = out.functions;
  if (d.cuDriverGetVersion(&out.version) == api::success && out.version < api::driver_version)
    return text("driver too old (has CUDA {}, needs {})", version_text(out.version),
                version_text(api::driver_version));
  api::Result started = d.cuInit(0);
  if (started == api::success) started = d.cuDeviceGetCount(&out.devices);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (started == api::error_no_device || (started == api::success && out.devices == 0))
    return visible ? text("disabled by CUDA_VISIBLE_DEVICES={}", visible) : "no device";
  if (started == api::success) return {};
  out.devices = 0;
  return text("initialisation failed ({}, {})", started, name_of(d, started));
}

// NVIDIA's driver has no such function: what stands in for it says what code it takes.
std::string own_architecture(api::GetProcAddress find) {
  void* found = nullptr;
  int32_t state = 0;
  if (find("tenonArchitecture", &found, api::driver_version, 0, &state) != api::success || !found)
    return {};
  return reinterpret_cast<const char* (*)()>(found)();
}

std::atomic<bool> forked_since{false};

Opened open() {
  ::pthread_atfork(nullptr, nullptr, [] { forked_since = true; });
  Opened out;
  void* library = open_library(library_name);
  if (!library) {
    out.why_not = text("library {} not found", library_name);
    return out;
  }
  void* symbol = ::dlsym(library, "cuGetProcAddress_v2");
  out.library = symbol ? path_of(symbol) : library_name;
  if (!symbol) {
    out.why_not = text("driver too old (needs CUDA {})", version_text(api::driver_version));
    return out;
  }
  auto find = reinterpret_cast<api::GetProcAddress>(symbol);
  out.architecture = own_architecture(find);
  const char* missing = missing_function(out.functions, find);
  out.why_not = missing ? text("driver too old (has no {} of CUDA {})", missing,
                               version_text(api::driver_version))
                        : start(out);
  return out;
}

}  // namespace

const Opened& opened() {
  static const Opened* const result = new Opened(open());  // outlives the last free of a tensor
  return *result;
}

bool is_forked_child() { return forked_since.load(std::memory_order_relaxed); }

const api::Driver& driver() {
  const Opened& result = opened();
  if (!result.why_not.empty()) throw plugin::error(TN_UNAVAILABLE, result.why_not);
  return result.functions;
}

}  // namespace tenon::cuda
