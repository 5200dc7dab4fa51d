// Breadcrumbs: writing, reading, and whether the process of one is gone.
//
// A breadcrumb is a text of lines "word value". Its name is <key>.<pid>, so that processes that
// load the same file at once do not take away each other's. A process is gone when no process has
// its number, or one that began at another time. Breadcrumbs of another machine or container (the
// folder may be shared) cannot be asked about that: they count after ten minutes.
#include "backend/find/quarantine.h"

#include "backend/find/crash_note.h"
#include "config/flags.h"
#include "core/error.h"
#include "graph/hash.h"
#include "report/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace tenon {
namespace {

constexpr int64_t foreign_patience = 600;  // seconds
constexpr size_t max_breadcrumb = 16 * 1024;
constexpr size_t max_records = 1000;
constexpr int64_t unexplained_lasts = 3600;  // seconds
constexpr size_t n_unexplained = 3;

std::string key_of(const std::string& path, const FileIdentity& file) {
  Digest digest = sha256(message("{}\n{} {} {}", path, file.inode, file.mtime_ns, file.size));
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string start_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(max_breadcrumb, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

std::string first_line(const std::string& path) {
  std::string text = start_of_file(path);
  return text.substr(0, text.find('\n'));
}

/// When a process began, in ticks since the machine did; empty where there is none, or a dead one
/// that nobody has waited for.
std::string start_of_process(int64_t pid) {
  std::string text = start_of_file(message("/proc/{}/stat", pid));
  size_t name_end = text.rfind(')');
  if (name_end == text.npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field, state;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return state == "Z" || state == "X" ? "" : field;
}

/// This start of this machine, and the container in it.
const std::string& this_machine() {
  static const auto* name = [] {
    char space[64];
    ssize_t n = ::readlink("/proc/self/ns/pid", space, sizeof space);
    return new std::string(first_line("/proc/sys/kernel/random/boot_id") + " " +
                           std::string(space, static_cast<size_t>(std::max<ssize_t>(n, 0))));
  }();
  return *name;
}

using Lines = std::map<std::string, std::string>;

Lines lines_of(const std::string& text) {
  Lines out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    size_t space = std::min(line.find(' '), line.size());
    out[line.substr(0, space)] = line.substr(std::min(space + 1, line.size()));
  }
  return out;
}

int64_t number_of(const Lines& lines, const std::string& word) {
  auto found = lines.find(word);
  return found == lines.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10);
}

std::string text_of(const Lines& lines, const std::string& word) {
  auto found = lines.find(word);
  return found == lines.end() ? "" : found->second;
}

bool process_lives(const Lines& lines, const CrashRecord& record) {
  if (text_of(lines, "machine") != this_machine())
    return std::time(nullptr) - record.time < foreign_patience;
  if (record.pid <= 0) return false;
  return start_of_process(record.pid) == text_of(lines, "start");
}

CrashRecord record_of(const std::string& folder, const std::string& name, const Lines& lines) {
  CrashRecord out;
  out.breadcrumb = folder + "/" + name;
  out.key = name.substr(0, name.find('.'));
  out.file = text_of(lines, "file");
  out.plugin = text_of(lines, "plugin");
  out.log = text_of(lines, "log");
  out.pid = number_of(lines, "pid");
  out.time = number_of(lines, "time");
  out.signal = static_cast<int>(number_of(lines, "signal"));
  out.exited = number_of(lines, "exit") != 0;
  struct stat s {};
  if (out.time == 0 && ::stat(out.breadcrumb.c_str(), &s) == 0) out.time = s.st_mtim.tv_sec;
  return out;
}

std::string date_of(int64_t time) {
  std::time_t seconds = time;
  std::tm parts{};
  char text[64] = "an unknown day";
  if (::gmtime_r(&seconds, &parts))
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGABRT:
      return "SIGABRT";
    case SIGSYS:
      return "SIGSYS";
    default:
      return message("signal {}", signal);
  }
}

}  // namespace

// Too long ago to say anything.
static bool is_outdated(const CrashRecord& r) {
  return !r.is_evident() && std::time(nullptr) - r.time > unexplained_lasts;
}

// What others wrote says nothing: it could switch any plugin off.
static bool is_ours(const std::string& path) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) &&
         (s.st_uid == ::geteuid() || s.st_uid == 0);
}

std::vector<CrashRecord> crash_records(const std::string& folder) {
  std::vector<CrashRecord> out;
  DIR* dir = folder.empty() ? nullptr : ::opendir(folder.c_str());
  if (!dir) return out;
  while (const dirent* entry = ::readdir(dir)) {
    std::string name = entry->d_name;
    if (name.starts_with('.') || out.size() == max_records || !is_ours(folder + "/" + name))
      continue;
    Lines lines = lines_of(start_of_file(folder + "/" + name));
    CrashRecord record = record_of(folder, name, lines);
    if (record.time == 0) continue;  // removed since the folder was read
    if (!process_lives(lines, record)) out.push_back(std::move(record));
  }
  ::closedir(dir);
  std::sort(out.begin(), out.end(),
            [](const CrashRecord& a, const CrashRecord& b) { return a.time > b.time; });
  return out;
}

Diagnosis quarantine_verdict(const std::vector<CrashRecord>& records, const std::string& path,
                             const FileIdentity& file) {
  if (records.empty()) return {};
  std::string key = key_of(path, file);
  size_t unexplained = 0;
  for (const CrashRecord& r : records) {
    if (r.key != key) continue;
    if (!r.is_evident() && (is_outdated(r) || ++unexplained < n_unexplained)) continue;
    std::string how = r.signal ? "with " + name_of_signal(r.signal) : "in an unknown way";
    if (!r.is_evident()) how += message(", the last of {} in an hour,", n_unexplained);
    std::string log = r.log.empty() ? "" : message("; the log of that process is {}", r.log);
    return {PluginFault::quarantined, path,
            message("loading it ended process {} {} on {}{}", r.pid, how, date_of(r.time), log),
            message("`tenon plugin check {}` shows where; `tenon plugin release {}` lets it be "
                    "loaded again",
                    path, r.plugin.empty() ? path : r.plugin)};
  }
  return {};
}

// ---- writing

namespace {

/// Nobody else is to put breadcrumbs there.
void make_private_folder(const std::filesystem::path& folder) {
  if (folder.empty() || ::mkdir(folder.c_str(), 0700) == 0 || errno != ENOENT) return;
  make_private_folder(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
}

/// Those about earlier contents of the file say nothing any more.
void remove_outdated(const std::string& folder, const std::string& path, const std::string& key) {
  for (const CrashRecord& r : crash_records(folder))
    if (r.file == path && (r.key != key || is_outdated(r))) ::unlink(r.breadcrumb.c_str());
}

std::string breadcrumb_text(const std::string& path, const std::string& plugin) {
  std::string log;
  if (!config::flags().logging.out.empty())
    log = "log " + std::filesystem::absolute(config::flags().logging.out).string() + "\n";
  return message("file {}\nplugin {}\npid {}\nstart {}\nmachine {}\ntime {}\n{}", path, plugin,
                 ::getpid(), start_of_process(::getpid()), this_machine(),
                 static_cast<int64_t>(std::time(nullptr)), log);
}

}  // namespace

Breadcrumb::Breadcrumb(const std::string& folder, const std::string& path,
                       const std::string& plugin, const FileIdentity& file) {
  if (folder.empty()) return;
  make_private_folder(folder);
  folder_ = folder;
  key_ = key_of(path, file);
  remove_outdated(folder, path, key_);
  path_ = message("{}/{}.{}", folder, key_, ::getpid());
  ::unlink(path_.c_str());
  file_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  std::string text = file_ < 0 ? "" : breadcrumb_text(path, plugin);
  if (file_ < 0 || ::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    report::log(report::LogLevel::debug, "backend",
                "{} cannot be written: {}; a crash while {} is loaded will not be remembered",
                path_, std::string(std::strerror(errno)), path);
    if (file_ < 0) path_.clear();
  }
  if (!path_.empty()) note_ = std::make_unique<CrashNote>(file_, path_);
}

Breadcrumb::~Breadcrumb() {
  note_.reset();
  if (!path_.empty()) ::unlink(path_.c_str());
  if (file_ >= 0) ::close(file_);
  if (!path_.empty()) forget_unexplained();
}

/// Loading has ended and the process lives: what ended others was not the plugin.
void Breadcrumb::forget_unexplained() noexcept {
  try {
    for (const CrashRecord& r : crash_records(folder_))
      if (r.key == key_ && !r.is_evident()) ::unlink(r.breadcrumb.c_str());
  } catch (const std::exception&) {
    // They expire.
  }
}

}  // namespace tenon
