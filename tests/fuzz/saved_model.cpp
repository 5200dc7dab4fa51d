// Models in .tenon files whose code are graphs, and calls of them. An input is the sections of such
// a file as records. Digests are right, so that what a file says is met and not its checks.
#include "model/saved_model.h"
#include "config/config.h"
#include "formats/tenon_file.h"
#include "graph/text/print.h"
#include "harness/fuzz.h"
#include "harness/run_checks.h"

#include <tenon/tenon.h>

#include <algorithm>

using namespace tenon;

namespace {

// Machine code is believed, or refused as a whole by the digest of what it was made from.
bool has_code(const fuzz::Records& records) {
  for (const auto& [name, content] : records)
    if (name.starts_with("code/")) return true;
  return false;
}

Tree example_of(const ValueSpec& spec) {
  if (spec.kind == ValueSpec::Kind::constant) return spec.constant;
  if (spec.kind == ValueSpec::Kind::number) return Tree(3);
  std::vector<SymInt> sizes;
  int64_t n = 1;
  for (const SizeSpec& size : spec.sizes) {
    int64_t wanted = size.fixed.value_or(std::max<int64_t>(size.min.value_or(3), 3));
    sizes.emplace_back(wanted);
    require(wanted >= 0 && wanted < 1 << 12 && (n *= std::max<int64_t>(wanted, 1)) < 1 << 16,
            "an input is too large for this");
  }
  return Tree(ones(sizes, spec.dtype));
}

bool is_worth_running(const SavedArtifact& saved) {
  return (!saved.graph || fuzz::is_worth_running(*saved.graph)) &&
         std::ranges::all_of(saved.parts,
                             [](const SavedPart& p) { return is_worth_running(p.code); });
}

void run_model(const std::string& path) {
  SavedModel saved = read_saved_model(path, true);
  fuzz::count("accepted");
  for (const SavedVersion& version : saved.versions)
    if (!is_worth_running(version.artifact)) return;
  for (const SavedVersion& version : saved.versions)
    if (version.artifact.graph) fuzz::check_runs(to_text(*version.artifact.graph));
  Model model = load(path);
  std::vector<Tree> inputs;
  for (const ValueSpec& spec : model.inputs()) inputs.push_back(example_of(spec));
  model.call(inputs);
}

// A file in memory has no folder whose owner could be asked for.
void trust_all() {
  [[maybe_unused]] static const bool once = (config::set("plugins.trust", "off"), true);
}

}  // namespace

TENON_FUZZ_TARGET(saved_model) {
  fuzz::Records records = fuzz::records_of(input);
  if (records.empty() || has_code(records)) return;
  formats::TenonSections sections;
  for (const auto& [name, content] : records)
    sections.emplace_back(name, formats::as_byte_span(content));
  std::string bytes;
  if (!fuzz::accepts(fuzz::file_errors, [&] { bytes = formats::tenon_file_bytes(sections); }))
    return;
  trust_all();
  fuzz::InputFile file(bytes);
  bool runs = fuzz::refusal_of("a model", [&] { run_model(file.path()); }).empty();
  fuzz::count(runs ? "models ran" : "models refused");
}
