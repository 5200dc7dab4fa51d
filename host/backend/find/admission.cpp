// Checks around the mapping of a plugin.
#include "backend/find/admission.h"

#include "backend/find/probe.h"
#include "config/flags.h"
#include "core/error.h"
#include "report/log.h"

#include <tenon/plugin.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace tenon {

Admission::Admission(PluginCatalog& catalog, const FoundPlugin& plugin)
    : catalog_(catalog), plugin_(plugin) {
  file_ = ::open(plugin.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  try {
    examine();
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    throw;
  }
}

Admission::~Admission() {
  if (file_ >= 0) ::close(file_);
}

[[noreturn]] static void throw_diagnosis(const Diagnosis& diagnosis) {
  throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION, to_text(diagnosis));
}

/// For what a look at the folders shows as well, and does so no longer when it was cured.
void Admission::refuse_for_now(const Diagnosis& diagnosis) const {
  catalog_.rescan();
  throw_diagnosis(diagnosis);
}

void Admission::refuse(const Diagnosis& diagnosis) const {
  catalog_.set_state(plugin_.path, PluginState::refused, diagnosis);
  throw_diagnosis(diagnosis);
}

void Admission::examine() {
  const SearchSettings& settings = catalog_.settings();
  const std::string& path = plugin_.path;
  struct stat s {};
  if (file_ < 0 || ::fstat(file_, &s) != 0 || identity_of(s) != plugin_.elf.file)
    refuse_for_now({PluginFault::wrong_digest, path, "changed since it was found", "try again"});
  TrustCheck trust(settings.trust);
  TrustVerdict verdict = trust.judge(path);
  trust.judge_contents(path, plugin_.elf, verdict);
  if (verdict.refusal) refuse_for_now(verdict.refusal);
  for (const Diagnosis& warning : verdict.warnings)
    report::warn_once(to_text(warning), "backend", to_text(warning));
  if (Diagnosis bad = settings.allow.judge(path, file_)) refuse(bad);
  const std::string& folder = settings.quarantine;
  if (Diagnosis bad = quarantine_verdict(crash_records(folder), path, plugin_.elf.file))
    refuse_for_now(bad);
  probe(folder);
  breadcrumb_.emplace(folder, path, plugin_.manifest.name, plugin_.elf.file);
}

// Flag plugins.probe. The child leaves a breadcrumb like any process that crashes while it loads.
void Admission::probe(const std::string& quarantine) const {
  if (config::flags().plugins.probe != "always") return;
  const std::string& path = plugin_.path;
  ProbeEnd end = probe_plugin(path, !quarantine.empty());
  if (!end.crashed) return;
  if (Diagnosis bad = quarantine_verdict(crash_records(quarantine), path, plugin_.elf.file))
    refuse_for_now(bad);
  refuse_for_now({PluginFault::quarantined, path,
                  message("loading it in a child process ended that {}", end.how),
                  message("`tenon plugin check {}` shows where", path)});
}

void Admission::check_mapped(void* library) const {
  const link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && is_mapped_from(file_, map->l_ld)) return;
  refuse({PluginFault::wrong_digest, plugin_.path,
          "the loader mapped another file than the one that was examined",
          "it was replaced meanwhile, or an older version is in this process: restart"});
}

// ---- /proc/self/maps

namespace {

struct Mapping {
  uintptr_t begin = 0, end = 0;
  std::string file;  ///< device and inode
  std::string path;
};

/// "7f..-7f.. r-xp 00000000 fe:00 1234    /x/p.so".
bool parse_mapping(const std::string& line, Mapping& out) {
  char device[32] = "", inode[32] = "";
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %31s %31s %n", &out.begin,
                  &out.end, device, inode, &path_at) != 4)
    return false;
  out.file = std::string(device) + " " + inode;
  out.path = line.substr(std::min(static_cast<size_t>(path_at), line.size()));
  return true;
}

/// The first mapping for which `f` is true; empty where there is none.
template <class F>
Mapping find_mapping(F f) {
  std::ifstream maps("/proc/self/maps");
  Mapping mapping;
  for (std::string line; std::getline(maps, line);)
    if (parse_mapping(line, mapping) && f(mapping)) return mapping;
  return {};
}

std::string file_at(const void* address) {
  auto at = reinterpret_cast<uintptr_t>(address);
  return find_mapping([&](const Mapping& m) { return m.begin <= at && at < m.end; }).file;
}

}  // namespace

bool is_mapped_from(int file, const void* address) {
  void* sample = ::mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, file, 0);
  if (sample == MAP_FAILED) return false;
  std::string expected = file_at(sample);
  ::munmap(sample, 1);
  return !expected.empty() && file_at(address) == expected;
}

bool is_path_mapped(const std::string& path) {
  return !find_mapping([&](const Mapping& m) { return m.path == path; }).path.empty();
}

}  // namespace tenon
