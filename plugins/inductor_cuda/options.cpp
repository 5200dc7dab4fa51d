// Options of the manifest to settings.
#include "options.h"

#include <algorithm>

namespace inductor_cuda {

using Strictness = Given::numerics_choice;

Numerics numerics_of(const Given& given) {
  return {.contracts = given.numerics != Strictness::strict,
          .rounds_narrow = given.emulate_precision_casts || given.numerics == Strictness::strict};
}

loopir::LoweringOptions lowering_options(const Given& given, const Device& device) {
  loopir::LoweringOptions out;
  out.device_type = device.type;
  out.most_operations = static_cast<int>(given.realize_opcount_threshold);
  out.repeated_operations = static_cast<int>(given.realize_reads_threshold);
  // A convolution's bias, norm and relu: less than writing and reading them once more.
  constexpr int norm_and_relu = 48;
  out.window_operations = std::max(out.repeated_operations, norm_and_relu);
  out.multiplies_bf16 = true;
  out.multiplies_f16 = true;
  out.narrow_bias = true;
  out.any_attention = true;
  out.rounds_narrow = numerics_of(given).rounds_narrow;
  out.optimizes_layout = false;
  out.stores_scalars = true;
  out.splits_reductions = true;
  constexpr int64_t blocks_of_multiprocessor = 2;
  out.fold_blocks = blocks_of_multiprocessor * static_cast<int64_t>(device.facts.multiprocessors);
  out.draws = true;
  return out;
}

loopir::FusionOptions fusion_options(const Given& given, const Device& device) {
  // Rows of up to 8192 elements are kept: what a block has registers for.
  constexpr int64_t scratch_bytes = int64_t{64} << 10;
  return {.threads = static_cast<int64_t>(device.facts.multiprocessors),
          .most_loops = static_cast<uint32_t>(given.max_fusion_size),
          .most_independent_loops = static_cast<uint32_t>(given.max_horizontal_fusion_size),
          .scratch_bytes = scratch_bytes,
          .repeats_long_rows = true,
          .joins_points = true};
}

FormOptions form_options(const Given& given, const tn_compile_request& request,
                         const Device& device) {
  bool is_fixed = given.deterministic || (request.flags & TN_RQ_DETERMINISTIC) != 0;
  bool adds_vectors = device.facts.capability_major >= 9;  // red.v4.f32
  return {.multiprocessors = static_cast<int64_t>(device.facts.multiprocessors),
          .shared_bytes = static_cast<int64_t>(device.facts.shared_per_block),
          .is_deterministic = is_fixed,
          .adds_together = adds_vectors ? 4u : 1u};
}

}  // namespace inductor_cuda
