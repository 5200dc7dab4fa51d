// `tenon doctor`: what this machine and installation look like to Tenon.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "cli/config_files.h"
#include "cli/doctor_devices.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "config/cache_folder.h"
#include "config/config.h"
#include "config/reading.h"
#include "core/cpu_level.h"
#include "core/threads/thread_pool.h"
#include "core/version.h"
#include "ops/op_table.h"

#include <tenon/plugins.h>

#include <filesystem>
#include <memory>
#include <thread>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

std::string cache_state(const fs::path& folder) {
  std::error_code error;
  if (folder.empty()) return "none: neither TENON_CACHE_DIR nor HOME is set";
  if (!fs::exists(folder, error)) return "not made yet";
  fs::perms rights = fs::status(folder, error).permissions();
  if (error) return error.message();
  bool writable = (rights & fs::perms::owner_write) != fs::perms::none;
  return writable ? "ready" : "not writable";
}

Json facts() {
  Json out{{"schema", 1}, {"version", version}};
  out["cpu"] = {{"level", name_of(cpu_level())},
                {"level_of_machine", name_of(detect_cpu_level())},
                {"cpus", std::thread::hardware_concurrency()},
                {"threads", num_threads()}};
  out["devices"] = device_facts_of_child();
  out["ops"] = op_count();
  fs::path folder = config::cache_folder();
  out["cache"] = {{"folder", folder.string()}, {"state", cache_state(folder)}};
  out["backends"] = Json::Array{};
  for (const BackendInfo& b : all_backends())
    out["backends"].items().push_back({{"name", b.name}, {"version", b.version}, {"file", b.file}});
  out["refused"] = Json::Array{};
  for (const RefusedPlugin& r : refused_plugins())
    out["refused"].items().push_back(
        {{"file", r.file}, {"code", r.code}, {"reason", r.reason}, {"hint", r.hint}});
  out["plugins"] = Json::Array{};
  for (const PluginInfo& p : plugins())
    out["plugins"].items().push_back({{"file", p.path},
                                      {"name", p.name},
                                      {"version", p.version},
                                      {"state", p.state},
                                      {"code", p.code},
                                      {"reason", p.reason},
                                      {"hint", p.hint},
                                      {"warnings", p.warnings}});
  out["config"] = Json::Array{};
  for (const auto& [layer, folder] : config::config_folders())
    out["config"].items().push_back({{"layer", config::name_of(layer)}, {"folder", folder}});
  out["config_files"] = config_file_facts();
  return out;
}

void print_facts(const Json& f) {
  auto text = [](const Json& value) { return value.text(); };
  print(message("tenon {}\n", text(f["version"])));
  const Json& cpu = f["cpu"];
  print(message("CPU      level {}, the machine has {}; {} threads on {} CPUs\n",
                text(cpu["level"]), text(cpu["level_of_machine"]), cpu["threads"].integer(),
                cpu["cpus"].integer()));
  print(device_text(f["devices"]));
  print(message("ops      {}\n", f["ops"].integer()));
  print(message("cache    {}: {}\n", text(f["cache"]["folder"]), text(f["cache"]["state"])));
  for (const Json& folder : f["config"])
    print(message("config   {}: {}\n", text(folder["layer"]), text(folder["folder"])));
  for (const Json& file : f["config_files"]) print("config   " + config_file_line(file) + "\n");
  for (const Json& b : f["backends"])
    print(message("backend  {} {} {}\n", text(b["name"]), text(b["version"]), text(b["file"])));
  for (const Json& p : f["plugins"]) {
    std::string hint = text(p["hint"]);
    print(message("plugin   {} {}\n", text(p["state"]), text(p["file"])));
    if (!text(p["code"]).empty())
      print(message("         {}: {}{}{}\n", text(p["code"]), text(p["reason"]),
                    hint.empty() ? "" : "; ", hint));
    for (const Json& warning : p["warnings"])
      print(message("         doubtful: {}\n", text(warning)));
  }
}

int examine_devices(const Globals& globals) {
  Json found = device_facts();
  if (globals.json)
    print_json({{"schema", 1}, {"devices", found}});
  else
    print(device_text(found));
  return 0;
}

int examine(const Globals& globals) {
  Json found = facts();
  if (globals.json)
    print_json(found);
  else
    print_facts(found);
  return 0;
}

Action build_doctor(Options& app) {
  auto only_devices = std::make_shared<bool>(false);
  app.add_flag("--devices", *only_devices, "devices only, asked in this process");
  return [only_devices](const Globals& globals) {
    return *only_devices ? examine_devices(globals) : examine(globals);
  };
}

}  // namespace

extern constinit const Verb verb_doctor{
    .name = "doctor",
    .summary = "shows machine, plugins, cache and configuration",
    .example = "tenon doctor",
    .build = build_doctor,
    .judges_plugins = true};

}  // namespace tenon::cli
