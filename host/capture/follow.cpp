// Following: comparing operations with steps, changing paths, and turning into a recording.
#include "capture/follow.h"

#include "capture/record_steps.h"
#include "core/dispatch.h"
#include "graph/hash.h"
#include "graph/record.h"
#include "ops/complex_forms.h"
#include "ops/decompose.h"

#include <algorithm>
#include <array>

namespace tenon {

/// This thread's ops go to a follower for as long as it lives.
struct Follower::Running {
  ModeScope keys{bit(Key::trace), bit(Key::autograd)};
  void* tracer = std::exchange(thread_modes.tracer, nullptr);
  uint64_t outside = std::exchange(thread_modes.excluded_outside, keys.excluded_before());
  explicit Running(Follower& follower) { thread_modes.follower = thread_modes.tracer = &follower; }
  ~Running() {
    thread_modes.follower = nullptr;
    thread_modes.tracer = tracer;
    thread_modes.excluded_outside = outside;
  }
};

namespace {

// Captured tensors that are one with each other or with an argument would have been one value.
bool are_distinct(const detail::Leaves& leaves, std::span<const Tensor> slots) {
  if (slots.empty()) return true;
  size_t capacity = std::bit_ceil(2 * (slots.size() + leaves.tensors.size()));
  std::array<const void*, 64> local{};
  std::vector<const void*> spilled(capacity > local.size() ? capacity : 0);
  std::span<const void*> table(spilled.empty() ? local.data() : spilled.data(), capacity);
  auto insert = [&](const void* head) {
    size_t place = (reinterpret_cast<uint64_t>(head) >> 4) * 0x9E3779B97F4A7C15u >> 32;
    for (;; ++place) {
      const void*& entry = table[place & (capacity - 1)];
      if (entry == head) return false;
      if (!entry) return entry = head, true;
    }
  };
  for (const Tensor* t : leaves.tensors.span())
    if (t->defined()) insert(t->head());
  return std::ranges::all_of(slots, [&](const Tensor& t) { return insert(t.head()); });
}

bool has_written(std::span<const Path::Step> taken) {
  return std::ranges::any_of(taken, [](const auto& step) { return step.op->mutated_args != 0; });
}

}  // namespace

Follower::Follower(const detail::Leaves& leaves, PathVersion first, Helpers helpers)
    : leaves_(leaves), helpers_(helpers), first_(first) {
  frame_ = lend({});
}

Follower::~Follower() {
  if (frame_) path().give_back(std::move(frame_), next_);
}

// `numbers`: those that the body has given so far.
std::unique_ptr<Frame> Follower::lend(std::span<const int64_t> numbers) const {
  const GuardSet& guards = current_->recording->guards;
  std::array<int64_t, 32> local;
  std::vector<int64_t> spilled(guards.loads.size() > local.size() ? guards.loads.size() : 0);
  std::span<int64_t> words(spilled.empty() ? local.data() : spilled.data(), guards.loads.size());
  guards.load(leaves_, words.data(), numbers);
  return path().lend(words, numbers.size());
}

void Follower::run(const detail::Body& body) {
  body_ = &body;
  Running running(*this);
  try {
    body.run(body.context, frame_->arguments.data(), leaves_.numbers.data(), results_.tensors,
             results_.plain);
    if (!trace_ && !is_at_end()) {
      difference_ = next_ < path().steps().size()
                        ? message("it ends after {} of {} operations", next_, path().steps().size())
                        : "its results are others";
      stop_following();
    }
    if (trace_) recording_ = trace_->finish(results_);
  } catch (const WantsTape&) {
    trace_scope_.reset();
    throw;
  } catch (...) {
    // What the body has done by now is done.
    if (!trace_ && (has_written(path().steps().first(next_)) || has_escapes())) stop_following();
    if (trace_) trace_->failed();
    trace_scope_.reset();
    throw;
  }
  trace_scope_.reset();
}

// ---- one operation

bool Follower::takes(const CallArgs& call) {
  if (fits_step(call)) return give_results(call), true;
  const OpEntry& op = *call.op;
  bool taken_apart = (is_complex_form(call) && !op.functional) ||
                     (op.schema.has_list_among_results() && can_decompose(op));
  if (taken_apart) return decompose(call), true;
  if (switch_path([&] { return fits_step(call); })) return give_results(call), true;
  difference_ = difference(call);
  return false;
}

bool Follower::fits_step(const CallArgs& call) {
  if (next_ == path().steps().size()) return false;
  const Path::Step& step = path().steps()[next_];
  if (step.op != call.op || step.n_args != call.n_args || step.grad != thread_modes.grad_enabled)
    return false;
  size_t slots_before = frame_->slots.size();
  const Value* expected = frame_->args.data() + step.first_arg;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (!fits(expected[i], call.args[i])) {
      frame_->slots.resize(slots_before);
      return false;
    }
  return true;
}

bool Follower::fits(const Value& expected, const Value& given) {
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

bool Follower::is_value(ValueId value, const Tensor& given) {
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

bool Follower::takes_numbers(const Value& expected, const Value& given) {
  auto take = [this](size_t index, int64_t word) {
    path().set_number(*frame_, index, word);
    const auto& guards = current_->recording->guards.numbers_of_body;
    return index >= guards.size() || guards[index].program.check(frame_->symbols);
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

// Slots are numbered in the order in which the body meets them.
bool Follower::takes_slot(uint32_t slot, const Tensor& given) {
  std::vector<Tensor>& slots = frame_->slots;
  if (slot < slots.size()) return slots[slot].is_same(given);
  const PathVersion& version = *current_;
  if (slot > slots.size() || !matches(version.slot_guards[slot], given) ||
      version.recording->implicit[slot].is_wrapped_number != is_wrapped_number(given))
    return false;
  slots.push_back(given);
  return true;
}

void Follower::give_results(const CallArgs& call) {
  const Path::Step& step = path().steps()[next_++];
  if (step.in_place >= 0) {
    const Tensor& self = frame_->objects[static_cast<size_t>(step.in_place)];
    impl_of(self)->extra->trace_value = step.first_result;
    call.results[0] = Value::own(self);
  } else if (step.op->schema.returns_list()) {
    const Tensor* first = &frame_->objects[path().object_of(step.first_result)];
    call.results[0] = Value::own(std::vector<Tensor>(first, first + step.n_results));
  } else {
    for (uint32_t r = 0; r < step.n_results; ++r)
      call.results[r] = Value::own(frame_->objects[path().object_of(step.first_result + r)]);
  }
}

// ---- other paths

// A path that has the same steps so far and goes on as `fits` asks takes over.
bool Follower::switch_path(FunctionRef<bool()> fits) {
  if (!asked_for_others_) {
    asked_for_others_ = true;
    others_ = helpers_.others();
  }
  for (size_t i = 0; i <= others_.size(); ++i) {
    const PathVersion& other = i < others_.size() ? others_[i] : first_;
    if (&other == current_ || other.path->shared_steps(path()) < next_) continue;
    move_frame(other);
    if (fits()) return true;
  }
  return false;
}

// The body goes on holding the tensors that it holds; they belong to the frame of the other path
// from here on.
void Follower::move_frame(const PathVersion& to) {
  const Path& from = path();
  std::unique_ptr<Frame> old = std::move(frame_);
  current_ = &to;
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
  from.give_back(std::move(old), 0);
}

// ---- the end of the body

bool Follower::is_at_end() {
  auto ends = [this] {
    const Recording& recorded = *current_->recording;
    if (next_ != path().steps().size() || results_.tensors.size() != recorded.outputs.size())
      return false;
    size_t slots_before = frame_->slots.size();
    for (size_t i = 0; i < recorded.outputs.size(); ++i)
      if (!is_output(recorded.outputs[i], results_.tensors[i])) {
        frame_->slots.resize(slots_before);
        return false;
      }
    return frame_->slots.size() == path().n_slots() && are_distinct(leaves_, frame_->slots) &&
           helpers_.holds(*current_, frame_->slots);
  };
  return !has_escapes() && (ends() || switch_path(ends));
}

bool Follower::is_output(const ValueOrigin& origin, const Tensor& given) {
  if (origin.kind == ValueOrigin::Kind::undefined) return !given.defined();
  if (!given.defined()) return false;
  if (origin.kind == ValueOrigin::Kind::graph)
    return is_value(path().graph().outputs()[origin.index], given);
  // An input itself, which may have been written.
  auto is_it = [&](const Path::Object& o) {
    return o.origin.kind == origin.kind && o.origin.index == origin.index;
  };
  auto object = std::ranges::find_if(path().objects(), is_it);
  if (object == path().objects().end()) return false;
  const Tensor& fake = frame_->objects[static_cast<size_t>(object - path().objects().begin())];
  return is_value(impl_of(fake)->extra->trace_value, given);
}

// Whether somebody keeps a fake beyond the body.
bool Follower::has_escapes() const {
  auto n_outputs = static_cast<int32_t>(results_.tensors.size());
  for (size_t o = 0; o < frame_->objects.size(); ++o) {
    const Tensor& t = frame_->objects[o];
    if (!t.defined()) continue;
    int32_t others =
        t.head()->references.load(std::memory_order_relaxed) - 1 - path().objects()[o].n_arguments;
    if (others == 0) continue;
    if (others > n_outputs) return true;
    for (const Tensor& out : results_.tensors) others -= out.defined() && out.is_same(t);
    if (others) return true;
  }
  return false;
}

// ---- recording after all

// For people: what the body does, and what was recorded in its place.
std::string Follower::difference(const CallArgs& call) {
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

void Follower::stop_following() {
  thread_modes.follower = nullptr;  // what comes now is recorded
  trace_ = helpers_.record(path(), difference_);
  trace_scope_ = std::make_unique<TraceScope>(*trace_, *body_);
  record_steps(*trace_, path(), *frame_, next_);
  frame_.reset();
}

namespace {

Follower& current_follower() { return *static_cast<Follower*>(thread_modes.follower); }

const bool installed = (
    follow_slot = [](const CallArgs& call) { return current_follower().takes(call); },
    stop_following_slot = [] { current_follower().stop_following(); }, true);

}  // namespace

}  // namespace tenon
