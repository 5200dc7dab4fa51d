// Options of one compile: the first line is the mode, the others are options as TOML.
#include "backend/compile/options.h"
#include "backend/find/manifest.h"
#include "harness/fuzz.h"

using namespace tenon;

namespace {

const BackendManifest& manifest() {
  static const auto& made = *new ManifestResult(parse_manifest(R"(
manifest = 1
[plugin]
name = "fuzzed"
version = "1.0.0"
abi = "1.0"
[[backend]]
name = "fuzzed"
stage = "aot"
[[backend.option]]
name = "flag"
type = "bool"
default = false
[[backend.option]]
name = "count"
type = "int"
default = 3
min = 0
max = 9
[[backend.option]]
name = "rate"
type = "float"
default = 0.5
[[backend.option]]
name = "text"
type = "string"
default = ""
[[backend.option]]
name = "kind"
type = "enum"
choices = ["one", "two"]
default = "one"
[[backend.option]]
name = "names"
type = "list"
default = []
[backend.mode.fast]
count = 9
kind = "two"
)",
                                                               "a.so"));
  fuzz::check(!made.diagnosis, "the manifest of this target: " + made.diagnosis.reason);
  return made.manifest.backends[0];
}

}  // namespace

TENON_FUZZ_TARGET(compile_options) {
  fuzz::Lines lines(input);
  CompileRequest request;
  request.mode = std::string(lines.next());
  request.options_toml = std::string(lines.rest());
  fuzz::accepts({ErrorCode::config}, [&] {
    tn_options options = resolve_options(manifest(), request);
    fuzz::check(options.values.size() == manifest().options.size(), "an option has no value");
    for (const BackendOption& option : manifest().options)
      fuzz::check(option_problem(option, options.values.at(option.name)).empty(),
                  "a value was taken that does not fit");
  });
}
