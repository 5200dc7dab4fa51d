// Devices of plugins: asked here, or in a child process.
#include "cli/doctor_devices.h"

#include "backend/catalog.h"
#include "core/device/provider.h"
#include "debug/child_process.h"
#include "graph/text/parse.h"

#include <sys/wait.h>

#include <cstring>
#include <set>

namespace tenon::cli {

namespace {

std::set<DeviceType> offered_types() {
  std::set<DeviceType> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (const DeviceManifest& d : plugin->manifest.devices)
      if (std::optional<Device> device = parse_device(d.type)) out.insert(device->type);
  return out;
}

Json facts_of(Device device) {
  try {
    DeviceProperties p = device_properties(device);
    return {{"name", p.name},
            {"arch", p.arch},
            {"multiprocessors", p.compute_units},
            {"total_bytes", p.total_bytes},
            {"free_bytes", p.free_bytes}};
  } catch (const Error& e) {
    return {{"why_not", e.what()}};
  }
}

Json facts_of(DeviceType type) {
  Json out{{"type", type_name(type)}, {"devices", Json::Array{}}};
  if (std::string why = why_no_device(type); !why.empty()) {
    out["why_not"] = why;
    return out;
  }
  for (int i = 0; i < device_count(type); ++i)
    out["devices"].items().push_back(facts_of(Device(type, i)));
  Json behind = formats::json_or_null(provider_of(Device(type)).describe());
  if (behind.is_object()) out.update(behind);
  return out;
}

// Types of which nothing could be found out.
Json failed(const std::string& why) {
  Json::Array out;
  for (DeviceType type : offered_types())
    out.push_back({{"type", type_name(type)}, {"devices", Json::Array{}}, {"why_not", why}});
  return out;
}

std::string text_of(const Json& value) { return value.text(); }

std::string library_line(const Json& library) {
  if (library.find("why_not")) return message("         {}\n", text_of(library["why_not"]));
  std::string version = library.find("version") ? " " + text_of(library["version"]) : "";
  return message("         {}{}: {}\n", text_of(library["name"]), version,
                 text_of(library["path"]));
}

std::string device_line(const Json& device, const std::string& name) {
  if (device.find("why_not")) return message("device   {}: {}\n", name, text_of(device["why_not"]));
  return message("device   {}: {}, {}, {} MiB, {} of them free\n", name, text_of(device["name"]),
                 text_of(device["arch"]), device["total_bytes"].integer() >> 20,
                 device["free_bytes"].integer() >> 20);
}

}  // namespace

Json device_facts() {
  Json::Array out;
  for (DeviceType type : offered_types()) out.push_back(facts_of(type));
  return out;
}

Json device_facts_of_child() try {
  auto [text, status] = output_of_self({"tenon", "doctor", "--devices", "--json", "-q"});
  if (WIFSIGNALED(status))
    return failed(message("asking crashed with signal {} ({})", WTERMSIG(status),
                          strsignal(WTERMSIG(status))));
  Json document = formats::json_or_null(text);
  if (document.is_object() && document.find("devices")) return document["devices"];
  return failed(message("asking ended with status {} and no answer", WEXITSTATUS(status)));
} catch (const UserError& e) {
  return failed(e.what());
}

std::string device_text(const Json& facts) {
  std::string out;
  for (const Json& type : facts) {
    std::string name = text_of(type["type"]);
    if (type.find("why_not"))
      out += message("device   {}: none: {}\n", name, text_of(type["why_not"]));
    int index = 0;
    for (const Json& device : type["devices"])
      out += device_line(device, message("{}:{}", name, index++));
    if (type.find("driver")) out += message("         driver {}\n", text_of(type["driver"]));
    if (type.find("libraries"))
      for (const Json& library : type["libraries"]) out += library_line(library);
  }
  return out.empty() ? "device   none: no plugin offers any\n" : out;
}

}  // namespace tenon::cli
