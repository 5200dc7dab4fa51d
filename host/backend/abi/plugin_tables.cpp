// Checks the tables of a plugin before anything in them is used.
#include "backend/abi/plugin_tables.h"

#include "backend/abi/status.h"
#include "core/error.h"
#include "core/joined.h"

#include <algorithm>
#include <cstring>

namespace tenon {

namespace {

constexpr uint32_t max_entries = 1024;  // of a table; more is a field that was never set
constexpr size_t max_name = 4096;
constexpr std::string_view newer_hint =
    "set struct_size to sizeof, and compile it with one plugin.h throughout";

/// Stops the reading; becomes the diagnosis.
struct Stop {
  PluginFault fault;
  std::string reason, hint;
};

[[noreturn]] void incomplete(std::string reason, std::string_view hint) {
  throw Stop{PluginFault::entry_failed, std::move(reason), std::string(hint)};
}

template <class T>
T full_copy(const T* table) {
  T copy;
  std::memset(&copy, 0, sizeof copy);
  std::memcpy(&copy, table, std::min<size_t>(table->struct_size, sizeof copy));
  return copy;
}

// Fields up to `needed` bytes belong to 1.0 and must be there.
template <class T>
T checked_copy(const T* table, const std::string& what, size_t needed) {
  if (!table) incomplete(message("{} is NULL", what), "give every entry that the table counts");
  if (table->struct_size < needed)
    incomplete(message("{} has {} bytes, expected {} or more", what, table->struct_size, needed),
               newer_hint);
  return full_copy(table);
}

template <class T>
std::vector<T> list_of_tables(const T* const* entries, uint32_t n, const std::string& what,
                              size_t needed) {
  if (n > max_entries)
    incomplete(message("its number of {} is {}, expected at most {}", what, n, max_entries),
               newer_hint);
  if (n > 0 && !entries)
    incomplete(message("its number of {} is {}, and the list of them is NULL", what, n),
               "point it to the list");
  std::vector<T> out;
  for (uint32_t i = 0; i < n; ++i)
    out.push_back(checked_copy(entries[i], message("entry {} of its {}", i, what), needed));
  return out;
}

std::string name_in(tn_str name, const std::string& what) {
  if (!name.data || name.size == 0 || name.size > max_name)
    incomplete(
        message("{} has {}", what,
                !name.data || name.size == 0
                    ? std::string("no name")
                    : message("a name of {} bytes, expected at most {}", name.size, max_name)),
        "name it as the manifest does");
  return std::string(view_of(name));
}

using Names = std::vector<std::string>;

std::string shown(const Names& names) { return names.empty() ? "none" : joined(names); }

// P12 unless both lists hold the same names, in whatever order.
void compare(std::string_view what, Names declared, Names given) {
  Names a = declared, b = given;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a == b) return;
  throw Stop{PluginFault::table_mismatch,
             message("{}: its manifest declares {}; its table has {}", what, shown(declared),
                     shown(given)),
             "make plugin.toml and the table, such as TENON_PLUGIN_BACKENDS, name the same"};
}

template <class T, class F>
Names names_of(const std::vector<T>& list, F name) {
  Names out;
  for (size_t i = 0; i < list.size(); ++i) out.push_back(name(list[i], i));
  return out;
}

void read_backends(const PluginManifest& manifest, PluginTables& out) {
  out.backends = list_of_tables(out.table.backends, out.table.n_backends, "backends",
                                offsetof(tn_backend, supports));
  Names given = names_of(out.backends, [](const tn_backend& b, size_t i) {
    return name_in(b.name, message("entry {} of its backends", i));
  });
  compare("backends", names_of(manifest.backends, [](const auto& b, size_t) { return b.name; }),
          given);
  for (size_t i = 0; i < given.size(); ++i)
    if (!out.backends[i].compile)
      incomplete(message("its backend {} has no compile function", given[i]),
                 "set tn_backend.compile");
}

void read_devices(const PluginManifest& manifest, PluginTables& out) {
  out.devices = list_of_tables(out.table.devices, out.table.n_devices, "devices",
                               offsetof(tn_device_provider, capture_begin));
  Names given = names_of(out.devices, [](const tn_device_provider& d, size_t i) {
    return name_in(d.type_name, message("entry {} of its devices", i));
  });
  compare("devices", names_of(manifest.devices, [](const auto& d, size_t) { return d.type; }),
          given);
  for (size_t i = 0; i < given.size(); ++i)
    if (!out.devices[i].count)
      incomplete(message("its device {} has no count function", given[i]),
                 "set tn_device_provider.count");
}

void read_extensions(const PluginManifest& manifest, PluginTables& out) {
  auto versioned = [](const std::string& id, uint32_t version) {
    return message("{}/{}", id, version);
  };
  out.extensions = list_of_tables(out.table.extensions, out.table.n_extensions, "extensions",
                                  sizeof(tn_extension));
  Names given = names_of(out.extensions, [&](const tn_extension& e, size_t i) {
    return versioned(name_in(e.id, message("entry {} of its extensions", i)), e.version);
  });
  compare("extensions",
          names_of(manifest.extensions,
                   [&](const auto& e, size_t) { return versioned(e.id, e.version); }),
          given);
}

// The rows of the table stand in the order of the manifest's: they have no name of their own.
void read_kernels(const PluginManifest& manifest, PluginTables& out) {
  out.kernels =
      list_of_tables(out.table.kernels, out.table.n_kernels, "kernels", sizeof(tn_kernels));
  if (out.kernels.size() != manifest.kernels.size())
    throw Stop{PluginFault::table_mismatch,
               message("kernels: its manifest declares {} lists of ops; its table has {}",
                       manifest.kernels.size(), out.kernels.size()),
               "give one tn_kernels for each [[kernels]] of plugin.toml"};
  for (size_t row = 0; row < out.kernels.size(); ++row) {
    const tn_kernels& k = out.kernels[row];
    std::string what = message("entry {} of its kernels", row);
    if (k.n_ops > max_entries || (k.n_ops > 0 && !k.ops) || !k.run)
      incomplete(message("{} has {} ops{}{}", what, k.n_ops, k.ops ? "" : ", no list of them",
                         k.run ? "" : ", no run function"),
                 "set n_ops, ops and run of tn_kernels");
    Names given;
    for (uint32_t i = 0; i < k.n_ops; ++i)
      given.push_back(name_in(k.ops[i], message("op {} of {}", i, what)));
    compare(message("kernels {}", row), manifest.kernels[row].ops, given);
  }
}

}  // namespace

Diagnosis read_tables(const FoundPlugin& plugin, const tn_plugin* table, PluginTables& out) {
  try {
    if (!table)
      incomplete("its entry reported success and gave no table", "set *out to a tn_plugin");
    out.table = checked_copy(table, "its table", offsetof(tn_plugin, shutdown));
    if (out.table.abi_major != plugin.manifest.abi.major)
      throw Stop{PluginFault::table_mismatch,
                 message("its manifest says plugin ABI {}, its table major {}", plugin.manifest.abi,
                         out.table.abi_major),
                 "set abi_major and abi_minor to TN_ABI_MAJOR and TN_ABI_MINOR"};
    read_backends(plugin.manifest, out);
    read_devices(plugin.manifest, out);
    read_extensions(plugin.manifest, out);
    read_kernels(plugin.manifest, out);
    return {};
  } catch (Stop& stop) {
    return {stop.fault, plugin.path, std::move(stop.reason), std::move(stop.hint)};
  }
}

}  // namespace tenon
