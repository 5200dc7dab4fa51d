// Following a path by hand, component by component and link by link, since realpath() tells only
// where it ends: a link that somebody else may change is as dangerous as the file itself.
//
//   the file               regular, not writable by others, of root or ours
//   its directory          the same; for a file that is searched for even if the directory is
//                          sticky: a new file in it would be found
//   a link                 of root or ours; then the same for what it leads to
//   a directory above      of root or ours, writable by others only if it is sticky (/tmp)
//
// Cost: one lstat per file, and one per directory for the life of the object.
#include "core/path_writers.h"

#include "core/error.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

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

bool process_is_secure() { return ::getauxval(AT_SECURE) != 0; }

void WriterFindings::add(const WriterFindings& others) {
  refused.insert(refused.end(), others.refused.begin(), others.refused.end());
  doubtful.insert(doubtful.end(), others.doubtful.begin(), others.doubtful.end());
}

static void examine_writers(const std::string& path, const struct stat& s, WriterFindings& out) {
  if (s.st_mode & S_IWOTH)
    out.refused.push_back({described(path, s) + " may be written by anybody", "chmod o-w " + path});
  if (is_foreign(s))
    out.refused.push_back({foreign_reason(path, s), message("chown {} {}", ::geteuid(), path)});
  if (s.st_mode & S_IWGRP)
    out.doubtful.push_back({message("{} may be written by group {}", described(path, s), s.st_gid),
                            "chmod g-w " + path});
}

// ---- directories

const PathWriters::Directory& PathWriters::directory(const std::string& path) {
  n_links_ = 0;
  return walked(path);
}

const PathWriters::Directory& PathWriters::walked(const std::string& path) {
  auto known = directories_.find(path);
  if (known != directories_.end()) return known->second;
  bool root = path == "/";
  Directory found = root ? entered({}, "/")
                         : entered(walked(directory_of(path)), path.substr(path.rfind('/') + 1));
  return directories_.emplace(path, std::move(found)).first->second;
}

PathWriters::Directory PathWriters::entered(const Directory& above, const std::string& name) {
  if (!above.problem.empty() || name.empty() || name == ".") return above;
  if (name == "..") return walked(directory_of(above.path));
  Directory out{.path = joined(above.path, name), .way = above.way};
  struct stat& s = out.status;
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
  if (is_foreign(s))
    out.way.doubtful.push_back({foreign_reason(out.path, s) + ", who may replace what lies in it",
                                message("chown {} {}", ::geteuid(), out.path)});
  if ((s.st_mode & S_IWOTH) && !(s.st_mode & S_ISVTX))
    out.way.doubtful.push_back(
        {described(out.path, s) + " lies above it and may be written by anybody",
         "chmod o-w " + out.path});
  return out;
}

/// What a link to a directory leads to. Who may put files in there is asked as sharply as of the
/// directory of a plugin.
PathWriters::Directory PathWriters::followed(Directory link) {
  std::string target;
  if (!is_counted_link(link.path, target, link.problem)) return link;
  Directory out = walked(joined(directory_of(link.path), target));
  out.way.refused.insert(out.way.refused.end(), out.contents.refused.begin(),
                         out.contents.refused.end());
  out.way.add(link.way);
  return out;
}

/// Reads a link; false with the reason when it cannot be read, or is one too many.
bool PathWriters::is_counted_link(const std::string& path, std::string& target,
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

namespace {

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

/// What the path ends at. An open file is judged by its descriptor: a name may mean another file by
/// now.
void PathWriters::examine_end(const std::string& file, const struct stat& at_path, const Walk& walk,
                              WriterFindings& out) {
  if (walk.opened && !is_same_file(at_path, *walk.opened))
    out.refused.push_back({file + " was replaced while it was being opened", ""});
  const struct stat& s = walk.opened ? *walk.opened : at_path;
  if (!S_ISREG(s.st_mode))
    out.refused.push_back({file + " is not a regular file", ""});
  else
    examine_writers(file, s, out);
}

WriterFindings PathWriters::findings_about(const Directory& above, Kind kind) {
  WriterFindings out;
  if (kind == Kind::found) {
    out = above.contents;
    out.add(above.way);
    return out;
  }
  struct stat s = above.status;
  if (s.st_mode & S_ISVTX) s.st_mode &= ~static_cast<mode_t>(S_IWOTH | S_IWGRP);
  examine_writers(above.path, s, out);
  out.add(above.way);
  return out;
}

WriterFindings PathWriters::of_file(std::string path, const Walk& walk) {
  n_links_ = 0;
  WriterFindings out, ways;
  auto end_with = [&](std::string problem) {
    out.refused.push_back({std::move(problem), ""});
    out.add(ways);
    return out;
  };
  for (;;) {
    const Directory& above = walked(directory_of(path));
    if (!above.problem.empty()) return end_with(above.problem);
    std::string file = joined(above.path, path.substr(path.rfind('/') + 1));
    ways.add(findings_about(above, walk.kind));
    struct stat s {};
    if (::lstat(file.c_str(), &s) != 0) return end_with(unexaminable(file, errno));
    if (!S_ISLNK(s.st_mode)) {
      examine_end(file, s, walk, out);
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

WriterFindings PathWriters::of_found_file(const std::string& path) {
  return of_file(path, {.kind = Kind::found});
}

WriterFindings PathWriters::of_opened_file(const std::string& path, int descriptor) {
  struct stat opened {};
  if (::fstat(descriptor, &opened) != 0)
    return {.refused = {{unexaminable(path, errno), ""}}, .doubtful = {}};
  return of_file(path, {.kind = Kind::opened, .opened = &opened});
}

}  // namespace tenon
