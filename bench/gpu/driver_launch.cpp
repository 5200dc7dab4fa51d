// The floor of a loop of one op a call: the driver's own launch of a kernel that adds 1 to 1024
// numbers, back to back, its tensors made beforehand.
#include "measure.h"

#include "../../plugins/cuda/api/driver.h"

#include <dlfcn.h>

namespace bench {

namespace {

namespace api = tenon::cuda::api;

constexpr const char* add_one = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 in, .param .u64 out) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.s32 %r3, %r2, 256, %r1;
  mul.wide.s32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, 0f3F800000;
  add.s64 %rd4, %rd2, %rd3;
  st.global.f32 [%rd4], %f2;
  ret;
}
)";

/// The functions that one launch takes; whether all of them and the kernel are there.
struct Launch {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  decltype(api::Driver::cuLaunchKernel) launch = nullptr;
  api::Function kernel = nullptr;

  bool is_ready() {
    decltype(api::Driver::cuDevicePrimaryCtxRetain) retain = nullptr;
    decltype(api::Driver::cuCtxSetCurrent) set_current = nullptr;
    decltype(api::Driver::cuModuleLoadDataEx) load = nullptr;
    decltype(api::Driver::cuModuleGetFunction) get_function = nullptr;
    if (!library || !find("cuDevicePrimaryCtxRetain", retain) ||
        !find("cuCtxSetCurrent", set_current) || !find("cuModuleLoadDataEx", load) ||
        !find("cuModuleGetFunction", get_function) || !find("cuLaunchKernel", launch))
      return false;
    api::Context context = nullptr;
    api::Module module = nullptr;
    return retain(&context, 0) == api::success && set_current(context) == api::success &&
           load(&module, add_one, 0, nullptr, nullptr) == api::success &&
           get_function(&kernel, module, "add_one") == api::success;
  }

 private:
  template <class Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }
};

}  // namespace

void measure_launch() {
  Launch driver;
  if (!driver.is_ready()) {
    std::puts("the driver's launch alone: left out, since it took no kernel");
    return;
  }
  Tensor in = tenon::ones({1024}).to(gpu, Dtype::f32), out = in.clone();
  void *from = in.head()->data, *to = out.head()->data;
  void* parameters[] = {&from, &to};
  api::Result result = api::success;
  auto launch = [&] {
    result |= driver.launch(driver.kernel, 4, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr);
  };
  double us = loop_time(launch);
  if (result == api::success && out.to(tenon::kCPU, Dtype::f32).to_vector<float>()[1023] == 2)
    report("the driver's launch alone, 1024 elements", us, 0);
}

}  // namespace bench
