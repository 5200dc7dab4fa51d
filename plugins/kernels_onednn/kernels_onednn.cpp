// kernels_onednn: eager kernels for matrix products and convolutions on the CPU.
#include "kernels.h"

#include <dnn/new_code.h>
#include <dnn/packed_weights.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <future>

using namespace tenon::plugin;

namespace {

/// The row, unless the system forbids code that is made, as oneDNN's kernels are, or oneDNN could
/// not make it: then the call is declined, and the host's own kernel computes. The system is asked
/// first, since making code in vain takes a millisecond.
template <bool (*run)(const kernel_call&)>
bool guarded(const kernel_call& call) {
  if (*onednn::why_no_new_code()) return false;
  try {
    return run(call);
  } catch (const dnnl::error&) {
    return false;
  } catch (const std::future_error&) {
    return false;  // no memory when the primitive was made: oneDNN never makes it again
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
