// Who may have written a plugin: files, directories, chains of links, directories above, RUNPATH.
#include "backend/find/trust.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class Trust : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_trust_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string dir(const std::string& name, mode_t mode = 0755) {
    fs::create_directories(root_ + "/" + name);
    ::chmod((root_ + "/" + name).c_str(), mode);
    return root_ + "/" + name;
  }
  std::string file(const std::string& name, mode_t mode = 0644) {
    fs::path path = root_ + "/" + name;
    if (!fs::exists(path.parent_path())) dir(fs::path(name).parent_path());
    std::ofstream(path) << "x";
    ::chmod(path.c_str(), mode);
    return path;
  }
  static TrustVerdict judge(const std::string& path, TrustMode mode = TrustMode::owner) {
    return TrustCheck(mode).judge(path);
  }
  /// The text of the refusal, without the code and the path of the plugin.
  static std::string refusal(const std::string& path, TrustMode mode = TrustMode::owner) {
    Diagnosis d = judge(path, mode).refusal;
    EXPECT_TRUE(!d || (d.fault == PluginFault::refused && d.path == path));
    return d.reason + (d.hint.empty() ? "" : "; " + d.hint);
  }
  static std::vector<std::string> warnings(const std::string& path) {
    std::vector<std::string> out;
    for (const Diagnosis& d : judge(path).warnings) out.push_back(d.reason + "; " + d.hint);
    return out;
  }
  static std::string owned(const std::string& path, const std::string& mode) {
    return path + " (mode " + mode + ", owner " + std::to_string(::geteuid()) + ")";
  }
  std::string root_;
};

using Lines = std::vector<std::string>;

TEST_F(Trust, TakesAFileThatOnlyItsOwnerMayWrite) {
  std::string path = file("d/p.so");
  for (TrustMode mode : {TrustMode::strict, TrustMode::owner}) {
    EXPECT_EQ(judge(path, mode), TrustVerdict{});
  }
}

TEST_F(Trust, RefusesWhatAnybodyMayWrite) {
  std::string path = file("d/p.so", 0646);
  EXPECT_EQ(refusal(path), owned(path, "0646") + " may be written by anybody; chmod o-w " + path);
  EXPECT_EQ(judge(path, TrustMode::off), TrustVerdict{});
  ::chmod(path.c_str(), 0644);
  std::string folder = dir("d", 01777);  // sticky or not: a new file there would be found
  EXPECT_EQ(refusal(path),
            owned(folder, "1777") + " may be written by anybody; chmod o-w " + folder);
}

TEST_F(Trust, RefusesFilesDirectoriesAndLinksOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  std::string path = file("d/p.so");
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(path), path +
                               " (mode 0644, owner 12345) belongs to neither root nor user 0; "
                               "chown 0 " +
                               path);
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(dir("d").c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(path), dir("d") +
                               " (mode 0755, owner 12345) belongs to neither root nor user "
                               "0; chown 0 " +
                               dir("d"));
  ASSERT_EQ(::chown(dir("d").c_str(), 0, 0), 0);
  std::string link = dir("links") + "/p.so";
  fs::create_symlink(path, link);
  EXPECT_EQ(refusal(link), "");
  ASSERT_EQ(::lchown(link.c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(link), link +
                               " (mode 0777, owner 12345) belongs to neither root nor user 0; "
                               "chown -h 0 " +
                               link);
}

TEST_F(Trust, FollowsEachHopOfAChainOfLinks) {
  std::string path = file("real/p.so");
  fs::create_symlink("../real/p.so", dir("second") + "/q.so");
  fs::create_symlink(root_ + "/second/q.so", dir("first") + "/r.so");
  std::string link = root_ + "/first/r.so";
  EXPECT_EQ(judge(link, TrustMode::strict), TrustVerdict{});
  for (std::string hop : {"real", "second", "first"}) {
    std::string open = dir(hop, 0777);
    EXPECT_EQ(refusal(link), owned(open, "0777") + " may be written by anybody; chmod o-w " + open);
    dir(hop);
  }
  ::chmod(path.c_str(), 0666);
  EXPECT_EQ(refusal(link), owned(path, "0666") + " may be written by anybody; chmod o-w " + path);
}

TEST_F(Trust, FollowsLinksToDirectories) {
  std::string path = file("real/deep/p.so");
  fs::create_directory_symlink("real", root_ + "/one");
  fs::create_directory_symlink(root_ + "/one", root_ + "/two");
  std::string through = root_ + "/two/deep/p.so";
  EXPECT_EQ(judge(through, TrustMode::strict), TrustVerdict{});
  std::string open = dir("real", 0777);
  EXPECT_EQ(refusal(through),
            owned(open, "0777") + " may be written by anybody; chmod o-w " + open);
  EXPECT_EQ(refusal(path), "");  // without a link it is a directory above
  EXPECT_EQ(warnings(path), Lines{owned(open, "0777") +
                                  " lies above it and may be written by "
                                  "anybody; chmod o-w " +
                                  open});
}

TEST_F(Trust, EndsAtLinksInCirclesAndAtNothing) {
  fs::create_symlink("b.so", dir("d") + "/a.so");
  fs::create_symlink("a.so", root_ + "/d/b.so");
  EXPECT_NE(refusal(root_ + "/d/a.so").find("is a link that leads in circles"), std::string::npos);
  fs::create_directory_symlink("loop", root_ + "/loop");
  EXPECT_NE(refusal(root_ + "/loop/p.so"), "");
  fs::create_symlink("nowhere.so", root_ + "/d/c.so");
  EXPECT_EQ(refusal(root_ + "/d/c.so"),
            root_ + "/d/nowhere.so cannot be examined: No such file or directory");
}

TEST_F(Trust, RefusesWhatIsNoRegularFile) {
  std::string pipe = dir("d") + "/p.so";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), pipe + " is not a regular file");
  EXPECT_EQ(refusal(dir("d")), dir("d") + " is not a regular file");
}

TEST_F(Trust, WarnsOfGroupsAndRefusesThemWhenStrict) {
  std::string path = file("d/p.so", 0664), folder = dir("d", 0775);
  std::string group = std::to_string(::getegid());
  std::string of_file =
      owned(path, "0664") + " may be written by group " + group + "; chmod g-w " + path;
  EXPECT_EQ(refusal(path), "");
  EXPECT_EQ(warnings(path), (Lines{of_file, owned(folder, "0775") + " may be written by group " +
                                                group + "; chmod g-w " + folder}));
  EXPECT_EQ(refusal(path, TrustMode::strict), of_file);
}

TEST_F(Trust, AsksDirectoriesAboveForTheStickyBit) {
  std::string path = file("top/d/p.so");
  std::string top = dir("top", 01777);
  EXPECT_EQ(judge(path, TrustMode::strict), TrustVerdict{});
  dir("top", 0777);
  EXPECT_EQ(refusal(path), "");
  EXPECT_EQ(warnings(path), Lines{owned(top, "0777") +
                                  " lies above it and may be written by "
                                  "anybody; chmod o-w " +
                                  top});
  EXPECT_NE(refusal(path, TrustMode::strict), "");
}

// What a name leads to may change between the opening of a file and the judgement.
TEST_F(Trust, JudgesAnOpenFileByItsDescriptor) {
  std::string good = file("d/good"), bad = file("d/bad", 0666), link = root_ + "/d/link";
  fs::create_symlink(bad, link);
  int opened = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
  fs::remove(link);
  fs::create_symlink(good, link);
  EXPECT_EQ(judge(link).refusal, Diagnosis{});
  TrustVerdict verdict = TrustCheck(TrustMode::owner).judge_opened(link, opened);
  EXPECT_EQ(verdict.refusal.reason, good + " was replaced while it was being opened");
  ::close(opened);

  opened = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(TrustCheck(TrustMode::strict).judge_opened(link, opened), TrustVerdict{});
  ::chmod(good.c_str(), 0666);
  verdict = TrustCheck(TrustMode::owner).judge_opened(link, opened);
  EXPECT_EQ(verdict.refusal.reason, owned(good, "0666") + " may be written by anybody");
  ::chmod(good.c_str(), 0664);
  verdict = TrustCheck(TrustMode::owner).judge_opened(link, opened);
  EXPECT_EQ(verdict.warnings.size(), 1u);
  EXPECT_TRUE(TrustCheck(TrustMode::strict).judge_opened(link, opened).refusal);
  ::close(opened);
}

TEST_F(Trust, TakesAnOpenFileOfOursFromAStickyFolder) {
  std::string path = file("d/f");
  int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  dir("d", 01777);
  EXPECT_EQ(TrustCheck(TrustMode::strict).judge_opened(path, opened), TrustVerdict{});
  dir("d", 0777);
  EXPECT_TRUE(TrustCheck(TrustMode::owner).judge_opened(path, opened).refusal);
  ::close(opened);
}

TEST_F(Trust, WarnsOfFoldersAboveThatBelongToOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::string path = file("top/d/p.so"), top = dir("top");
  ASSERT_EQ(::chown(top.c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(path), "");
  EXPECT_EQ(warnings(path).size(), 1u);
  EXPECT_NE(refusal(path, TrustMode::strict).find(top), std::string::npos);
  int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(TrustCheck(TrustMode::owner).judge_opened(path, opened).warnings.size(), 1u);
  ::close(opened);
}

TEST_F(Trust, JudgesWhatTheFileAsksFor) {
  std::string path = file("d/p.so");
  auto warned = [&](ElfInfo elf) {
    TrustVerdict v, strict;
    TrustCheck(TrustMode::owner).judge_contents(path, elf, v);
    TrustCheck(TrustMode::strict).judge_contents(path, elf, strict);
    EXPECT_FALSE(v.refusal);
    EXPECT_EQ(static_cast<bool>(strict.refusal), !v.warnings.empty());
    TrustVerdict off;
    TrustCheck(TrustMode::off).judge_contents(path, elf, off);
    EXPECT_EQ(off, TrustVerdict{});
    return v.warnings.empty() ? "" : v.warnings[0].reason + "; " + v.warnings[0].hint;
  };
  ElfInfo elf;
  EXPECT_EQ(warned(elf), "");
  elf.exec_stack = true;
  EXPECT_EQ(warned(elf), "it asks for an executable stack; link it with -z noexecstack");
  elf.exec_stack = false;
  elf.runpath = dir("lib") + ":$ORIGIN/../lib:${ORIGIN}";
  EXPECT_EQ(warned(elf), "");
  std::string open = dir("lib", 01777);
  std::string text = owned(open, "1777") + " may be written by anybody; chmod o-w " + open;
  EXPECT_EQ(warned(elf), "its RUNPATH names " + open + ": " + text);
  elf.runpath = "$ORIGIN/../lib/not/there";  // whoever may make it
  EXPECT_EQ(warned(elf), "its RUNPATH names " + root_ + "/d/../lib/not/there: " + text);
  dir("lib", 0755);
  EXPECT_EQ(warned(elf), "");
  elf.runpath = "/usr/lib:lib";
  EXPECT_EQ(warned(elf),
            "its RUNPATH names 'lib', which means another directory for each working directory; "
            "link it with absolute paths or $ORIGIN");
  elf.runpath = "/usr/lib:";
  EXPECT_NE(warned(elf), "");
}

}  // namespace
}  // namespace tenon
