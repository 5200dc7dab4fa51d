// Texts of the plugin diagnoses.
#include "backend/find/diagnose.h"

#include <array>

namespace tenon {

static constexpr std::array<std::string_view, 25> meanings = {
    "nothing wrong",
    "unreadable, not ELF or truncated",
    "other machine, other class or not a shared object",
    "not a Tenon plugin",
    "invalid manifest",
    "other major version of the plugin ABI",
    "needs a newer Tenon",
    "entry symbol missing or hidden",
    "missing library",
    "undefined symbol",
    "an exception left the plugin",
    "its entry failed",
    "table and manifest disagree",
    "shadowed by another plugin",
    "refused: ownership or permissions",
    "refused: digest",
    "quarantined after a crash",
    "its entry ran into the time limit",
    "replaced on disk after it was loaded",
    "no device or driver",
    "hygiene",
    "a required extension is missing",
    "leaks at shutdown",
    "broke its contract",
    "two manifests or one that is too large",
};

std::string code_of(PluginFault fault) {
  int number = static_cast<int>(fault);
  if (number == 0) return {};
  return std::string(number < 10 ? "P0" : "P") + std::to_string(number);
}

bool is_warning(PluginFault fault) {
  return fault == PluginFault::none || fault == PluginFault::no_device ||
         fault == PluginFault::hygiene;
}

std::string_view meaning_of(PluginFault fault) { return meanings[static_cast<size_t>(fault)]; }

std::string to_text(const Diagnosis& diagnosis) {
  if (!diagnosis) return {};
  std::string out = code_of(diagnosis.fault) + " ";
  if (!diagnosis.path.empty()) out += diagnosis.path + ": ";
  out += diagnosis.reason.empty() ? std::string(meaning_of(diagnosis.fault)) : diagnosis.reason;
  if (!diagnosis.hint.empty()) out += "; " + diagnosis.hint;
  return out;
}

}  // namespace tenon
