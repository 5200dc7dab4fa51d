// Which entries of the cache on disk go.
//
// The use of an entry is the time of its file: writing sets it, and a hit, at most once an hour.
// Measuring takes milliseconds for each thousand entries, so few writes do it: one that completes a
// sixteenth of the limit within its process, and one in as many as fill a 128th of it, whoever writes
// them. A sixteenth stays free for what is written meanwhile, and an eighth is made free at once.
#include "cache/cache_eviction.h"

#include "core/function_ref.h"
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

using TakeEntry = FunctionRef<void(StoredEntry)>;

/// Hands the file over if it is an entry; removes it if it is what a dead writer left.
void look_at(const fs::path& path, std::string_view kind, TakeEntry take) {
  std::string name = path.filename().string();
  bool is_temporary = name.starts_with(temporary_prefix);
  struct stat s {};
  if ((!is_temporary && !is_entry_name(name)) || ::lstat(path.c_str(), &s) != 0) return;
  if (!S_ISREG(s.st_mode) || s.st_uid != ::geteuid()) return;
  if (!is_temporary)
    take({path, kind, s.st_size, s.st_mtim});
  else if (::time(nullptr) - s.st_mtim.tv_sec > writing_patience)
    ::unlink(path.c_str());
}

bool is_used_before(const StoredEntry& a, const StoredEntry& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

void each_entry(const std::string& root, TakeEntry take) {
  for (std::string_view kind : cache_kinds) {
    std::error_code error;
    fs::recursive_directory_iterator at(fs::path(root) / kind, error), end;
    for (; !error && at != end; at.increment(error)) {
      if (at.depth() < entry_depth) continue;
      at.disable_recursion_pending();
      look_at(at->path(), kind, take);
    }
  }
}

}  // namespace

std::vector<StoredEntry> stored_entries(const std::string& root) {
  std::vector<StoredEntry> out;
  each_entry(root, [&](StoredEntry entry) { out.push_back(std::move(entry)); });
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
  int64_t total = 0;
  each_entry(root, [&](const StoredEntry& entry) { total += entry.bytes; });
  if (total <= limit - limit / 16) return;
  std::vector<StoredEntry> entries = stored_entries(root);
  total = 0;  // others may write and remove
  for (const StoredEntry& e : entries) total += e.bytes;
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
