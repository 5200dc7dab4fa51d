// Level 0: what the file says of itself, loading, hosts of other ages, shutdown.
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/find/admission.h"
#include "backend/find/link_diagnosis.h"
#include "backend/find/trust.h"
#include "core/error.h"
#include "core/joined.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/manifest_names.h"
#include "debug/plugin_kit/process_state.h"
#include "debug/plugin_kit/watched_host.h"

#include <dlfcn.h>

#include <chrono>

namespace tenon::kit {

namespace {

constexpr double entry_budget_ms = 200;

// ---- what the file says; no code of it runs

void check_note(Bench& bench) {
  expect(bench.found().elf.exports_entry, "P07 it does not export tenon_plugin_entry_v1");
}

void check_manifest(Bench& bench) {
  const PluginManifest& m = bench.found().manifest;
  expect(m.abi.major == TN_ABI_MAJOR, "abi = \"{}\", this host has {}.{}", to_text(m.abi),
         TN_ABI_MAJOR, TN_ABI_MINOR);
  bool offers = !m.backends.empty() || !m.devices.empty() || !m.kernels.empty() || !m.ops.empty() ||
                !m.extensions.empty();
  expect(offers,
         "it offers nothing: no [[backend]], [[device]], [[kernels]], [[op]] or [[extension]]");
  check_manifest_names(m);
  if (m.find_backend("eager") && !bench.found().in_install_dir)
    throw CheckWarned{"the name eager belongs to the installation: this backend is never chosen"};
}

void check_unknown_keys(Bench& bench) {
  const std::vector<std::string>& keys = bench.found().unknown_keys;
  if (!keys.empty()) throw CheckWarned{"unknown keys are ignored: " + joined(keys)};
}

void check_hygiene(Bench& bench) {
  Diagnosis d = diagnose_hygiene(bench.found());
  expect(!d, "{}", to_text(d));
  for (const std::string& library : bench.found().elf.needed)
    expect(!library.starts_with("libtenon.so"),
           "it links {}; a plugin gets all of the host through its table", library);
}

void check_owner(Bench& bench) {
  TrustVerdict verdict = TrustCheck(TrustMode::owner).judge(bench.found().path);
  expect(!verdict.refusal, "{}", to_text(verdict.refusal));
  if (!verdict.warnings.empty()) throw CheckWarned{to_text(verdict.warnings[0])};
}

// ---- loading

void check_entry(Bench& bench) {
  auto begin = std::chrono::steady_clock::now();
  bench.load();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (took.count() > entry_budget_ms)
    throw CheckWarned{message("loading took {} ms; compile and open devices at first use",
                              static_cast<int64_t>(took.count()))};
}

void check_tables(Bench& bench) {
  const LoadedPlugin& plugin = bench.load();
  const tn_plugin& table = plugin.table;
  expect(table.abi_major == TN_ABI_MAJOR, "tn_plugin.abi_major is {}, expected {}", table.abi_major,
         TN_ABI_MAJOR);
  expect(table.abi_minor == bench.found().manifest.abi.minor,
         "tn_plugin.abi_minor is {}, the manifest says {}", table.abi_minor,
         to_text(bench.found().manifest.abi));
  expect(table._r0 == 0, "tn_plugin._r0 is {}, reserved fields are 0", table._r0);
  for (const tn_backend& b : plugin.backends) {
    expect(b.struct_size >= offsetof(tn_backend, supports),
           "tn_backend.struct_size is {}, too small for compile", b.struct_size);
    expect(b._r0 == 0, "tn_backend._r0 is {}, reserved fields are 0", b._r0);
  }
  for (const tn_kernels& k : plugin.kernels) {
    expect(k._r0 == 0, "tn_kernels._r0 is {}, reserved fields are 0", k._r0);
    expect(k.run != nullptr, "tn_kernels.run is NULL");
  }
}

void check_offers(Bench& bench) {
  const LoadedPlugin& plugin = bench.load();
  const PluginManifest& m = bench.found().manifest;
  expect(plugin.table.n_devices == m.devices.size(),
         "P12 the manifest declares {} devices, the table has {}", m.devices.size(),
         plugin.table.n_devices);
  expect(plugin.table.n_extensions == m.extensions.size(),
         "P12 the manifest declares {} extensions, the table has {}", m.extensions.size(),
         plugin.table.n_extensions);
  for (size_t i = 0; i < m.kernels.size(); ++i) {
    const tn_kernels& k = plugin.kernels[i];
    std::vector<std::string> ops;
    for (uint32_t op = 0; op < k.n_ops; ++op) ops.emplace_back(view_of(k.ops[op]));
    expect(ops == m.kernels[i].ops, "P12 the manifest declares kernels for {}, the table has {}",
           joined(m.kernels[i].ops), joined(ops));
  }
}

void check_quiet_entry(Bench& bench) {
  ProcessState before = ProcessState::now();
  std::string printed;
  {
    StdoutWatch watch;
    bench.load();
    printed = watch.text();
  }
  std::string change = before.change_to(ProcessState::now(), /*with_threads=*/true);
  expect(change.empty(), "loading it {}", change);
  expect(printed.empty(), "loading it prints \"{}\"; stdout belongs to the program", printed);
}

// ---- shutdown, and loading again

void check_shutdown(Bench& bench) {
  bench.load();
  bench.shut_down();
}

// One life of the library: true when it is really gone afterwards.
bool live_once(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "dlopen failed: {}", library ? "" : ::dlerror());
  auto* entry = reinterpret_cast<tn_entry_fn*>(::dlsym(library, "tenon_plugin_entry_v1"));
  expect(entry != nullptr, "P07 it does not export tenon_plugin_entry_v1");
  const tn_plugin* table = nullptr;
  if (tn_status* status = entry(watched_host(), &table))
    fail_check("its entry failed: {}", text_and_free(status));
  expect(table != nullptr, "its entry gave no table");
  if (TN_HAS(table, shutdown))
    if (tn_status* status = table->shutdown())
      fail_check("shutdown failed: {}", text_and_free(status));
  ::dlclose(library);
  return !is_path_mapped(path);
}

void check_repeated(Bench& bench) {
  if (!bench.found().manifest.requires_.empty()) skip_check("it requires extensions");
  for (int life = 1; life <= 3; ++life) {
    bench.note(message("load number {}", life));
    if (!live_once(bench.found().path))
      throw CheckWarned{
          "the library stays mapped after dlclose (it or a library that it links "
          "cannot be unloaded), so it was loaded once only"};
  }
}

// ---- hosts of other ages

// Compiles and calls one graph; a backend that wants what this host lacks may say so.
void smoke(Bench& bench) {
  bench.load();
  for (const BackendManifest& m : bench.found().manifest.backends) {
    if (!bench.settings().backend.empty() && bench.settings().backend != m.name) continue;
    bench.note("backend " + m.name);
    try {
      DirectBackend backend(bench, m.name);
      backend.for_each_work(bench, 1, [&](const GraphCase& c) {
        ArtifactHandle artifact = compile_directly(backend, backend.request(c));
        DirectResult result = call_directly(artifact.get(), c, c.inputs);
        expect(!result.status, "backend {}: the call failed: {}", m.name, result.text());
        std::string wrong = difference(c, result.outputs, run_reference(c));
        expect(wrong.empty(), "backend {}: {}", m.name, wrong);
      });
      bench.take_remarks();
    } catch (const CheckSkipped&) {
      // It may decline all there is.
    }
  }
}

void check_older_host(Bench& bench) {
  set_host_table(older_host());
  try {
    smoke(bench);
  } catch (const BackendError& refused) {
    bool says_so = refused.status() != TN_INTERNAL && refused.status() != TN_UNKNOWN;
    expect(says_so, "{}", refused.what());
    throw CheckWarned{message("it does not work with a host without {}: {}",
                              missing_in_older_host(), refused.what())};
  }
}

void check_newer_host(Bench& bench) {
  set_host_table(newer_host());
  smoke(bench);
}

}  // namespace

void add_load_checks(std::vector<Check>& checks, const FoundPlugin&) {
  auto add = [&](const char* name, const char* section, bool in_child, void (*run)(Bench&)) {
    checks.push_back({message("load.{}", name), "", 0, section, in_child ? name : "", run});
  };
  add("note", "3", false, check_note);
  add("manifest", "3", false, check_manifest);
  add("unknown_keys", "3", false, check_unknown_keys);
  add("hygiene", "2", false, check_hygiene);
  add("trust", "16", false, check_owner);
  add("entry", "4", true, check_entry);
  add("tables", "4", true, check_tables);
  add("offers", "13", true, check_offers);
  add("quiet_entry", "4", true, check_quiet_entry);
  add("shutdown", "6", true, check_shutdown);
  add("repeated", "6", true, check_repeated);
  add("older_host", "4", true, check_older_host);
  add("newer_host", "4", true, check_newer_host);
}

}  // namespace tenon::kit
