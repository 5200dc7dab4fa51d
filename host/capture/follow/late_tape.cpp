// Nodes of a run along a path: which are due, and making them after all.
#include "capture/follow/late_tape.h"

#include "autograd/saved/saved_tensor_hooks.h"
#include "autograd/tape.h"
#include "capture/follow/memory_of_run.h"
#include "core/arguments.h"
#include "ops/forms/history.h"

#include <algorithm>
#include <ranges>

namespace tenon {

void LateTape::begin() {
  is_open_ = true;
  modes_ = thread_modes;
  autograd::late_nodes = this;
}

void LateTape::end() {
  is_open_ = false;
  forget();
  if (autograd::late_nodes == this) autograd::late_nodes = nullptr;
}

namespace {

/// `f(object)` for each argument of a step, `f(object, true)` where the step writes it.
template <class F>
void each_argument(const Path& path, const Path::Step& step, F f) {
  std::span<const Value> args = path.args_of(step);
  const uint64_t written = written_args(*step.op, args);
  for (uint32_t i = 0; i < args.size(); ++i)
    for_each_value(args[i], [&](ValueId own) {
      if (own == no_value) return;
      f(path.object_of(path.number_of(path.parts()[step.part], own)), (written >> i & 1) != 0);
    });
}

template <class F>
void each_result(const Path& path, const Path::Step& step, F f) {
  for (uint32_t r = 0; r < step.n_results; ++r) f(path.object_of(step.first_result + r));
}

}  // namespace

bool LateTape::take(const OpEntry& op, const VjpPlan& plan, size_t before) {
  if (!is_open_ || n_steps() != before + 1) return false;
  const Path& path = walk_.path();
  const Path::Step& step = path.steps()[before];
  if (step.op != &op || step.in_place >= 0) return false;
  due_.push_back({static_cast<uint32_t>(before), &plan});
  is_named_.resize(path.objects().size());
  is_made_.resize(path.objects().size());
  each_argument(path, step, [this](uint32_t object, bool is_written) {
    if (!is_written) is_named_[object] = true;
  });
  each_result(path, step, [this](uint32_t object) { is_named_[object] = is_made_[object] = true; });
  for (const Value& arg : path.args_of(step))
    for_each_symbolic(arg, [this](Number) { has_numbers_ = true; });
  return true;
}

bool LateTape::is_due(const Tensor& fake) const {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  if (!extra || extra->trace_id != walk_.at().frame().id) return false;
  std::span<const Path::Step> steps = walk_.path().steps();
  auto first_result = [&](const Due& due) { return steps[due.step].first_result; };
  auto behind = std::ranges::upper_bound(due_, extra->trace_value, {}, first_result);
  if (behind == due_.begin()) return false;
  const Path::Step& step = steps[std::prev(behind)->step];
  return extra->trace_value < step.first_result + step.n_results;
}

// ---- writes

const Tensor* LateTape::real_of(uint32_t object) const {
  const ValueOrigin& origin = walk_.path().objects()[object].origin;
  if (origin.kind == ValueOrigin::Kind::leaf) return walk_.at().leaves().tensors[origin.index];
  std::span<const Tensor> slots = walk_.at().frame().slots;
  bool is_slot = origin.kind == ValueOrigin::Kind::implicit && origin.index < slots.size();
  return is_slot ? &slots[origin.index] : nullptr;
}

// Whether a node that is due has made the object, or may keep what lies in its memory.
bool LateTape::is_needed(uint32_t written) const {
  if (is_made_[written]) return true;  // or a write would hide its node
  if (is_named_.empty() || is_named_[written]) return !is_named_.empty();
  std::span<const Tensor> objects = walk_.at().frame().objects;
  const Tensor* own = real_of(written);
  if (is_alone_in_memory(objects[written]) && (!own || is_alone_in_memory(*own))) return false;
  // Captured tensors may share memory that their fakes do not.
  std::vector<const Tensor*> fakes{&objects[written]}, reals;
  auto lies_in = [](const std::vector<const Tensor*>& list, const Tensor& t) {
    auto shares = [&](const Tensor* known) { return shares_storage(*known, t); };
    return t.defined() && std::ranges::any_of(list, shares);
  };
  for (uint32_t o = 0; o < objects.size(); ++o)
    if (const Tensor* real = real_of(o); real && lies_in(fakes, objects[o])) reals.push_back(real);
  for (uint32_t o = 0; o < objects.size(); ++o)
    if (const Tensor* real = real_of(o); real && lies_in(reals, *real))
      fakes.push_back(&objects[o]);
  for (uint32_t o = 0; o < is_named_.size(); ++o)
    if (is_named_[o] && lies_in(fakes, objects[o])) return true;
  return false;
}

bool LateTape::is_written_by(const CallArgs& call) const {
  if (due_.empty()) return false;
  if (forgets_history(*call.op)) return true;
  const Path& path = walk_.path();
  bool is = false;
  each_argument(path, path.steps()[n_steps()], [&](uint32_t object, bool is_written) {
    is = is || (is_written && is_needed(object));
  });
  return is;
}

bool LateTape::is_written_by(const Path::Unit& unit) const {
  return !due_.empty() && std::ranges::any_of(unit.writes, [this](const Path::Unit::Write& write) {
    return is_needed(write.object);
  });
}

// ---- passes

// As the body names it.
const Tensor& LateTape::tensor_of(ValueId value) const {
  const uint32_t object = walk_.path().object_of(value);
  const Frame& frame = walk_.at().frame();
  const ValueOrigin& origin = walk_.path().objects()[object].origin;
  return origin.kind == ValueOrigin::Kind::implicit ? frame.slots[origin.index]
                                                    : frame.objects[object];
}

std::optional<autograd::RecordedPass> LateTape::begin_pass(uint64_t number) {
  const Path& path = walk_.path();
  const Path::Unit* unit = path.unit_at(n_steps());
  // Numbers that are not the recording's may be known to the operations so far, but not to the pass.
  if (!unit || unit->number != number || has_numbers_ ||
      walk_.at().version().recording->changes_needs)
    return std::nullopt;
  is_in_pass_ = true;
  autograd::RecordedPass pass{unit->facts, unit->notes, {}, {}};
  pass.tensors.resize(unit->values.size());
  for (uint32_t i = 0; i < unit->values.size(); ++i) {
    ValueId value = unit->values[i];
    if (value == no_value) continue;
    if (walk_.at().has_met(path.objects()[path.object_of(value)].origin))
      pass.tensors[i] = tensor_of(value);
    else
      pass.to_come.push_back(i);
  }
  return pass;
}

void LateTape::end_pass(std::span<const Tensor> outputs, bool releases) {
  is_in_pass_ = false;
  if (releases) release(outputs);
}

// Nodes that the pass has come to.
void LateTape::release(std::span<const Tensor> outputs) {
  const Path& path = walk_.path();
  std::vector<bool> is_reached(path.objects().size());
  for (const Tensor& t : outputs) is_reached[path.object_of(impl_of(t)->extra->trace_value)] = true;
  for (Due& due : due_ | std::views::reverse) {
    const Path::Step& step = path.steps()[due.step];
    bool gives_reached = false;
    each_result(path, step, [&](uint32_t o) { gives_reached = gives_reached || is_reached[o]; });
    if (!gives_reached) continue;
    due.is_released = true;
    each_argument(path, step, [&](uint32_t o, bool) { is_reached[o] = true; });
  }
  if (std::ranges::all_of(due_, &Due::is_released)) is_named_.clear();
}

// ---- making them after all

std::shared_ptr<autograd::Node> LateTape::make_node(const Path::Step& step,
                                                    const VjpPlan& plan) const {
  const Path& path = walk_.path();
  const Frame& frame = walk_.at().frame();
  std::vector<Value> args(frame.args.begin() + step.first_arg,
                          frame.args.begin() + step.first_arg + step.n_args);
  for (Value& arg : args) {
    if (arg.sub != Frame::body_number) continue;
    arg.sub = 0;
    if (arg.tag == Tag::ints) continue;
    arg = Value::make(path.numbers()[arg.payload].kind,
                      static_cast<uint64_t>(frame.numbers[arg.payload]));
  }
  ArgumentLists lists;
  map_arguments(
      args, lists, [this](ValueId value) { return Value::of(tensor_of(value)); }, keep_numbers);
  std::vector<Value> results(std::max<uint32_t>(step.op->n_returns, 1));
  std::vector<Tensor> made;
  for (uint32_t r = 0; r < step.n_results; ++r) made.push_back(tensor_of(step.first_result + r));
  if (step.op->schema.returns_list())
    results[0] = Value::own(std::move(made));
  else
    for (uint32_t r = 0; r < step.n_results; ++r) results[r] = Value::own(made[r]);
  auto node = autograd::record_after(
      {step.op, args.data(), results.data(), step.n_args, step.op->n_returns}, plan);
  for (Value& v : results) drop(v);
  return node;
}

// What asks for them may have left the body for a moment.
void LateTape::make() {
  if (!is_open_) return;
  is_open_ = is_in_pass_ = false;
  autograd::late_nodes = nullptr;
  autograd::WithoutSavedTensorHooks as_they_were;
  ModesOf in_body(modes_);
  std::vector<std::shared_ptr<autograd::Node>> released;
  for (const Due& due : due_) {
    auto node = make_node(walk_.path().steps()[due.step], *due.plan);
    if (due.is_released) released.push_back(std::move(node));
  }
  for (const auto& node : released) node->release();
  forget();
}

void LateTape::forget() {
  due_.clear();
  is_named_.clear();
  is_made_.clear();
  has_numbers_ = false;
}

}  // namespace tenon
