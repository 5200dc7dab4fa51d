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

// A graph break within the unit has begun another graph.
void UnitsOfTrace::end(GraphRecorder& recorder, const StandIns& stand_ins, uint64_t number,
                       std::span<const Tensor* const> tensors, const OpUnit::Start& start) {
  if (start.trace != recorder.id()) return;
  const std::vector<ValueId>& before = recorder.values_before();
  RecordedUnit unit{number,
                    static_cast<NodeId>(start.n_nodes),
                    static_cast<NodeId>(recorder.graph().nodes().size()),
                    {}};
  for (const Tensor* t : tensors) {
    Tensor fake = !t->defined() || t->is_fake() ? *t : stand_ins.fake_of(*t);
    ValueId value = no_value;
    if (fake.defined() && recorder.owns(fake)) {
      value = impl_of(fake)->extra->trace_value;
      while (value >= start.n_values && value < before.size() && before[value] != no_value)
        value = before[value];
    }
    unit.values.push_back(value);
  }
  units_.push_back(std::move(unit));
}

namespace {

/// The trace whose own graph this thread records, not that of a branch or loop in it.
Trace* recorded_trace() {
  Trace* trace = thread_modes.follower ? nullptr : Trace::current();
  return trace && trace->records(recorder_of_thread()) ? trace : nullptr;
}

const bool installed_units = (
    take_op_unit_slot = [](const OpUnit& unit) { return Follower::current()->takes_unit(unit); },
    begin_op_unit_slot =
        [] {
          return recorded_trace() ? UnitsOfTrace::begin(recorder_of_thread()) : OpUnit::Start();
        },
    end_op_unit_slot =
        [](const OpUnit& unit, const OpUnit::Start& start) {
          if (Trace* trace = recorded_trace())
            trace->units().end(recorder_of_thread(), trace->inputs().stand_ins, unit.number(),
                               unit.tensors(), start);
        },
    true);

}  // namespace

}  // namespace tenon
