// SPDX-License-Identifier: Apache-2.0
// All of Tenon's public API but the plugin interface.
//
//     #include <tenon/tenon.h>
//     int main() {
//       auto f = tenon::compile([](const tenon::Tensor& x) { return (x * x).sum(); });
//       return f(tenon::ones({3})).item<float>() == 3 ? 0 : 1;
//     }
#pragma once

#include <tenon/allow_in_graph.h>
#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <tenon/buffers.h>
#include <tenon/compile.h>
#include <tenon/compiled_autograd.h>
#include <tenon/compiler.h>
#include <tenon/config.h>
#include <tenon/control_flow.h>
#include <tenon/data.h>
#include <tenon/devices.h>
#include <tenon/error.h>
#include <tenon/functional.h>
#include <tenon/functorch.h>
#include <tenon/grad_scaler.h>
#include <tenon/joint_pass.h>
#include <tenon/library.h>
#include <tenon/load_model.h>
#include <tenon/memory_budget.h>
#include <tenon/model.h>
#include <tenon/nested_region.h>
#include <tenon/nn.h>
#include <tenon/nn/utils.h>
#include <tenon/ops.h>
#include <tenon/optim.h>
#include <tenon/optim/adaptive.h>
#include <tenon/optim/lbfgs.h>
#include <tenon/plugins.h>
#include <tenon/random.h>
#include <tenon/report.h>
#include <tenon/sym.h>
#include <tenon/tensor.h>
#include <tenon/threads.h>
#include <tenon/tree.h>
#include <tenon/types.h>
