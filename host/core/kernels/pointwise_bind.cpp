// Binding: from a scalar program to an executable plan for one compute type.
//
// Method: the program is recorded once more with the type and the constant inputs known, which
//   folds and simplifies it; then each instruction gets its kernel and a scratch block. Blocks are
//   shared by liveness: a value frees its block at its last use, and the using step may take it
//   over at once when elements have the same size, since kernels work element by element in place.
//   A program of core/scalar/fast_formulas.h becomes one step instead.
#include "core/cpu_level.h"
#include "core/error.h"
#include "core/kernels/pointwise_loop.h"
#include "core/kernels/pointwise_small.h"
#include "core/scalar/formula.h"
#include "core/scalar/scalar_constant.h"

#include <algorithm>

namespace tenon {
namespace {

ScalarProgram specialize(const ScalarProgram& program, Dtype compute,
                         std::span<const BindInput> inputs) {
  Recorder recorder({.compute = &compute});
  std::vector<uint32_t> values;
  for (uint16_t dtype : program.input_dtypes) values.push_back(recorder.input(dtype));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].is_constant)
      values[i] = recorder.literal(inputs[i].value, program.input_dtypes[i]);
  for (const ScalarInstr& instr : program.instr) {
    uint64_t bits = instr.a | (static_cast<uint64_t>(instr.b) << 32);
    switch (instr.op()) {
      case ScalarCode::constant:
        values.push_back(recorder.literal({bits, instr.dtype == dtype_number(Dtype::f64)}));
        break;
      case ScalarCode::cast:
        values.push_back(recorder.cast(values[instr.a], instr.dtype));
        break;
      default: {
        int operands = info_of(instr.op()).operands;
        values.push_back(recorder.emit(instr.op(), values[instr.a],
                                       operands > 1 ? values[instr.b] : 0,
                                       operands > 2 ? values[instr.c] : 0));
      }
    }
  }
  std::vector<uint32_t> outputs;
  for (uint32_t value : program.outputs) outputs.push_back(values[value]);
  return recorder.finish(outputs);
}

class Binder {
 public:
  Binder(const ScalarProgram& program, Dtype compute) : program_(program), compute_(compute) {}

  BoundProgram bind() {
    for (uint32_t i = 0; i < program_.n_inputs; ++i) plan_.input_dtypes.push_back(type_of(i));
    number_values();
    find_last_uses();
    for (uint32_t k = 0; k < program_.instr.size(); ++k)
      if (program_.instr[k].op() != ScalarCode::constant) add_step(k);
    for (uint32_t value : program_.outputs)
      plan_.outputs.push_back({places_[value], type_of(value)});
    for (size_t i = plan_.outputs.size(); i-- > 0;)
      if (!plan_.steps.empty() &&
          plan_.outputs[i].value == plan_.first_step() + plan_.steps.size() - 1)
        plan_.direct_output = static_cast<int16_t>(i);
    plan_.is_small = is_small_plan(plan_);
    return std::move(plan_);
  }

 private:
  Dtype type_of(uint32_t value) const {
    uint16_t dtype = program_.dtype_of(value);
    return dtype == compute_type ? compute_ : static_cast<Dtype>(dtype);
  }

  // Constants come before steps, so places are known only after a pass over all.
  void number_values() {
    size_t count = program_.n_inputs + program_.instr.size();
    require(count < 0xFFFF, "scalar program: {} values, expected fewer than 65535", count);
    places_.resize(count);
    for (uint32_t i = 0; i < program_.n_inputs; ++i) places_[i] = static_cast<uint16_t>(i);
    for (uint32_t k = 0; k < program_.instr.size(); ++k) {
      const ScalarInstr& instr = program_.instr[k];
      if (instr.op() != ScalarCode::constant) continue;
      uint64_t bits = instr.a | (static_cast<uint64_t>(instr.b) << 32);
      places_[program_.n_inputs + k] = static_cast<uint16_t>(plan_.first_step());
      plan_.constants.push_back(
          constant_bits({bits, instr.dtype == dtype_number(Dtype::f64)}, compute_));
    }
    auto place = static_cast<uint16_t>(plan_.first_step());
    for (uint32_t k = 0; k < program_.instr.size(); ++k)
      if (program_.instr[k].op() != ScalarCode::constant) places_[program_.n_inputs + k] = place++;
  }

  void find_last_uses() {
    last_use_.assign(places_.size(), 0);
    for (uint32_t k = 0; k < program_.instr.size(); ++k)
      for (uint32_t operand : operands_of(program_.instr[k])) last_use_[operand] = k;
    for (uint32_t value : program_.outputs) last_use_[value] = 0xFFFFFFFF;
  }

  std::span<const uint32_t> operands_of(const ScalarInstr& instr) const {
    size_t count =
        instr.op() == ScalarCode::constant ? 0 : static_cast<size_t>(info_of(instr.op()).operands);
    return {&instr.a, count};
  }

  void add_step(uint32_t k) {
    const ScalarInstr& instr = program_.instr[k];
    BoundProgram::Step step{};
    uint32_t value = program_.n_inputs + k;
    // The type that chooses the kernel: of the last operand, which is not the mask of a select.
    std::span<const uint32_t> operands = operands_of(instr);
    Dtype from = type_of(operands.back());
    if (instr.op() == ScalarCode::cast) {
      step.convert = block_kernels().convert[static_cast<int>(block_type(from))]
                                            [static_cast<int>(block_type(type_of(value)))];
    } else {
      check_operands(instr, from);
      step.run = block_kernels().primitive[instr.code][static_cast<int>(block_type(from))];
      require(step.run != nullptr, ErrorCode::unsupported,
              "formula: {} does not exist for {}; cast the operands to a type that has it",
              info_of(instr.op()).name, from);
    }
    for (uint32_t operand : operands) step.in[step.n_in++] = places_[operand];
    step.selects = instr.op() == ScalarCode::select;
    step.slot = take_slot(value, k);
    plan_.steps.push_back(step);
  }

  void check_operands(const ScalarInstr& instr, Dtype type) const {
    std::span<const uint32_t> operands = operands_of(instr);
    for (size_t i = 0; i < operands.size(); ++i) {
      bool is_mask = instr.op() == ScalarCode::select && i == 0;
      Dtype found = type_of(operands[i]), expected = is_mask ? Dtype::bool_ : type;
      require(found == expected, "formula: operand {} of {} is {}, expected {}; use cast<T>(x)", i,
              info_of(instr.op()).name, found, expected);
    }
    require(static_cast<int>(block_type(type)) < n_compute_types, ErrorCode::unsupported,
            "formula: {} cannot compute in {}; cast to f32 first", info_of(instr.op()).name, type);
  }

  // Operands that die here give their blocks back first, those of equal size at the front.
  uint16_t take_slot(uint32_t value, uint32_t k) {
    int64_t size = itemsize(type_of(value));
    std::vector<uint16_t> later;
    std::span<const uint32_t> operands = operands_of(program_.instr[k]);
    for (size_t i = 0; i < operands.size(); ++i) {
      uint32_t operand = operands[i];
      bool repeated = std::find(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(i),
                                operand) != operands.begin() + static_cast<ptrdiff_t>(i);
      bool is_step = places_[operand] >= plan_.first_step();
      if (!is_step || repeated || last_use_[operand] != k) continue;
      uint16_t slot = plan_.steps[places_[operand] - plan_.first_step()].slot;
      (itemsize(type_of(operand)) == size ? free_ : later).push_back(slot);
    }
    uint16_t slot = plan_.n_slots;
    if (free_.empty()) {
      ++plan_.n_slots;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    free_.insert(free_.end(), later.begin(), later.end());
    return slot;
  }

  const ScalarProgram& program_;
  Dtype compute_;
  BoundProgram plan_;
  std::vector<uint16_t> places_;    // of each value of the program
  std::vector<uint32_t> last_use_;  // instruction, for each value
  std::vector<uint16_t> free_;
};

// Which of the fast formulas a specialized program is.
FastFormula fast_formula(const ScalarProgram& program) {
  static const auto& known = *new std::vector<ScalarProgram>([] {
    std::vector<ScalarProgram> programs;
#define TENON_FAST(name, inputs, numbers) \
  programs.push_back(specialize(record(formula::pointwise(fast::name)), Dtype::f32, {}));
    TENON_FAST_FORMULAS(TENON_FAST)
#undef TENON_FAST
    return programs;
  }());
  size_t i = static_cast<size_t>(std::find(known.begin(), known.end(), program) - known.begin());
  return static_cast<FastFormula>(i);
}

BoundProgram plan_of(FastFormula formula, const ScalarProgram& program) {
  BoundProgram plan;
  plan.input_dtypes.assign(program.n_inputs, Dtype::f32);
  BoundProgram::Step step{};
  step.run = block_kernels().fast[static_cast<int>(formula)];
  for (; step.n_in < program.n_inputs; ++step.n_in) step.in[step.n_in] = step.n_in;
  plan.steps.push_back(step);
  plan.outputs.push_back({static_cast<uint16_t>(program.n_inputs), Dtype::f32});
  plan.n_slots = 1;
  plan.direct_output = 0;
  plan.is_small = is_small_plan(plan);
  return plan;
}

}  // namespace

BoundProgram bind(const ScalarProgram& program, Dtype compute, std::span<const BindInput> inputs) {
  require(inputs.empty() || inputs.size() == program.n_inputs,
          "formula: {} inputs are bound, but it has {}", inputs.size(), program.n_inputs);
  require(is_computing(compute) && compute == computing_dtype(compute), ErrorCode::unsupported,
          "formula: cannot compute in {}; f16 and bf16 are computed in f32, other types are stored "
          "only",
          compute);
  if (compute == Dtype::f32) {  // loops take numbers as they come
    ScalarProgram open = specialize(program, compute, {});
    if (FastFormula formula = fast_formula(open); formula != FastFormula::none)
      return plan_of(formula, open);
  }
  return Binder(specialize(program, compute, inputs), compute).bind();
}

}  // namespace tenon
