// Manifests of plugins: never an exception, a diagnosis with a reason, defaults that fit.
#include "backend/find/manifest.h"
#include "harness/fuzz.h"

using namespace tenon;

namespace {

void check_options(const BackendManifest& backend) {
  for (const BackendOption& option : backend.options)
    fuzz::check(option_problem(option, option.default_value).empty(),
                "the default of an option does not fit it");
  for (const BackendMode& mode : backend.modes)
    for (const auto& [name, value] : mode.values) {
      const BackendOption* option = backend.find_option(name);
      fuzz::check(option && option_problem(*option, value).empty(),
                  "a mode has a value that does not fit");
    }
}

}  // namespace

TENON_FUZZ_TARGET(manifest) {
  ManifestResult result = parse_manifest(input, "a.so");
  if (result.diagnosis) {
    fuzz::check(result.diagnosis.fault == PluginFault::bad_manifest, "another diagnosis than P04");
    fuzz::check_shown(result.diagnosis.reason);
    fuzz::check_shown(to_text(result.diagnosis));
    return;
  }
  const PluginManifest& plugin = result.manifest;
  fuzz::check_shown(plugin.name);
  fuzz::check(parse_version(to_text(plugin.version)) == plugin.version, "the version changes");
  for (const BackendManifest& backend : plugin.backends) {
    fuzz::check_shown(backend.name);
    check_options(backend);
  }
  check_abi(plugin, "a.so", {1, 0});
}
