// Ownership and permissions of plugin files.
#include "backend/find/trust.h"

#include "core/error.h"

#include <algorithm>
#include <filesystem>

namespace tenon {

/// Turns findings into the verdict of the mode, each once.
void TrustCheck::settle(const std::string& plugin, const WriterFindings& findings,
                        TrustVerdict& verdict) const {
  auto refuse = [&](const WriterFinding& f) {
    if (!verdict.refusal) verdict.refusal = {PluginFault::refused, plugin, f.reason, f.hint};
  };
  for (const WriterFinding& f : findings.refused) refuse(f);
  for (const WriterFinding& f : findings.doubtful) {
    if (mode_ == TrustMode::strict) {
      refuse(f);
      continue;
    }
    Diagnosis warning{PluginFault::refused, plugin, f.reason, f.hint};
    auto& all = verdict.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(std::move(warning));
  }
}

TrustVerdict TrustCheck::judge(const std::string& path) {
  TrustVerdict out;
  if (mode_ == TrustMode::off) return out;
  settle(path, writers_.of_found_file(std::filesystem::absolute(path).string()), out);
  return out;
}

TrustVerdict TrustCheck::judge_opened(const std::string& path, int descriptor) {
  TrustVerdict out;
  if (mode_ == TrustMode::off) return out;
  settle(path, writers_.of_opened_file(std::filesystem::absolute(path).string(), descriptor), out);
  return out;
}

// ---- what the file asks for

/// One entry of a RUNPATH. Where the directory is missing, who may make it decides.
void TrustCheck::examine_run_path(std::string entry, WriterFindings& out) {
  if (!entry.starts_with('/')) {
    out.doubtful.push_back({message("its RUNPATH names '{}', which means another directory for "
                                    "each working directory",
                                    entry),
                            "link it with absolute paths or $ORIGIN"});
    return;
  }
  while (entry.size() > 1 && entry.back() == '/') entry.pop_back();
  std::filesystem::path existing = entry;
  while (existing != "/" && !writers_.directory(existing).problem.empty())
    existing = existing.parent_path();
  const PathWriters::Directory& found = writers_.directory(existing);
  auto add = [&](const WriterFinding& f) {
    out.doubtful.push_back({message("its RUNPATH names {}: {}", entry, f.reason), f.hint});
  };
  for (const WriterFinding& f : found.contents.refused) add(f);
  for (const WriterFinding& f : found.contents.doubtful) add(f);
  for (const WriterFinding& f : found.way.refused) add(f);
  for (const WriterFinding& f : found.way.doubtful) add(f);
}

/// "$ORIGIN/../lib" with the directory of the plugin.
static std::string with_origin(std::string entry, const std::string& origin) {
  for (std::string_view name : {"${ORIGIN}", "$ORIGIN"})
    for (size_t at = 0; (at = entry.find(name, at)) != std::string::npos; at += origin.size())
      entry.replace(at, name.size(), origin);
  return entry;
}

void TrustCheck::judge_contents(const std::string& path, const ElfInfo& elf,
                                TrustVerdict& verdict) {
  if (mode_ == TrustMode::off) return;
  WriterFindings findings;
  std::string origin = std::filesystem::absolute(path).parent_path();
  const std::string& all = elf.runpath;
  for (size_t at = 0; !all.empty() && at <= all.size();) {
    size_t end = std::min(all.find(':', at), all.size());
    examine_run_path(with_origin(all.substr(at, end - at), origin), findings);
    at = end + 1;
  }
  if (elf.exec_stack)
    findings.doubtful.push_back({"it asks for an executable stack", "link it with -z noexecstack"});
  settle(path, findings, verdict);
}

}  // namespace tenon
