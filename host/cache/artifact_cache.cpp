// Entries of the cache on disk: keys, reading, writing. Which go when: cache_eviction.cpp.
#include "cache/artifact_cache.h"

#include "cache/cache_eviction.h"
#include "config/cache_folder.h"
#include "config/flags.h"
#include "core/error.h"
#include "graph/hash.h"
#include "report/events.h"
#include "report/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>

namespace tenon {

namespace {

constexpr uint64_t max_entry = uint64_t{1} << 30;
constexpr time_t touch_after = 3600;  // seconds

/// What a file begins with; the entry follows.
struct Header {
  char magic[8] = {'T', 'e', 'n', 'o', 'n', 'C', 'a', 'c'};
  uint32_t format = 1;
  uint32_t unused = 0;
  uint64_t length = 0;
  Digest seal{};
};
static_assert(sizeof(Header) == 56);

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Header header_for(const CacheKey& key, std::string_view bytes) {
  Header header;
  header.length = bytes.size();
  header.seal = sha256(std::string(text_of(sha256(bytes))) + key.folder + "/" + key.name);
  return header;
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  bool read(void* to, size_t n) {
    for (auto* at = static_cast<char*>(to); n > 0;) {
      ssize_t got = ::read(fd_, at, n);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      n -= static_cast<size_t>(got);
    }
    return true;
  }
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }

 private:
  int fd_;
};

/// Why a file is not believed, or nothing.
const char* doubt_of(const struct stat& s) {
  if (!S_ISREG(s.st_mode)) return "it is not a plain file";
  if (s.st_uid != ::geteuid()) return "it is somebody else's";
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return "others may write it";
  if (static_cast<uint64_t>(s.st_size) < sizeof(Header)) return "it is too short";
  if (static_cast<uint64_t>(s.st_size) > sizeof(Header) + max_entry) return "it is too long";
  return nullptr;
}

void remove_damaged(const std::string& path, const char* why) {
  struct stat s {};
  bool is_ours = ::lstat(path.c_str(), &s) == 0 && s.st_uid == ::geteuid();
  bool is_gone = is_ours && ::unlink(path.c_str()) == 0;
  report::counter("cache.damaged").add();
  report::log(report::LogLevel::debug, "cache", "{} is not used: {}{}", path, std::string(why),
              is_gone ? "; it was removed" : "");
}

/// The entry in an open file; why not goes to `why`.
std::optional<std::string> entry_in(File& file, const CacheKey& key, const char*& why) {
  struct stat s {};
  if (::fstat(file.fd(), &s) != 0) return std::nullopt;
  if ((why = doubt_of(s))) return std::nullopt;
  Header header;
  std::string bytes(static_cast<size_t>(s.st_size) - sizeof header, '\0');
  if (!file.read(&header, sizeof header) || !file.read(bytes.data(), bytes.size()))
    return std::nullopt;  // the disk fails: nothing is known about the file
  Header expected = header_for(key, bytes);
  if (std::memcmp(&header, &expected, offsetof(Header, length)) != 0)
    why = "it is of another format";
  else if (header.length != expected.length)
    why = "its length is wrong";
  else if (header.seal != expected.seal)
    why = "its bytes are damaged";
  if (why) return std::nullopt;
  if (::time(nullptr) - s.st_mtim.tv_sec > touch_after) ::futimens(file.fd(), nullptr);
  return bytes;
}

/// The folders of a path, below `root` and root itself, for this user alone.
bool make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && at == path.npos) return false;
    if (at == path.npos) return true;
  }
}

std::string temporary_name() {
  static std::atomic<uint64_t> turn{0};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return message("{}{}-{}-{}", temporary_prefix, ::getpid(), now.tv_nsec, turn.fetch_add(1));
}

/// Puts the file into its place; errno says why not.
bool replace_file(const std::string& temporary, const std::string& path,
                  std::initializer_list<std::string_view> parts) {
  File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  bool is_written = true;
  for (std::string_view part : parts) is_written = is_written && file.write(part);
  if (is_written && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  int problem = errno;
  ::unlink(temporary.c_str());
  errno = problem;
  return false;
}

}  // namespace

KeyBuilder& KeyBuilder::add(std::string_view what, std::string_view value) {
  text_ += message("{} {} {}\n{}\n", what.size(), value.size(), what, value);
  return *this;
}

std::string KeyBuilder::hex() const { return to_hex(text_of(sha256(text_))); }

std::string ArtifactCache::path_of(const CacheKey& key) const {
  return root_ + "/" + key.folder + "/" + key.name;
}

std::optional<std::string> ArtifactCache::get(const CacheKey& key) {
  static report::Counter& hits = report::counter("cache.hit");
  static report::Counter& misses = report::counter("cache.miss");
  std::optional<std::string> bytes = read(key);
  (bytes ? hits : misses).add();
  if (bytes) note_use(key);
  return bytes;
}

namespace {

/// What KeyBuilder has written as digits; nothing for other names.
std::optional<Digest> digest_in(std::string_view name) {
  Digest bytes{};
  if (name.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char *digits = name.data() + 2 * i, *end = digits + 2;
    if (std::from_chars(digits, end, bytes[i], 16).ptr != end) return std::nullopt;
  }
  return bytes;
}

}  // namespace

void ArtifactCache::note_use(const CacheKey& key) {
  constexpr size_t most_kept = 65536;
  std::optional<Digest> name = digest_in(key.name);
  std::lock_guard lock(used_lock_);
  if (name && n_used_ < most_kept) n_used_ += used_[key.folder].insert(*name).second;
}

std::vector<CacheKey> ArtifactCache::used() const {
  std::lock_guard lock(used_lock_);
  std::vector<CacheKey> keys;
  for (const auto& [folder, names] : used_)
    for (const Digest& name : names) keys.push_back({folder, to_hex(text_of(name))});
  return keys;
}

std::optional<std::string> ArtifactCache::read(const CacheKey& key) {
  std::string path = path_of(key);
  // Not blocking: somebody may have put a pipe there.
  File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  const char* why = nullptr;
  std::optional<std::string> bytes;
  if (file)
    bytes = entry_in(file, key, why);
  else if (errno == ELOOP || errno == ENXIO)
    why = "it is not a plain file";
  if (why) remove_damaged(path, why);
  return bytes;
}

bool ArtifactCache::put(const CacheKey& key, std::string_view bytes, int64_t limit) {
  static report::Counter& writes = report::counter("cache.writes");
  uint64_t size = sizeof(Header) + bytes.size();
  if (bytes.size() > max_entry || size > static_cast<uint64_t>(limit) / 2) return false;
  if (!write(key, bytes)) {
    tell_once(std::strerror(errno));
    return false;
  }
  writes.add();
  note_use(key);
  keep_small(key, static_cast<int64_t>(size), limit);
  return true;
}

bool ArtifactCache::write(const CacheKey& key, std::string_view bytes) {
  Header header = header_for(key, bytes);
  std::string_view start(reinterpret_cast<const char*>(&header), sizeof header);
  std::string folder = root_ + "/" + key.folder;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!make_folders(folder)) return false;
    if (replace_file(folder + "/" + temporary_name(), path_of(key), {start, bytes})) return true;
    if (errno != ENOENT) return false;  // else eviction has just removed the empty folder
  }
  return false;
}

namespace {

// Processes that write little each know nothing of one another: the key, which is as good as random,
// draws which of their writes measures the store.
bool draws_measuring(const CacheKey& key, int64_t written, int64_t limit) {
  uint64_t drawn = 0;  // 52 bits
  std::from_chars(key.name.data(), key.name.data() + std::min(key.name.size(), size_t{13}), drawn,
                  16);
  return std::ldexp(static_cast<double>(drawn), -52) * static_cast<double>(limit) <
         128.0 * static_cast<double>(written);
}

}  // namespace

void ArtifactCache::keep_small(const CacheKey& key, int64_t written, int64_t limit) {
  bool is_due = unmeasured_.fetch_add(written) + written >= limit / 16;
  if (!is_due && !draws_measuring(key, written, limit)) return;
  std::unique_lock lock(measuring_, std::try_to_lock);
  if (!lock) return;  // another thread is at it
  unmeasured_ = 0;
  evict(root_, limit);
}

void ArtifactCache::tell_once(const std::string& problem) {
  if (told_.exchange(true)) return;
  report::log(report::LogLevel::debug, "cache",
              "nothing can be kept in {}: {}; later processes will compile again", root_, problem);
}

ArtifactCache* artifact_cache() {
  if (config::flags().compiler.force_disable_caches) return nullptr;
  std::string root = config::cache_folder();
  if (root.empty()) return nullptr;
  static std::mutex lock;
  static auto& stores = *new std::map<std::string, std::unique_ptr<ArtifactCache>>;
  std::lock_guard guard(lock);
  std::unique_ptr<ArtifactCache>& store = stores[root];
  if (!store) store = std::make_unique<ArtifactCache>(root);
  return store.get();
}

}  // namespace tenon
