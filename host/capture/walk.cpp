// Walking along a path: the next step, the end of a part, and changing over to another path.
#include "capture/walk.h"

#include "capture/record_steps.h"
#include "core/dispatch.h"
#include "graph/hash.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <array>
#include <bit>

namespace tenon {

namespace {

// Whether a captured tensor is like the one that a version has met.
bool fits_slot(const PathVersion& version, size_t slot, const Tensor& given) {
  return matches(version.slot_guards[slot], given) &&
         version.recording->implicit[slot].is_wrapped_number == is_wrapped_number(given);
}

}  // namespace

Walk::Walk(const detail::Leaves& leaves, const PathVersion& version)
    : leaves_(leaves), version_(&version), grad_(thread_modes.grad_enabled) {
  frame_ = lend({});
}

Walk::~Walk() {
  if (frame_ && !has_escaped_) path().frames().give_back(std::move(frame_), next_);
}

// `numbers`: those that the body has given so far.
std::unique_ptr<Frame> Walk::lend(std::span<const int64_t> numbers) const {
  const GuardSet& guards = version_->recording->guards;
  std::array<int64_t, 32> local;
  std::vector<int64_t> spilled(guards.loads.size() > local.size() ? guards.loads.size() : 0);
  std::span<int64_t> words(spilled.empty() ? local.data() : spilled.data(), guards.loads.size());
  guards.load(leaves_, words.data(), numbers);
  return path().frames().lend(words, numbers.size());
}

// ---- one operation

bool Walk::fits_step(const CallArgs& call) {
  if (next_ == path().steps().size()) return false;
  const Path::Step& step = path().steps()[next_];
  if (step.op != call.op || step.n_args != call.n_args || step.grad != thread_modes.grad_enabled)
    return false;
  size_t slots_before = frame_->slots.size();
  const Value* expected = frame_->args.data() + step.first_arg;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (!fits(expected[i], call.args[i])) {
      drop_slots(slots_before);
      return false;
    }
  return true;
}

bool Walk::fits(const Value& expected, const Value& given) {
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

bool Walk::is_value(ValueId value, const Tensor& given) {
  const TensorExtra* extra = impl_of(given)->extra.get();
  if (given.is_fake()) return extra && extra->trace_id == frame_->id && extra->trace_value == value;
  uint32_t number = path().object_of(value);
  const Path::Object& object = path().objects()[number];
  if (impl_of(frame_->objects[number])->extra->trace_value != value) return false;
  if (object.origin.kind == ValueOrigin::Kind::leaf)
    return leaves_.tensors[object.origin.index]->is_same(given);
  return object.origin.kind == ValueOrigin::Kind::implicit &&
         takes_slot(object.origin.index, given);
}

bool Walk::takes_numbers(const Value& expected, const Value& given) {
  auto take = [this](size_t index, int64_t word) {
    const auto& guards = version_->recording->guards.numbers_of_body;
    if (index < guards.size() && !guards[index].conditions.empty()) {
      std::vector<int64_t> words = frame_->symbols;
      words[path().numbers()[index].word] = word;
      if (!guards[index].program.check(words)) return false;
    }
    path().frames().set_number(*frame_, index, word);
    return true;
  };
  std::span<const Path::BodyNumber> numbers = path().numbers();
  if (expected.tag != Tag::ints)
    return given.tag == numbers[expected.payload].kind && !given.is_symbolic() &&
           take(expected.payload, static_cast<int64_t>(given.payload));
  if (given.tag != Tag::ints || given.count != expected.count || given.is_symbolic()) return false;
  auto place = static_cast<uint32_t>(&expected - frame_->args.data());
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i].arg == place && !take(i, given.as<int64_t>()[numbers[i].place.element]))
      return false;
  return std::equal(given.as<int64_t>(), given.as<int64_t>() + given.count, expected.as<int64_t>());
}

void Walk::number_known_tensors() {
  known_.restart(leaves_.tensors.size() + frame_->slots.size() + 1);
  for (const Tensor* t : leaves_.tensors.span()) known_.add(*t);
  for (const Tensor& t : frame_->slots) known_.add(t);
}

// Slots are numbered in the order in which the body meets them.
bool Walk::takes_slot(uint32_t slot, const Tensor& given) {
  std::vector<Tensor>& slots = frame_->slots;
  if (slot < slots.size()) return slots[slot].is_same(given);
  if (slot > slots.size() || !fits_slot(*version_, slot, given)) return false;
  // One that is an argument too, or in another slot, would have been one value.
  if (known_.is_empty()) number_known_tensors();
  size_t number = known_.size();
  if (known_.add(given) != number) return false;
  slots.push_back(given);
  return true;
}

void Walk::give_results(const CallArgs& call) {
  const Path::Step& step = path().steps()[next_++];
  if (step.in_place >= 0) {
    const Tensor& self = frame_->objects[static_cast<size_t>(step.in_place)];
    impl_of(self)->extra->trace_value = step.first_result;
    bool needs_grad = path().value(step.first_result).flags.requires_grad;
    if (self.requires_grad() != needs_grad) mark_requires_grad(self, needs_grad);
    call.results[0] = Value::own(self);
  } else if (step.op->schema.returns_list()) {
    const Tensor* first = &frame_->objects[path().object_of(step.first_result)];
    call.results[0] = Value::own(std::vector<Tensor>(first, first + step.n_results));
  } else {
    for (uint32_t r = 0; r < step.n_results; ++r)
      call.results[r] = Value::own(frame_->objects[path().object_of(step.first_result + r)]);
  }
}

// For people: what the body does, and what was recorded in its place.
std::string Walk::difference(const CallArgs& call) {
  if (next_ == path().steps().size())
    return message("operation {} is {}, where the recorded body ends", next_, call.op->name);
  const Path::Step& step = path().steps()[next_];
  if (step.op != call.op || step.n_args != call.n_args)
    return message("operation {} is {}, recorded was {}", next_, call.op->name, step.op->name);
  std::string where = message("operation {}, {}", next_, call.op->name);
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value &expected = frame_->args[step.first_arg + i], &given = call.args[i];
    if (fits(expected, given)) continue;
    std::string name = call.op->schema.args[i].name;
    if (expected.is_number() && given.is_number() && !expected.sub && !given.is_symbolic())
      return message("{}: {} is {}, recorded was {}", where, name, given.number(),
                     expected.number());
    if (given.tag == Tag::tensor)
      return message("{}: {} is another tensor ({})", where, name, *given.as<Tensor>());
    return message("{}: {} is another one", where, name);
  }
  return message("{}: gradients were switched {}", where, step.grad ? "off" : "on");
}

// ---- other paths

// The other path has the same steps so far, and ended the same segments.
bool Walk::may_change_to(const PathVersion& other) const {
  std::span<const Path::Part> mine = path().parts().first(n_run_), others = other.path->parts();
  if (n_run_ && (!other.path->has_breaks() || others.size() < n_run_)) return false;
  for (size_t i = 0; i < n_run_; ++i)
    if (mine[i].end_step != others[i].end_step) return false;
  if (other.path->shared_steps(path()) < next_ || frame_->slots.size() > other.slot_guards.size())
    return false;
  for (size_t i = 0; i < frame_->slots.size(); ++i)
    if (!fits_slot(other, i, frame_->slots[i])) return false;
  return other.recording->guards.numbers_hold(leaves_, frame_->numbers,
                                              other.path->numbers_before(next_));
}

// The body goes on holding the tensors that it holds; they belong to the frame of the other path
// from here on.
void Walk::change_to(const PathVersion& to) {
  const Path& from = path();
  std::unique_ptr<Frame> old = std::move(frame_);
  version_ = &to;
  frame_ = lend(std::span<const int64_t>(old->numbers).first(from.numbers_before(next_)));
  ValueId end = from.values_before(next_);
  for (size_t o = 0; o < from.objects().size(); ++o) {
    ValueId value = from.objects()[o].value;
    if (value >= end) continue;
    Tensor& mine = frame_->objects[path().object_of(value)];
    std::swap(old->objects[o], mine);
    if (mine.defined()) impl_of(mine)->extra->trace_id = frame_->id;
    if (old->objects[o].defined()) impl_of(old->objects[o])->extra->trace_id = old->id;
  }
  std::swap(frame_->arguments, old->arguments);
  std::swap(frame_->slots, old->slots);
  from.frames().give_back(std::move(old), 0);
}

// ---- the end of the body in one piece

bool Walk::ends_whole(std::span<const Tensor> outputs) {
  const Recording& recorded = *version_->recording;
  if (next_ != path().steps().size() || outputs.size() != recorded.outputs.size() ||
      has_escapes(outputs))
    return false;
  size_t slots_before = frame_->slots.size();
  for (size_t i = 0; i < recorded.outputs.size(); ++i)
    if (!is_output(recorded.outputs[i], outputs[i])) {
      drop_slots(slots_before);
      return false;
    }
  return frame_->slots.size() == path().n_slots();
}

bool Walk::is_output(const ValueOrigin& origin, const Tensor& given) {
  if (origin.kind == ValueOrigin::Kind::undefined) return !given.defined();
  if (!given.defined()) return false;
  if (origin.kind == ValueOrigin::Kind::graph)
    return is_value(path().parts()[0].graph->outputs()[origin.index], given);
  // An input itself, which may have been written.
  uint32_t object = path().object_at(origin);
  return object != Path::no_object &&
         is_value(impl_of(frame_->objects[object])->extra->trace_value, given);
}

// Whether somebody keeps a fake beyond the body.
bool Walk::has_escapes(std::span<const Tensor> outputs) const {
  auto n_outputs = static_cast<int32_t>(outputs.size());
  for (size_t o = 0; o < frame_->objects.size(); ++o) {
    const Tensor& t = frame_->objects[o];
    if (!t.defined()) continue;
    int32_t others =
        t.head()->references.load(std::memory_order_relaxed) - 1 - path().objects()[o].n_arguments;
    if (others == 0) continue;
    if (others > n_outputs) return true;
    for (const Tensor& out : outputs) others -= out.defined() && out.is_same(t);
    if (others) return true;
  }
  return false;
}

bool Walk::has_written() const {
  std::span<const Path::Step> pending = path().steps().subspan(begun_, next_ - begun_);
  return std::ranges::any_of(pending, [](const auto& step) { return has_effect(*step.op); });
}

// ---- segments

const Tensor& Walk::real_of(const Tensor& fake) const {
  const TensorExtra& extra = *impl_of(fake)->extra;
  if (extra.trace_id != frame_->id) return concrete_of(fake);
  const ValueOrigin& origin = path().objects()[path().object_of(extra.trace_value)].origin;
  if (origin.kind == ValueOrigin::Kind::leaf) return *leaves_.tensors[origin.index];
  if (origin.kind == ValueOrigin::Kind::implicit) return frame_->slots[origin.index];
  return extra.concrete;
}

std::optional<Number> Walk::item_of_argument(const Tensor& fake) const {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  if (!extra || extra->trace_id != frame_->id) return std::nullopt;
  const Path::Object& object = path().objects()[path().object_of(extra->trace_value)];
  auto is_it = [&](const SymbolLoad& load) {
    return load.kind == SymbolLoad::Kind::item && load.index == object.origin.index;
  };
  bool is_read = object.origin.kind == ValueOrigin::Kind::leaf &&
                 extra->trace_value == object.value &&
                 std::ranges::any_of(version_->recording->guards.loads, is_it);
  if (!is_read) return std::nullopt;
  PauseRecording pause;
  return detail::item_int(*leaves_.tensors[object.origin.index], std::source_location::current());
}

bool Walk::ends_segment(const SegmentCalls& calls) {
  if (!has_pending_steps()) return true;
  if (n_run_ == path().parts().size()) return false;
  const Path::Part& part = path().parts()[n_run_];
  if (part.end_step != next_ || !gives_what_is_held(part)) return false;
  if (part.segment->writes && overlaps_of(inputs_of(part)) != part.segment->overlaps) return false;
  code_ = calls.find(*part.segment, symbols_of(part));
  return code_ != nullptr;
}

bool Walk::gives_what_is_held(const Path::Part& part) const {
  for (uint32_t o = part.first_object; o < part.end_object; ++o) {
    const Tensor& t = frame_->objects[o];
    bool is_held = t.defined() && t.head()->references.load(std::memory_order_relaxed) > 1;
    if (is_held && std::ranges::find(part.outputs, o) == part.outputs.end()) return false;
  }
  return true;
}

std::vector<int64_t> Walk::symbols_of(const Path::Part& part) const {
  std::vector<int64_t> words;
  for (uint32_t word : part.symbol_words) words.push_back(frame_->symbols[word]);
  return words;
}

std::vector<const Tensor*> Walk::inputs_of(const Path::Part& part) const {
  std::vector<const Tensor*> inputs;
  for (uint32_t object : part.inputs)
    if (object != Path::no_object) inputs.push_back(&real_of(frame_->objects[object]));
  return inputs;
}

void Walk::run_segment(const SegmentCalls& calls) {
  const Path::Part& part = path().parts()[n_run_];
  detail::LeafArray<detail::TensorHead*, 24> heads;
  for (uint32_t object : part.inputs)
    heads.push(object == Path::no_object ? nullptr : real_of(frame_->objects[object]).head());
  constexpr size_t few = 8;
  Tensor local[few];
  std::vector<Tensor> spilled(part.outputs.size() > few ? part.outputs.size() : 0);
  std::span<Tensor> outputs(spilled.empty() ? local : spilled.data(), part.outputs.size());
  begun_ = next_;  // also where it throws: it has run once
  {
    PauseRecording pause;
    EnableGradGuard as_recorded(grad_);
    std::vector<int64_t> symbols = symbols_of(part);
    calls.run(*code_, {const_cast<detail::TensorHead**>(heads.data()), heads.size()}, symbols,
              outputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& fake = frame_->objects[part.outputs[i]];
    if (outputs[i].requires_grad()) mark_requires_grad(fake, true);
    impl_of(fake)->extra->concrete = std::move(outputs[i]);
  }
  ++n_run_;
}

void Walk::let_escape() {
  for (uint32_t o = 0; o < frame_->objects.size(); ++o) {
    Tensor& t = frame_->objects[o];
    int32_t ours = 1 + path().objects()[o].n_arguments;
    if (!t.defined() || t.head()->references.load(std::memory_order_relaxed) <= ours) continue;
    escape(t, Tensor(real_of(t)));
    has_escaped_ = true;
  }
}

// ---- recording after all

void Walk::become_recording(Trace& trace) {
  if (n_run_) trace.resume(*version_->recording, path(), n_run_, *frame_);
  record_steps(trace, path(), *frame_, begun_, next_);
  frame_.reset();
}

}  // namespace tenon
