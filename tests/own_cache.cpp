// A folder of caches for one run of a test program that was given none: the user's own must neither
// decide about the tests nor grow by them.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

class OwnCache {
 public:
  OwnCache() {
    if (std::getenv("TENON_CACHE_DIR")) return;
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon_test_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) return;
    folder_ = pattern;
    ::setenv("TENON_CACHE_DIR", folder_.c_str(), 1);
  }
  ~OwnCache() {
    std::error_code ignored;
    if (::getpid() == process_ && !folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::string folder_;
  pid_t process_ = ::getpid();
};

const OwnCache own_cache;

}  // namespace
