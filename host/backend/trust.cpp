// Ownership and permissions of plugin files.
#include "backend/trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace tenon {
namespace {

std::string octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// What is wrong with one file or directory, as reason and hint.
Diagnosis check_one(const std::string& plugin, const std::string& path, bool directory) {
  auto refuse = [&](std::string reason, std::string hint) {
    return Diagnosis{PluginFault::refused, plugin, std::move(reason), std::move(hint)};
  };
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0)
    return refuse(message("{} cannot be examined: {}", path, std::strerror(errno)), "");
  if (!directory && !S_ISREG(s.st_mode))
    return refuse(message("{} is not a regular file", path), "");
  if (s.st_mode & S_IWOTH)
    return refuse(message("{} (mode {}) may be written by anybody", path, octal(s.st_mode)),
                  "chmod o-w " + path);
  if (s.st_uid != 0 && s.st_uid != ::geteuid())
    return refuse(
        message("{} belongs to user {}; expected root or user {}", path, s.st_uid, ::geteuid()),
        message("chown {} {}", ::geteuid(), path));
  return {};
}

Diagnosis check_file_and_directory(const std::string& plugin, const std::string& path) {
  Diagnosis bad = check_one(plugin, path, false);
  return bad ? bad : check_one(plugin, directory_of(path), true);
}

}  // namespace

Diagnosis check_trust(const std::string& path, TrustMode mode) {
  if (mode == TrustMode::off) return {};
  if (Diagnosis bad = check_file_and_directory(path, path)) return bad;
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0 || !S_ISLNK(s.st_mode)) return {};

  // Whoever may write where the link leads to decides what is loaded just as well.
  char target[PATH_MAX];
  if (!::realpath(path.c_str(), target))
    return {PluginFault::refused, path, "is a link that leads nowhere", ""};
  return check_file_and_directory(path, target);
}

}  // namespace tenon
