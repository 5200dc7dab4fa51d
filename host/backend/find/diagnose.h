// Every way in which a plugin can be unusable or suspicious: a code, a reason and a cure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

/// The codes P01..P24 of the plugin documentation; `none` is "nothing to say".
enum class PluginFault : uint8_t {
  none = 0,
  unreadable = 1,          ///< cannot be opened, not ELF, truncated
  wrong_machine = 2,       ///< another machine or class, or not a shared object
  no_note = 3,             ///< not a Tenon plugin
  bad_manifest = 4,        ///< the manifest is not what it should be
  abi_major = 5,           ///< built for another major of the plugin ABI
  abi_minor = 6,           ///< needs a newer host
  no_entry = 7,            ///< tenon_plugin_entry_v1 is missing or hidden
  missing_library = 8,     ///< a library that it links is not there
  undefined_symbol = 9,    ///< a symbol that it needs is nowhere
  threw = 10,              ///< an exception left one of its functions
  entry_failed = 11,       ///< its entry returned an error or no table
  table_mismatch = 12,     ///< its table names other things than its manifest
  shadowed = 13,           ///< another plugin of the same name comes first
  refused = 14,            ///< ownership or permissions
  wrong_digest = 15,       ///< not in the allow-list, or changed while it was loaded
  quarantined = 16,        ///< crashed while it was loaded in an earlier process
  entry_timeout = 17,      ///< its entry did not return in time
  replaced = 18,           ///< the file changed after it was loaded
  no_device = 19,          ///< loaded, but there is no device or driver
  hygiene = 20,            ///< exports too much, executable stack, text relocations
  missing_extension = 21,  ///< what it requires is missing or circular
  leaks = 22,              ///< left objects behind at shutdown
  contract_broken = 23,    ///< broke a rule at run time
  bad_note = 24,           ///< two manifests, or one over 64 KiB
};

/// "P05"; empty for none.
std::string code_of(PluginFault fault);

/// Whether a plugin of this diagnosis can be used all the same.
bool is_warning(PluginFault fault);

/// What the code means, in a few words.
std::string_view meaning_of(PluginFault fault);

struct Diagnosis {
  PluginFault fault = PluginFault::none;
  std::string path;    ///< the file
  std::string reason;  ///< what was expected and what was found
  std::string hint;    ///< what cures it; may be empty

  explicit operator bool() const { return fault != PluginFault::none; }
  friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};

/// "P05 /opt/x.so: built for plugin ABI 2.0, this host has 1.0; rebuild the plugin".
std::string to_text(const Diagnosis& diagnosis);

}  // namespace tenon
