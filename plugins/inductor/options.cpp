// Options of the manifest to settings.
#include "options.h"

#include "jit.h"

#include <tenon/plugin.hpp>

namespace inductor {

using tenon::plugin::options;

namespace {

void set_numerics(std::string_view numerics, CodeOptions& code) {
  code.contracts = numerics != "strict";
  code.rounds_narrow = code.rounds_narrow || numerics == "strict";
  code.multiplies_by_reciprocals = numerics == "fast";
}

}  // namespace

Options options_of(const tn_compile_request& request) {
  options given(request);
  auto number = [&](const char* name) { return given.get<int64_t>(name); };
  Options out;
  out.code = code_options(given.get<std::string_view>("cpu"), number("simdlen"));
  out.code.effort = int(number("compile_effort"));
  out.code.rounds_narrow = given.get<bool>("emulate_precision_casts");
  set_numerics(given.get<std::string_view>("numerics"), out.code);
  out.workers.most = number("threads");
  out.workers.is_fixed =
      given.get<bool>("deterministic") || (request.flags & TN_RQ_DETERMINISTIC) != 0;
  out.lowering.most_operations = int(number("realize_opcount_threshold"));
  out.lowering.repeated_operations = int(number("realize_reads_threshold"));
  out.lowering.may_transform = given.get<std::string_view>("winograd") == "auto" &&
                               request.stage == TN_STAGE_INFERENCE && out.code.contracts &&
                               !out.workers.is_fixed;
  out.fusion.threads = out.workers.slices();
  out.fusion.most_loops = uint32_t(number("max_fusion_size"));
  out.compile_threads = number("compile_threads");
  out.fails_on_extern = given.get<std::string_view>("fallback") == "error";
  out.fuses_epilogues = given.get<bool>("epilogue_fusion");
  out.packs_weights = given.get<bool>("weight_prepack");
  out.plans_memory = given.get<bool>("memory_planning");
  out.reuses_memory = given.get<bool>("allow_buffer_reuse");
  out.failing_kernels = given.get<std::string_view>("fail_kernels");
  out.verifies = given.get<bool>("verify");
  out.profiles = given.get<bool>("profile");
  return out;
}

}  // namespace inductor
