// Runs the steps of a bound program on blocks; see block_machine.h.
#include "core/kernels/block_machine.h"

#include "core/error.h"
#include "core/scalar/scalar_constant.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

ConvertFn conversion(Dtype from, Dtype to) {
  if (from == to) [[likely]]
    return nullptr;
  return block_kernels()
      .convert[static_cast<int>(block_type(from))][static_cast<int>(block_type(to))];
}

template <class T>
void fill(void* to, const void* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof(T));
  T* out = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = v;
}

void fill_elements(void* to, const void* value, int64_t n, int64_t itemsize) {
  switch (itemsize) {
    case 1:
      return fill<uint8_t>(to, value, n);
    case 2:
      return fill<uint16_t>(to, value, n);
    case 4:
      return fill<uint32_t>(to, value, n);
    default:
      return fill<uint64_t>(to, value, n);
  }
}

}  // namespace

void BlockMachine::find_memory(size_t n_values, size_t n_blocks) {
  size_t n_inputs = plan_.n_inputs(), n_outputs = plan_.outputs.size();
  if (n_values <= Inline::n_values && n_inputs <= Inline::n_inputs &&
      n_outputs <= Inline::n_outputs && n_blocks <= Inline::n_blocks) [[likely]] {
    blocks_ = inline_.blocks;
    values_ = inline_.values;
    inputs_ = inline_.inputs;
    outputs_ = inline_.outputs;
    single_ = inline_.single;
    fixed_ = inline_.fixed;
    needed_ = inline_.needed;
    active_ = inline_.active;
    return;
  }
  size_t bytes = n_blocks * block_bytes + n_values * sizeof(Value) + n_inputs * sizeof(Input) +
                 n_outputs * sizeof(Output) + n_values * (3 * sizeof(bool) + sizeof(uint16_t));
  heap_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  blocks_ = heap_.get();
  values_ = reinterpret_cast<Value*>(blocks_ + n_blocks * block_bytes);
  inputs_ = reinterpret_cast<Input*>(values_ + n_values);
  outputs_ = reinterpret_cast<Output*>(inputs_ + n_inputs);
  active_ = reinterpret_cast<uint16_t*>(outputs_ + n_outputs);
  single_ = reinterpret_cast<bool*>(active_ + n_values);
  fixed_ = single_ + n_values;
  needed_ = fixed_ + n_values;
}

BlockMachine::BlockMachine(const BoundProgram& plan, std::span<const Operand> outs,
                           std::span<const Operand> ins)
    : plan_(plan) {
  ensure(ins.size() == plan.n_inputs() && outs.size() == plan.outputs.size(),
         "operands do not match the bound program");
  // Blocks: of steps, one for scattered output, two for each input.
  find_memory(plan.first_step() + plan.steps.size(), plan.n_slots + 1 + 2 * ins.size());
  std::byte* next = blocks_ + (plan.n_slots + 1u) * block_bytes;
  for (size_t i = 0; i < ins.size(); ++i, next += 2 * block_bytes) {
    inputs_[i] = {conversion(ins[i].dtype, plan.input_dtypes[i]), next, next + block_bytes};
    single_[i] = false;
    fixed_[i] = ins[i].strides == nullptr;
  }
  for (size_t i = 0; i < outs.size(); ++i)
    outputs_[i] = {conversion(plan.outputs[i].dtype, outs[i].dtype), itemsize(outs[i].dtype)};
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    values_[ins.size() + i].at = &plan.constants[i];
    single_[ins.size() + i] = fixed_[ins.size() + i] = true;
  }
}

void BlockMachine::find_singles() {
  size_t id = plan_.first_step();
  for (size_t k = 0; k < plan_.steps.size(); ++k, ++id) {
    const BoundProgram::Step& step = plan_.steps[k];
    bool single = true, fixed = true;
    for (int i = 0; i < step.n_in; ++i) {
      single &= single_[step.in[i]];
      fixed &= fixed_[step.in[i]];
    }
    single_[id] = single;
    fixed_[id] = fixed;
    values_[id].at =
        single ? static_cast<void*>(&values_[id].cell) : blocks_ + step.slot * block_bytes;
    if (fixed) run_step(k, 1);
  }
  find_active();
}

// A select whose mask is known reads one of its arms.
bool BlockMachine::reads(const BoundProgram::Step& step, int operand) const {
  if (!step.selects || operand == 0 || !fixed_[step.in[0]]) return true;
  bool takes_first = *static_cast<const uint8_t*>(values_[step.in[0]].at) != 0;
  return (operand == 1) == takes_first;
}

void BlockMachine::find_active() {
  size_t first = plan_.first_step(), n = plan_.steps.size();
  std::fill_n(needed_, first + n, false);
  for (const BoundProgram::Output& output : plan_.outputs) needed_[output.value] = true;
  for (size_t k = n; k-- > 0;) {
    const BoundProgram::Step& step = plan_.steps[k];
    if (!needed_[first + k]) continue;
    for (int i = 0; i < step.n_in; ++i)
      if (reads(step, i)) needed_[step.in[i]] = true;
  }
  n_active_ = 0;
  for (size_t k = 0; k < n; ++k)
    if (needed_[first + k] && !fixed_[first + k]) active_[n_active_++] = static_cast<uint16_t>(k);
}

void BlockMachine::run_step(size_t k, int64_t n) {
  const BoundProgram::Step& step = plan_.steps[k];
  size_t id = plan_.first_step() + k;
  const void* in[3];
  unsigned uniform = 0;
  for (int i = 0; i < step.n_in; ++i) {
    in[i] = values_[step.in[i]].at;
    uniform |= static_cast<unsigned>(single_[step.in[i]]) << i;
  }
  auto* out = const_cast<void*>(values_[id].at);
  int64_t count = single_[id] ? 1 : n;
  if (step.convert != nullptr)
    step.convert(out, in[0], count);
  else
    step.run(out, in, count, uniform);
}

void BlockMachine::compute(int64_t n, void* direct) {
  if (direct != nullptr) values_[plan_.first_step() + plan_.steps.size() - 1].at = direct;
  for (size_t i = 0; i < n_active_; ++i) run_step(active_[i], n);
}

void BlockMachine::write_dense(size_t i, void* to, int64_t n) {
  const Output& output = outputs_[i];
  uint16_t value = plan_.outputs[i].value;
  const void* from = values_[value].at;
  if (single_[value]) {
    uint64_t converted;
    if (output.convert != nullptr) output.convert(&converted, from, 1);
    fill_elements(to, output.convert != nullptr ? &converted : from, n, output.itemsize);
  } else if (output.convert != nullptr) {
    output.convert(to, from, n);
  } else if (from != to) {
    std::memcpy(to, from, static_cast<size_t>(n * output.itemsize));
  }
}

}  // namespace tenon
