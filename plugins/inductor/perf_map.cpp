// Source of the format: tools/perf/Documentation/jit-interface.txt of Linux.
#include "perf_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tenon/plugin.hpp>

#include <cerrno>
#include <cstring>

namespace inductor {

namespace {

bool is_own_file(int file) {
  struct stat info;
  return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

void write_perf_map(std::span<const NamedKernel> kernels) {
  std::string lines;
  for (const NamedKernel& k : kernels) {
    char place[40];
    snprintf(place, sizeof place, "%zx %zx ", reinterpret_cast<size_t>(k.code.data()),
             k.code.size());
    lines += place + k.name + "\n";
  }
  std::string path = tenon::plugin::text("/tmp/perf-{}.map", getpid());
  int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool done = file >= 0 && is_own_file(file) && write_all(file, lines);
  if (!done)
    tenon::plugin::log(TN_LOG_WARN, "inductor", "kernels are not named for perf: {}: {}", path,
                       file < 0 ? std::strerror(errno) : "the file is not this user's");
  if (file >= 0) close(file);
}

}  // namespace inductor
