// Kernels that take f32 only and give ones, and kernels that are wrong.
#include <tenon/plugin.hpp>

#include <algorithm>

using namespace tenon::plugin;

namespace {

bool gives_ones(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  if (x->dtype != TN_F32) return false;
  tensor out = tensor::empty(sizes(x), TN_F32);
  std::fill_n(out.data<float>(), x->numel, 1.0f);
  c.give(0, std::move(out));
  return true;
}

bool fails(const kernel_call&) { throw error(TN_OUT_OF_RANGE, "told to fail"); }

// What the op does not promise: another dtype for one element, none at all for two, one more size
// for three.
bool breaks_promises(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  int64_t more[] = {x->numel, 1};
  if (x->numel == 1) c.give(0, tensor::empty(sizes(x), TN_I64));
  if (x->numel == 3) c.give(0, tensor::empty(more, TN_F32));
  return true;
}

// Its own op, which some other row has to compute.
bool asks_for_itself(const kernel_call& c) {
  tn_tensor* x = c.values[c.args[0].u.value];
  tn_arg arg{};
  arg.kind = TN_ARG_VALUE;
  tn_tensor* out = nullptr;
  run_op(op("aten.lgamma.default"), std::span(&arg, 1), &x, std::span(&out, 1));
  c.give(0, tensor(out));
  return true;
}

constexpr kernel_row rows[] = {{"aten.digamma.default", gives_ones},
                               {"aten.erfinv.default", fails},
                               {"aten.special_i1.default", breaks_promises},
                               {"aten.lgamma.default", asks_for_itself}};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CPU, rows); }
