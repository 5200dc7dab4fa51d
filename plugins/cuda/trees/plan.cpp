// From what was seen of a recording to what each run of it has to do.
//
// Each address in a parameter belongs to what had it at that time: an input's storage, memory that
// the recording allocated, or neither (a constant's, the error flag). Only nodes that were noted can
// be changed. So an input that only those touch may lie elsewhere at each call, and a result that
// only those touch since its memory was allocated is written straight into new memory. What
// somebody else's nodes may touch stays where it was, and is copied there or from there.
#include "plan.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::cuda::trees {

using plugin::text;

namespace {

constexpr size_t none = SIZE_MAX;

}  // namespace

size_t span_bytes(const tn_tensor* t) {
  if (t->numel == 0) return 0;
  int64_t last = 0;
  for (int32_t d = 0; d < t->ndim; ++d) last += (t->sizes[d] - 1) * t->strides[d];
  return static_cast<size_t>((last + 1) * plugin::item_size(t->dtype));
}

uint32_t alignment_of(const void* memory) {
  api::Address a = address_of(memory) | 16;
  return static_cast<uint32_t>(a & (~a + 1));
}

namespace {

struct Owner {
  size_t input = none, allocation = none;
};

class Planner {
 public:
  explicit Planner(const Planned& given) : given_(given), touched_(given.inputs.size()) {}

  Plan plan() {
    look_at_inputs();
    make_slots();
    look_at_foreign_work();
    decide_inputs();
    decide_slots();
    for (uint32_t n = 0; n < given_.captured.notes.size(); ++n) look_at_node(n);
    std::ranges::stable_sort(plan_.points, {}, &PatchPoint::place);
    find_footprint();
    return std::move(plan_);
  }

 private:
  /// How nodes touch an input.
  struct Touched {
    bool by_known = false, by_foreign = false, outside_of_span = false;
  };

  bool is_on_device(size_t i) const {
    const tn_tensor* t = given_.inputs[i];
    return t && t->device_type != TN_DEV_CPU && t->storage;
  }

  Owner owner_of(api::Address a, size_t time) const {
    const auto& allocations = given_.captured.allocations;
    for (size_t i = 0; i < allocations.size(); ++i)
      if (allocations[i].range.holds(a) && allocations[i].born <= time &&
          time < allocations[i].died)
        return {none, is_staged_memory(i) ? none : i};
    for (size_t i = 0; i < given_.inputs.size(); ++i) {
      if (!is_on_device(i) || given_.staged[i]) continue;
      const tn_tensor* t = given_.inputs[i];
      if (Range{address_of(t->storage), address_of(t->storage) + t->storage_bytes}.holds(a))
        return {i, none};
    }
    return {};
  }
  bool is_staged_memory(size_t allocation) const {
    for (size_t i = 0; i < given_.inputs.size(); ++i)
      if (given_.staged[i] && is_on_device(i) &&
          given_.captured.allocations[allocation].range.holds(address_of(given_.inputs[i]->data)))
        return true;
    return false;
  }

  void look_at_inputs() {
    plan_.inputs.resize(given_.inputs.size());
    for (const Note& note : given_.captured.notes)
      for (uint32_t at : note.addresses) note_use(note, at);
  }
  void note_use(const Note& note, uint32_t at) {
    api::Address a;
    std::memcpy(&a, note.words.data() + at, sizeof a);
    Owner owner = owner_of(a, note.time);
    if (owner.input == none) return;
    Touched& t = touched_[owner.input];
    (is_movable(note) ? t.by_known : t.by_foreign) = true;
    const tn_tensor* input = given_.inputs[owner.input];
    api::Address first = address_of(input->data);
    t.outside_of_span = t.outside_of_span || a < first || a >= first + span_bytes(input);
  }
  static bool is_movable(const Note& note) {
    return note.kind == Note::Kind::launch || can_move_copies();
  }

  void look_at_foreign_work() {
    for (const ForeignWork& work : given_.captured.foreign) {
      for (api::Address a : work.addresses) {
        Owner owner = owner_of(a, work.time);
        if (owner.input != none) touched_[owner.input].by_foreign = true;
        if (owner.allocation != none) foreign_.push_back(owner.allocation);
      }
      if (!work.is_declared) see_undeclared(work.time);
    }
    for (const Note& note : given_.captured.notes)
      for (uint32_t at : note.addresses) {
        api::Address a;
        std::memcpy(&a, note.words.data() + at, sizeof a);
        if (size_t i = owner_of(a, note.time).allocation; i != none && !is_movable(note))
          foreign_.push_back(i);
      }
  }
  void see_undeclared(size_t time) {
    for (Touched& t : touched_) t.by_foreign = true;
    const auto& allocations = given_.captured.allocations;
    for (size_t i = 0; i < allocations.size(); ++i)
      if (allocations[i].born <= time && time < allocations[i].died) foreign_.push_back(i);
  }

  void decide_inputs() {
    for (size_t i = 0; i < given_.inputs.size(); ++i) {
      if (!is_on_device(i)) continue;
      const tn_tensor* t = given_.inputs[i];
      const Touched& how = touched_[i];
      InputPlan& plan = plan_.inputs[i];
      plan.address = address_of(t->data);
      plan.alignment = alignment_of(t->data);
      plan.by_place = how.outside_of_span;
      plan.storage_offset = t->storage_offset;
      if (given_.staged[i]) {
        plan.way = InputPlan::Way::staged;
        plan.bytes = span_bytes(t);
      } else if (how.by_foreign) {
        plan.way = InputPlan::Way::fixed;
      } else if (how.by_known) {
        plan.way = InputPlan::Way::moved;
      }
    }
  }

  // ---- results

  void make_slots() {
    slot_of_.assign(given_.captured.allocations.size(), UINT32_MAX);
    for (size_t i = 0; i < given_.outputs.size(); ++i) plan_.outputs.push_back(planned_output(i));
    for (SlotPlan& slot : plan_.slots)
      if (slot.whole != UINT32_MAX && !is_whole(slot)) slot.whole = UINT32_MAX;
  }
  // Whether the one output has the memory for itself, from its first byte to its last.
  bool is_whole(const SlotPlan& slot) const {
    return plan_.outputs[slot.whole].offset == 0 &&
           span_bytes(given_.outputs[slot.whole]) >= slot.bytes;
  }

  OutputPlan planned_output(size_t i) {
    const tn_tensor* t = given_.outputs[i];
    OutputPlan out;
    if (!t) return out;
    out.dtype = t->dtype;
    out.sizes.assign(t->sizes, t->sizes + t->ndim);
    out.strides.assign(t->strides, t->strides + t->ndim);
    for (size_t k = 0; k < given_.inputs.size(); ++k) {
      const tn_tensor* input = given_.inputs[k];
      if (!input || input->storage_id != t->storage_id) continue;
      bool is_same = input == t;
      if (!is_same && input->dtype != t->dtype)
        throw Unrecordable("capture_failed",
                           text("result {} is input {} seen as another dtype", i, k));
      out.kind = is_same ? OutputPlan::Kind::input : OutputPlan::Kind::view_of_input;
      out.from = static_cast<uint32_t>(k);
      out.offset = t->storage_offset - input->storage_offset;
      return out;
    }
    out.kind = OutputPlan::Kind::slot;
    out.from = slot_for(i);
    out.offset = t->storage_offset;
    return out;
  }

  uint32_t slot_for(size_t i) {
    const tn_tensor* t = given_.outputs[i];
    bool is_lent = given_.keeps_results && !(given_.output_flags[i] & TN_CUDA_OUTPUT_SAVED);
    bool is_saved = is_lent || (given_.output_flags[i] & TN_CUDA_OUTPUT_SAVED);
    auto output = static_cast<uint32_t>(i);
    size_t allocation = t->storage_bytes ? allocation_of(i) : none;
    if (allocation == none) {  // nothing in it
      plan_.slots.push_back({.dtype = t->dtype, .whole = output});
      return static_cast<uint32_t>(plan_.slots.size() - 1);
    }
    uint32_t& slot = slot_of_[allocation];
    if (slot == UINT32_MAX) {
      slot = static_cast<uint32_t>(plan_.slots.size());
      const Allocation& a = given_.captured.allocations[allocation];
      plan_.slots.push_back({.range = a.range,
                             .bytes = t->storage_bytes,
                             .is_managed = is_saved,
                             .is_lent = is_lent,
                             .dtype = t->dtype,
                             .whole = output});
      allocation_of_slot_.resize(plan_.slots.size(), none);
      allocation_of_slot_.back() = allocation;
      return slot;
    }
    SlotPlan& shared = plan_.slots[slot];
    shared.whole = UINT32_MAX;
    shared.is_managed = shared.is_managed && is_saved;  // what the user gets is the user's
    shared.is_lent = shared.is_lent || is_lent;
    if (shared.dtype != t->dtype)
      throw Unrecordable("capture_failed",
                         text("result {} shares memory with one of another dtype", i));
    return slot;
  }
  size_t allocation_of(size_t i) const {
    const tn_tensor* t = given_.outputs[i];
    if (t->device_type == TN_DEV_CPU)
      throw Unrecordable("cpu_node", text("result {} is made on the CPU", i));
    size_t found = owner_of(address_of(t->storage), given_.captured.end).allocation;
    if (found == none)
      throw Unrecordable("capture_failed",
                         text("result {} lies in memory that the recording has not allocated", i));
    return found;
  }

  void decide_slots() {
    allocation_of_slot_.resize(plan_.slots.size(), none);
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      bool is_touched = std::ranges::count(foreign_, allocation_of_slot_[s]) != 0;
      plan_.slots[s].is_copied = plan_.slots[s].bytes && !plan_.slots[s].is_managed && is_touched;
    }
    for (const tn_tensor* t : given_.inputs) plan_.bases.push_back(t ? address_of(t->data) : 0);
    for (const SlotPlan& s : plan_.slots) plan_.bases.push_back(s.range.begin);
  }

  // ---- nodes

  void look_at_node(uint32_t n) {
    const Note& note = given_.captured.notes[n];
    for (uint32_t at : note.addresses) {
      api::Address a;
      std::memcpy(&a, note.words.data() + at, sizeof a);
      if (uint32_t place = place_of(owner_of(a, note.time)); place != UINT32_MAX)
        plan_.points.push_back({place, n, at, static_cast<int64_t>(a - plan_.bases[place])});
    }
    for (const Note::Number& number : note.numbers)
      number.kind == TN_CUDA_ARG_NUMBER ? plan_number(n, number) : plan_draw(n, number);
  }
  uint32_t place_of(Owner owner) const {
    if (owner.input != none) {
      bool is_moved = plan_.inputs[owner.input].way == InputPlan::Way::moved;
      return is_moved ? static_cast<uint32_t>(owner.input) : UINT32_MAX;
    }
    if (owner.allocation == none || slot_of_[owner.allocation] == UINT32_MAX) return UINT32_MAX;
    uint32_t slot = slot_of_[owner.allocation];
    bool is_moved = !plan_.slots[slot].is_managed && !plan_.slots[slot].is_copied;
    return is_moved ? static_cast<uint32_t>(given_.inputs.size() + slot) : UINT32_MAX;
  }

  static bool lies_in(const tn_tensor* t, const void* memory) {
    api::Address begin = address_of(t->storage);
    return t->storage && Range{begin, begin + t->storage_bytes}.holds(address_of(memory));
  }

  void plan_number(uint32_t n, const Note::Number& number) {
    for (const plugin::tensor& t : given_.constants)
      if (lies_in(t.get(), number.source)) return;
    for (size_t i = 0; i < given_.inputs.size(); ++i) {
      const tn_tensor* t = given_.inputs[i];
      if (!t || t->device_type != TN_DEV_CPU || !lies_in(t, number.source)) continue;
      plan_.numbers.push_back(
          {n, number.at, static_cast<uint32_t>(i), number.bytes, number.source_bytes,
           static_cast<const char*>(number.source) - static_cast<const char*>(t->data)});
      return;
    }
    throw Unrecordable("cpu_node", "a parameter is a number that the CPU has computed");
  }

  void plan_draw(uint32_t n, const Note::Number& number) {
    DrawPlan draw{n, number.at, number.bytes, number.kind == TN_CUDA_ARG_SEED, 0};
    uint64_t value = 0, before = 0;
    std::memcpy(&value, given_.captured.notes[n].words.data() + number.at,
                std::min<size_t>(number.bytes, 8));
    bool is_known = draw.is_seed;
    for (const Draw& d : given_.captured.draws) {
      if (!draw.is_seed && value >= d.offset &&
          value - d.offset < std::max<uint64_t>(d.blocks, 1)) {
        draw.relative = before + (value - d.offset);
        is_known = true;
      }
      before += d.blocks;
    }
    if (!is_known)
      throw Unrecordable("capture_failed", "a parameter is a draw that was not reserved");
    plan_.draws.push_back(draw);
  }

  void find_footprint() {
    std::vector<Range> ranges;
    for (size_t i = 0; i < given_.captured.allocations.size(); ++i) {
      uint32_t slot = slot_of_[i];
      bool is_elsewhere =
          slot != UINT32_MAX && !plan_.slots[slot].is_managed && !plan_.slots[slot].is_copied;
      if (!is_elsewhere) ranges.push_back(given_.captured.allocations[i].range);
    }
    plan_.footprint = merged(std::move(ranges));
    for (const Draw& d : given_.captured.draws) plan_.blocks += d.blocks;
  }

  const Planned& given_;
  std::vector<Touched> touched_;
  std::vector<size_t> foreign_;    // allocations that foreign work may touch
  std::vector<uint32_t> slot_of_;  // by allocation
  std::vector<size_t> allocation_of_slot_;
  Plan plan_;
};

}  // namespace

Plan plan_recording(const Planned& given) { return Planner(given).plan(); }

}  // namespace tenon::cuda::trees
