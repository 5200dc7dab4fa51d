// Options of the manifest to settings.
#include "options.h"

#include "jit.h"

#include <microkernel/product.h>
#include <unistd.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <fstream>

namespace inductor {

using tenon::plugin::options;

namespace {

void set_numerics(std::string_view numerics, CodeOptions& code) {
  code.contracts = numerics != "strict";
  code.rounds_narrow = code.rounds_narrow || numerics == "strict";
  code.multiplies_by_reciprocals = numerics == "fast";
}

/// Of the cache that this thread shares with others.
int64_t last_level_cache_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  int64_t kilobytes = 0;
  if (file >> kilobytes && kilobytes > 0) return kilobytes << 10;
  return std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t{8} << 20);
}

int64_t near_bytes(std::string_view nontemporal) {
  static const int64_t half = last_level_cache_bytes() / 2;
  return nontemporal == "auto" ? half : nontemporal == "on" ? 0 : INT64_MAX;
}

/// Of the processor that the code is for, and of this one.
bool has_bf16_products(const CodeOptions& code) {
  return code.has("avx512bf16") && microkernel::has_products_of(microkernel::Element::bf16);
}

}  // namespace

Options options_of(const tn_compile_request& request) {
  options given(request);
  auto number = [&](const char* name) { return given.get<int64_t>(name); };
  Options out;
  out.code = code_options(given.get<std::string_view>("cpu"), number("simdlen"));
  out.code.effort = static_cast<int>(number("compile_effort"));
  out.code.rounds_narrow = given.get<bool>("emulate_precision_casts");
  out.code.near_bytes = near_bytes(given.get<std::string_view>("nontemporal"));
  set_numerics(given.get<std::string_view>("numerics"), out.code);
  out.workers.most = number("threads");
  out.workers.is_fixed =
      given.get<bool>("deterministic") || (request.flags & TN_RQ_DETERMINISTIC) != 0;
  out.lowering.most_operations = static_cast<int>(number("realize_opcount_threshold"));
  out.lowering.repeated_operations = static_cast<int>(number("realize_reads_threshold"));
  out.lowering.may_transform = given.get<std::string_view>("winograd") == "auto" &&
                               request.stage == TN_STAGE_INFERENCE && out.code.contracts &&
                               !out.workers.is_fixed;
  out.lowering.multiplies_bf16 = out.code.contracts && has_bf16_products(out.code);
  out.lowering.optimizes_layout = given.get<bool>("layout_optimization");
  out.lowering.rounds_narrow = out.code.rounds_narrow;
  out.fusion.threads = out.workers.slices();
  out.fusion.most_loops = static_cast<uint32_t>(number("max_fusion_size"));
  out.fusion.most_independent_loops = static_cast<uint32_t>(number("max_horizontal_fusion_size"));
  out.workers.fewest_elements = number("min_chunk_size");
  out.compile_threads = number("compile_threads");
  out.fails_on_extern = given.get<std::string_view>("fallback") == "error";
  out.fuses_epilogues = given.get<bool>("epilogue_fusion");
  out.packs_weights = given.get<bool>("weight_prepack");
  out.plans_memory = given.get<bool>("memory_planning");
  out.reuses_memory = given.get<bool>("allow_buffer_reuse");
  out.works_in_place = given.get<bool>("inplace_buffers") && out.plans_memory && out.reuses_memory;
  out.failing_kernels = given.get<std::string_view>("fail_kernels");
  // Another way may round differently, so what is deterministic goes by the rules.
  out.tries_ways = given.get<bool>("max_autotune") && !out.workers.is_fixed;
  out.verifies = given.get<bool>("verify");
  out.profiles = given.get<bool>("profile");
  out.names_for_perf = given.get<bool>("perf");
  return out;
}

}  // namespace inductor
