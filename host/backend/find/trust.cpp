// Ownership and permissions of plugin files.
//
// A path is followed by hand, component by component and link by link, since realpath() tells only
// where it ends: a link that somebody else may change is as dangerous as the file itself.
//
//   the file               regular, not writable by others, of root or ours
//   its directory          the same, even if it is sticky: a new file in it would be found
//   a link                 of root or ours; then the same for what it leads to
//   a directory above      writable by others only if it is sticky (/tmp)
//
// Cost: one lstat per file, and one per directory and scan.
#include "backend/find/trust.h"

#include "core/error.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace tenon {
namespace {

constexpr int max_links = 40;  // as the kernel follows

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string joined(const std::string& directory, const std::string& name) {
  if (name.starts_with('/')) return name;
  return (directory == "/" ? "" : directory) + "/" + name;
}

/// "/x/p.so (mode 0666, owner 1000)".
std::string described(const std::string& path, const struct stat& s) {
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(s.st_mode & 07777));
  return message("{} (mode {}, owner {})", path, static_cast<const char*>(mode), s.st_uid);
}

bool is_foreign(const struct stat& s) { return s.st_uid != 0 && s.st_uid != ::geteuid(); }

std::string foreign_reason(const std::string& path, const struct stat& s) {
  return message("{} belongs to neither root nor user {}", described(path, s), ::geteuid());
}

std::string unexaminable(const std::string& path, int error) {
  return message("{} cannot be examined: {}", path, std::strerror(error));
}

}  // namespace

void TrustCheck::Findings::add(const Findings& others) {
  refused.insert(refused.end(), others.refused.begin(), others.refused.end());
  doubtful.insert(doubtful.end(), others.doubtful.begin(), others.doubtful.end());
}

void TrustCheck::examine_writers(const std::string& path, const struct stat& s, Findings& out) {
  if (s.st_mode & S_IWOTH)
    out.refused.push_back({described(path, s) + " may be written by anybody", "chmod o-w " + path});
  if (is_foreign(s))
    out.refused.push_back({foreign_reason(path, s), message("chown {} {}", ::geteuid(), path)});
  if (s.st_mode & S_IWGRP)
    out.doubtful.push_back({message("{} may be written by group {}", described(path, s), s.st_gid),
                            "chmod g-w " + path});
}

// ---- directories

const TrustCheck::Directory& TrustCheck::directory(const std::string& path) {
  auto known = directories_.find(path);
  if (known != directories_.end()) return known->second;
  bool root = path == "/";
  Directory found = root ? entered({}, "/")
                         : entered(directory(directory_of(path)), path.substr(path.rfind('/') + 1));
  return directories_.emplace(path, std::move(found)).first->second;
}

TrustCheck::Directory TrustCheck::entered(const Directory& above, const std::string& name) {
  if (!above.problem.empty() || name.empty() || name == ".") return above;
  if (name == "..") return directory(directory_of(above.path));
  Directory out{joined(above.path, name), {}, above.way, {}};
  struct stat s {};
  if (::lstat(out.path.c_str(), &s) != 0) {
    out.problem = unexaminable(out.path, errno);
    return out;
  }
  if (S_ISLNK(s.st_mode)) {
    if (is_foreign(s))
      out.way.refused.push_back(
          {foreign_reason(out.path, s), message("chown -h {} {}", ::geteuid(), out.path)});
    return followed(std::move(out));
  }
  examine_writers(out.path, s, out.contents);
  if ((s.st_mode & S_IWOTH) && !(s.st_mode & S_ISVTX))
    out.way.doubtful.push_back(
        {described(out.path, s) + " lies above it and may be written by anybody",
         "chmod o-w " + out.path});
  return out;
}

/// What a link to a directory leads to. Who may put files in there is asked as sharply as of the
/// directory of a plugin.
TrustCheck::Directory TrustCheck::followed(Directory link) {
  std::string target;
  if (!is_counted_link(link.path, target, link.problem)) return link;
  Directory out = directory(joined(directory_of(link.path), target));
  out.way.refused.insert(out.way.refused.end(), out.contents.refused.begin(),
                         out.contents.refused.end());
  out.way.add(link.way);
  return out;
}

/// Reads a link; false with the reason when it cannot be read, or is one too many.
bool TrustCheck::is_counted_link(const std::string& path, std::string& target,
                                 std::string& problem) {
  char text[PATH_MAX];
  ssize_t n = ::readlink(path.c_str(), text, sizeof text);
  if (n <= 0) {
    problem = unexaminable(path, errno);
  } else if (++n_links_ > max_links || n == PATH_MAX) {
    problem = message("{} is a link that leads in circles", path);
  } else {
    target.assign(text, static_cast<size_t>(n));
    while (target.size() > 1 && target.back() == '/') target.pop_back();
    return true;
  }
  return false;
}

// ---- files

TrustCheck::Findings TrustCheck::examine_file(std::string path) {
  Findings out, ways;
  auto end_with = [&](std::string problem) {
    out.refused.push_back({std::move(problem), ""});
    out.add(ways);
    return out;
  };
  for (;;) {
    const Directory& above = directory(directory_of(path));
    if (!above.problem.empty()) return end_with(above.problem);
    std::string file = joined(above.path, path.substr(path.rfind('/') + 1));
    ways.add(above.contents);
    ways.add(above.way);
    struct stat s {};
    if (::lstat(file.c_str(), &s) != 0) return end_with(unexaminable(file, errno));
    if (!S_ISLNK(s.st_mode)) {
      if (!S_ISREG(s.st_mode)) return end_with(file + " is not a regular file");
      examine_writers(file, s, out);
      out.add(ways);
      return out;
    }
    if (is_foreign(s))
      out.refused.push_back(
          {foreign_reason(file, s), message("chown -h {} {}", ::geteuid(), file)});
    std::string target, problem;
    if (!is_counted_link(file, target, problem)) return end_with(problem);
    path = joined(above.path, target);
  }
}

/// Turns findings into the verdict of the mode, each once.
void TrustCheck::settle(const std::string& plugin, const Findings& findings,
                        TrustVerdict& verdict) const {
  auto refuse = [&](const Finding& f) {
    if (!verdict.refusal) verdict.refusal = {PluginFault::refused, plugin, f.reason, f.hint};
  };
  for (const Finding& f : findings.refused) refuse(f);
  for (const Finding& f : findings.doubtful) {
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
  n_links_ = 0;
  settle(path, examine_file(std::filesystem::absolute(path).string()), out);
  return out;
}

// ---- what the file asks for

/// One entry of a RUNPATH. Where the directory is missing, who may make it decides.
void TrustCheck::examine_run_path(std::string entry, Findings& out) {
  if (!entry.starts_with('/')) {
    out.doubtful.push_back({message("its RUNPATH names '{}', which means another directory for "
                                    "each working directory",
                                    entry),
                            "link it with absolute paths or $ORIGIN"});
    return;
  }
  while (entry.size() > 1 && entry.back() == '/') entry.pop_back();
  n_links_ = 0;
  std::string existing = entry;
  while (existing != "/" && !directory(existing).problem.empty()) existing = directory_of(existing);
  const Directory& found = directory(existing);
  auto add = [&](const Finding& f) {
    out.doubtful.push_back({message("its RUNPATH names {}: {}", entry, f.reason), f.hint});
  };
  for (const Finding& f : found.contents.refused) add(f);
  for (const Finding& f : found.contents.doubtful) add(f);
  for (const Finding& f : found.way.refused) add(f);
  for (const Finding& f : found.way.doubtful) add(f);
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
  Findings findings;
  std::string origin = directory_of(std::filesystem::absolute(path).string());
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

namespace {

std::string problem_of(const std::string& path, bool is_folder) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return message("{} cannot be examined", path);
  bool is_ours = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!is_ours) return message("{} belongs to user {}", path, status.st_uid);
  bool keeps_owners = is_folder && (status.st_mode & S_ISVTX);
  if ((status.st_mode & S_IWOTH) && !keeps_owners)
    return message("{} may be written by anybody; chmod o-w {}", path, path);
  return "";
}

}  // namespace

std::string writers_problem(const std::string& path) {
  std::error_code none;
  std::filesystem::path real = std::filesystem::canonical(path, none);
  if (none) return message("{} cannot be examined", path);
  std::string problem = problem_of(real.string(), false);
  return problem.empty() ? problem_of(real.parent_path().string(), true) : problem;
}

}  // namespace tenon
