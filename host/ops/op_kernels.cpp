// What the keys of an op do: the row's own functions, kernels of plugins before them.
#include "ops/op_kernels.h"

#include "core/sym/sym_int.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "ops/device_call.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/history.h"
#include "ops/forms/out_form.h"
#include "ops/pointwise.h"

namespace tenon {

namespace {

void bump_mutated(const CallArgs& call) {
  if (forgets_history(*call.op)) return;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    if (!(call.op->mutated_args >> i & 1)) continue;
    if (call.args[i].tag == Tag::tensor)
      bump_version(*call.args[i].as<Tensor>());
    else if (call.args[i].tag == Tag::tensors)
      for (const Tensor& t : TensorList(call.args[i].as<Tensor>(), call.args[i].count))
        bump_version(t);
  }
}

}  // namespace

// An op that writes an argument and returns it gives the caller's own object back.
void return_mutated(const CallArgs& call) {
  bump_mutated(call);
  if (call.op->returned_arg < 0 || call.n_results == 0) return;
  drop(call.results[0]);
  call.results[0] = Value::own(*call.args[call.op->returned_arg].as<Tensor>());
}

// Ops that are made of views, as narrow, are none themselves.
void track_views(const CallArgs& call) {
  bool of_a_tensor = call.n_args && call.args[0].tag == Tag::tensor;
  if (!of_a_tensor || call.op->def->vjp.kind == Vjp::Kind::none) return;  // detach
  const Tensor& of = *call.args[0].as<Tensor>();
  each_result(call, [&](const Tensor& view, uint32_t) {
    if (view.defined() && !same_head(view, of)) track_view(view, of);
  });
}

void require_elements_apart(std::string_view op, const Tensor& self) {
  bool shares = false;
  if (self.sizes().is_symbolic() || self.strides().is_symbolic())
    for (int64_t d = 0; d < self.dim() && !shares; ++d) {
      SymInt stride = self.stride(d);
      shares = !stride.is_symbolic() && stride.word() == 0 && guard_or_false(self.size(d) > 1);
    }
  else
    shares = has_internal_overlap(self);
  require(!shares, "{}: several elements of self share memory; clone it first", op);
}

// Views know what they are views of, unless nobody can ask: below autograd, and of `detach`.
void run_view(const CallArgs& call) {
  const ViewFn& fn = call.op->def->view;
  const Tensor& base = *call.args[0].as<Tensor>();
  bool tracked =
      !(thread_modes.exclude & bit(Key::autograd)) && call.op->def->vjp.kind != Vjp::Kind::none;
  auto make = [&](const ViewMeta& m) {
    Tensor view = make_view(base, list_of(m.sizes), list_of(m.strides), m.offset);
    if (tracked) track_view(view, base);
    return view;
  };
  if (fn.view) {
    call.results[0] = Value::own(make(fn.view(call)));
    return;
  }
  std::vector<ViewMeta> metas;
  fn.views(call, metas);
  std::vector<Tensor> parts;
  for (const ViewMeta& m : metas) parts.push_back(make(m));
  call.results[0] = Value::own(std::move(parts));
}

namespace {

void run_filling(const CallArgs& call) {
  Metas metas;
  call.op->def->meta.metas(call, metas);
  Tensor outs[8];
  ensure(metas.size() <= 8, "an op has at most eight results");
  for (size_t i = 0; i < metas.size(); ++i)
    if (metas[i].defined) outs[i] = make_tensor(metas[i]);
  call.op->def->eager.fills(call, outs);
  for (size_t i = 0; i < metas.size(); ++i) call.results[i] = Value::own(std::move(outs[i]));
}

void run_returning(const CallArgs& call) { call.op->def->eager.returns(call); }

void run_writing(const CallArgs& call) {
  call.op->def->eager.returns(call);
  return_mutated(call);
}

void run_decomposition(const CallArgs& call) {
  call.op->def->decomp.call(call);
  return_mutated(call);
}

void run_out_form_writing(const CallArgs& call) {
  run_out_form(call);
  bump_mutated(call);
}

void refuse(const CallArgs& call) {
  fail(ErrorCode::unsupported, "{} has no kernel for this device; it was declared without one",
       call.op->name);
}

}  // namespace

bool try_foreign(const CallArgs& call, DeviceType device) {
  for (const ForeignKernel& kernel : call.op->foreign_kernels())
    if (kernel.device == device && kernel.run(kernel.self, call)) return true;
  return false;
}

namespace {

// The row has the meaning and a plugin the kernel: wrong arguments are found by the meta function.
void run_provided(const CallArgs& call) {
  Metas metas;
  call.op->def->meta.metas(call, metas);
  if (!try_foreign(call, DeviceType::cpu)) provider_slot(call);
}

}  // namespace

BoxedFn row_kernel(const OpDef& def, bool writes) {
  if (def.view) return &run_view;
  if (def.eager.fills) return &run_filling;
  if (def.eager.returns) return writes ? &run_writing : &run_returning;
  if (def.formula) return &run_pointwise;
  if (def.provider) return &run_provided;
  return def.decomp ? &run_decomposition : &refuse;
}

namespace {

void run_real_or_complex(const CallArgs& call) {
  if (has_complex_input(call)) return run_complex(call);
  row_kernel(*call.op->def, false)(call);
}

}  // namespace

BoxedFn reference_kernel(const OpEntry& op) {
  if (op.functional) return op.out_form ? &run_out_form_writing : &run_derived_in_place;
  if (op.def->complex && !op.def->formula) return &run_real_or_complex;
  return row_kernel(*op.def, op.mutated_args != 0);
}

void run_foreign_first(const CallArgs& call) {
  if (call.op->def->provider && !call.op->functional) return run_provided(call);
  if (!try_foreign(call, DeviceType::cpu)) reference_kernel (*call.op)(call);
}

}  // namespace tenon
