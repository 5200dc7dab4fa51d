// Comparing the operations of a run with the steps of a path, and changing over to another path.
#include "capture/follow/position.h"

#include "core/grad_mode.h"
#include "core/tensor/stand_in.h"
#include "graph/hash.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon {

static_assert(std::has_unique_object_representations_v<Value>, "values are compared as bytes");

SlotGuard::SlotGuard(const ImplicitInput& met)
    : TensorGuard(guard_of(met.tensor)),
      is_wrapped_number(met.is_wrapped_number),
      dense(met.dense) {
  requires_grad = met.needs_grad;
  free_sizes = met.free_sizes;
  if (met.is_by_place) offset = met.tensor.storage_offset();
  for (DenseStep step : dense) free_strides |= uint64_t{1} << step.outer;
}

bool SlotGuard::holds(const Tensor& given) const {
  const detail::TensorHead* h = given.head();
  return matches(*this, given) && is_wrapped_number == tenon::is_wrapped_number(given) &&
         (!offset || *offset == given.storage_offset()) &&
         std::ranges::all_of(dense, [h](DenseStep step) {
           return h->strides[step.outer] == h->strides[step.inner] * h->sizes[step.inner];
         });
}

std::vector<SlotGuard> slot_guards(const Recording& recording) {
  return {recording.implicit.begin(), recording.implicit.end()};
}

Position::Position(const detail::Leaves& leaves, const PathVersion& version)
    : leaves_(leaves), version_(&version) {
  frame_ = lend({});
}

Position::~Position() {
  if (frame_) path().frames().give_back(std::move(frame_), next_);
}

// `numbers`: those that the body has given so far.
std::unique_ptr<Frame> Position::lend(std::span<const int64_t> numbers) const {
  const GuardSet& guards = version_->recording->guards;
  if (guards.loads.empty()) return path().frames().lend({}, 0);
  std::array<int64_t, 32> local;
  std::vector<int64_t> spilled(guards.loads.size() > local.size() ? guards.loads.size() : 0);
  std::span<int64_t> words(spilled.empty() ? local.data() : spilled.data(), guards.loads.size());
  guards.load(leaves_, words.data(), numbers);
  return path().frames().lend(words, numbers.size());
}

// ---- one operation

bool Position::fits_step(const CallArgs& call) {
  if (next_ == path().steps().size()) return false;
  const Path::Step& step = path().steps()[next_];
  if (step.op != call.op || step.n_args != call.n_args || step.grad != gradients_are_on())
    return false;
  size_t slots_before = frame_->slots.size();
  has_new_numbers_ = has_moved_ = false;
  // Arguments may depend on numbers that come after them.
  if (fits_arguments(step, call) && (!has_new_numbers_ || given_numbers_hold()) &&
      (!has_moved_ || fits_arguments(step, call)))
    return true;
  drop_slots(slots_before);
  return false;
}

// Most plain values are.
static bool same_bytes(const Value& a, const Value& b) {
  return std::memcmp(&a, &b, sizeof(Value)) == 0;
}

bool Position::fits_arguments(const Path::Step& step, const CallArgs& call) {
  const Value* expected = frame_->args.data() + step.first_arg;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (!same_bytes(expected[i], call.args[i]) && !fits(expected[i], call.args[i])) return false;
  return true;
}

bool Position::fits(const Value& expected, const Value& given) {
  if (expected.sub == Frame::body_number) return takes_numbers(expected, given);
  if (expected.tag == Tag::ref)
    return given.tag == Tag::tensor &&
           is_value(static_cast<ValueId>(expected.payload), *given.as<Tensor>());
  if (expected.tag != Tag::refs) return same_argument(expected, given);
  if (given.tag != Tag::tensors || given.count != expected.count) return false;
  for (uint32_t i = 0; i < given.count; ++i) {
    const Tensor& t = given.as<Tensor>()[i];
    ValueId value = expected.as<ValueId>()[i];
    if (value == no_value ? t.defined() : !t.defined() || !is_value(value, t)) return false;
  }
  return true;
}

bool Position::is_value(ValueId value, const Tensor& given) {
  const TensorExtra* extra = impl_of(given)->extra.get();
  if (given.is_fake()) return extra && extra->trace_id == frame_->id && extra->trace_value == value;
  uint32_t number = path().object_of(value);
  const Path::Object& object = path().objects()[number];
  if (impl_of(frame_->objects[number])->extra->trace_value != value) return false;
  if (object.origin.kind == ValueOrigin::Kind::leaf)
    return same_head(*leaves_.tensors[object.origin.index], given);
  return object.origin.kind == ValueOrigin::Kind::implicit &&
         takes_slot(object.origin.index, given);
}

bool Position::takes_numbers(const Value& expected, const Value& given) {
  std::span<const Path::BodyNumber> numbers = path().numbers();
  if (expected.tag != Tag::ints) {
    if (given.tag != numbers[expected.payload].kind || given.is_symbolic()) return false;
    take_number(expected.payload, static_cast<int64_t>(given.payload));
    return true;
  }
  if (given.tag != Tag::ints || given.count != expected.count || given.is_symbolic()) return false;
  auto place = static_cast<uint32_t>(&expected - frame_->args.data());
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i].arg == place) take_number(i, given.as<int64_t>()[numbers[i].place.element]);
  return std::equal(given.as<int64_t>(), given.as<int64_t>() + given.count, expected.as<int64_t>());
}

void Position::take_number(size_t index, int64_t word) {
  has_new_numbers_ = true;
  has_moved_ = path().frames().set_number(*frame_, index, word) || has_moved_;
}

// On the numbers that the next step gives.
static std::string failed_condition(const Position& at) {
  const Recording& recording = *at.version().recording;
  const auto& guards = recording.guards.numbers_of_body;
  for (size_t i = at.path().numbers_before(at.next_step()); i < guards.size(); ++i) {
    const std::vector<const Expr*>& conditions = guards[i].conditions;
    int failed = conditions.empty() ? -1 : guards[i].program.failed_condition(at.frame().symbols);
    if (failed >= 0 && static_cast<size_t>(failed) < conditions.size())
      return recording.shape_env->source_text(conditions[static_cast<size_t>(failed)]);
  }
  return "other numbers";
}

// Of the numbers that the next step gives.
bool Position::given_numbers_hold() const {
  const auto& guards = version_->recording->guards.numbers_of_body;
  for (size_t i = path().numbers_before(next_); i < guards.size(); ++i) {
    if (path().numbers()[i].place.step != next_) break;
    if (!guards[i].conditions.empty() && !guards[i].program.check(frame_->symbols)) return false;
  }
  return true;
}

void Position::drop_slots(size_t n) {
  if (frame_->slots.size() == n) return;
  frame_->slots.resize(n);
  known_.restart(0);
}

void Position::number_known_tensors() {
  known_.restart(leaves_.tensors.size() + frame_->slots.size() + 1);
  for (const Tensor* t : leaves_.tensors.span()) known_.add(*t);
  for (const Tensor& t : frame_->slots) known_.add(t);
}

uint32_t Position::object_of_real(const Tensor& t) const {
  const size_t n_arguments = leaves_.tensors.size();
  auto of = [&](size_t number) {
    if (number < n_arguments) return path().argument_objects()[number];
    return path().object_at(
        {ValueOrigin::Kind::implicit, static_cast<uint32_t>(number - n_arguments)});
  };
  auto is_it = [&](size_t number) {
    const Tensor& known =
        number < n_arguments ? *leaves_.tensors[number] : frame_->slots[number - n_arguments];
    return same_head(known, t);
  };
  const size_t n = n_arguments + frame_->slots.size();
  if (!known_.is_empty()) {
    std::optional<uint32_t> number = known_.find(t);
    return number && *number < n && is_it(*number) ? of(*number) : Path::no_object;
  }
  for (size_t number = 0; number < n; ++number)
    if (is_it(number)) return of(number);
  return Path::no_object;
}

// Slots are numbered in the order in which the body meets them.
bool Position::takes_slot(uint32_t slot, const Tensor& given) {
  std::vector<Tensor>& slots = frame_->slots;
  if (slot < slots.size()) return same_head(slots[slot], given);
  if (slot > slots.size() || !version_->slot_guards[slot].holds(given)) return false;
  // One that is an argument too, or in another slot, would have been one value.
  if (known_.is_empty()) number_known_tensors();
  size_t number = known_.size();
  if (known_.add(given) != number) return false;
  if (version_->slot_guards[slot].free_sizes && !takes_sizes(slot, given)) return false;
  slots.push_back(given);
  return true;
}

// They are asked about at the step that the recording has met the tensor in. Tensors that share a
// symbol have the same size.
bool Position::takes_sizes(uint32_t slot, const Tensor& given) {
  for (size_t i = 0; i < path().numbers().size(); ++i) {
    const NumberPlace& place = path().numbers()[i].place;
    if (!place.is_size() || place.arg != slot) continue;
    if (place.step != next_) return false;
    take_number(i, given.head()->sizes[place.element]);
  }
  uint32_t object = path().object_at({ValueOrigin::Kind::implicit, slot});
  return std::ranges::equal(frame_->objects[object].sizes(), given.sizes(), {}, &SymInt::word,
                            &SymInt::word);
}

// To what is over the memory of what the step has written.
static void give_histories(const Position& at, size_t step) {
  if (at.version().recording->has_backward) return;  // the tape does
  const std::span given = at.path().given_histories();
  auto one = std::ranges::lower_bound(given, step, {}, &Path::GivenHistory::step);
  for (; one != given.end() && one->step == step; ++one)
    mark_requires_grad(at.frame().objects[one->object], true);
}

// Meanwhile for the steps that come next: in a long path, or behind kernels that have filled the
// caches, each fake comes from far.
static void fetch_ahead(const Path& path, const Frame& frame, size_t next) {
  std::span<const Path::Step> ahead = path.steps().subspan(next);
  if (ahead.size() < 2) return;
  auto first_of = [&](const Path::Step& step) -> const TensorImpl* {
    if (!step.n_results) return nullptr;
    uint32_t object = step.in_place >= 0 ? static_cast<uint32_t>(step.in_place)
                                         : path.object_of(step.first_result);
    return impl_of(frame.objects[object]);
  };
  if (const TensorImpl* next_one = first_of(ahead[0])) __builtin_prefetch(next_one->extra.get());
  if (const TensorImpl* later = first_of(ahead[1])) {
    __builtin_prefetch(&later->references, 1);
    __builtin_prefetch(&later->extra);
  }
}

void Position::give_results(const CallArgs& call) {
  const Path::Step& step = path().steps()[next_++];
  fetch_ahead(path(), *frame_, next_);
  if (step.in_place >= 0) {
    auto object = static_cast<uint32_t>(step.in_place);
    set_value(object, step.first_result);
    if (!path().given_histories().empty()) give_histories(*this, next_ - 1);
    call.results[0] = Value::own(frame_->objects[object]);
  } else if (step.op->schema.returns_list()) {
    const Tensor* first = &frame_->objects[path().object_of(step.first_result)];
    call.results[0] = Value::own(std::vector<Tensor>(first, first + step.n_results));
  } else {
    for (uint32_t r = 0; r < step.n_results; ++r)
      call.results[r] = Value::own(frame_->objects[path().object_of(step.first_result + r)]);
  }
}

// An operation has written it.
void Position::set_value(uint32_t object, ValueId value) {
  const Tensor& t = frame_->objects[object];
  impl_of(t)->extra->trace_value = value;
  if (path().objects()[object].is_reshaped) path().frames().lay_out(*frame_, value);
  bool needs_grad = path().value(value).flags.requires_grad;
  bool is_up_to_tape = version_->recording->has_backward;
  if (!is_up_to_tape && t.requires_grad() != needs_grad) mark_requires_grad(t, needs_grad);
}

bool Position::fits_unit(const OpUnit& unit) {
  const Path::Unit* recorded = path().unit_at(next_);
  if (!recorded || recorded->number != unit.number() ||
      recorded->values.size() != unit.tensors().size() ||
      !std::ranges::equal(recorded->facts, unit.facts()) ||
      path().steps()[next_].grad != gradients_are_on())
    return false;
  size_t slots_before = frame_->slots.size();
  for (uint32_t i : recorded->order) {
    if (is_value(recorded->values[i], *unit.tensors()[i])) continue;
    drop_slots(slots_before);
    return false;
  }
  return true;
}

void Position::pass_unit(OpUnit& taken) {
  const Path::Unit& unit = *path().unit_at(next_);
  for (const Path::Unit::Write& write : unit.writes) {
    set_value(write.object, write.value);
    // The tape asks the fakes for versions; those of captured tensors change once the code has run.
    if (version_->recording->has_backward && write.is_new)
      bump_version(frame_->objects[write.object]);
  }
  for (ValueId v : unit.results)
    taken.results.push_back(v == no_value ? Tensor() : frame_->objects[path().object_of(v)]);
  taken.notes = unit.notes;
  next_ = unit.end_step;
  passed_units_.push_back(&unit);
}

std::string Position::difference(const CallArgs& call) {
  if (next_ == path().steps().size())
    return message("operation {} is {}, where the recorded body ends", next_, call.op->name);
  const Path::Step& step = path().steps()[next_];
  if (step.op != call.op || step.n_args != call.n_args)
    return message("operation {} is {}, recorded was {}", next_, call.op->name, step.op->name);
  std::string where = message("operation {}, {}", next_, call.op->name);
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value &expected = frame_->args[step.first_arg + i], &given = call.args[i];
    if (same_bytes(expected, given) || fits(expected, given)) continue;
    std::string name = call.op->schema.args[i].name;
    if (expected.is_number() && given.is_number() && !expected.sub && !given.is_symbolic())
      return message("{}: {} is {}, recorded was {}", where, name, given.number(),
                     expected.number());
    if (given.tag == Tag::tensor)
      return message("{}: {} is another tensor ({})", where, name, *given.as<Tensor>());
    return message("{}: {} is another one", where, name);
  }
  if (step.grad != gradients_are_on())
    return message("{}: gradients were switched {}", where, step.grad ? "off" : "on");
  return message("{}: the code is for {}", where, failed_condition(*this));
}

// ---- other paths

// What the body still holds of a part that has run is a result of it in the other path too.
static bool gives_what_is_held(const Frame& frame, const Path& mine, const Path& other,
                               size_t part) {
  std::span<const uint32_t> there = other.parts()[part].outputs;
  return std::ranges::all_of(mine.parts()[part].outputs, [&](uint32_t o) {
    const Tensor& t = frame.objects[o];
    bool is_held = t.defined() && t.head()->references.load(std::memory_order_relaxed) > 1;
    uint32_t same = other.object_of(mine.objects()[o].value);
    return !is_held || std::ranges::find(there, same) != there.end();
  });
}

static bool holds_as_named(SlotGuard guard, const Frame& frame, uint32_t slot) {
  auto first = frame.first_needs.find(slot);
  if (first != frame.first_needs.end()) {
    if (guard.requires_grad != first->second) return false;
    guard.any_requires_grad = true;
  }
  return guard.holds(frame.slots[slot]);
}

bool Position::may_change_to(const PathVersion& other, size_t n_parts) const {
  std::span<const Path::Part> mine = path().parts().first(n_parts), others = other.path->parts();
  if (n_parts && (!other.path->has_breaks() || others.size() < n_parts)) return false;
  for (size_t i = 0; i < n_parts; ++i)
    if (mine[i].end_step != others[i].end_step) return false;
  if (other.path->shared_steps(path()) < next_ || frame_->slots.size() > other.slot_guards.size())
    return false;
  for (size_t i = 0; i < n_parts; ++i)
    if (!gives_what_is_held(*frame_, path(), *other.path, i)) return false;
  for (uint32_t i = 0; i < frame_->slots.size(); ++i)
    if (!holds_as_named(other.slot_guards[i], *frame_, i)) return false;
  if (other.path->numbers().empty()) return true;
  std::vector<int64_t> numbers = numbers_for(*other.path);
  auto is_same = [&](const SharedSize& size) {
    return size.place.arg >= frame_->slots.size() || size.number >= numbers.size() ||
           frame_->slots[size.place.arg].head()->sizes[size.place.element] == numbers[size.number];
  };
  return std::ranges::all_of(other.recording->given.shared_sizes, is_same) &&
         other.recording->guards.numbers_hold(leaves_, numbers, numbers.size());
}

// What another path with the same steps so far takes for its numbers.
std::vector<int64_t> Position::numbers_for(const Path& other) const {
  std::vector<int64_t> words, given;
  std::span<const Path::BodyNumber> mine = path().numbers().first(path().numbers_before(next_));
  for (size_t i = 0; i < mine.size(); ++i)
    if (!mine[i].place.is_size()) given.push_back(frame_->numbers[i]);
  size_t n_given = 0;
  for (const Path::BodyNumber& number : other.numbers().first(other.numbers_before(next_))) {
    const NumberPlace& place = number.place;
    bool is_known = place.is_size() ? place.arg < frame_->slots.size() : n_given < given.size();
    if (!is_known) break;
    words.push_back(place.is_size() ? frame_->slots[place.arg].head()->sizes[place.element]
                                    : given[n_given++]);
  }
  return words;
}

namespace {

void mark_objects(const Frame& frame) {
  for (const Tensor& t : frame.objects)
    if (t.defined()) impl_of(t)->extra->trace_id = frame.id;
}

}  // namespace

void Position::change_to(const PathVersion& to) {
  const Path& from = path();
  std::vector<int64_t> numbers = numbers_for(*to.path);
  std::unique_ptr<Frame> old = std::move(frame_);
  version_ = &to;
  passed_units_.clear();
  frame_ = lend(numbers);
  ValueId end = from.values_before(next_);
  for (size_t o = 0; o < from.objects().size(); ++o) {
    ValueId value = from.objects()[o].value;
    if (value >= end) continue;
    Tensor& mine = frame_->objects[path().object_of(value)];
    std::swap(old->objects[o], mine);
    if (mine.defined()) impl_of(mine)->extra->trace_id = frame_->id;
    Tensor& other = old->objects[o];
    if (other.defined()) impl_of(other)->extra->trace_id = old->id;
    // Each path has offsets of its own recordings.
    if (!mine.defined() || !other.defined() ||
        impl_of(mine)->storage_offset == impl_of(other)->storage_offset)
      continue;
    path().frames().lay_out_object(*frame_, path().object_of(value));
    from.frames().lay_out_object(*old, static_cast<uint32_t>(o));
  }
  std::swap(frame_->arguments, old->arguments);
  std::swap(frame_->slots, old->slots);
  std::swap(frame_->first_needs, old->first_needs);
  frame_->is_spoiled |= old->is_spoiled;
  if (!to.recording->has_backward) return from.frames().give_back(std::move(old), 0);
  // The tape has handles of its own that name the frame, and asks what is a view of what. Views of
  // the old frame that were to come are of what the body holds: it is not lent again.
  std::swap(frame_->id, old->id);
  mark_objects(*frame_);
  path().frames().share_with_earlier(*frame_, end);
}

// ---- the results of a body in one piece

bool Position::fits_results(std::span<const Tensor> outputs, const TouchedGradients* gradients) {
  const Recording& recorded = *version_->recording;
  if (outputs.size() != recorded.outputs.size()) return false;
  size_t slots_before = frame_->slots.size();
  has_new_numbers_ = false;
  bool all = true;
  for (size_t i = 0; all && i < outputs.size(); ++i)
    all = is_output(recorded.outputs[i], outputs[i]);
  auto is = [this](const ValueOrigin& origin, const Tensor& t) { return is_output(origin, t); };
  const GradEffects& effects = recorded.gradients;
  all = all && (gradients ? gradients->are_as_recorded(effects, is)
                          : effects.left.empty() && effects.without_grad.empty());
  if (all && (!has_new_numbers_ || given_numbers_hold()))
    return frame_->slots.size() == path().n_slots();
  drop_slots(slots_before);
  return false;
}

bool Position::is_output(const ValueOrigin& origin, const Tensor& given) {
  if (origin.kind == ValueOrigin::Kind::undefined) return !given.defined();
  if (!given.defined()) return false;
  if (origin.kind == ValueOrigin::Kind::graph)
    return is_value(path().parts()[0].graph->outputs()[origin.index], given);
  // An input itself, which may have been written.
  uint32_t object = path().object_at(origin);
  return object != Path::no_object &&
         is_value(impl_of(frame_->objects[object])->extra->trace_value, given);
}

}  // namespace tenon
