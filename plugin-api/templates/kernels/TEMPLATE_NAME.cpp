// SPDX-License-Identifier: Apache-2.0
// TEMPLATE_NAME: eager kernels, tried before the host's own.
//
// Where to go from here: add a row to `rows` and its op to plugin.toml.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

bool is_dense_f32(const tn_tensor* t) {
  return t && t->dtype == TN_F32 && t->device_type == TN_DEV_CPU && (t->flags & TN_T_CONTIGUOUS);
}

// False: not for me, the next row is asked. Results have the dtype, sizes and strides that the op's
// meta function gives. May be called from several threads at once.
bool relu(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  if (!is_dense_f32(x)) return false;
  tensor out = tensor::empty(sizes(x), TN_F32);
  const auto* from = static_cast<const float*>(x->data);
  auto* to = out.data<float>();
  parallel_for(0, x->numel, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[i] < 0 ? 0 : from[i];  // keeps NaN
  });
  c.give(0, std::move(out));
  return true;
}

constexpr kernel_row rows[] = {{"aten.relu.default", relu}};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CPU, rows); }
