// Ops on tensors that lie on a device.
#include "ops/device_call.h"

#include "config/flags.h"
#include "core/arguments.h"
#include "core/device/device_memory.h"
#include "core/device/overwritten.h"
#include "ops/forms/device_draws.h"
#include "ops/forms/device_forms.h"
#include "ops/forms/functional_form.h"
#include "ops/forms/out_form.h"
#include "ops/op_ids.h"
#include "ops/op_kernels.h"
#include "ops/pointwise.h"
#include "report/events.h"

#include <algorithm>

namespace tenon {

namespace {

bool is_host(Device device) { return device.type == DeviceType::cpu; }

/// Calls f(tensor, argument number) for each tensor that the call is given.
template <class F>
void for_each_tensor(const CallArgs& call, F&& f) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& arg = call.args[i];
    if (arg.tag != Tag::tensor && arg.tag != Tag::tensors) continue;
    TensorList list(arg.as<Tensor>(), arg.tag == Tag::tensors ? arg.count : 1);
    for (const Tensor& t : list)
      if (t.defined()) f(t, i);
  }
}

// CPU tensors without dimensions are numbers; those that say which elements are meant may be there.
bool may_be_on_host(const CallArgs& call, const Tensor& t, uint32_t arg) {
  const SchemaArg& schema = call.op->schema.args[arg];
  return t.dim() == 0 || (schema.name == "indices" && schema.type.is_list);
}

std::optional<Device> device_argument(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::device) return call.args[i].device();
  return std::nullopt;
}

/// The one device that the tensors of a call are on; nothing where all are on the CPU.
std::optional<Device> common_device(const CallArgs& call) {
  std::optional<Device> found;
  for_each_tensor(call, [&](const Tensor& t, uint32_t) {
    if (is_host(t.device())) return;
    check_not_overwritten(t);
    if (found == t.device()) return;
    require(!found, "{}: its tensors are on {} and {}; move one of them with .to(device, dtype)",
            call.op->name, *found, t.device());
    found = t.device();
  });
  if (!found) return found;
  for_each_tensor(call, [&](const Tensor& t, uint32_t arg) {
    require(!is_host(t.device()) || may_be_on_host(call, t, arg),
            "{}: its tensors are on {} and cpu; move one of them with .to(device, dtype)",
            call.op->name, *found);
  });
  return found;
}

/// A call that runs on the CPU in a device's stead: its arguments there, its results brought back.
class HostCall {
 public:
  /// `reads`: whether the kernel looks at the elements of its arguments.
  HostCall(const CallArgs& call, bool reads)
      : call_(call), reads_(reads), args_(call.args, call.args + call.n_args) {
    std::optional<Device> named = device_argument(call);
    target_ = named ? *named : *common_device(call);
    for (Value& arg : args_)
      if (arg.tag == Tag::device) arg = Value::of(kCPU);
    map_arguments(
        args_, lists_, [this](const Tensor& t) { return brought(t); }, keep_numbers);
  }

  void run() {
    dispatch(*call_.op, args_.data(), call_.n_args, call_.results, call_.n_results);
    write_back();
    for (uint32_t r = 0; r < call_.n_results; ++r) take_back(call_.results[r]);
  }

 private:
  struct Moved {
    Tensor original, host;
  };

  Tensor brought(const Tensor& t) {
    if (is_host(t.device())) return t;
    for (const Moved& m : moved_)
      if (m.original.is_same(t)) return m.host;
    // What only tells its layout may still be a number, such as an end of linspace.
    bool is_read = reads_ || t.dim() == 0;
    return moved_.emplace_back(t, is_read ? on_host(t) : host_like(t)).host;
  }

  void write_back() {
    for (uint32_t i = 0; i < call_.n_args; ++i) {
      if (!(call_.op->mutated_args >> i & 1)) continue;
      const Value &given = call_.args[i], &used = args_[i];
      uint32_t n = given.tag == Tag::tensors ? given.count : given.tag == Tag::tensor ? 1 : 0;
      for (uint32_t k = 0; k < n; ++k) {
        const Tensor &to = given.as<Tensor>()[k], &from = used.as<Tensor>()[k];
        if (!to.defined() || to.is_same(from)) continue;
        copy_across(to, from);
        bump_version(to);
      }
    }
  }

  Tensor returned(Tensor host) const {
    for (const Moved& m : moved_)
      if (m.host.is_same(host)) return m.original;
    if (is_host(target_)) return host;
    TensorMeta meta = meta_of(host);
    meta.device = target_;
    Tensor there = make_tensor(meta);
    copy_across(there, host);
    return there;
  }

  void take_back(Value& result) const {
    if (result.tag == Tag::tensor_owned) {
      result = Value::own(returned(take<Tensor>(result)));
    } else if (result.tag == Tag::tensors_owned) {
      std::vector<Tensor> list = take<std::vector<Tensor>>(result);
      for (Tensor& t : list)
        if (t.defined()) t = returned(t);
      result = Value::own(std::move(list));
    }
  }

  const CallArgs& call_;
  bool reads_;
  std::vector<Value> args_;
  ArgumentLists lists_;
  std::vector<Moved> moved_;
  Device target_;
};

constexpr ResultPlace into_self{ResultPlace::Kind::self};

bool may_fall_back() { return config::flags().compiler.device_fallback; }

void run_decomposed(const CallArgs& call) {
  call.op->def->decomp.call(call);
  return_mutated(call);
}

bool run_compiled(const CallArgs& call, Device device, ResultPlace place = {}) {
  return single_op_slot && single_op_slot(call, device, place);
}

// Nobody on the device takes the call.
void run_on_host(const CallArgs& call, Device device) {
  if (call.op->def->tags & OpTags::random) return HostCall(call, true).run();
  require(
      may_fall_back(), ErrorCode::unsupported,
      "{} cannot run on {}: no installed plugin has a kernel of it for this device, and {}; set "
      "compiler.device_fallback = true to run it on the CPU with copies",
      call.op->name, device,
      why_no_single_op_slot ? why_no_single_op_slot(call, device) : "nothing compiles it");
  static report::Counter& fallbacks = report::counter("device.fallbacks");
  fallbacks.add(1);
  HostCall(call, true).run();
}

// Arguments 3 and 4 are the statistics, 5 says whether they are updated.
bool has_statistics(const CallArgs& call) {
  return call.op->def->tags & OpTags::updates_statistics && call.args[3].tag == Tag::tensor &&
         call.args[4].tag == Tag::tensor && call.args[5].tag == Tag::boolean;
}

// The functional form gives the new statistics as results.
void run_with_statistics(const CallArgs& call) {
  const OpEntry& functional = entry_of(OpId::aten__native_batch_norm_legit_functional_default);
  constexpr uint32_t n_given = 5, first_statistic = 3;
  Value results[n_given];
  dispatch(functional, call.args, functional.n_args, results, n_given);
  for (uint32_t i = first_statistic; i < n_given; ++i) {
    Tensor made = take<Tensor>(results[i]);
    if (!call.args[5].number().to_bool()) continue;
    copy_across(*call.args[i].as<Tensor>(), made);
    bump_version(*call.args[i].as<Tensor>());
  }
  for (uint32_t r = 0; r < first_statistic; ++r) {
    if (r < call.n_results)
      call.results[r] = results[r];
    else
      drop(results[r]);
  }
}

// The op that gives what a row of its own, such as index_put_, writes into its first argument.
const OpEntry* functional_by_name(const OpEntry& op) {
  size_t dot = op.name.rfind('.');
  bool writes_self = op.mutated_args == 1 && op.returned_arg == 0 && op.name[dot - 1] == '_';
  if (!writes_self) return nullptr;
  const OpEntry* found = find_op(op.name.substr(0, dot - 1) + op.name.substr(dot));
  return found && !found->mutated_args && found->n_returns == 1 &&
                 same_arguments(found->schema, op.schema)
             ? found
             : nullptr;
}

void run_on_device(const CallArgs& call) {
  std::optional<Device> device = common_device(call);
  const OpDef& def = *call.op->def;
  if (device && try_foreign(call, device->type)) return;
  if (draw_on_device(call, device)) return;
  if (!device || def.tags & OpTags::creation) return HostCall(call, false).run();
  bool only_decomposes = def.decomp && !def.formula && !def.eager;
  if (only_decomposes) return run_decomposed(call);
  if (device && has_statistics(call)) return run_with_statistics(call);
  if (run_as_others(call)) return;
  if (!call.op->mutated_args && run_compiled(call, *device)) return;
  if (def.decomp) return run_decomposed(call);
  if (const OpEntry* functional = functional_by_name(*call.op)) {
    Value result;
    dispatch(*functional, call.args, call.n_args, &result, 1);
    copy_across(*call.args[0].as<Tensor>(), take<Tensor>(result));
    return return_mutated(call);
  }
  run_on_host(call, *device);
}

}  // namespace

bool writes_safely(const CallArgs& call, const Tensor& self) {
  bool safe = true;
  for_each_tensor(call, [&](const Tensor& t, uint32_t) {
    if (t.is_same(self) || !may_overlap(t, self)) return;
    safe = safe && t.dtype() == self.dtype() && t.storage_offset() == self.storage_offset() &&
           std::ranges::equal(t.sizes(), self.sizes()) &&
           std::ranges::equal(t.strides(), self.strides());
  });
  return safe;
}

namespace {

// Whether the functional form gives what fits over self as it is: each element of the result is
// made of those at its place.
bool can_compute_into(const CallArgs& call, const Tensor& self) {
  const OpDef& def = *call.op->def;
  if (!def.formula || !writes_safely(call, self)) return false;
  Metas metas;
  pointwise_meta(call, metas);
  return metas.size() == 1 && metas[0].dtype == self.dtype() &&
         std::ranges::equal(list_of(metas[0].sizes), self.sizes());
}

// `x.op_()`: into x where that is safe; else the functional form, then a copy into x.
void run_in_place(const CallArgs& call) {
  const Tensor& self = *call.args[0].as<Tensor>();
  std::optional<Device> device = common_device(call);
  require_elements_apart(call.op->name, self);
  CallArgs functional = call;
  functional.op = call.op->functional;
  if (device && can_compute_into(functional, self) && run_compiled(functional, *device, into_self))
    return return_mutated(call);
  check_derived_in_place(call);
  Value result;
  dispatch(*call.op->functional, call.args, call.n_args, &result, 1);
  copy_across(self, take<Tensor>(result));
  return_mutated(call);
}

bool is_taken_by_plugin(const OpEntry& op, DeviceType device) {
  return std::ranges::any_of(op.foreign_kernels(),
                             [&](const ForeignKernel& k) { return k.device == device; });
}

// Whether the one result of `functional` can be written where `out` lies while it is computed.
bool can_compute_into_given(const CallArgs& functional, const Tensor& out) {
  const OpDef& def = *functional.op->def;
  bool only_decomposes = def.decomp && !def.formula && !def.eager;
  bool has_code = !def.view && !only_decomposes && !functional.op->mutated_args &&
                  !(def.tags & (OpTags::any_device | OpTags::creation | OpTags::random));
  if (!has_code || (!def.meta && !def.formula) || out.numel() == 0 || has_internal_overlap(out))
    return false;
  bool apart = true;
  for_each_tensor(functional,
                  [&](const Tensor& t, uint32_t) { apart = apart && !may_overlap(t, out); });
  if (!apart) return false;
  Metas metas;
  if (def.formula)
    pointwise_meta(functional, metas);
  else
    def.meta.metas(functional, metas);
  return metas.size() == 1 && metas[0].dtype == out.dtype() &&
         std::ranges::equal(list_of(metas[0].sizes), out.sizes());
}

// `f(x, out=y)`: into y where that is safe; else the functional form, then a copy into y.
void run_out_on_device(const CallArgs& call) {
  const OpEntry& op = *call.op->functional;
  std::optional<Device> device = common_device(call);
  bool has_place = op.n_returns == 1 && !out_gives_options(*call.op);
  if (device && has_place && !is_taken_by_plugin(op, device->type)) {
    const Tensor& out = *call.args[op.n_args].as<Tensor>();
    CallArgs functional{&op, call.args, call.results, op.n_args, 1};
    if (out.device() == *device && can_compute_into_given(functional, out) &&
        run_compiled(functional, *device, {ResultPlace::Kind::given, &out})) {
      bump_version(out);
      call.results[0] = Value::own(out);
      return;
    }
  }
  reference_kernel (*call.op)(call);
}

}  // namespace

BoxedFn device_kernel(const OpEntry& op) {
  if (op.out_form) return &run_out_on_device;
  if (op.functional) return &run_in_place;
  if (op.def->view || op.def->tags & OpTags::any_device)
    return row_kernel(*op.def, op.mutated_args != 0);
  return &run_on_device;
}

bool (*single_op_slot)(const CallArgs& call, Device device, ResultPlace place) = nullptr;
std::string (*why_no_single_op_slot)(const CallArgs& call, Device device) = nullptr;

namespace {

// `to` gets what `from` broadcasts to, on the device that both are on.
bool copy_there(const Tensor& to, const Tensor& from) {
  static const OpEntry& copy = entry_of(op_id("aten.copy.default"));
  Value args[] = {Value::of(to), Value::of(from), Value::of(false)};
  Value result;
  return run_compiled({&copy, args, &result, 3, 1}, to.device(), into_self);
}

const struct FillSlots {
  FillSlots() { copy_on_device_slot = &copy_there; }
} fill_slots;

}  // namespace

}  // namespace tenon
