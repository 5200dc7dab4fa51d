// The plugins that may be loaded, by file name and digest (plugins.allow, plugins.allow_only).
#pragma once

#include "backend/find/diagnose.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon {

/// "sha256:..." over the content of an open file, from its beginning. Throws UserError bad_file.
std::string digest_of(int file, const std::string& path);
/// The same for a path.
std::string digest_of(const std::string& path);

/// Which file names are named with which digest. Immutable.
class AllowList {
 public:
  AllowList() = default;
  /// Items are "file.so=sha256:<64 hexadecimal digits>"; with `only`, files that are not named are
  /// refused. A name may stand there more than once. Throws UserError config.
  AllowList(const std::vector<std::string>& items, bool only);

  /// Whether the content of a file of that path matters.
  bool names(const std::string& path) const;
  /// P15 for a file that is not named where it must be, or whose digest is another one; reads the
  /// file only when it is named. `file` is open for reading, or -1 to open the path.
  Diagnosis judge(const std::string& path, int file = -1) const;

 private:
  std::vector<std::pair<std::string, std::string>> digests_;  ///< by file name
  bool only_ = false;
};

}  // namespace tenon
