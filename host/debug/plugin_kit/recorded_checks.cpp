// Recorded models and op calls through each backend of the plugin, or through its kernels.
#include "core/error.h"
#include "debug/op_check.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/kernel_hook.h"

#include <filesystem>

namespace tenon::kit {

namespace {

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// What the host itself does not have is not a fault of the plugin.
void judge(const std::vector<CaseResult>& results) {
  size_t unsupported = 0;
  for (const CaseResult& r : results) {
    if (r.ok) continue;
    bool no_fault = !r.error.empty() && r.code == ErrorCode::unsupported;
    if (no_fault && ++unsupported) continue;
    if (!r.error.empty()) fail_check("{}: {}", r.name, r.error);
    for (const CheckedTensor& t : r.tensors)
      if (!t.result.ok)
        fail_check(
            "{}: {}: {}", r.name, t.name,
            t.result.problem.empty() ? message("max abs {}", t.result.max_abs) : t.result.problem);
    fail_check("{}: failed", r.name);
  }
  if (unsupported == results.size())
    skip_check("not supported by this host: {}", results.empty() ? "no cases" : results[0].error);
}

using RunCases = std::function<std::vector<CaseResult>(const std::string& backend)>;

Check recorded_check(std::string name, const std::string& backend, const RunCases& run) {
  std::string phase = "recorded " + backend;
  return {std::move(name), backend, 1, "21", phase, [run, backend](Bench& bench) {
            bench.load();
            judge(run(full_name(bench, backend)));
          }};
}

Check kernel_check(std::string name, const RunCases& run) {
  return {std::move(name), "", 1, "21", "recorded kernels", [run](Bench& bench) {
            hook_kernels(bench);
            KernelScope scope;
            judge(run("eager"));
          }};
}

}  // namespace

void add_recorded_checks(std::vector<Check>& checks, const FoundPlugin& plugin,
                         const KitSettings& settings) {
  std::vector<std::pair<std::string, RunCases>> all;
  if (!settings.models.empty())
    for (const ModelCase& model : find_cases(settings.models).models)
      all.emplace_back("models." + stem_of(model.archive), [model](const std::string& backend) {
        return check_model(model, backend, {});
      });
  if (!settings.ops.empty())
    for (const std::string& file : find_cases(settings.ops).op_cases)
      all.emplace_back("ops." + stem_of(file), [file](const std::string& backend) {
        CheckSettings against_eager;
        against_eager.against = Against::eager;
        return check_op_file(file, backend, against_eager);
      });
  for (const BackendManifest& backend : plugin.manifest.backends)
    for (const auto& [name, run] : all) checks.push_back(recorded_check(name, backend.name, run));
  for (const auto& [name, run] : all)
    if (!plugin.manifest.kernels.empty()) checks.push_back(kernel_check(name, run));
}

}  // namespace tenon::kit
