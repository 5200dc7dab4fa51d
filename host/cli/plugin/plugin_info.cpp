// `tenon plugin info`: all that a plugin file says about itself, and what the host thinks of it.
// Nothing of the file is run.
#include "backend/catalog.h"
#include "cli/plugin/plugin.h"
#include "config/flag_def.h"
#include "core/error.h"
#include "core/joined.h"

#include <filesystem>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

/// A file, even if no search would find it.
FoundPluginPtr examine_file(const std::string& path) {
  SearchSettings settings = plugin_catalog().settings();
  settings.files = {path};
  settings.option_path.clear();
  settings.environment = "!";
  settings.config_path.clear();
  return PluginCatalog(std::move(settings)).list().at(0);
}

bool is_named(const FoundPlugin& p, const std::string& name) {
  return p.manifest.name == name || p.manifest.find_backend(name);
}

FoundPluginPtr find(const std::string& name) {
  if (name.find('/') != name.npos || fs::exists(name)) return examine_file(name);
  std::vector<std::string> known;
  for (const FoundPluginPtr& p : plugin_catalog().list()) {
    if (is_named(*p, name)) return p;
    if (!p->manifest.name.empty()) known.push_back(p->manifest.name);
  }
  fail(ErrorCode::invalid_backend, "there is no plugin or file '{}'; the nearest plugins are {}",
       name, nearest_names(name, known));
}

std::string digest_text(const std::string& path) {
  try {
    return digest_of(path);
  } catch (const Error&) {
    return "";  // the verdict tells why
  }
}

std::string text_of(const ExtensionManifest& e) { return message("{}/{}", e.id, e.version); }

std::vector<std::string> texts_of(const std::vector<ExtensionManifest>& all) {
  std::vector<std::string> out;
  for (const ExtensionManifest& e : all) out.push_back(text_of(e));
  return out;
}

std::string variable_of(const BackendManifest& b, const BackendOption& o) {
  return o.env.empty() ? config::variable_name("TENON_", b.name, o.name) : o.env;
}

// ---- JSON

Json to_json(const BackendManifest& b, const BackendOption& o) {
  Json out{{"name", o.name},
           {"type", name_of(o.type)},
           {"default", to_text(o.default_value)},
           {"doc", o.doc},
           {"environment", variable_of(b, o)},
           {"choices", o.choices},
           {"affects_cache", o.affects_cache}};
  if (o.min) out["min"] = *o.min;
  if (o.max) out["max"] = *o.max;
  return out;
}

Json to_json(const BackendManifest& b) {
  Json out{{"name", b.name},
           {"description", b.description},
           {"tags", b.tags},
           {"devices", b.devices},
           {"dtypes", b.dtypes},
           {"stage", b.stage == BackendStage::captured ? "captured" : "aot"},
           {"stages", b.stages},
           {"dynamic_shapes", b.dynamic_shapes},
           {"serializable", b.serializable},
           {"fallback", b.fallback},
           {"options", Json::Array{}},
           {"modes", Json::Array{}}};
  for (const BackendOption& o : b.options) out["options"].items().push_back(to_json(b, o));
  for (const BackendMode& m : b.modes) out["modes"].items().push_back(m.name);
  return out;
}

Json to_json(const FoundPlugin& p) {
  const PluginManifest& m = p.manifest;
  Json out{{"schema", 1}, {"file", p.path}, {"source", name_of(p.source)}};
  out.update(verdict_json(p));
  out["warnings"] = warning_texts(p);
  out["digest"] = digest_text(p.path);
  out["needed"] = p.elf.needed;
  out["runpath"] = p.elf.runpath;
  out["name"] = m.name;
  if (m.name.empty()) return out;
  out["version"] = to_text(m.version);
  out["description"] = m.description;
  out["license"] = m.license;
  out["abi"] = to_text(m.abi);
  out["abi_min"] = to_text(m.abi_min);
  out["requires"] = texts_of(m.requires_);
  out["extensions"] = texts_of(m.extensions);
  out["backends"] = Json::Array{};
  for (const BackendManifest& b : m.backends) out["backends"].items().push_back(to_json(b));
  out["devices"] = Json::Array{};
  for (const DeviceManifest& d : m.devices)
    out["devices"].items().push_back({{"type", d.type}, {"description", d.description}});
  out["kernels"] = Json::Array{};
  for (const KernelsManifest& k : m.kernels)
    out["kernels"].items().push_back(
        {{"device", k.device}, {"priority", k.priority}, {"ops", k.ops}});
  return out;
}

// ---- text

void line(std::string name, const std::string& text) {
  if (text.empty()) return;
  name.resize(11, ' ');
  print(name + text + "\n");
}

void print_option(const BackendManifest& b, const BackendOption& o) {
  print(message("    {} ({}, default {}): {}\n", o.name, name_of(o.type), to_text(o.default_value),
                o.doc));
  if (!o.choices.empty()) print("      one of " + joined(o.choices) + "\n");
  if (o.min || o.max)
    print(message("      from {} to {}\n", o.min ? message("{}", *o.min) : "any",
                  o.max ? message("{}", *o.max) : "any"));
  print("      " + variable_of(b, o) + "\n");
}

void print_backend(const BackendManifest& b) {
  print(message("\nbackend {}: {}\n", bold(b.name), b.description));
  if (!b.tags.empty()) print("  tags     " + joined(b.tags) + "\n");
  print("  devices  " + joined(b.devices) + "\n");
  print(message("  stage    {}, {} sizes\n",
                b.stage == BackendStage::captured ? "captured" : "aot: " + joined(b.stages),
                b.dynamic_shapes ? "dynamic" : "fixed"));
  if (!b.dtypes.empty()) print("  dtypes   " + joined(b.dtypes) + "\n");
  print(message("  fallback {}\n", b.fallback.empty() ? "none" : b.fallback));
  std::vector<std::string> modes;
  for (const BackendMode& m : b.modes) modes.push_back(m.name);
  if (!modes.empty()) print("  modes    " + joined(modes) + "\n");
  if (!b.options.empty()) print("  options\n");
  for (const BackendOption& o : b.options) print_option(b, o);
}

void print_manifest(const PluginManifest& m) {
  line("abi", message("{}, at least {}", to_text(m.abi), to_text(m.abi_min)));
  line("license", m.license);
  line("requires", joined(texts_of(m.requires_)));
  line("extends", joined(texts_of(m.extensions)));
  for (const BackendManifest& b : m.backends) print_backend(b);
  for (const DeviceManifest& d : m.devices)
    print(message("\ndevice {}: {}\n", bold(d.type), d.description));
  for (const KernelsManifest& k : m.kernels)
    print(message("\nkernels for {}, priority {}: {}\n", k.device, k.priority, joined(k.ops)));
}

void print_text(const FoundPlugin& p) {
  const PluginManifest& m = p.manifest;
  if (!m.name.empty())
    print(message("{} {}: {}\n", bold(m.name), to_text(m.version), m.description));
  line("file", p.path);
  line("state", std::string(name_of(p.state)));
  line("verdict", p.diagnosis ? to_text(p.diagnosis) : "");
  for (const std::string& warning : warning_texts(p)) line("warning", warning);
  if (std::string digest = digest_text(p.path); !digest.empty())
    line("allow", message("\"{}\" = \"{}\"", p.file_name(), digest));
  line("needs", joined(p.elf.needed));
  line("runpath", p.elf.runpath);
  if (!m.name.empty()) print_manifest(m);
}

int info(const std::string& name, const Globals& globals) {
  FoundPluginPtr plugin = find(name);
  if (globals.json)
    print_json(to_json(*plugin));
  else
    print_text(*plugin);
  if (plugin->diagnosis.fault == PluginFault::unreadable ||
      plugin->diagnosis.fault == PluginFault::no_note)
    fail(ErrorCode::bad_file, "{}", to_text(plugin->diagnosis));
  return 0;
}

Action build_plugin_info(Options& app) {
  auto name = std::make_shared<std::string>();
  app.add_option("FILE|NAME", *name, "a plugin file, a plugin or a backend").required();
  return [name](const Globals& globals) { return info(*name, globals); };
}

}  // namespace

extern constinit const Verb plugin_info{
    .name = "info",
    .summary = "what a plugin file says about itself, without running it",
    .example = "tenon plugin info inductor",
    .build = build_plugin_info};

}  // namespace tenon::cli
