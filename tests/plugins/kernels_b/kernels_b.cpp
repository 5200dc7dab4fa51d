// A kernel that takes two elements of f32 only and gives twos.
#include <tenon/plugin.hpp>

#include <algorithm>

using namespace tenon::plugin;

namespace {

bool gives_twos(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  if (x->dtype != TN_F32 || x->numel != 2) return false;
  tensor out = tensor::empty(sizes(x), TN_F32);
  std::fill_n(out.data<float>(), x->numel, 2.0f);
  c.give(0, std::move(out));
  return true;
}

constexpr kernel_row rows[] = {{"aten.digamma.default", gives_twos}};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CPU, rows); }
