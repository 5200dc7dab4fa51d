// Random numbers on a device.
//
// What is compiled has a tensor of the device as its operand, whose sizes are open: one that makes a
// tensor becomes its form over an empty tensor, and one that writes a tensor its functional form, whose
// result goes into that tensor.
#include "ops/forms/device_draws.h"

#include "core/arguments.h"
#include "core/tensor/tensor_impl.h"
#include "ops/device_call.h"
#include "ops/forms/functional_form.h"
#include "ops/op.h"
#include "ops/op_kernels.h"

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

std::optional<Device> named_device(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::device) return call.args[i].device();
  return std::nullopt;
}

/// An op that makes a tensor, the one that fills a tensor's like, and how many arguments before and
/// behind the sizes the two share.
struct LikeForm {
  std::string_view maker, like;
  uint32_t n_before;  // the sizes follow
};
constexpr LikeForm like_forms[] = {
    {"aten.rand.default", "aten.rand_like.default", 0},
    {"aten.randn.default", "aten.randn_like.default", 0},
    {"aten.randint.default", "aten.randint_like.default", 1},
    {"aten.randint.low", "aten.randint_like.low_dtype", 2},
};

bool run_like_form(const CallArgs& call, Device device) {
  auto form = std::ranges::find(like_forms, std::string_view(call.op->name), &LikeForm::maker);
  if (form == std::end(like_forms) || !call.op->def->meta.metas) return false;
  Metas metas;
  call.op->def->meta.metas(call, metas);
  metas[0].device = device;
  Tensor like = make_tensor(metas[0]);
  const OpEntry& op = entry_of(op_id(form->like));
  std::vector<Value> args{Value::of(like)};
  args.insert(args.end(), call.args, call.args + form->n_before);
  args.resize(op.n_args);  // dtype, layout and device are those of `like`
  return single_op_slot &&
         single_op_slot({&op, args.data(), call.results, op.n_args, 1}, device, {});
}

bool run_into_self(const CallArgs& call, Device device) {
  const Tensor& self = *call.args[0].as<Tensor>();
  bool is_known = call.op->schema.ns == "aten" && call.op->mutated_args == 1;
  if (!is_known || has_internal_overlap(self) || !writes_safely(call, self)) return false;
  CallArgs functional = call;
  functional.op = &functional_copy_form(*call.op);
  functional.n_results = functional.op->n_returns;
  if (!single_op_slot || !single_op_slot(functional, device, {ResultPlace::Kind::self})) return false;
  return_mutated(call);
  return true;
}

}  // namespace

bool draw_on_device(const CallArgs& call, std::optional<Device> device) {
  const OpDef& def = *call.op->def;
  bool only_decomposes = def.decomp && !def.eager;
  if (!(def.tags & OpTags::random) || only_decomposes) return false;
  std::optional<Device> named = named_device(call);
  if (named && named->type == DeviceType::cpu) return false;
  if (!device) return named && run_like_form(call, *named);
  if (named && *named != *device) return false;
  if (call.op->mutated_args) return run_into_self(call, *device);
  return single_op_slot && single_op_slot(call, *device, {});
}

}  // namespace tenon
