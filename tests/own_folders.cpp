// Folders of one run of a test program: for its files, since tests run beside each other and beside
// those of other checkouts, and, where it was given none, for its caches: the user's own must neither
// decide about the tests nor grow by them.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

class OwnFolders {
 public:
  OwnFolders() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon_test_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) return;
    folder_ = pattern;
    ::setenv("TMPDIR", folder_.c_str(), 1);
    ::setenv("TEST_TMPDIR", folder_.c_str(), 1);
    ::setenv("TENON_CACHE_DIR", (folder_ + "/cache").c_str(), 0);
  }
  ~OwnFolders() {
    std::error_code ignored;
    if (::getpid() == process_ && !folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::string folder_;
  pid_t process_ = ::getpid();
};

const OwnFolders own_folders;

}  // namespace
