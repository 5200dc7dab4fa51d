// Running a recording again.
//
// Cost with 20 tensors, beside the driver's: a comparison of a few arrays; for each result that is
// the user's one allocation, and one changed parameter a node that writes it.
#include <tenon/plugin.hpp>

#include "recorded.h"

#include <algorithm>
#include <cstring>

namespace tenon::cuda::trees {

using plugin::check;
using plugin::host;
using plugin::tensor;
using Way = InputPlan::Way;

Recorded::Recorded(Manager& manager, std::unique_ptr<Graph> graph, Plan plan, uint64_t trims)
    : manager_(manager), graph_(std::move(graph)), plan_(std::move(plan)), trims_(trims) {
  draws_ = graph_->captured().draws;
  has_staged_ = std::ranges::any_of(
      plan_.inputs, [](const InputPlan& i) { return i.way == Way::staged && i.bytes != 0; });
}

Recorded::Verdict Recorded::fits(std::span<tn_tensor* const> inputs) const {
  for (uint32_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& plan = plan_.inputs[i];
    if (plan.way == Way::unused || plan.way == Way::staged) continue;
    const tn_tensor* t = inputs[i];
    if (plan.way == Way::fixed && address_of(t->data) != plan.address)
      return {Verdict::Kind::input_moved, i};
    if (plan.by_place && t->storage_offset != plan.storage_offset)
      return {Verdict::Kind::input_moved, i};
    if (plan.way == Way::moved && alignment_of(t->data) < plan.alignment)
      return {Verdict::Kind::input_unaligned, i};
  }
  if (!manager_.arena().are_free(plan_.footprint)) return {Verdict::Kind::memory_in_use, 0};
  return {};
}

// ---- results

tensor Recorded::lent_slot(const SlotPlan& slot) {
  int32_t device = manager_.gpu().index();
  auto of_slot = [&](const OutputPlan& o) {
    return o.kind == OutputPlan::Kind::slot && &plan_.slots[o.from] == &slot;
  };
  size_t output = std::ranges::find_if(plan_.outputs, of_slot) - plan_.outputs.begin();
  const std::string& what = made_by[output];
  if (slot.whole != UINT32_MAX) {
    const OutputPlan& o = plan_.outputs[slot.whole];
    return manager_.lent().lend(slot.range, o.sizes, o.strides, o.dtype, device, what);
  }
  int64_t item = plugin::item_size(slot.dtype), one = 1;
  int64_t elements = (static_cast<int64_t>(slot.bytes) + item - 1) / item;
  return manager_.lent().lend(slot.range, {&elements, 1}, {&one, 1}, slot.dtype, device, what);
}

tensor Recorded::made_slot(const SlotPlan& slot) {
  if (slot.is_lent && slot.bytes) return lent_slot(slot);
  if (slot.is_managed && slot.bytes && precedes_backward) manager_.lent().note_saved(slot.range);
  Gpu& gpu = manager_.gpu();
  std::optional<Placement> placement;
  if (slot.is_managed && slot.bytes) placement.emplace(manager_.arena(), slot.range);
  if (slot.whole != UINT32_MAX) {
    const OutputPlan& o = plan_.outputs[slot.whole];
    return tensor::strided(o.sizes, o.strides, o.dtype, TN_DEV_CUDA, gpu.index());
  }
  int64_t item = plugin::item_size(slot.dtype);
  int64_t elements = (static_cast<int64_t>(slot.bytes) + item - 1) / item;
  return tensor::empty({&elements, 1}, slot.dtype, TN_DEV_CUDA, gpu.index());
}

tensor Recorded::made_output(const OutputPlan& output, std::span<tn_tensor* const> inputs,
                             const std::vector<tensor>& slots) {
  if (output.kind == OutputPlan::Kind::input) return tensor::share(inputs[output.from]);
  bool is_slot = output.kind == OutputPlan::Kind::slot;
  if (is_slot && plan_.slots[output.from].whole != UINT32_MAX)
    return tensor::share(slots[output.from].get());
  tensor of = tensor::share(is_slot ? slots[output.from].get() : inputs[output.from]);
  int64_t offset = output.offset + (is_slot ? 0 : of->storage_offset);
  return of.as_strided(output.sizes, output.strides, offset);
}

void Recorded::make_results(std::span<tn_tensor* const> inputs) {
  for (const SlotPlan& slot : plan_.slots) slots_.push_back(made_slot(slot));
  for (const OutputPlan& o : plan_.outputs)
    made_.push_back(o.kind == OutputPlan::Kind::absent ? tensor() : made_output(o, inputs, slots_));
}

// ---- before and behind the launch

// What neither reads nor writes there needs no place in the order of the arena's work.
bool Recorded::uses_arena(std::span<tn_tensor* const> inputs) const {
  if (!plan_.footprint.empty()) return true;
  return std::ranges::any_of(
      inputs, [&](const tn_tensor* t) { return t && manager_.arena().contains(t->data); });
}

void Recorded::stage(std::span<tn_tensor* const> inputs, tn_stream* stream) {
  if (!has_staged_) return;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& plan = plan_.inputs[i];
    if (plan.way != Way::staged || plan.bytes == 0) continue;
    CU_TRY(manager_.gpu(), "copying an input of a recording", cuMemcpyAsync, plan.address,
           address_of(inputs[i]->data), plan.bytes, manager_.gpu().handle_of(stream));
  }
}

void Recorded::write_numbers(std::span<tn_tensor* const> inputs) {
  for (const NumberPlan& n : plan_.numbers) {
    std::byte value[16] = {};
    std::memcpy(value, static_cast<const std::byte*>(inputs[n.input]->data) + n.offset,
                std::min<size_t>(n.source_bytes, sizeof value));
    graph_->write(n.node, n.at, value, std::min<size_t>(n.bytes, sizeof value));
  }
}

void Recorded::draw() {
  if (plan_.blocks == 0 || replays == 0) return;  // the first run has the draws of the recording
  uint64_t seed = 0, offset = 0;
  check(host->svc->rng_reserve(TN_DEV_CUDA, manager_.gpu().index(), plan_.blocks, &seed, &offset));
  uint64_t next = offset;
  draws_ = graph_->captured().draws;
  for (Draw& d : draws_) {
    d.seed = seed;
    d.offset = std::exchange(next, next + d.blocks);
  }
  for (const DrawPlan& d : plan_.draws) {
    uint64_t value = d.is_seed ? seed : offset + d.relative;
    graph_->write(d.node, d.at, &value, std::min<size_t>(d.bytes, sizeof value));
  }
}

void Recorded::copy_results(const std::vector<tensor>& slots, tn_stream* stream) {
  for (size_t s = 0; s < slots.size(); ++s) {
    const SlotPlan& slot = plan_.slots[s];
    if (!slot.is_copied) continue;
    CU_TRY(manager_.gpu(), "copying a result of a recording", cuMemcpyAsync,
           address_of(slots[s]->storage), slot.range.begin,
           std::min<size_t>(slot.bytes, slots[s]->storage_bytes), manager_.gpu().handle_of(stream));
  }
}

// What it wrote and no result holds is a NaN from here on.
void Recorded::poison(tn_stream* stream) {
  std::vector<Range> free = plan_.footprint;
  for (const SlotPlan& slot : plan_.slots) {
    if (!slot.is_managed) continue;
    std::vector<Range> left;
    for (Range r : free) {
      Range below{r.begin, std::min(r.end, slot.range.begin)};
      Range above{std::max(r.begin, slot.range.end), r.end};
      if (below.begin < below.end) left.push_back(below);
      if (above.begin < above.end) left.push_back(above);
    }
    free = std::move(left);
  }
  for (const Range& r : free)
    CU_TRY(manager_.gpu(), "poisoning freed memory", cuMemsetD8Async, r.begin, 0xFF, r.bytes(),
           manager_.gpu().handle_of(stream));
}

// Pages stay behind what it writes until it is enqueued.
std::unique_lock<std::mutex> Recorded::hold_pages() {
  if (plan_.footprint.empty()) return {};
  std::unique_lock in_use(manager_.arena().use);
  if (uint64_t now = manager_.arena().trims(); now != trims_) {
    manager_.arena().map(plan_.footprint);
    trims_ = now;
  }
  return in_use;
}

void Recorded::run(std::span<tn_tensor* const> inputs, tn_stream* stream,
                   std::span<tn_tensor*> outputs, bool& has_run) {
  if (replays != 0) draws_.clear();
  struct Results {
    Recorded& of;
    ~Results() { of.slots_.clear(), of.made_.clear(); }
  } results{*this};
  make_results(inputs);
  manager_.settle();
  std::unique_lock<std::mutex> in_use = hold_pages();
  StreamUse use(stream);
  const bool has_order = uses_arena(inputs);
  if (has_order) manager_.wait_for_last(stream);
  stage(inputs, stream);
  for (uint32_t i = 0; i < plan_.inputs.size(); ++i)
    if (plan_.inputs[i].way == Way::moved) graph_->move(i, address_of(inputs[i]->data));
  for (uint32_t s = 0; s < slots_.size(); ++s)
    if (auto place = static_cast<uint32_t>(plan_.inputs.size() + s); graph_->has_points(place))
      graph_->move(place, address_of(slots_[s]->storage));
  write_numbers(inputs);
  draw();
  graph_->launch(stream);
  has_run = true;
  ++replays;
  struct Mark {
    Manager& manager;
    tn_stream* stream;  // null: no mark
    ~Mark() {
      if (stream) manager.mark_last(stream);
    }
  };
  {
    Mark behind_it{manager_, has_order ? stream : nullptr};
    copy_results(slots_, stream);
    if (poisons) poison(stream);
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = made_[i].release();
}

}  // namespace tenon::cuda::trees
