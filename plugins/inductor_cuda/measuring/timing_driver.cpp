// The driver's functions by name.
#include "timing_driver.h"

namespace inductor_cuda {

TimingDriver::TimingDriver(const Device& device) {
  using GetProcAddress =
      Result (*)(const char* symbol, void** function, int version, uint64_t flags, int32_t* found);
  void* find = nullptr;
  tenon::plugin::check(device.api->library_symbol(
      tenon::plugin::str("libcuda.so.1"), tenon::plugin::str("cuGetProcAddress_v2"), &find));
  auto get = [&](const char* name, auto& function) {
    constexpr int driver_version = 13000;
    int32_t found = 0;
    void* out = nullptr;
    done(reinterpret_cast<GetProcAddress>(find)(name, &out, driver_version, 0, &found), name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(out);
  };
  get("cuStreamCreateWithPriority", cuStreamCreateWithPriority);
  get("cuStreamDestroy", cuStreamDestroy);
  get("cuStreamSynchronize", cuStreamSynchronize);
  get("cuMemcpyAsync", cuMemcpyAsync);
  get("cuEventCreate", cuEventCreate);
  get("cuEventDestroy", cuEventDestroy);
  get("cuEventRecord", cuEventRecord);
  get("cuStreamWaitEvent", cuStreamWaitEvent);
  get("cuEventElapsedTime", cuEventElapsedTime);
}

void TimingDriver::done(Result result, const char* call) {
  if (result != 0)
    throw tenon::plugin::error(
        TN_UNKNOWN, tenon::plugin::text("measuring on the GPU: {} gives {}; turn max_autotune and "
                                        "profile off to do without",
                                        call, result));
}

}  // namespace inductor_cuda
