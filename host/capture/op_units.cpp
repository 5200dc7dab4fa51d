// Where units lie in a graph, and what this thread makes of one.
#include "capture/op_units.h"

#include "capture/follow/follow.h"
#include "capture/trace.h"
#include "core/tensor/tensor_impl.h"

namespace tenon {

OpUnit::Start UnitsOfTrace::begin(GraphRecorder& recorder) {
  const Graph& graph = recorder.graph();
  return {recorder.id(), graph.nodes().size(), graph.values().size()};
}

namespace {

// The tape names what it has kept as it was followed.
ValueId value_of(GraphRecorder& recorder, const StandIns& stand_ins, const Tensor& t) {
  Tensor fake = !t.defined() || t.is_fake() ? t : stand_ins.fake_of(t);
  if (!fake.defined()) return no_value;
  bool is_known = recorder.owns(fake) || (recorder.adopt && recorder.adopt(fake));
  return is_known ? impl_of(fake)->extra->trace_value : no_value;
}

}  // namespace

// A graph break within the unit has begun another graph.
void UnitsOfTrace::end(GraphRecorder& recorder, const StandIns& stand_ins, const Described& unit,
                       const OpUnit::Start& start) {
  if (start.trace != recorder.id()) return;
  const std::vector<ValueId>& before = recorder.values_before();
  RecordedUnit recorded{.number = unit.number,
                        .first = static_cast<NodeId>(start.n_nodes),
                        .end = static_cast<NodeId>(recorder.graph().nodes().size()),
                        .values = {},
                        .facts = {unit.facts.begin(), unit.facts.end()},
                        .results = {},
                        .notes = {unit.notes.begin(), unit.notes.end()}};
  for (const Tensor* t : unit.tensors) {
    ValueId value = value_of(recorder, stand_ins, *t);
    while (value != no_value && value >= start.n_values && value < before.size() &&
           before[value] != no_value)
      value = before[value];
    recorded.values.push_back(value);
  }
  for (const Tensor& t : unit.results) {
    recorded.results.push_back(value_of(recorder, stand_ins, t));
    if (t.defined() && recorded.results.back() == no_value) return;
  }
  units_.push_back(std::move(recorded));
}

namespace {

/// The trace whose own graph this thread records, not that of a branch or loop in it.
Trace* recorded_trace() {
  Trace* trace = thread_modes.follower ? nullptr : Trace::current();
  return trace && trace->records(recorder_of_thread()) ? trace : nullptr;
}

const bool installed_units = (
    may_have_op_unit_slot =
        [] {
          const Follower* follower = Follower::current();
          return follower ? follower->is_on_tape() : recorded_trace() != nullptr;
        },
    take_op_unit_slot = [](OpUnit& unit) { return Follower::current()->takes_unit(unit); },
    begin_op_unit_slot =
        [] {
          return recorded_trace() ? UnitsOfTrace::begin(recorder_of_thread()) : OpUnit::Start();
        },
    end_op_unit_slot =
        [](const OpUnit& unit, const OpUnit::Start& start) {
          if (Follower* follower = Follower::current()) return follower->end_unit();
          if (Trace* trace = recorded_trace())
            trace->units().end(
                recorder_of_thread(), trace->inputs().stand_ins,
                {unit.number(), unit.tensors(), unit.facts(), unit.results, unit.notes}, start);
        },
    true);

}  // namespace

}  // namespace tenon
