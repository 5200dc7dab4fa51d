// Names in manifests: of backends and variables that flags have already, of ops and of devices.
#include "debug/plugin_kit/manifest_names.h"

#include "config/flag_def.h"
#include "core/joined.h"
#include "debug/plugin_kit/check.h"
#include "ops/op_table.h"

#include <tenon/types.h>

#include <algorithm>

namespace tenon::kit {

namespace {

using Names = std::vector<std::string>;

// Ops of other plugins are not loaded for this: no code runs.
bool is_op(const PluginManifest& m, const std::string& name) {
  bool own = std::ranges::any_of(m.ops, [&](const OpManifest& op) { return op.name == name; });
  return own || (name.starts_with("aten.") ? find_op(name) : find_added_op(name));
}

bool is_device(const PluginManifest& m, const std::string& name) {
  bool own =
      std::ranges::any_of(m.devices, [&](const DeviceManifest& d) { return d.type == name; });
  return own || name == "*" || parse_device(name);
}

template <class Known>
void add_unknown(const Names& names, Known is_known, const std::string& where, Names& out) {
  Names unknown;
  for (const std::string& name : names)
    if (!is_known(name)) unknown.push_back(name);
  if (!unknown.empty()) out.push_back(message("{} names {}", where, joined(unknown)));
}

void expect_usable(const BackendManifest& b) {
  expect(!b.devices.empty(), "backend {} has no devices, so it gets no graph", b.name);
  expect(!b.stages.empty(), "backend {} has no stages, so it gets no graph", b.name);
  for (std::string_view module : config::module_names())
    expect(b.name != module,
           "backend {} is named like the flags [{}], so its options cannot be set; choose another "
           "name",
           b.name, module);
}

// Every program refuses a variable that looks like a flag and names none.
void expect_free_variables(const BackendManifest& b) {
  for (const BackendOption& option : b.options)
    for (std::string_view module : config::module_names()) {
      std::string prefix = config::variable_name("TENON_", module, "");
      expect(!option.env.starts_with(prefix),
             "option {}.{}: variables {}... are those of the flags [{}]; choose another env",
             b.name, option.name, prefix, module);
    }
}

}  // namespace

void check_manifest_names(const PluginManifest& m) {
  Names unknown;
  auto op = [&](const std::string& name) { return is_op(m, name); };
  auto device = [&](const std::string& name) { return is_device(m, name); };
  for (const BackendManifest& b : m.backends) {
    expect_usable(b);
    expect_free_variables(b);
    std::string where = "backend " + b.name + ": ";
    add_unknown(b.devices, device, where + "devices", unknown);
    add_unknown(b.aot.decompose, op, where + "decompositions", unknown);
    add_unknown(b.aot.keep, op, where + "keep", unknown);
  }
  for (const KernelsManifest& k : m.kernels) {
    add_unknown(k.ops, op, "[[kernels]] ops", unknown);
    add_unknown({k.device}, device, "[[kernels]] device", unknown);
  }
  if (!unknown.empty())
    throw CheckWarned{joined(unknown, "; ") + "; this host knows nothing of these names"};
}

}  // namespace tenon::kit
