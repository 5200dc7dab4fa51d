// Fakes for real tensors.
#include "capture/inputs.h"

#include "autograd/accumulate_grad.h"
#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/errors/error_of_run.h"
#include "capture/lazy_numbers.h"
#include "capture/locate.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/exposure.h"
#include "ops/op_table.h"

#include <tenon/compiler.h>

#include <algorithm>
#include <ranges>

namespace tenon {

const Tensor& concrete_of(const Tensor& fake) {
  static const Tensor none;
  TensorImpl* impl = impl_of(fake);
  return impl->extra ? impl->extra->concrete : none;
}

void escape(const Tensor& fake, const Tensor& real, bool made_here) {
  settle_lazy_numbers(fake, real);
  // A leaf that the body has made and keeps: the handle is the leaf, also to tapes that know it.
  if (made_here && real.requires_grad() && real.is_leaf()) {
    if (auto end_of_tape = autograd::ensure_state(real).accumulator.lock())
      static_cast<autograd::AccumulateGrad&>(*end_of_tape).move_to(fake);
    impl_of(fake)->grad = std::move(impl_of(real)->grad);
    become(fake, real);
    return mark_requires_grad(fake, true);
  }
  become(fake, real);
  impl_of(fake)->base = impl_of(real)->base;
  impl_of(fake)->base_version = impl_of(real)->base_version;
  impl_of(fake)->grad.reset();
  mark_requires_grad(fake, real.requires_grad());
  impl_of(fake)->keys |= impl_of(real)->keys & bit(Key::autograd);  // it may not be written
  stand_for(fake, real);
}

Tensor real_of(const Tensor& t) { return t.defined() && t.is_fake() ? concrete_of(t) : t; }

namespace {

SymInt size_symbol(ShapeEnv& env, const Tensor& real, uint32_t index, uint32_t dim,
                   const TracePolicy& policy) {
  DimPolicy wanted = policy.sizes[index][dim];
  SymbolOptions options;
  options.policy = wanted == DimPolicy::duck       ? SymbolPolicy::duck
                   : wanted == DimPolicy::unbacked ? SymbolPolicy::unbacked
                                                   : SymbolPolicy::own;
  options.specialize_one = policy.specialize_one;
  bool marked = wanted == DimPolicy::own || wanted == DimPolicy::unbacked;
  const TensorMarks* marks = marked ? marks_of(real) : nullptr;
  TensorMarks::Size mark = marks ? marks->size(dim) : TensorMarks::Size();
  bool strict = marks && (marks->strict >> dim & 1);
  int64_t size = real.head()->sizes[dim];
  bool is_special = std::ranges::any_of(
      mark.special, [&](const auto& holds) { return holds(size).guard_bool(); });
  options.must_stay_dynamic = (wanted == DimPolicy::own && !is_special) || strict;
  options.range = {mark.min, mark.max};
  options.shape_id = std::move(mark.shape_id);
  options.cost_hint = mark.cost_hint;
  SymInt symbol = env.create_symbol(size, {SymbolSource::Kind::input_size, index, dim},
                                    message("arg{}.size({})", index, dim), options);
  // Versions for special sizes and for others keep apart, so that neither serves the other's calls.
  for (const auto& holds : mark.special) static_cast<void>(holds(symbol).guard_bool());
  return symbol;
}

// Strides that follow from the sizes become expressions over them, so that a change of size frees
// the stride as well: each is, where it fits, size times stride of the dimension next inside.
Dims symbolic_strides(const Tensor& real, SymIntList sizes) {
  Dims out = meta_of(real).strides;
  for (DenseStep step : dense_steps(real)) out[step.outer] = out[step.inner] * sizes[step.inner];
  return out;
}

// Tensor argument `index` with symbols for the sizes and strides that the policy frees.
TensorMeta argument_meta(ShapeEnv& env, const Tensor& real, uint32_t index,
                         const TracePolicy& policy) {
  TensorMeta meta = meta_of(real);
  for (uint32_t d = 0; d < meta.sizes.size(); ++d)
    if (policy.sizes[index][d] != DimPolicy::fixed)
      meta.sizes[d] = size_symbol(env, real, index, d, policy);
  meta.strides = symbolic_strides(real, list_of(meta.sizes));
  for (uint32_t d = 0; d < meta.strides.size(); ++d) {
    SymbolSource source{SymbolSource::Kind::input_stride, index, d};
    std::string text = message("arg{}.stride({})", index, d);
    if (meta.strides[d].is_symbolic())
      env.expect_source(source, text, meta.strides[d]);
    else if (policy.strides[index][d] != DimPolicy::fixed)
      meta.strides[d] = env.create_symbol(real.head()->strides[d], source, text);
  }
  return meta;
}

Number argument_number(ShapeEnv& env, Number number, uint32_t index, const TracePolicy& policy) {
  SymbolSource source{SymbolSource::Kind::input_value, index, 0};
  std::string text = message("number{}", index);
  if (policy.numbers[index] && number.is_integer())
    return env.create_symbol(number.to_int(), source, text, SymbolOptions::for_number());
  if (policy.numbers[index] && number.is_floating())
    return env.create_float(number.to_double(), source, text);
  return number;
}

}  // namespace

TraceInputs::TraceInputs(const detail::Leaves& leaves, GraphRecorder& recorder,
                         std::shared_ptr<const std::vector<Tensor>> state)
    : leaves_(leaves),
      recorder_(recorder),
      env_(*recorder.shape_env()),
      state_(std::move(state)),
      any_grad_(!config::flags().guards.strict_requires_grad && !thread_modes.grad_enabled) {}

void TraceInputs::add_arguments(const TracePolicy& policy) {
  for (size_t i = 0; i < leaves_.tensors.size(); ++i)
    argument_fakes_.push_back(add_argument(i, policy));
  for (uint32_t i = 0; i < leaves_.numbers.size(); ++i)
    argument_numbers_.push_back(argument_number(env_, leaves_.numbers[i], i, policy));
}

GuardedCall TraceInputs::recorded_call() const {
  return {.leaves = leaves_,
          .metas = argument_metas_,
          .needs_grad = arguments_need_grad_,
          .numbers = argument_numbers_,
          .env = env_,
          .any_requires_grad = any_grad_,
          .by_place = by_place};
}

Tensor TraceInputs::add_argument(size_t index, const TracePolicy& policy) {
  const Tensor& real = *leaves_.tensors[index];
  TensorMeta& meta = argument_metas_.emplace_back();
  arguments_need_grad_.push_back(real.defined() && real.requires_grad());
  if (!real.defined()) return Tensor();
  for (size_t j = 0; j < index; ++j) {
    if (!same_head(*leaves_.tensors[j], real)) continue;
    meta = argument_metas_[j];
    return argument_fakes_[j];
  }
  auto leaf = static_cast<uint32_t>(index);
  meta = argument_meta(env_, real, leaf, policy);
  // Arguments over one storage stay so as fakes.
  StorageRef storage;
  for (size_t j = 0; j < index && !storage; ++j)
    if (leaves_.tensors[j]->defined() && shares_storage(*leaves_.tensors[j], real))
      storage = impl_of(argument_fakes_[j])->storage_ref;
  return add_input(real, meta, real.storage_offset(), std::move(storage),
                   {ValueOrigin::Kind::leaf, leaf});
}

namespace {

// The strides of `met` over its symbolic sizes.
Dims symbolic_strides(const Tensor& real, const Dims& sizes, ImplicitInput& met) {
  Dims strides = symbolic_strides(real, list_of(sizes));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d].is_symbolic()) met.free_sizes |= uint64_t{1} << d;
  for (DenseStep step : dense_steps(real))
    if (strides[step.outer].is_symbolic()) met.dense.push_back(step);
  return strides;
}

/// Real tensors that the segment knows, with the fake memory that stands for theirs.
struct KnownMemory {
  const StandIns& stand_ins;
  std::span<const Tensor> inputs;
  std::span<const StorageRef> storages;  // of `inputs`

  /// That of the tensor's memory, or null; as an input of the segment has it, where one does.
  StorageRef of(const Tensor& real) const {
    auto memory = [](const Tensor& t) { return impl_of(t)->storage_ref.get(); };
    for (size_t i = inputs.size(); i-- > 0;)
      if (memory(inputs[i]) == memory(real)) return storages[i];
    for (const auto& [known, fake] : std::views::reverse(stand_ins.all()))
      if (memory(known) == memory(real)) return impl_of(fake)->storage_ref;
    return {};
  }
};

}  // namespace

Tensor TraceInputs::lift(const Tensor& real, const detail::Body& body, InGraph in_graph) {
  if (Tensor fake = stand_ins.fake_of(real); fake.defined()) {
    note_same(real, fake, body);
    recorder_.as_fake(fake);  // adopts it where a new segment has begun
    return fake;
  }
  StorageRef storage = KnownMemory{stand_ins, segment_inputs_, segment_storages_}.of(real);
  auto place = static_cast<uint32_t>(implicit.size());
  ImplicitInput& met = implicit.emplace_back(locate(real, body, modules.all()));
  met.is_wrapped_number = is_wrapped_number(real);
  met.needs_grad = real.requires_grad();
  TensorMeta meta = meta_of(real);
  meta.sizes = in_graph.sizes(real, place);
  meta.strides = symbolic_strides(real, meta.sizes, met);
  SymInt offset = real.storage_offset();
  if (stand_ins.any_overlaps(real)) offset = in_graph.offset(offset);
  Tensor fake =
      add_input(real, meta, offset, std::move(storage), {ValueOrigin::Kind::implicit, place});
  impl_of(fake)->extra->wrapped_number = met.is_wrapped_number;
  return fake;
}

// Handles that are one tensor now may be two later.
void TraceInputs::note_same(const Tensor& real, const Tensor& fake, const detail::Body& body) {
  const ValueOrigin* input = known_origin(fake);
  if (!input || input->kind == ValueOrigin::Kind::graph) return;
  bool is_argument = input->kind == ValueOrigin::Kind::leaf;
  refuse_unless(
      !is_argument || !recorder_.on_tape || !real.requires_grad(), ErrorCode::unsupported,
      "a body that calls backward() and must be one graph captures a tensor of shape {} that "
      "needs a gradient and is its argument, too; pass a detach() of it, or leave out fullgraph",
      real.sizes());
  if (!is_argument && implicit[input->index].address == &real) return;
  ImplicitInput handle = locate(real, body, modules.all());
  if (!is_argument && !handle.address) return;  // as good as the one that is known
  bool is_known = std::ranges::any_of(same_tensors, [&](const SameTensor& same) {
    return same.input == *input && same.handle.address == handle.address;
  });
  if (!is_known) same_tensors.push_back({std::move(handle), *input});
}

void TraceInputs::lift_gradient(const Tensor& leaf, const Tensor& gradient) {
  if (stand_ins.fake_of(gradient).defined()) return;
  ValueOrigin origin = origin_of(recorder_.as_fake(leaf));  // may lift the leaf
  auto place = static_cast<uint32_t>(implicit.size());
  add_input(gradient, meta_of(gradient), gradient.storage_offset(),
            KnownMemory{stand_ins, segment_inputs_, segment_storages_}.of(gradient),
            {ValueOrigin::Kind::implicit, place});
  implicit.push_back({.source = ImplicitInput::Source::gradient,
                      .leaf = origin,
                      .tensor = gradient,
                      .needs_grad = gradient.requires_grad()});
}

// Whether others may lie in its memory unseen: only what was lent can be lent twice.
static bool is_lent(const Tensor& real) {
  const StorageRef& storage = impl_of(real)->storage_ref;
  return storage && is_exposed(*storage.get());
}

Tensor TraceInputs::add_input(const Tensor& real, const TensorMeta& meta, SymInt offset,
                              StorageRef storage, ValueOrigin origin) {
  GraphValue value;
  value.flags.requires_grad = real.requires_grad() && !any_grad_;
  const TensorMarks* marks = marks_of(real);
  value.flags.static_address =
      origin.kind == ValueOrigin::Kind::implicit || (marks && marks->static_address);
  Tensor fake = recorder_.add_input(meta, offset, std::move(value), std::move(storage));
  impl_of(fake)->ensure_extra().concrete = real;
  segment_inputs_.push_back(real);
  segment_origins_.push_back(origin);
  segment_storages_.push_back(impl_of(fake)->storage_ref);
  set_origin(fake, origin);
  if (is_lent(real)) watch_lent(real);
  stand_ins.add(real, fake);
  return fake;
}

void TraceInputs::watch_lent(const Tensor& real) {
  let_go_of_captured(*this);
  for (const auto& [known, fake] : stand_ins.all()) {
    if (!share_lent_memory(known, real)) continue;
    for (const Tensor* t : {&known, &real}) host_writes.watch(*t);
    lends_twice = true;
  }
}

bool TraceInputs::meets_lent_memory(const CallArgs& call) const {
  bool any = false;
  auto look = [&](const Tensor& t) {
    if (any || !t.defined() || t.is_fake() || !is_lent(t) || stand_ins.fake_of(t).defined()) return;
    any = std::ranges::any_of(stand_ins.all(),
                              [&](const auto& known) { return share_lent_memory(known.first, t); });
  };
  for (uint32_t i = 0; i < call.n_args; ++i) each_tensor(call.args[i], look);
  return any;
}

Tensor TraceInputs::fake_for_result(const Tensor& real) {
  Tensor fake = make_fake(meta_of(real), real.storage_offset());
  impl_of(fake)->ensure_extra().concrete = real;
  impl_of(fake)->keys |= bit(Key::meta);
  if (real.requires_grad()) mark_requires_grad(fake, true);
  stand_ins.add(real, fake);
  origins_.erase(impl_of(fake));  // of one that is gone
  recorder_.know_earlier(fake);   // somebody may keep it who never uses it
  return fake;
}

// Strides that follow from its sizes follow from these.
static void set_sizes(const Tensor& fake, const Dims& sizes) {
  TensorMeta meta = meta_of(fake);
  Dims strides = meta.strides;
  for (auto [outer, inner] : dense_steps(concrete_of(fake)))
    if ((meta.strides[inner] * meta.sizes[inner]).word() == meta.strides[outer].word())
      strides[outer] = strides[inner] * sizes[inner];
  replace_metadata(fake, list_of(sizes), list_of(strides), sym_offset_of(fake));
}

void TraceInputs::adopt(const Tensor& fake, const Dims& sizes, NamedOffset named) {
  if (!std::ranges::equal(fake.sizes(), sizes, {}, &SymInt::word, &SymInt::word))
    set_sizes(fake, sizes);
  share_memory(fake, concrete_of(fake));
  if (is_made_here(fake) || stand_ins.any_overlaps(concrete_of(fake)))
    if (SymInt name = named(sym_offset_of(fake)); name.word() != sym_offset_of(fake).word())
      put_at(fake, name);
  recorder_.adopt_input(fake);
  segment_inputs_.push_back(concrete_of(fake));
  segment_storages_.push_back(impl_of(fake)->storage_ref);
  auto known = origins_.find(impl_of(fake));
  segment_origins_.push_back(known == origins_.end() ? ValueOrigin{} : known->second);
}

// Inputs of a segment are over one storage where the real tensors are, whatever an earlier run did.
void TraceInputs::share_memory(const Tensor& fake, const Tensor& real) {
  StorageRef wanted;
  bool taken = false;
  for (size_t i = 0; i < segment_inputs_.size(); ++i) {
    if (shares_storage(segment_inputs_[i], real)) wanted = segment_storages_[i];
    taken = taken || segment_storages_[i].get() == impl_of(fake)->storage_ref.get();
  }
  if (!wanted && taken) wanted = make_fake_storage(fake.device());
  // A captured tensor may begin elsewhere than the one that an earlier run has met.
  bool is_elsewhere = impl_of(fake)->storage_offset != real.storage_offset();
  if (!wanted && !is_elsewhere) return;
  if (wanted) impl_of(fake)->storage_ref = std::move(wanted);
  put_at(fake, is_elsewhere ? SymInt(real.storage_offset()) : sym_offset_of(fake));
}

void TraceInputs::set_origin(const Tensor& fake, ValueOrigin origin) {
  origins_.insert_or_assign(impl_of(fake), origin);
}

void TraceInputs::add_known(const Tensor& real, const Tensor& fake, const ImplicitInput& met) {
  set_origin(fake, {ValueOrigin::Kind::implicit, static_cast<uint32_t>(implicit.size())});
  impl_of(fake)->ensure_extra().concrete = real;
  put_where_it_lies(fake);
  stand_ins.add(real, fake);
  ImplicitInput& known = implicit.emplace_back(met);
  known.source = ImplicitInput::Source::held;
  known.tensor = real;
  known.is_wrapped_number = is_wrapped_number(real);
}

std::vector<Overlap> TraceInputs::segment_overlaps() const {
  std::vector<const Tensor*> tensors;
  for (const Tensor& t : segment_inputs_) tensors.push_back(&t);
  return overlaps_of(tensors);
}

void TraceInputs::take_place(const Tensor& own, const Tensor& held) {
  auto replace = [&](Tensor& t) {
    if (t.defined() && same_head(t, own)) t = held;
  };
  if (auto known = origins_.find(impl_of(own)); known != origins_.end())
    set_origin(held, known->second);
  std::ranges::for_each(argument_fakes_, replace);
  stand_ins.take_place(own, held);
}

// If the caller passed state(), only captured tensors in it and their gradients may be written. On
// the tape, also bump the version so that autograd sees the write.
void TraceInputs::check_write(const Tensor& written) const {
  auto is_of = [](const Tensor& t, const Tensor& real) {
    if (shares_storage(t, real)) return true;
    autograd::GradState* own = autograd::state_of(t);
    if (!own) return false;
    std::lock_guard guard(own->lock);
    return own->grad.defined() && shares_storage(own->grad, real);
  };
  auto is_named = [&](const Tensor& real) {
    return !state_ || std::ranges::any_of(*state_, [&](const Tensor& t) { return is_of(t, real); });
  };
  for (const auto& [real, fake] : stand_ins.all()) {
    if (is_argument(*this, fake) || !shares_storage(fake, written)) continue;
    refuse_unless(
        is_named(real), ErrorCode::invalid_argument,
        "the body writes a captured tensor of shape {} that state() does not name; add its "
        "module, its optimizer or the tensor itself to the state that compile() is given",
        real.sizes());
    if (recorder_.on_tape) bump_version(real);
  }
}

namespace {

template <class F>
void each_written(const CallArgs& call, F&& f) {
  uint64_t written = written_args(call);
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (written >> i & 1) each_tensor(call.args[i], f);
}

}  // namespace

void TraceInputs::check_writes(const CallArgs& call) const {
  if (!state_ && !recorder_.on_tape) return;
  each_written(call, [this](const Tensor& t) { check_write(t); });
}

// Of arguments the body holds the fakes.
std::vector<Tensor> TraceInputs::captured_changed_by(const CallArgs& call) const {
  auto differ = [this](SymIntList now, SymIntList real) {
    auto value = [this](SymInt v) { return env_.int_hint(v); };
    return !std::ranges::equal(now, real, {}, value, value);
  };
  std::vector<Tensor> changed;
  each_written(call, [&](const Tensor& fake) {
    Tensor real = stand_ins.real_of(fake);
    auto is_it = [&](const Tensor& argument) { return same_head(argument, fake); };
    if (!real.defined() || std::ranges::any_of(argument_fakes_, is_it)) return;
    if (differ(fake.sizes(), real.sizes()) || differ(fake.strides(), real.strides()))
      changed.push_back(fake);
  });
  return changed;
}

namespace {

// An integer of `from` has the same value when it is read as `to`.
bool keeps_integers(Dtype from, Dtype to) {
  bool integers =
      is_integral(from) && is_integral(to) && from != Dtype::bool_ && to != Dtype::bool_;
  return integers && (from == to || (itemsize(from) < itemsize(to) && to != Dtype::u8));
}

}  // namespace

std::optional<SymInt> TraceInputs::item_of_argument(const Tensor& fake, Dtype wanted) {
  auto found =
      std::ranges::find_if(argument_fakes_, [&](const Tensor& t) { return same_head(t, fake); });
  if (found == argument_fakes_.end()) return std::nullopt;
  auto index = static_cast<size_t>(found - argument_fakes_.begin());
  const Tensor& real = *leaves_.tensors[index];
  if (real.dim() != 0 || real.device() != kCPU || !keeps_integers(real.dtype(), wanted))
    return std::nullopt;
  auto [known, is_new] = argument_items_.try_emplace(index);
  if (!is_new) return known->second;
  PauseRecording pause;
  known->second =
      env_.create_symbol(detail::item_int(real, std::source_location::current()),
                         {SymbolSource::Kind::input_item, static_cast<uint32_t>(index), 0},
                         message("arg{}.item()", index), SymbolOptions::for_number());
  return known->second;
}

void set_need(const TraceInputs& inputs, const Tensor& met, bool needs_grad) {
  Tensor fake = met.is_fake() ? met : inputs.stand_ins.fake_of(met);
  if (fake.defined()) mark_requires_grad(fake, needs_grad);
}

void TraceInputs::restart() {
  recorder_.restart();
  segment_inputs_.clear();
  segment_origins_.clear();
  segment_storages_.clear();
  written.clear();
  let_go_of_captured(*this);
}

std::vector<detail::TensorHead*> TraceInputs::segment_heads(size_t n) const {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : segment_inputs_) heads.push_back(t.head());
  heads.resize(n, nullptr);
  return heads;
}

ValueOrigin TraceInputs::origin_of(const Tensor& fake) const {
  for (uint32_t i = 0; i < segment_origins_.size(); ++i)
    if (recorder_.input_fake(i).is_same(fake)) return segment_origins_[i];
  refuse(
      ErrorCode::unsupported,
      "a body that calls backward() changes the gradient of a leaf that it has made itself; call "
      "autograd::grad() for that");
}

int32_t TraceInputs::references(const Tensor& fake) const {
  auto is_it = [&](const Tensor& t) { return same_head(t, fake); };
  return static_cast<int32_t>(
      std::ranges::count_if(argument_fakes_, is_it) +
      std::ranges::count_if(stand_ins.all(), is_it, &std::pair<Tensor, Tensor>::second));
}

}  // namespace tenon
