// Which entries of the cache on disk go.
//
// The use of an entry is the time of its file: writing sets it, and a hit, at most once an hour.
// Measuring takes milliseconds for each thousand entries, so few writes do it: one that completes a
// sixteenth of the limit within its process, and one in as many as fill a 128th of it, whoever writes
// them. A sixteenth stays free for what is written meanwhile, and an eighth is made free at once.
#include "cache/cache_eviction.h"

#include "report/events.h"
#include "report/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <vector>

namespace tenon {

namespace {

namespace fs = std::filesystem;

constexpr int entry_depth = 2;             // <kind>/<owner>/<fingerprint>/<entry>
constexpr time_t writing_patience = 3600;  // seconds

bool is_entry_name(std::string_view name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

/// Adds the file if it is an entry; removes it if it is what a dead writer left.
void take(const fs::path& path, std::string_view kind, std::vector<StoredEntry>& out) {
  std::string name = path.filename().string();
  bool is_temporary = name.starts_with(temporary_prefix);
  struct stat s {};
  if ((!is_temporary && !is_entry_name(name)) || ::lstat(path.c_str(), &s) != 0) return;
  if (!S_ISREG(s.st_mode) || s.st_uid != ::geteuid()) return;
  if (!is_temporary)
    out.push_back({path, kind, s.st_size, s.st_mtim});
  else if (::time(nullptr) - s.st_mtim.tv_sec > writing_patience)
    ::unlink(path.c_str());
}

bool is_used_before(const StoredEntry& a, const StoredEntry& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

}  // namespace

std::vector<StoredEntry> stored_entries(const std::string& root) {
  std::vector<StoredEntry> out;
  for (std::string_view kind : cache_kinds) {
    std::error_code error;
    fs::recursive_directory_iterator at(fs::path(root) / kind, error), end;
    for (; !error && at != end; at.increment(error)) {
      if (at.depth() < entry_depth) continue;
      at.disable_recursion_pending();
      take(at->path(), kind, out);
    }
  }
  return out;
}

int64_t remove_entries(const std::vector<StoredEntry>& entries) {
  int64_t removed = 0;
  std::set<fs::path> folders;
  for (const StoredEntry& e : entries) {
    if (::unlink(e.path.c_str()) != 0) continue;
    ++removed;
    folders.insert(e.path.parent_path());
  }
  for (const fs::path& folder : folders)  // only empty ones go
    if (::rmdir(folder.c_str()) == 0) ::rmdir(folder.parent_path().c_str());
  return removed;
}

void evict(const std::string& root, int64_t limit) {
  report::counter("cache.measured").add();
  std::vector<StoredEntry> entries = stored_entries(root);
  int64_t total = 0;
  for (const StoredEntry& e : entries) total += e.bytes;
  if (total <= limit - limit / 16) return;
  std::sort(entries.begin(), entries.end(), is_used_before);
  size_t n = 0;
  for (; n < entries.size() && total > limit - limit / 8; ++n) total -= entries[n].bytes;
  entries.resize(n);
  int64_t removed = remove_entries(entries);
  report::counter("cache.evicted").add(removed);
  report::log(report::LogLevel::debug, "cache", "{} entries of {} were removed, {} bytes are left",
              removed, root, total);
}

}  // namespace tenon
