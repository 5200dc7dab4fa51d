// A folder for files that are needed until a verb ends.
#pragma once

#include "core/unfinished.h"

#include <filesystem>
#include <string>

namespace tenon::cli {

/// Made under TMPDIR with a name that begins with `prefix`; removed with all that is in it at the
/// end of its life, and when the program is interrupted. Throws UserError where none can be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path path;

 private:
  Unfinished interrupted_;
};

}  // namespace tenon::cli
