// kernels_onednn: eager kernels for matrix products and convolutions on the CPU.
#include "kernels.h"

#include <dnn/packed_weights.h>

using namespace tenon::plugin;

namespace {

constexpr kernel_row rows[] = {
    {"aten.mm.default", onednn::mm},
    {"aten.addmm.default", onednn::addmm},
    {"aten.bmm.default", onednn::bmm},
    {"aten.baddbmm.default", onednn::baddbmm},
    {"aten.linear.default", onednn::linear},
    {"aten.matmul.default", onednn::matmul},
    {"aten.convolution.default", onednn::convolution},
    {"aten.conv1d.default", onednn::conv1d},
    {"aten.conv2d.default", onednn::conv2d},
    {"aten.conv3d.default", onednn::conv3d},
    {"aten.convolution_backward.default", onednn::convolution_backward},
};

}  // namespace

TENON_PLUGIN(p) {
  p.kernels(TN_DEV_CPU, rows);
  p.on_shutdown(onednn::drop_packed);
}
