// Manifests: what is read, what is filled in, and how mistakes are told.
#include "backend/find/manifest.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

constexpr std::string_view whole = R"(
manifest = 1
[plugin]
name = "inductor_cpu"
version = "0.2.0-rc1"
abi = "1.3"
abi_min = "1.0"
description = "LLVM code generation for CPUs"
license = "Apache-2.0"
requires = ["tenon.cuda/2", "org.example.x"]
needs_library = ["libcuda.so.1"]

[[backend]]
name = "inductor"
description = "fuses"
tags = ["debug", "gpu"]
devices = ["cpu", "cuda"]
dtypes = ["f32", "bf16"]
stage = "aot"
stages = ["forward", "inference"]
dynamic_shapes = true
boxed = true
threadsafe_compile = false
serializable = true
takes_cpu_values = true
fallback = ""
min_region_ops = 3
[backend.aot]
partitioner = "default"
decompositions = "inductor"
keep = ["aten.gelu.default"]
keep_inference_input_mutations = true
[[backend.option]]
name = "max_autotune"
type = "bool"
default = false
doc = "times tilings"
[[backend.option]]
name = "level"
type = "int"
default = 2
min = 0
max = 3
env = "TENON_LEVEL"
affects_cache = false
[[backend.option]]
name = "ratio"
type = "float"
default = 1
[[backend.option]]
name = "kind"
type = "enum"
choices = ["fast", "small"]
default = "fast"
[[backend.option]]
name = "targets"
type = "list"
default = ["avx2"]
[[backend.option]]
name = "folder"
type = "string"
default = ""
[backend.mode.max]
max_autotune = true
level = 3

[[backend]]
name = "plain"

[[device]]
type = "cuda"
description = "NVIDIA GPUs"

[[kernels]]
device = "cpu"
ops = ["aten.mm.default", "aten.addmm.default"]
priority = 10

[[extension]]
id = "tenon.cuda"
version = 2
)";

PluginManifest read(std::string_view text) {
  ManifestResult r = parse_manifest(text, "x.so");
  EXPECT_FALSE(r.diagnosis) << to_text(r.diagnosis);
  return r.manifest;
}

/// `text` in place of the line that begins with `line`.
std::string with(std::string_view line, std::string_view text) {
  std::string out(whole);
  size_t at = out.find("\n" + std::string(line)) + 1;
  EXPECT_NE(at, 0u) << line;
  return out.replace(at, out.find('\n', at) - at, text);
}

std::string reason(const std::string& text) {
  ManifestResult r = parse_manifest(text, "x.so");
  EXPECT_EQ(r.diagnosis.fault, PluginFault::bad_manifest);
  return r.diagnosis.reason;
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Manifest, ReadsThePluginTable) {
  PluginManifest m = read(whole);
  EXPECT_EQ(m.name, "inductor_cpu");
  EXPECT_EQ(to_text(m.version), "0.2.0-rc1");
  EXPECT_EQ(m.abi, (AbiVersion{1, 3}));
  EXPECT_EQ(m.abi_min, (AbiVersion{1, 0}));
  EXPECT_EQ(m.license, "Apache-2.0");
  ASSERT_EQ(m.requires_.size(), 2u);
  EXPECT_EQ(m.requires_[0].id, "tenon.cuda");
  EXPECT_EQ(m.requires_[0].version, 2u);
  EXPECT_EQ(m.requires_[1].version, 1u);
  EXPECT_EQ(m.needs_library, std::vector<std::string>{"libcuda.so.1"});
}

TEST(Manifest, ReadsEveryKeyOfABackend) {
  PluginManifest m = read(whole);
  const BackendManifest& b = m.backends.at(0);
  EXPECT_EQ(b.name, "inductor");
  EXPECT_EQ(b.tags, (std::vector<std::string>{"debug", "gpu"}));
  EXPECT_TRUE(b.serves("cuda"));
  EXPECT_FALSE(b.serves("tpu"));
  EXPECT_EQ(b.dtypes, (std::vector<std::string>{"f32", "bf16"}));
  EXPECT_EQ(b.stage, BackendStage::aot);
  EXPECT_EQ(b.stages, (std::vector<std::string>{"forward", "inference"}));
  EXPECT_TRUE(b.dynamic_shapes && b.boxed && b.serializable && b.takes_cpu_values);
  EXPECT_FALSE(b.threadsafe_compile);
  EXPECT_EQ(b.fallback, "");
  EXPECT_EQ(b.min_region_ops, 3);
  EXPECT_EQ(b.aot.partitioner, "default");
  EXPECT_EQ(b.aot.decompositions, "inductor");
  EXPECT_EQ(b.aot.keep, std::vector<std::string>{"aten.gelu.default"});
  EXPECT_TRUE(b.aot.keep_inference_input_mutations);
}

TEST(Manifest, FillsInDefaults) {
  PluginManifest m = read(whole);
  const BackendManifest& b = m.backends.at(1);
  EXPECT_EQ(b.devices, std::vector<std::string>{"cpu"});
  EXPECT_EQ(b.stage, BackendStage::captured);
  EXPECT_EQ(b.stages.size(), 3u);
  EXPECT_EQ(b.fallback, "eager");
  EXPECT_TRUE(b.threadsafe_compile);
  EXPECT_FALSE(b.dynamic_shapes || b.takes_cpu_values);
}

TEST(Manifest, ReadsOptionsOfEveryType) {
  PluginManifest m = read(whole);
  const BackendManifest& b = m.backends.at(0);
  ASSERT_EQ(b.options.size(), 6u);
  EXPECT_EQ(b.find_option("max_autotune")->env, "TENON_INDUCTOR_MAX_AUTOTUNE");
  EXPECT_TRUE(b.find_option("max_autotune")->affects_cache);
  EXPECT_EQ(b.find_option("level")->env, "TENON_LEVEL");
  EXPECT_FALSE(b.find_option("level")->affects_cache);
  EXPECT_EQ(b.find_option("ratio")->default_value, OptionValue(1.0));
  EXPECT_EQ(b.find_option("kind")->choices.size(), 2u);
  EXPECT_EQ(to_text(b.find_option("targets")->default_value), "[\"avx2\"]");
  EXPECT_EQ(to_text(b.find_option("folder")->default_value), "\"\"");
  EXPECT_EQ(b.find_option("nothing"), nullptr);
}

TEST(Manifest, ReadsModesAgainstTheOptions) {
  PluginManifest m = read(whole);
  const BackendMode* mode = m.backends.at(0).find_mode("max");
  ASSERT_NE(mode, nullptr);
  ASSERT_EQ(mode->values.size(), 2u);
  EXPECT_EQ(m.backends.at(1).find_mode("max"), nullptr);
  EXPECT_CONTAINS(reason(with("level = 3", "levle = 3")), "did you mean level");
  EXPECT_CONTAINS(reason(with("level = 3", "level = 9")), "at most 3");
}

TEST(Manifest, ReadsDevicesKernelsAndExtensions) {
  PluginManifest m = read(whole);
  EXPECT_EQ(m.devices.at(0).type, "cuda");
  EXPECT_EQ(m.kernels.at(0).ops.size(), 2u);
  EXPECT_EQ(m.kernels.at(0).priority, 10);
  EXPECT_EQ(m.extensions.at(0).id, "tenon.cuda");
  EXPECT_EQ(m.extensions.at(0).version, 2u);
}

TEST(Manifest, ReadsOpsByTheirFullNames) {
  std::string with_op = std::string(whole) + "\n[[op]]\nname = \"my.swiglu.default\"\n";
  EXPECT_EQ(read(with_op).ops.at(0).name, "my.swiglu.default");
  for (const char* name : {"my.swiglu", "swiglu", "aten.mine.default"}) {
    ManifestResult r =
        parse_manifest(std::string(whole) + "\n[[op]]\nname = \"" + name + "\"\n", "x.so");
    EXPECT_NE(r.diagnosis.reason.find("expected \"namespace.name.overload\" outside of aten"),
              std::string::npos)
        << r.diagnosis.reason;
  }
  ManifestResult twice =
      parse_manifest(with_op + "\n[[op]]\nname = \"my.swiglu.default\"\n", "x.so");
  EXPECT_NE(twice.diagnosis.reason.find("two ops are named"), std::string::npos);
}

TEST(Manifest, TakesAListOfOpsAsDecompositions) {
  PluginManifest m = read(with("decompositions", "decompositions = [\"aten.silu.default\"]"));
  EXPECT_EQ(m.backends[0].aot.decompositions, "list");
  EXPECT_EQ(m.backends[0].aot.decompose, std::vector<std::string>{"aten.silu.default"});
}

TEST(Manifest, IgnoresUnknownKeysAndTellsThem) {
  ManifestResult r = parse_manifest(with("boxed", "colour = \"red\""), "x.so");
  EXPECT_FALSE(r.diagnosis) << to_text(r.diagnosis);
  EXPECT_EQ(r.unknown_keys, std::vector<std::string>{"backend.colour"});
  EXPECT_TRUE(parse_manifest(whole, "x.so").unknown_keys.empty());
}

TEST(Manifest, TellsLineColumnKeyAndChoicesOfABadValue) {
  ManifestResult r = parse_manifest(with("stage =", "stage = \"late\""), "x.so");
  EXPECT_EQ(to_text(r.diagnosis),
            "P04 x.so: manifest line 19, column 1: backend.stage is \"late\"; expected one of: "
            "captured, aot; `tenon plugin check` says more");
}

TEST(Manifest, RefusesWrongTypesAndNames) {
  EXPECT_CONTAINS(reason(with("boxed", "boxed = 1")),
                  "backend.boxed is an integer; expected a bool");
  EXPECT_CONTAINS(reason(with("tags", "tags = \"debug\"")), "expected an array of strings");
  EXPECT_CONTAINS(reason(with("dtypes", "dtypes = [\"f33\"]")), "\"f33\"");
  EXPECT_CONTAINS(reason(with("name = \"inductor_cpu\"", "name = \"Inductor\"")), "lower-case");
  EXPECT_CONTAINS(reason(with("name = \"plain\"", "name = \"inductor\"")), "two backends");
  EXPECT_CONTAINS(reason(with("version", "version = \"one\"")), "\"one\"");
  EXPECT_CONTAINS(reason(with("abi =", "abi = \"1\"")), "major.minor");
  EXPECT_CONTAINS(reason(with("abi_min", "abi_min = \"1.9\"")), "at most plugin.abi");
  EXPECT_CONTAINS(reason(with("env", "env = \"LEVEL\"")), "begins with TENON_");
  EXPECT_CONTAINS(reason(with("choices", "choices = []")), "without choices");
  EXPECT_CONTAINS(reason(with("default = 2", "default = \"2\"")), "expected int");
  EXPECT_CONTAINS(reason(with("default = 2", "default = 4")), "at most 3");
  EXPECT_CONTAINS(reason(with("manifest = 1", "manifest = 2")), "format 1");
  EXPECT_CONTAINS(reason(with("requires", "requires = [\"x/y\"]")), "id/version");
  EXPECT_CONTAINS(reason(with("[[device]]", "[device]")), "write [[device]]");
  EXPECT_CONTAINS(reason(with("name = \"inductor_cpu\"", "")), "plugin.name is missing");
}

TEST(Manifest, RefusesWhatIsNoToml) {
  EXPECT_CONTAINS(reason("manifest = = 1"), "line 1");
  EXPECT_CONTAINS(reason(""), "manifest is missing");
  EXPECT_CONTAINS(reason("manifest = 1\nplugin = 3\n"), "plugin is an integer");
  reason("manifest = 1 # \xff\xfe\n");
}

TEST(PluginVersions, SortByNumberAndPreRelease) {
  auto v = [](std::string_view text) { return *parse_version(text); };
  EXPECT_LT(v("0.9.0"), v("0.10.0"));
  EXPECT_LT(v("1.0.0-rc1"), v("1.0.0"));
  EXPECT_LT(v("1.0.0-rc1"), v("1.0.0-rc2"));
  EXPECT_EQ(v("1.0.0+build7"), v("1.0.0"));
  for (std::string_view bad : {"", "1", "1.2", "1.2.x", "1.2.3.4", "v1.2.3", "1.2.3-"})
    EXPECT_FALSE(parse_version(bad)) << bad;
}

TEST(AbiNegotiation, RefusesOtherMajorsAndNewerMinimumsOnly) {
  PluginManifest m = read(whole);  // built with 1.3, works from 1.0 on
  EXPECT_FALSE(check_abi(m, "x.so", {1, 0}));
  EXPECT_FALSE(check_abi(m, "x.so", {1, 9}));
  EXPECT_EQ(check_abi(m, "x.so", {2, 0}).fault, PluginFault::abi_major);
  m.abi_min = {1, 2};
  EXPECT_EQ(check_abi(m, "x.so", {1, 1}).fault, PluginFault::abi_minor);
  EXPECT_EQ(to_text(check_abi(m, "x.so", {1, 1})),
            "P06 x.so: inductor_cpu 0.2.0-rc1 needs plugin ABI 1.2 or newer, this host has 1.1; "
            "update Tenon");
}

TEST(Options, CheckValuesGivenLater) {
  PluginManifest m = read(whole);
  const BackendManifest& b = m.backends.at(0);
  EXPECT_EQ(option_problem(*b.find_option("ratio"), OptionValue(int64_t{3})), "");
  EXPECT_NE(option_problem(*b.find_option("kind"), OptionValue(std::string("big"))), "");
  EXPECT_NE(option_problem(*b.find_option("level"), OptionValue(int64_t{-1})), "");
  EXPECT_NE(option_problem(*b.find_option("max_autotune"), OptionValue(int64_t{1})), "");
}

}  // namespace
}  // namespace tenon
