// Autocast: casts above all other keys.
//
// Method: an op with a policy casts its arguments and goes on without the key, so that what its
// kernel calls is not cast again. An op that has no kernel runs as its parts, each with its own
// policy; an op with a kernel computes in the types that it is given.
// Casts of leaves are kept until the outermost guard ends: a weight that is used twice is cast
// once, and its gradients add up in the shorter type. A cast serves as long as the leaf was not
// written and, when gradients are on, only if it was recorded. Source: PyTorch's autocast_mode;
// lists of ops as in its CPU backend.
#include "ops/autocast.h"

#include "core/arguments.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"

#include <unordered_map>

namespace tenon {

namespace {

struct KeptCast {
  Tensor leaf, cast;
  uint64_t version;
};

struct CastState {
  int depth = 0;  ///< of guards
  std::unordered_map<const void*, KeptCast> kept;
};

CastState& cast_state() {
  thread_local CastState state;
  return state;
}

bool may_keep(const Tensor& t) {
  return thread_modes.autocast_cache && !thread_modes.tracer && t.requires_grad() && t.is_leaf() &&
         !t.is_fake();
}

Tensor cast(const Tensor& t, Dtype to) {
  if (to != thread_modes.autocast_dtype || !may_keep(t)) return t.to(to);
  KeptCast& kept = cast_state().kept[t.head()];
  bool serves = kept.cast.defined() && kept.version == t.version() && kept.cast.dtype() == to &&
                (kept.cast.requires_grad() || !thread_modes.grad_enabled);
  if (!serves) kept = {t, t.to(to), t.version()};
  return kept.cast;
}

Autocast policy_of(const OpEntry& op) {
  return op.functional ? Autocast::none : op.def->autocast;  // of the row itself, not its forms
}

bool is_made_of_parts(const OpEntry& op) {
  const OpDef& def = *op.def;
  return def.decomp && !def.eager && !def.formula && !def.view && !def.provider && !op.functional &&
         !op.mutated_args && op.foreign_kernels().empty();
}

void run_as_given(const CallArgs& call) {
  if (is_made_of_parts(*call.op)) return call.op->def->decomp.call(call);
  BelowAutocast below;
  dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
}

void run_cast(const CallArgs& call, Dtype to) {
  BelowAutocast below;
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  auto fitting = [&](const Tensor& t) { return autocast_casts(t.dtype(), to) ? cast(t, to) : t; };
  map_arguments(args, lists, fitting, keep_numbers);
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
}

}  // namespace

std::optional<Dtype> autocast_type(const OpEntry& op, Dtype lower, std::span<const Dtype> given) {
  switch (policy_of(op)) {
    case Autocast::none:
      return std::nullopt;
    case Autocast::lower:
      return lower;
    case Autocast::fp32:
      return Dtype::f32;
    case Autocast::promote:
      for (Dtype d : given)
        if (is_floating(d) && d != Dtype::f64 && d != lower) return Dtype::f32;
      return lower;
  }
  return std::nullopt;
}

void run_autocast(const CallArgs& call) {
  if (policy_of(*call.op) == Autocast::none) return run_as_given(call);
  std::vector<Dtype> given;
  for (uint32_t i = 0; i < call.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) { given.push_back(t.dtype()); });
  run_cast(call, *autocast_type(*call.op, thread_modes.autocast_dtype, given));
}

AutocastOptions autocast_state() {
  return {.dtype = thread_modes.autocast_dtype,
          .enabled = is_autocast_enabled(),
          .cache_enabled = thread_modes.autocast_cache};
}

void set_autocast_state(const AutocastOptions& options) {
  require(options.device == DeviceType::cpu, ErrorCode::unsupported,
          "autocast: expected device cpu, found {}; other devices have no lists of ops yet",
          Device(options.device));
  require(options.dtype == Dtype::bf16 || options.dtype == Dtype::f16,
          "autocast: expected dtype bf16 or f16, found {}", options.dtype);
  thread_modes.include &= ~bit(Key::autocast);
  if (options.enabled) thread_modes.include |= bit(Key::autocast);
  thread_modes.autocast_dtype = options.dtype;
  thread_modes.autocast_cache = options.cache_enabled;
}

AutocastGuard::AutocastGuard(const AutocastOptions& options) : before_(autocast_state()) {
  set_autocast_state(options);
  ++cast_state().depth;
}

AutocastGuard::~AutocastGuard() {
  set_autocast_state(before_);
  if (--cast_state().depth == 0) cast_state().kept.clear();
}

bool is_autocast_enabled() { return thread_modes.include & bit(Key::autocast); }
Dtype autocast_dtype() { return thread_modes.autocast_dtype; }

}  // namespace tenon
