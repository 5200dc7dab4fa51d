// Writing a file so that readers see all of it or the one before.
#include "core/unfinished.h"
#include "formats/byte_reader.h"
#include "report/program_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ext/stdio_filebuf.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tenon::formats {

namespace {

using FileBuffer = __gnu_cxx::stdio_filebuf<char>;

std::string system_error() { return std::strerror(errno); }

// Fills and closes the file; throws where not all of it was written.
void fill(int descriptor, const std::string& path,
          const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer(descriptor, std::ios::out | std::ios::binary);
  std::ostream out(&buffer);
  write(out);
  bool whole = out.good() && buffer.close() != nullptr;
  require(whole, ErrorCode::bad_file, "{}: writing failed: {}; is the disk full?", path,
          system_error());
}

// A new file beside `path`. What has its name already, a link above all, was not made by us.
int open_aside(const std::string& path, std::string& aside) {
  static std::atomic<uint64_t> made{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    aside = message("{}.part{}-{}", path, ::getpid(), made.fetch_add(1));
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int descriptor = ::open(aside.c_str(), flags, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

void write_aside(const std::string& path, const struct stat* before,
                 const std::function<void(std::ostream&)>& write) {
  std::string aside;
  int descriptor = open_aside(path, aside);
  require(descriptor >= 0, ErrorCode::bad_file, "{}: cannot be written: {}", path, system_error());
  Unfinished interrupted(aside);
  try {
    // What only some could read stays so.
    if (before) static_cast<void>(::fchmod(descriptor, before->st_mode & 0777));
    fill(descriptor, path, write);
    require(std::rename(aside.c_str(), path.c_str()) == 0, ErrorCode::bad_file,
            "{}: cannot rename {}: {}", path, aside, system_error());
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
}

// A name of an open file, such as /dev/stdout: what it leads to is written, and the name stays.
bool is_system_link(const std::string& path) {
  struct stat link {};
  return ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode) &&
         (path.starts_with("/dev/") || path.starts_with("/proc/"));
}

}  // namespace

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  require(!path.empty(), "expected the name of a file to write, found an empty one");
  struct stat status {};
  bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    fail(ErrorCode::bad_file, "{}: cannot be written: {}", path, std::strerror(EISDIR));
  if (!is_system_link(path) && (!exists || S_ISREG(status.st_mode)))
    return write_aside(path, exists ? &status : nullptr, write);
  int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  require(descriptor >= 0, ErrorCode::bad_file, "{}: cannot be written: {}", path, system_error());
  fill(descriptor, path, write);
}

static const bool serves_reports = (
    report::write_file_slot =
        [](const std::string& path, std::string_view text) {
          write_file(path, [&](std::ostream& out) {
            out.write(text.data(), static_cast<std::streamsize>(text.size()));
          });
        },
    true);

}  // namespace tenon::formats
