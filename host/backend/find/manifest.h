// What a plugin says about itself: the TOML of its note, checked and with defaults filled in.
#pragma once

#include "backend/find/diagnose.h"

#include <tenon/detail/variant.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

/// "1.12.3"; a suffix such as "-rc1" sorts before the release.
struct PluginVersion {
  uint32_t major = 0, minor = 0, patch = 0;
  std::string suffix;
  friend bool operator==(const PluginVersion&, const PluginVersion&) = default;
  friend std::strong_ordering operator<=>(const PluginVersion& a, const PluginVersion& b);
};
std::optional<PluginVersion> parse_version(std::string_view text);
std::string to_text(const PluginVersion& version);

struct AbiVersion {
  uint32_t major = 0, minor = 0;
  friend auto operator<=>(const AbiVersion&, const AbiVersion&) = default;
};
std::string to_text(const AbiVersion& version);

enum class OptionType : uint8_t { boolean, integer, floating, string, enumeration, list };
/// "bool", "int", "float", "string", "enum", "list".
std::string_view name_of(OptionType type);

/// A value of an option: bool, int, float, string (also enum), list of strings.
using OptionValue = detail::Variant<bool, int64_t, double, std::string, std::vector<std::string>>;
/// As TOML: true, 3, 0.5, "text", ["a", "b"].
std::string to_text(const OptionValue& value);

struct BackendOption {
  std::string name;
  OptionType type = OptionType::boolean;
  OptionValue default_value;
  std::string doc;
  std::string env;            ///< environment variable; TENON_<BACKEND>_<OPTION> unless given
  bool affects_cache = true;  ///< part of the cache key
  std::vector<std::string> choices;  ///< enums
  std::optional<double> min, max;    ///< ints and floats
};

/// Why `value` cannot be the value of `option`; empty when it can. An int passes for a float.
std::string option_problem(const BackendOption& option, const OptionValue& value);

struct BackendMode {
  std::string name;
  std::vector<std::pair<std::string, OptionValue>> values;
};

enum class BackendStage : uint8_t { captured, aot };

struct AotSettings {
  std::string partitioner = "min_cut";       ///< "min_cut" or "default"
  std::string decompositions = "core_aten";  ///< a set's name, "none", or "list"
  std::vector<std::string> decompose;        ///< the ops of "list"
  std::vector<std::string> keep;             ///< ops left whole although the set has them
  bool keep_inference_input_mutations = false;
  bool debug_assert = false;
};

struct BackendManifest {
  std::string name, description;
  std::vector<std::string> tags;
  std::vector<std::string> devices = {"cpu"};  ///< device type names; "*" = any
  std::vector<std::string> dtypes;             ///< empty = any
  BackendStage stage = BackendStage::captured;
  std::vector<std::string> stages = {"forward", "backward", "inference"};
  bool dynamic_shapes = false;  ///< false: the host specialises all sizes
  bool boxed = false;           ///< artifacts accept stolen inputs
  bool threadsafe_compile = true;
  bool serializable = false;
  bool makes_code = false;         ///< maps code that it makes: the system may forbid that
  bool takes_cpu_values = false;   ///< in graphs that run on one of `devices`
  std::vector<std::string> loads;  ///< backends whose saved artifacts it runs
  std::string fallback = "eager";  ///< for what `supports` rejects; "" = refuse the graph
  int64_t min_region_ops = 1;
  AotSettings aot;
  std::vector<BackendOption> options;
  std::vector<BackendMode> modes;  ///< "default" need not stand there

  bool serves(std::string_view device) const;
  const BackendOption* find_option(std::string_view name) const;
  const BackendMode* find_mode(std::string_view name) const;
};

struct DeviceManifest {
  std::string type, description;
};

/// Eager kernels for one device, tried before the host's own; higher priorities first.
struct KernelsManifest {
  std::string device, description;
  std::vector<std::string> ops;
  int64_t priority = 0;
};

/// An op that the plugin adds, "my.swiglu.default".
struct OpManifest {
  std::string name, description;
};

struct ExtensionManifest {
  std::string id;
  uint32_t version = 1;
};

struct PluginManifest {
  std::string name, description, license;
  PluginVersion version;
  AbiVersion abi;      ///< of the header it was built with
  AbiVersion abi_min;  ///< lowest host that it works with
  std::vector<ExtensionManifest> requires_;
  std::vector<std::string> needs_library;  ///< for messages only
  std::vector<BackendManifest> backends;
  std::vector<DeviceManifest> devices;
  std::vector<KernelsManifest> kernels;
  std::vector<OpManifest> ops;
  std::vector<ExtensionManifest> extensions;

  const BackendManifest* find_backend(std::string_view name) const;
};

struct ManifestResult {
  PluginManifest manifest;
  Diagnosis diagnosis;                    ///< none, or P04 with line, column and key
  std::vector<std::string> unknown_keys;  ///< ignored; for the debug log
};

/// Unknown keys are ignored, so that old hosts read new manifests; a known key with an unknown
/// value is an error. Never throws for what the text contains. Any thread.
ManifestResult parse_manifest(std::string_view text, const std::string& path);

/// P05, P06 or none: may a host of this ABI version load the plugin?
Diagnosis check_abi(const PluginManifest& manifest, const std::string& path, AbiVersion host);

}  // namespace tenon
