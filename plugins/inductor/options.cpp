// Options of the manifest to settings.
#include "options.h"

#include "jit.h"

#include <microkernel/product.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace inductor {

namespace {

/// Of the cache that this thread shares with others.
int64_t last_level_cache_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  int64_t kilobytes = 0;
  if (file >> kilobytes && kilobytes > 0) return kilobytes << 10;
  return std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t{8} << 20);
}

int64_t near_bytes(Given::nontemporal_choice nontemporal) {
  static const int64_t half = last_level_cache_bytes() / 2;
  using Choice = Given::nontemporal_choice;
  return nontemporal == Choice::auto_ ? half : nontemporal == Choice::on ? 0 : INT64_MAX;
}

CodeOptions code_options_for(const Given& given) {
  using Numerics = Given::numerics_choice;
  CodeOptions out = code_options(given.cpu, given.simdlen);
  out.effort = static_cast<int>(given.compile_effort);
  out.contracts = given.numerics != Numerics::strict;
  out.multiplies_by_reciprocals = given.numerics == Numerics::fast;
  out.rounds_narrow = given.emulate_precision_casts || given.numerics == Numerics::strict;
  out.near_bytes = near_bytes(given.nontemporal);
  return out;
}

/// Of the processor that the code is for, and of this one.
bool has_bf16_products(const CodeOptions& code) {
  return code.has("avx512bf16") && microkernel::has_products_of(microkernel::Element::bf16);
}

}  // namespace

RunOptions run_options(const Given& given, const tn_compile_request& request) {
  bool is_fixed = given.deterministic || (request.flags & TN_RQ_DETERMINISTIC) != 0;
  return {.code = code_options_for(given),
          .workers = {.most = given.threads,
                      .is_fixed = is_fixed,
                      .fewest_elements = given.min_chunk_size},
          .packs_weights = given.weight_prepack,
          .plans_memory = given.memory_planning,
          .reuses_memory = given.allow_buffer_reuse,
          .verifies = given.verify,
          .profiles = given.profile};
}

loopir::LoweringOptions lowering_options(const Given& given, const RunOptions& run,
                                         const tn_compile_request& request) {
  return {.most_operations = static_cast<int>(given.realize_opcount_threshold),
          .repeated_operations = static_cast<int>(given.realize_reads_threshold),
          .may_transform = given.winograd == Given::winograd_choice::auto_ &&
                           request.stage == TN_STAGE_INFERENCE && run.code.contracts &&
                           !run.workers.is_fixed,
          .multiplies_bf16 = run.code.contracts && has_bf16_products(run.code),
          .rounds_narrow = run.code.rounds_narrow,
          .optimizes_layout = given.layout_optimization,
          .splits_reductions = given.split_reductions,
          .has_fast_kernel = {},
          .externs = {}};
}

}  // namespace inductor
