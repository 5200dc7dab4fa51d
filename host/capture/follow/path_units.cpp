// Steps that may be taken as one.
#include "capture/follow/path_units.h"

#include <algorithm>

namespace tenon {

namespace {

std::span<const Path::Step> steps_of(const Path& path, const Path::Unit& unit) {
  return path.steps().subspan(unit.first_step, unit.end_step - unit.first_step);
}

size_t step_at(const Path& path, const Path::Part& part, NodeId node) {
  auto own = path.steps().subspan(part.first_step);
  auto at = std::ranges::lower_bound(own, node, {}, &Path::Step::node);
  return part.first_step + static_cast<size_t>(at - own.begin());
}

// The first object that is made by a step, or by one behind it.
uint32_t object_at(const Path& path, const Path::Part& part, size_t step) {
  if (step == path.steps().size()) return part.end_object;
  auto made = path.objects().subspan(part.first_object);
  auto at =
      std::ranges::lower_bound(made, path.steps()[step].first_result, {}, &Path::Object::value);
  return part.first_object + static_cast<uint32_t>(at - made.begin());
}

// Values that come from before the unit are among those of its tensors.
bool reads_its_tensors_only(const Path& path, const Path::Part& part, const Path::Unit& unit) {
  bool all = true;
  auto look_at = [&](ValueId v) {
    ValueId named = path.number_of(part, v);
    bool is_own = named >= path.steps()[unit.first_step].first_result &&
                  path.value(named).source == ValueSource::node;
    all = all && (is_own || std::ranges::find(unit.values, named) != unit.values.end());
  };
  for (const Path::Step& step : steps_of(path, unit))
    for (const Value& arg : path.args_of(step)) for_each_value(arg, look_at);
  return all;
}

// Captured tensors are met in the order of their slots.
void add_order(const Path& path, Path::Unit& unit) {
  auto slot_of = [&](uint32_t tensor) {
    const ValueOrigin& origin = path.objects()[path.object_of(unit.values[tensor])].origin;
    return origin.kind == ValueOrigin::Kind::implicit ? int64_t{origin.index} : -1;
  };
  for (uint32_t i = 0; i < unit.values.size(); ++i)
    if (unit.values[i] != no_value) unit.order.push_back(i);
  std::ranges::stable_sort(unit.order, {}, slot_of);
}

void add_writes(const Path& path, Path::Unit& unit) {
  for (const Path::Step& step : steps_of(path, unit)) {
    if (step.in_place < 0) continue;
    auto object = static_cast<uint32_t>(step.in_place);
    bool writes = written_args(path.parts()[step.part].graph->node(step.node)) != 0;
    auto known = std::ranges::find(unit.writes, object, &Path::Unit::Write::object);
    if (known == unit.writes.end()) {
      unit.writes.push_back({object, step.first_result, writes});
      continue;
    }
    known->value = step.first_result;
    known->is_new = known->is_new || writes;
  }
}

}  // namespace

std::optional<Path::Unit> unit_of(const Path& path, const Path::Part& part,
                                  const RecordedUnit& recorded) {
  Path::Unit unit;
  unit.number = recorded.number;
  unit.first_step = step_at(path, part, recorded.first);
  unit.end_step = step_at(path, part, recorded.end);
  unit.first_object = object_at(path, part, unit.first_step);
  unit.end_object = object_at(path, part, unit.end_step);
  auto number_of = [&](ValueId v) { return v == no_value ? no_value : path.number_of(part, v); };
  for (ValueId v : recorded.values) unit.values.push_back(number_of(v));
  for (ValueId v : recorded.results) unit.results.push_back(number_of(v));
  for (ValueId v : unit.results)
    if (v != no_value && path.object_of(v) >= unit.first_object)
      unit.given.push_back(path.object_of(v));
  std::ranges::sort(unit.given);
  unit.given.erase(std::ranges::unique(unit.given).begin(), unit.given.end());
  unit.facts = recorded.facts;
  unit.notes = recorded.notes;
  if (unit.first_step == unit.end_step || !reads_its_tensors_only(path, part, unit))
    return std::nullopt;
  add_order(path, unit);
  add_writes(path, unit);
  return unit;
}

}  // namespace tenon
