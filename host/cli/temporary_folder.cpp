// Making and removing a temporary folder.
#include "cli/temporary_folder.h"

#include "core/error.h"

#include <cstdlib>

namespace tenon::cli {

namespace fs = std::filesystem;

static fs::path made(const std::string& prefix) {
  std::string name = fs::temp_directory_path() / (prefix + "XXXXXX");
  require(::mkdtemp(name.data()) != nullptr, ErrorCode::bad_file,
          "{}: no folder can be made there; set TMPDIR?", fs::temp_directory_path().string());
  return name;
}

TemporaryFolder::TemporaryFolder(const std::string& prefix)
    : path(made(prefix)), interrupted_(path.string()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace tenon::cli
