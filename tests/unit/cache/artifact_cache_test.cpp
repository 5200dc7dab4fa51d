// The cache on disk: what was put comes back, whatever else is in the folder is a miss.
#include "cache/artifact_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cache/cache_eviction.h"
#include "config/config.h"
#include "report/events.h"
#include "report/log.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr int64_t no_limit = int64_t{1} << 40;
constexpr size_t header_bytes = 56;

class DiskCache : public ::testing::Test {
 protected:
  static std::string new_folder() {
    std::string pattern = (fs::temp_directory_path() / "tenon_cache_XXXXXX").string();
    return mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root_); }

  static CacheKey key(const std::string& name, const std::string& owner = "mine-1.0.0") {
    return {"kernels/" + owner + "/0123456789abcdef", KeyBuilder().add("key", name).hex()};
  }
  std::string file(const std::string& name) const {
    return root_ + "/" + key(name).folder + "/" + key(name).name;
  }
  std::string text_of(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& path, const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), 0600);
  }
  /// That the entry "a", whose file was changed, is a miss, is removed, and can be put again.
  void expect_damaged() {
    EXPECT_EQ(cache_.get(key("a")), std::nullopt);
    struct stat s {};
    EXPECT_NE(::lstat(file("a").c_str(), &s), 0) << "what is damaged is removed";
    cache_.put(key("a"), "again", no_limit);
    EXPECT_EQ(cache_.get(key("a")), "again");
  }
  void set_use(const std::string& name, time_t seconds_ago) const {
    timespec times[2] = {{::time(nullptr) - seconds_ago, 0}, {::time(nullptr) - seconds_ago, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file(name).c_str(), times, 0), 0);
  }
  time_t seconds_since_use(const std::string& name) const {
    struct stat s {};
    EXPECT_EQ(::stat(file(name).c_str(), &s), 0);
    return ::time(nullptr) - s.st_mtim.tv_sec;
  }
  std::vector<std::string> kept(const std::vector<std::string>& names) const {
    std::vector<std::string> out;
    for (const std::string& n : names)
      if (fs::exists(file(n))) out.push_back(n);
    return out;
  }
  int64_t bytes_kept() const {
    int64_t total = 0;
    for (auto& entry : fs::recursive_directory_iterator(root_))
      if (entry.is_regular_file()) total += static_cast<int64_t>(entry.file_size());
    return total;
  }

  const std::string root_ = new_folder();
  ArtifactCache cache_{root_};
};

// ---- what was put

TEST_F(DiskCache, GivesBackWhatWasPut) {
  report::reset_counters();
  EXPECT_EQ(cache_.get(key("a")), std::nullopt);
  std::string bytes("with\0zeros", 10);
  cache_.put(key("a"), bytes, no_limit);
  cache_.put(key("empty"), "", no_limit);
  EXPECT_EQ(cache_.get(key("a")), bytes);
  EXPECT_EQ(cache_.get(key("empty")), "");
  EXPECT_EQ(ArtifactCache(root_).get(key("a")), bytes) << "as another process would";
  auto counters = report::counters();
  EXPECT_EQ(counters["cache.hit"], 3);
  EXPECT_EQ(counters["cache.miss"], 1);
  EXPECT_EQ(counters["cache.writes"], 2);
}

TEST_F(DiskCache, TheLastOneCounts) {
  cache_.put(key("a"), "first", no_limit);
  cache_.put(key("a"), "second", no_limit);
  EXPECT_EQ(cache_.get(key("a")), "second");
}

TEST_F(DiskCache, KeepsOwnersApart) {
  cache_.put(key("a", "mine-1.0.0"), "old", no_limit);
  EXPECT_EQ(cache_.get(key("a", "mine-1.0.1")), std::nullopt);
  EXPECT_EQ(cache_.get(key("a", "yours-1.0.0")), std::nullopt);
}

TEST_F(DiskCache, IsForThisUserAlone) {
  cache_.put(key("a"), "text", no_limit);
  struct stat s {};
  for (fs::path path = file("a"); path != root_; path = path.parent_path()) {
    ASSERT_EQ(::stat(path.c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777, S_ISDIR(s.st_mode) ? 0700u : 0600u) << path;
  }
}

TEST(CacheKeys, DifferWhereAnyPartDiffers) {
  std::string key = KeyBuilder().add("a", "b").add("c", "d").hex();
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, KeyBuilder().add("a", "b").add("c", "d").hex());
  EXPECT_NE(key, KeyBuilder().add("c", "d").add("a", "b").hex());
  EXPECT_NE(key, KeyBuilder().add("a", "b").hex());
  EXPECT_NE(key, KeyBuilder().add("a", "b\n1 1 c\nd").hex());
  EXPECT_NE(KeyBuilder().add("ab", "c").hex(), KeyBuilder().add("a", "bc").hex());
}

// ---- files that are not believed

TEST_F(DiskCache, EachDamagedByteIsAMiss) {
  cache_.put(key("a"), "sixteen bytes...", no_limit);
  std::string good = text_of(file("a"));
  ASSERT_EQ(good.size(), header_bytes + 16);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    write(file("a"), bad);
    EXPECT_EQ(cache_.get(key("a")), std::nullopt) << "byte " << i;
    EXPECT_FALSE(fs::exists(file("a"))) << "byte " << i;
  }
  write(file("a"), good);
  EXPECT_EQ(cache_.get(key("a")), "sixteen bytes...");
}

TEST_F(DiskCache, EachCutIsAMiss) {
  cache_.put(key("a"), "text", no_limit);
  std::string good = text_of(file("a"));
  for (size_t n = 0; n < good.size(); ++n) {
    write(file("a"), good.substr(0, n));
    EXPECT_EQ(cache_.get(key("a")), std::nullopt) << n << " bytes";
  }
  write(file("a"), good + "x");
  expect_damaged();
}

TEST_F(DiskCache, OtherFormatsAreMisses) {
  cache_.put(key("a"), "text", no_limit);
  std::string other = text_of(file("a"));
  other[8] = 2;  // the number of the format
  write(file("a"), other);
  expect_damaged();
}

TEST_F(DiskCache, EntriesInPlacesOfOthersAreMisses) {
  cache_.put(key("a"), "of a", no_limit);
  cache_.put(key("b"), "of b", no_limit);
  fs::rename(file("b"), file("a"));
  expect_damaged();
}

TEST_F(DiskCache, LinksAreMissesAndTheirGoalsStay) {
  cache_.put(key("a"), "text", no_limit);
  fs::rename(file("a"), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", file("a"));
  expect_damaged();
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere"));
}

TEST_F(DiskCache, PipesAreMisses) {
  cache_.put(key("a"), "text", no_limit);
  fs::remove(file("a"));
  ASSERT_EQ(::mkfifo(file("a").c_str(), 0600), 0);
  expect_damaged();
}

TEST_F(DiskCache, FoldersAreMissesAndStay) {
  fs::create_directories(file("a") + "/inside");
  EXPECT_EQ(cache_.get(key("a")), std::nullopt);
  cache_.put(key("a"), "text", no_limit);
  EXPECT_EQ(cache_.get(key("a")), std::nullopt);
  EXPECT_TRUE(fs::exists(file("a") + "/inside"));
}

TEST_F(DiskCache, FilesThatOthersMayWriteAreMisses) {
  cache_.put(key("a"), "text", no_limit);
  ::chmod(file("a").c_str(), 0620);
  expect_damaged();
}

TEST_F(DiskCache, FilesOfOthersAreMissesAndStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  cache_.put(key("a"), "text", no_limit);
  ASSERT_EQ(::chown(file("a").c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache_.get(key("a")), std::nullopt);
  EXPECT_TRUE(fs::exists(file("a")));
}

TEST_F(DiskCache, AFolderThatCannotBeMadeIsSaidOnce) {
  auto debug = config::patch({{"logging.level", "debug"}});
  report::LogCapture log;
  write(root_ + "/plain", "a file");
  ArtifactCache cache(root_ + "/plain/below");
  for (int i = 0; i < 3; ++i) cache.put(key("a"), "text", no_limit);
  EXPECT_EQ(cache.get(key("a")), std::nullopt);
  EXPECT_EQ(log.count("nothing can be kept in"), 1u);
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST_F(DiskCache, AFolderThatCannotBeWrittenIsAMiss) {
  if (::geteuid() == 0) GTEST_SKIP() << "root writes anywhere";
  ::chmod(root_.c_str(), 0500);
  cache_.put(key("a"), "text", no_limit);
  EXPECT_EQ(cache_.get(key("a")), std::nullopt);
  ::chmod(root_.c_str(), 0700);
}

TEST_F(DiskCache, AFullDiskIsAMissAndLeavesNothing) {
  auto in_child = [&] {
    rlimit small{1024, 1024};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
    cache_.put(key("a"), std::string(5000, 'x'), no_limit);
    return cache_.get(key("a")) ? 1 : 0;
  };
  if (pid_t child = ::fork(); child != 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  } else {
    ::_exit(in_child());
  }
  EXPECT_EQ(bytes_kept(), 0);
}

// ---- many at once

TEST_F(DiskCache, ThreadsAndProcessesWriteOneKeyAtOnce) {
  auto bytes = [](int writer) { return std::string(20000, static_cast<char>('a' + writer)); };
  auto work = [&](int writer) {
    int bad = 0;
    for (int i = 0; i < 100; ++i) {
      cache_.put(key("a"), bytes(writer), no_limit);
      auto got = cache_.get(key("a"));
      bad += !got || got->size() != 20000 || got->find_first_not_of((*got)[0]) != got->npos;
    }
    return bad;
  };
  pid_t child = ::fork();
  if (child == 0) ::_exit(work(4));
  std::vector<int> bad(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { bad[static_cast<size_t>(t)] = work(t); });
  for (std::thread& t : threads) t.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(bad, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(bytes_kept(), static_cast<int64_t>(header_bytes) + 20000) << "nothing else is left";
}

// ---- which go

TEST_F(DiskCache, TheOldestUseGoesFirst) {
  std::string kilobyte(1024 - header_bytes, 'x');
  std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  for (const std::string& n : names) cache_.put(key(n), kilobyte, no_limit);
  time_t ago = 100;
  for (std::string n : {"c", "a", "b", "d", "e", "f", "g", "h", "i"}) set_use(n, ago--);
  ArtifactCache(root_).put(key("new"), kilobyte, 9 * 1024);
  names.push_back("new");
  EXPECT_THAT(kept(names), ElementsAre("d", "e", "f", "g", "h", "i", "new"));
}

TEST_F(DiskCache, StaysBelowItsLimit) {
  for (int i = 0; i < 500; ++i) {
    cache_.put(key(std::to_string(i)), std::string(static_cast<size_t>(i * 37 % 900), 'x'), 20000);
    ASSERT_LE(bytes_kept(), 20000) << i;
  }
  EXPECT_GT(bytes_kept(), 10000);
  EXPECT_NE(cache_.get(key("499")), std::nullopt);
}

// Each writer is a process of its own, as far as the cache can tell.
TEST_F(DiskCache, WritersOfOneEntryEachMeasureItSeldomAndKeepItSmallTogether) {
  constexpr int64_t limit = 1024 * 1024;
  int64_t before = report::counter("cache.measured").value();
  for (int i = 0; i < 1500; ++i)
    ArtifactCache(root_).put(key(std::to_string(i)), std::string(1024 - header_bytes, 'x'), limit);
  EXPECT_LE(bytes_kept(), limit);
  EXPECT_GT(bytes_kept(), limit / 2);
  EXPECT_LT(report::counter("cache.measured").value() - before, 300);
}

TEST_F(DiskCache, KeepsNothingThatIsLargerThanHalfOfIt) {
  cache_.put(key("a"), std::string(600, 'x'), 1000);
  cache_.put(key("b"), "", 0);
  EXPECT_EQ(bytes_kept(), 0);
}

TEST_F(DiskCache, AHitIsAUse) {
  cache_.put(key("a"), "text", no_limit);
  set_use("a", 7200);
  EXPECT_NE(cache_.get(key("a")), std::nullopt);
  EXPECT_LT(seconds_since_use("a"), 60);
  set_use("a", 1800);
  EXPECT_NE(cache_.get(key("a")), std::nullopt);
  EXPECT_GT(seconds_since_use("a"), 1700) << "at most once an hour";
}

TEST_F(DiskCache, RemovesOnlyWhatItMade) {
  cache_.put(key("a"), std::string(3000, 'x'), no_limit);
  std::string folder = root_ + "/" + key("a").folder;
  std::string large(100000, 'x');
  std::vector<std::string> foreign = {folder + "/notes.txt", root_ + "/kernels/" + key("a").name,
                                      root_ + "/" + key("a").name, folder + "/.tmp-young"};
  fs::create_directories(root_ + "/plugins/loading/deep");
  foreign.push_back(root_ + "/plugins/loading/deep/" + key("a").name);
  for (const std::string& path : foreign) write(path, large);
  write(folder + "/.tmp-old", large);
  timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder + "/.tmp-old").c_str(), old, 0), 0);
  evict(root_, 1000);
  for (const std::string& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(file("a")));
  EXPECT_FALSE(fs::exists(folder + "/.tmp-old")) << "its writer has died";
}

TEST_F(DiskCache, FoldersWithoutEntriesGo) {
  cache_.put(key("a"), std::string(3000, 'x'), no_limit);
  evict(root_, 1000);
  EXPECT_FALSE(fs::exists(root_ + "/kernels/mine-1.0.0"));
  cache_.put(key("a"), "text", no_limit);
  EXPECT_EQ(cache_.get(key("a")), "text");
}

}  // namespace
}  // namespace tenon
