// inductor for NVIDIA GPUs: fused loops as kernels, by LLVM and the driver.
#include "compile.h"
#include "image.h"
#include "options.h"

#include <loopir/supported.h>

using namespace tenon::plugin;

namespace {

struct Inductor : Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    using Given = inductor_cuda::Given;
    bool takes_all = Given::read(request).fallback == Given::fallback_choice::error;
    loopir::support_nodes(request, takes_all, verdicts);
  }
  std::unique_ptr<inductor_cuda::Executable> compile(const tn_compile_request& request) {
    auto* api = extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
    return inductor_cuda::compile(request, {.api = api, .device_type = TN_DEV_CUDA});
  }
  std::string fingerprint() { return inductor_cuda::fingerprint(); }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Inductor, "inductor"))
