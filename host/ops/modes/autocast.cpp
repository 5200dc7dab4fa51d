// Autocast: casts above all other keys.
//
// Method: an op with a policy casts its arguments and goes on without the key, so that what its
// kernel calls is not cast again. An op that has no kernel runs as its parts, each with its own
// policy; an op with a kernel computes in the types that it is given.
// Casts of leaves are kept until the outermost guard ends: a weight that is used twice is cast
// once, and its gradients add up in the shorter type. A cast serves as long as the leaf was not
// written and, when gradients are on, only if it was recorded. Source: PyTorch's autocast_mode;
// lists of ops as in its CPU backend.
#include "ops/modes/autocast.h"

#include "core/arguments.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/thread_object.hpp>

#include <unordered_map>

namespace tenon {

namespace {

struct CastState {
  int depth = 0;  ///< of guards
  KeptCasts kept;
};

CastState& cast_state() { return ThreadObject<CastState>::get(); }

thread_local constinit CastsOfBody* innermost_body = nullptr;

}  // namespace

// Null: none are kept.
CastsOfBody* casts_of_body() {
  return innermost_body && innermost_body->keeps_ ? innermost_body : nullptr;
}

CastsOfBody::CastsOfBody(bool keeps) : keeps_(keeps), outer_(std::exchange(innermost_body, this)) {}
CastsOfBody::~CastsOfBody() { innermost_body = outer_; }

namespace {

// While a body is recorded, or followed, which has cast the leaf. True also where nobody knows.
bool may_lie_in(const Tensor& leaf, const Tensor& written) {
  if (leaf.is_fake() == written.is_fake()) return shares_storage(leaf, written);
  const Tensor &real = leaf.is_fake() ? written : leaf, &fake = leaf.is_fake() ? leaf : written;
  if (Tensor named = fake_of_body_slot(real); named.defined()) return shares_storage(named, fake);
  Tensor behind = object_behind_slot(fake);
  return !behind.defined() || shares_storage(behind, real);
}

}  // namespace

// What waits to be written has its old version. With gradients on, a tensor that needs one and is
// written is no leaf, nor does it share the memory of one.
void forget_written_casts(const CallArgs& call) {
  CastsOfBody* casts = call.op->mutated_args ? casts_of_body() : nullptr;
  if (!casts || !casts->has_any()) return;
  auto forget = [&](const Tensor& written) {
    bool is_result = thread_modes.grad_enabled && (impl_of(written)->flags & TN_T_REQUIRES_GRAD);
    if (!is_result)
      std::erase_if(casts->kept(),
                    [&](const auto& cast) { return may_lie_in(cast.second.leaf, written); });
  };
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.op->mutated_args >> i & 1) each_tensor(call.args[i], forget);
}

namespace {

// Those of the program, or of the body that this thread records or follows. Null: none are kept.
KeptCasts* casts_that_are_kept() {
  if (!thread_modes.autocast_cache) return nullptr;
  if (!thread_modes.tracer) return &cast_state().kept;
  CastsOfBody* of_body = casts_of_body();
  return of_body ? &of_body->kept() : nullptr;
}

bool is_kept_leaf(const Tensor& t) {
  return (impl_of(t)->flags & TN_T_REQUIRES_GRAD) && t.is_leaf() &&
         (thread_modes.tracer || !t.is_fake());
}

Tensor cast(const Tensor& t, Dtype to, Dtype lower) {
  KeptCasts* casts = to == lower ? casts_that_are_kept() : nullptr;
  if (!casts || !is_kept_leaf(t)) return t.to(to);
  KeptCast& kept = (*casts)[t.head()];
  bool serves = kept.cast.defined() && kept.version == version_of(t) && kept.cast.dtype() == to &&
                (kept.cast.requires_grad() || !thread_modes.grad_enabled);
  if (serves) return kept.cast;
  KeptCast made{t, t.to(to), version_of(t)};
  return ((*casts)[t.head()] = std::move(made)).cast;  // a cast that is recorded may run code
}

// Of the row itself, not its forms.
CudaCast policy_of(const OpEntry& op, DeviceType device) {
  if (op.functional) return CudaCast::none;
  if (device == DeviceType::cuda) return cast_on_cuda(op);
  constexpr CudaCast as_rows_say[] = {CudaCast::none, CudaCast::lower, CudaCast::fp32,
                                      CudaCast::promote};
  return as_rows_say[static_cast<size_t>(op.def->autocast)];
}

// A core op is one op, also where a function makes it, of other ops or of none.
bool is_made_of_parts(const OpEntry& op) {
  const OpDef& def = *op.def;
  return def.decomp && !def.core && !def.eager && !def.formula && !def.view && !def.provider &&
         !op.functional && !op.mutated_args && op.foreign_kernels().empty();
}

void run_as_given(const CallArgs& call) {
  if (is_made_of_parts(*call.op)) return call.op->def->decomp.call(call);
  BelowAutocast below;
  dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
}

bool is_on_gpu(const Tensor& t) { return t.device().type == DeviceType::cuda; }

/// What run_autocast wants to know of a call.
struct SeenCall {
  DeviceType device = DeviceType::cpu;
  std::vector<Dtype> given;
  bool names_dtype = false;

  explicit SeenCall(const CallArgs& call) {
    for_each(call, [&](const Tensor& t) {
      if (is_on_gpu(t)) device = DeviceType::cuda;
    });
    for_each(call, [&](const Tensor& t) {
      if (is_cast(t)) given.push_back(t.dtype());
    });
    for (uint32_t i = 0; i < call.n_args; ++i)
      names_dtype = names_dtype || call.args[i].tag == Tag::dtype;
  }
  /// Numbers of the CPU stay as they are where the others lie on a device.
  bool is_cast(const Tensor& t) const { return is_on_gpu(t) == (device == DeviceType::cuda); }

 private:
  template <class F>
  static void for_each(const CallArgs& call, F&& f) {
    for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], f);
  }
};

void run_cast(const CallArgs& call, const SeenCall& seen, Dtype to, Dtype lower) {
  BelowAutocast below;
  std::vector<Value> args(call.args, call.args + call.n_args);
  ArgumentLists lists;
  auto fitting = [&](const Tensor& t) {
    return seen.is_cast(t) && autocast_casts(t.dtype(), to) ? cast(t, to, lower) : t;
  };
  map_arguments(args, lists, fitting, keep_numbers);
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
}

}  // namespace

std::optional<Dtype> autocast_type(const CastCall& call, Dtype lower) {
  switch (policy_of(call.op, call.device)) {
    case CudaCast::none:
      return std::nullopt;
    case CudaCast::lower:
      return lower;
    case CudaCast::fp32:
      return Dtype::f32;
    case CudaCast::fp32_dtype:
      return call.names_dtype ? std::nullopt : std::optional(Dtype::f32);
    case CudaCast::promote:
      for (Dtype d : call.given)
        if (is_floating(d) && d != Dtype::f64 && d != lower) return Dtype::f32;
      return lower;
    case CudaCast::refused:
      fail(ErrorCode::unsupported,
           "{} is refused under autocast on cuda: it overflows in short types; "
           "binary_cross_entropy_with_logits does not, or put an "
           "AutocastGuard({{.device = DeviceType::cuda, .enabled = false}}) around it",
           call.op.name);
  }
  return std::nullopt;
}

thread_local constinit DeviceCasts device_casts;

void run_autocast(const CallArgs& call) {
  SeenCall seen(call);
  bool on_cuda = seen.device == DeviceType::cuda;
  bool is_on = on_cuda ? device_casts.on_cuda : device_casts.on_cpu;
  Dtype lower = on_cuda ? device_casts.cuda : thread_modes.autocast_dtype;
  std::optional<Dtype> to;
  if (is_on) to = autocast_type({*call.op, seen.device, seen.given, seen.names_dtype}, lower);
  return to ? run_cast(call, seen, *to, lower) : run_as_given(call);
}

AutocastOptions& AutocastState::of(DeviceType device) {
  require(device == DeviceType::cpu || device == DeviceType::cuda, ErrorCode::unsupported,
          "autocast: expected device cpu or cuda, found {}; other devices have no lists of ops",
          Device(device));
  return device == DeviceType::cpu ? cpu : cuda;
}

uint64_t AutocastState::word() const {
  auto word_of = [](const AutocastOptions& o) {
    return o.enabled ? 1 + static_cast<uint64_t>(o.dtype) : 0;
  };
  return word_of(cpu) | word_of(cuda) << 8;
}

AutocastState AutocastState::of_word(uint64_t word) {
  AutocastState state;
  auto set = [](AutocastOptions& o, uint64_t part) {
    o.enabled = part != 0;
    if (o.enabled) o.dtype = static_cast<Dtype>(part - 1);
  };
  set(state.cpu, word & 0xff);
  set(state.cuda, word >> 8 & 0xff);
  return state;
}

std::string to_text(const AutocastState& state) {
  if (!state.is_on()) return "off";
  std::string out;
  if (state.cpu.enabled) out = message("cpu {}", name_of(state.cpu.dtype));
  if (state.cuda.enabled)
    out += message("{}cuda {}", out.empty() ? "" : ", ", name_of(state.cuda.dtype));
  return out;
}

AutocastState autocast_state() {
  AutocastState state;
  state.cpu = {.dtype = thread_modes.autocast_dtype, .enabled = device_casts.on_cpu};
  state.cuda = {DeviceType::cuda, device_casts.cuda, device_casts.on_cuda};
  state.cpu.cache_enabled = state.cuda.cache_enabled = thread_modes.autocast_cache;
  return state;
}

void set_autocast_state(const AutocastState& state) {
  thread_modes.include &= ~bit(Key::autocast);
  if (state.is_on()) thread_modes.include |= bit(Key::autocast);
  thread_modes.autocast_dtype = state.cpu.dtype;
  device_casts = {state.cpu.enabled, state.cuda.enabled, state.cuda.dtype};
  thread_modes.autocast_cache = state.cpu.cache_enabled && state.cuda.cache_enabled;
}

void set_autocast(const AutocastOptions& options) {
  require(options.dtype == Dtype::bf16 || options.dtype == Dtype::f16,
          "autocast: expected dtype bf16 or f16, found {}", options.dtype);
  AutocastState state = autocast_state();
  state.of(options.device) = options;
  state.cpu.cache_enabled = state.cuda.cache_enabled = options.cache_enabled;
  set_autocast_state(state);
}

AutocastGuard::AutocastGuard(const AutocastOptions& options)
    : before_(autocast_state().of(options.device)) {
  set_autocast(options);
  ++cast_state().depth;
}

AutocastGuard::~AutocastGuard() {
  set_autocast(before_);
  if (--cast_state().depth != 0) return;
  cast_state().kept.clear();
  if (CastsOfBody* of_body = casts_of_body()) of_body->forget();
}

bool is_autocast_enabled() { return autocast_state().is_on(); }
Dtype autocast_dtype() { return thread_modes.autocast_dtype; }

}  // namespace tenon
