// The tables that a plugin's entry gave: checked, compared with the manifest, copied in full
// length.
#pragma once

#include "backend/find/discover.h"

#include <tenon/device.h>
#include <tenon/plugin.h>

#include <vector>

namespace tenon {

/// Full-length copies; what an older plugin lacks is zero, so that no reader tests sizes again.
struct PluginTables {
  tn_plugin table{};
  std::vector<tn_backend> backends;
  std::vector<tn_device_provider> devices;
  std::vector<tn_extension> extensions;
  std::vector<tn_kernels> kernels;  ///< in the order of the manifest's [[kernels]]
};

/// Reads what `table` says. P11 when a table is missing, too short or full of holes, P12 when it
/// names other things than the manifest; `out` is complete when the diagnosis is none. Nothing is
/// called. Memory that the table points to is believed to be there.
Diagnosis read_tables(const FoundPlugin& plugin, const tn_plugin* table, PluginTables& out);

}  // namespace tenon
