// Which memory is written, and which is looked at by place.
#include "capture/memory_of_inputs.h"

#include "autograd/view.h"
#include "capture/inputs.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/tensor_impl.h"
#include "graph/passes/view_root.h"
#include "graph/record.h"
#include "ops/forms/history.h"
#include "ops/op_table.h"

#include <algorithm>

namespace tenon {

void StandIns::add(const Tensor& real, const Tensor& fake) {
  all_.emplace_back(real, fake);
  index(all_.size() - 1);
}

void StandIns::index(size_t place) {
  by_real_.try_emplace(all_[place].first.head(), place);
  by_fake_.try_emplace(all_[place].second.head(), place);
}

void StandIns::index_anew() {
  by_real_.clear();
  by_fake_.clear();
  for (size_t i = 0; i < all_.size(); ++i) index(i);
}

void StandIns::take_place(const Tensor& own, const Tensor& held) {
  for (auto& [real, fake] : all_)
    if (same_head(fake, own)) fake = held;
  index_anew();
}

void StandIns::erase(FunctionRef<bool(Known&)> is_gone) {
  if (std::erase_if(all_, is_gone)) index_anew();
}

Tensor StandIns::fake_of(const Tensor& real) const {
  auto known = by_real_.find(real.head());
  return known == by_real_.end() ? Tensor() : all_[known->second].second;
}

Tensor StandIns::real_of(const Tensor& fake) const {
  auto known = by_fake_.find(fake.head());
  return known == by_fake_.end() ? Tensor() : all_[known->second].first;
}

bool StandIns::any_overlaps(const Tensor& real) const {
  const Storage* memory = impl_of(real)->storage_ref.get();
  return std::ranges::any_of(all_, [&](const Known& known) {
    bool is_there = impl_of(known.first)->storage_ref.get() == memory;
    return is_there && !same_head(known.first, real) && may_overlap(known.first, real);
  });
}

void StandIns::forget(std::span<const Tensor> reals) {
  erase([&](const Known& known) {
    return std::ranges::any_of(reals, [&](const Tensor& t) { return same_head(t, known.first); });
  });
}

void WrittenMemory::add(const Tensor& real) {
  const StorageRef& memory = impl_of(real)->storage_ref;
  memory_.try_emplace(memory.get(), memory);
}

// What the body has made may be a view of what it was given.
void WrittenMemory::note(const CallArgs& call, const StandIns& stand_ins) {
  auto note_one = [&](const Tensor& t) {
    Tensor real = real_of(t);
    if (real.defined()) return add(real);
    const Storage* memory = impl_of(t)->storage_ref.get();
    for (const auto& [known, fake] : stand_ins.all())
      if (impl_of(fake)->storage_ref.get() == memory) add(known);
  };
  uint64_t written = written_args(call);
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (written >> i & 1) each_tensor(call.args[i], note_one);
}

bool WrittenMemory::holds(const Tensor& real) const {
  return memory_.contains(impl_of(real)->storage_ref.get());
}

static bool has_hints_of(const Tensor& fake, const Tensor& real) {
  const detail::TensorHead *a = fake.head(), *b = real.head();
  return fake.dim() == real.dim() && std::equal(a->sizes, a->sizes + fake.dim(), b->sizes) &&
         std::equal(a->strides, a->strides + fake.dim(), b->strides);
}

void ShownChanges::show(std::span<const Tensor> fakes, const StandIns& stand_ins) {
  for (const Tensor& fake : fakes) {
    Tensor real = stand_ins.real_of(fake);
    if (std::ranges::none_of(before_, [&](const Before& b) { return same_head(b.real, real); }))
      before_.push_back(
          {real, dims_of(real.sizes()), dims_of(real.strides()), real.storage_offset()});
    replace_metadata(real, fake.sizes(), fake.strides(), sym_offset_of(fake));
  }
}

void ShownChanges::show_arguments(const CallArgs& call, const TraceInputs& inputs) {
  auto show_one = [&](const Tensor& fake) {
    if (!fake.is_fake() || !is_argument(inputs, fake)) return;
    Tensor real = inputs.stand_ins.real_of(fake);
    if (real.defined() && !has_hints_of(fake, real)) show({&fake, 1}, inputs.stand_ins);
  };
  uint64_t written = written_args(call);
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (written >> i & 1) each_tensor(call.args[i], show_one);
}

void ShownChanges::give_back() {
  for (const Before& b : before_)
    replace_metadata(b.real, list_of(b.sizes), list_of(b.strides), b.offset);
  before_.clear();
}

// Memory that the body has made begins where it did in the recording.
void note_places(TraceInputs& inputs, const CallArgs& call) {
  if (!(call.op->def->tags & OpTags::by_place)) return;
  if (call.args[call.n_args - 1].tag == Tag::none) return;  // the offset
  note_places_of(inputs, *call.args[0].as<Tensor>());
}

void note_places_of(TraceInputs& inputs, const Tensor& seen) {
  Tensor there = real_of(seen);  // undefined for what the body has made
  for (const auto& [real, fake] : inputs.stand_ins.all()) {
    bool is_there = shares_storage(fake, seen) || (there.defined() && shares_storage(real, there));
    if (!is_there) continue;
    const ValueOrigin* origin = inputs.known_origin(fake);
    if (!origin) continue;
    if (origin->kind == ValueOrigin::Kind::implicit)
      inputs.implicit[origin->index].is_by_place = true;
    bool is_new = std::ranges::find(inputs.by_place, origin->index) == inputs.by_place.end();
    if (origin->kind == ValueOrigin::Kind::leaf && is_new) inputs.by_place.push_back(origin->index);
  }
}

namespace {

// A fake of the recorder.
void check_recorded(const TraceInputs& inputs, const GraphRecorder& recorder, const Tensor& written,
                    std::string_view op) {
  const ValueId value_now = impl_of(written)->extra->trace_value;
  if (was_written_with_grad(recorder.graph(), recorder.values_before(), recorder.grad_enabled(),
                            value_now))
    return;
  const ViewRoot root = view_root(recorder, value_now);
  const GraphValue& value = recorder.graph().value(root.value);
  bool is_input = value.source == ValueSource::input;
  const Tensor real = is_input ? inputs.segment_inputs()[value.source_index] : Tensor();
  if (root.is_view)
    autograd::check_write_of_view(real, root.from_no_grad, op);
  else if (real.defined())
    autograd::check_write(real, op);
}

}  // namespace

void check_writes_to_tape(const TraceInputs& inputs, const GraphRecorder& recorder,
                          const CallArgs& call) {
  if (!call.op->mutated_args || forgets_history(*call.op)) return;  // statistics may need gradients
  if (recorder.on_tape || !thread_modes.grad_enabled) return;
  PauseRecording as_they_are;  // a tensor that the body gives a history is no leaf any more
  auto check = [&](const Tensor& t) {
    if (!t.defined() || !is_differentiable(t.dtype())) return;
    if (recorder.owns(t)) return check_recorded(inputs, recorder, t, call.op->name);
    const Tensor real = real_of(t);
    if (real.defined()) autograd::check_write(real, call.op->name);
  };
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.op->mutated_args >> i & 1) each_tensor(call.args[i], check);
}

bool is_argument(const TraceInputs& inputs, const Tensor& fake) {
  return std::ranges::any_of(inputs.argument_fakes(),
                             [&](const Tensor& t) { return t.defined() && same_head(t, fake); });
}

void put_at(const Tensor& fake, SymInt offset) {
  impl_of(fake)->ensure_extra().sym_offset = offset;
  replace_metadata(fake, fake.sizes(), fake.strides(), offset);
}

void put_where_it_lies(const Tensor& fake) {
  const Tensor& real = concrete_of(fake);
  if (real.defined()) put_at(fake, real.storage_offset());
}

int64_t offset_of(const TraceInputs& inputs, const Tensor& fake) {
  int64_t own = sym_offset_of(fake).guard_int();
  for (const auto& [real, known] : inputs.stand_ins.all())
    if (shares_storage(known, fake))
      return own + elements_beyond(fake, real, impl_of(known)->storage_offset);
  return own;
}

int64_t elements_beyond(const Tensor& fake, const Tensor& of_call, int64_t known) {
  int64_t elements = of_call.storage_offset() - known;
  return elements * itemsize(of_call.dtype()) / itemsize(fake.dtype());
}

static int32_t references_of(const Tensor& t) {
  return t.head()->references.load(std::memory_order_relaxed);
}

// What nobody else holds the body cannot name again: in a plain run its memory is free by now.
void let_go_of_captured(TraceInputs& inputs) {
  inputs.stand_ins.erase([&](StandIns::Known& known) {
    const ValueOrigin* origin = inputs.known_origin(known.second);
    if (!origin || origin->kind != ValueOrigin::Kind::implicit) return false;
    const ImplicitInput& met = inputs.implicit[origin->index];
    constexpr int32_t ours = 3;  // in `implicit`, in the pair, and behind its fake
    bool is_gone = met.source == ImplicitInput::Source::held && !met.is_by_place &&
                   references_of(known.first) == ours && references_of(known.second) == 1;
    if (!is_gone) return false;
    known = {};
    hollow_out(met.tensor);
    return true;
  });
}

}  // namespace tenon
