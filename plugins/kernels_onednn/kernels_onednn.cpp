// kernels_onednn: eager kernels for matrix products and convolutions on the CPU.
#include "kernels.h"

#include <dnn/packed_weights.h>

#include <sys/mman.h>

#include <oneapi/dnnl/dnnl.hpp>

using namespace tenon::plugin;

namespace {

// oneDNN's kernels are code that it makes. Asked once, since making it in vain takes a millisecond.
bool can_make_code() {
  constexpr size_t bytes = 4096;
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  bool can = mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  munmap(page, bytes);
  return can;
}

/// The row, unless the system forbids code that is made (PR_SET_MDWE, SELinux) or oneDNN could not
/// make it: then the call is declined, and the host's own kernel computes.
template <bool (*run)(const kernel_call&)>
bool guarded(const kernel_call& call) {
  static const bool possible = can_make_code();
  if (!possible) return false;
  try {
    return run(call);
  } catch (const dnnl::error&) {
    return false;
  }
}

constexpr kernel_row rows[] = {
    {"aten.mm.default", guarded<onednn::mm>},
    {"aten.addmm.default", guarded<onednn::addmm>},
    {"aten.bmm.default", guarded<onednn::bmm>},
    {"aten.baddbmm.default", guarded<onednn::baddbmm>},
    {"aten.linear.default", guarded<onednn::linear>},
    {"aten.matmul.default", guarded<onednn::matmul>},
    {"aten.convolution.default", guarded<onednn::convolution>},
    {"aten.conv1d.default", guarded<onednn::conv1d>},
    {"aten.conv2d.default", guarded<onednn::conv2d>},
    {"aten.conv3d.default", guarded<onednn::conv3d>},
    {"aten.convolution_backward.default", guarded<onednn::convolution_backward>},
};

}  // namespace

TENON_PLUGIN(p) {
  p.kernels(TN_DEV_CPU, rows);
  p.on_shutdown(onednn::drop_packed);
}
