// The backend as the host sees it; the entry of the plugin names it.
#pragma once

#include "compile.h"
#include "image.h"
#include "options.h"

#include <loopir/supported.h>

namespace inductor_cuda {

struct Backend : tenon::plugin::Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    bool takes_all = Given::read(request).fallback == Given::fallback_choice::error;
    loopir::support_nodes(request, takes_all, verdicts);
  }
  std::unique_ptr<Executable> compile(const tn_compile_request& request) {
    auto* api = tenon::plugin::extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
    return inductor_cuda::compile(request, {.api = api, .device_type = TN_DEV_CUDA});
  }
  std::string fingerprint() { return inductor_cuda::fingerprint(); }
};

}  // namespace inductor_cuda
