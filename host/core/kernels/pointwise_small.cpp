// The short way for small calls; see pointwise_small.h.
//
// Small tensors are common in eager code (biases, losses, norms), and for them the general
// machine's set-up costs more than the work: 25 ns against 8 ns here for one element.
#include "core/kernels/pointwise_small.h"

#include "core/scalar/scalar_constant.h"
#include "core/tensor/stride_grid.h"

namespace tenon {
namespace {

constexpr size_t most_values = 16, most_slots = 4;

ConvertFn conversion(Dtype from, Dtype to) {
  return block_kernels()
      .convert[static_cast<int>(block_type(from))][static_cast<int>(block_type(to))];
}

// Where each value lies; values are single (one element for all) by bit.
struct SmallRun {
  const void* at[most_values];
  uint64_t cells[most_values];
  uint32_t single = 0;
  alignas(64) std::byte blocks[most_slots][block_size * 8];

  bool read(size_t i, const Operand& in, Dtype wanted, std::span<const int64_t> sizes, int64_t n) {
    bool is_one = n == 1;
    if (!is_one && !(in.strides != nullptr && is_dense(in, sizes))) {
      if (!is_single(in, sizes)) return false;
      single |= 1u << i;
      is_one = true;
    }
    at[i] = in.data;
    if (in.dtype == wanted) return true;
    if (!is_one) return false;
    conversion(in.dtype, wanted)(&cells[i], in.data, 1);
    at[i] = &cells[i];
    return true;
  }

  // `last`: where the last step writes. False when its value is single, which is then to be spread.
  bool compute(const BoundProgram& plan, void* last, int64_t n) {
    size_t id = plan.first_step();
    const BoundProgram::Step* end = plan.steps.data() + plan.steps.size();
    for (const BoundProgram::Step* step = plan.steps.data(); step != end; ++step, ++id) {
      const void* in[3] = {at[step->in[0]], at[step->in[1]], at[step->in[2]]};
      unsigned all = (1u << step->n_in) - 1;
      unsigned uniform = (((single >> step->in[0]) & 1) | ((single >> step->in[1]) & 1) << 1 |
                          ((single >> step->in[2]) & 1) << 2) &
                         all;
      bool is_single_step = n > 1 && uniform == all;
      if (is_single_step && step + 1 == end) return false;
      void* out = step + 1 == end  ? last
                  : is_single_step ? static_cast<void*>(&cells[id])
                                   : blocks[step->slot];
      single |= static_cast<uint32_t>(is_single_step) << id;
      int64_t count = is_single_step ? 1 : n;
      if (step->convert != nullptr)
        step->convert(out, in[0], count);
      else
        step->run(out, in, count, uniform);
      at[id] = out;
    }
    return true;
  }
};

}  // namespace

bool is_small_plan(const BoundProgram& plan) {
  return plan.outputs.size() == 1 && plan.direct_output == 0 && plan.n_slots <= most_slots &&
         plan.first_step() + plan.steps.size() <= most_values;
}

bool run_small(const BoundProgram& plan, const Operand& out, std::span<const Operand> ins,
               std::span<const int64_t> sizes, int64_t n) {
  bool same_type = out.dtype == plan.outputs[0].dtype;
  if (n > 1 && (!same_type || !is_dense(out, sizes))) return false;
  SmallRun run;
  for (size_t i = 0; i < ins.size(); ++i)
    if (!run.read(i, ins[i], plan.input_dtypes[i], sizes, n)) return false;
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    run.at[ins.size() + i] = &plan.constants[i];
    run.single |= static_cast<uint32_t>(n > 1) << (ins.size() + i);
  }
  if (same_type) return run.compute(plan, out.data, n);
  uint64_t result;
  run.compute(plan, &result, 1);
  conversion(plan.outputs[0].dtype, out.dtype)(out.data, &result, 1);
  return true;
}

}  // namespace tenon
