// The double's functions, looked up in the library that the plugin has opened.
#include "double.h"

#include <tenon/tenon.h>

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace {

void* find(const char* name) {
  tenon::device_count(tenon::DeviceType::cuda);  // opens the driver
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? ::dlsym(library, name) : nullptr;
}

template <class F>
F* function(const char* name) {
  void* found = find(name);
  if (!found) throw std::runtime_error("the driver is not the double");
  return reinterpret_cast<F*>(found);
}

}  // namespace

WithFallback::WithFallback() { tenon::config::set("compiler.device_fallback", true); }
WithFallback::~WithFallback() { tenon::config::set("compiler.device_fallback", false); }

bool is_double() { return find("fake_cuda_counts") != nullptr; }
FakeCudaCounts counts() { return function<FakeCudaCounts()>("fake_cuda_counts")(); }
void fail_at(const char* name, uint64_t nth, int32_t result) {
  function<void(const char*, uint64_t, int32_t)>("fake_cuda_fail")(name, nth, result);
}
const char* failed_call() { return function<const char*()>("fake_cuda_failed")(); }
void seed_streams(uint64_t seed) {
  if (is_double()) function<void(uint64_t)>("fake_cuda_seed")(seed);
}
void set_code(const FakeCudaCode* code) {
  function<void(const FakeCudaCode*)>("fake_cuda_set_code")(code);
}
void wait_behind_the_plugin(void* stream) {
  void* wait = nullptr;
  function<int32_t(const char*, void**, int32_t, uint64_t, void*)>("cuGetProcAddress_v2")(
      "cuStreamSynchronize", &wait, 13000, 0, nullptr);
  reinterpret_cast<int32_t (*)(void*)>(wait)(stream);
}
void join_behind_each(void* stream) { function<void(void*)>("fake_cuda_join")(stream); }
void revive() { function<void()>("fake_cuda_revive")(); }

tenon::Tensor moved(tenon::Device device, const tenon::Tensor& t) {
  return t.to(device, t.dtype());
}
