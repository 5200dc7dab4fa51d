// Writing a file: all of it or the one before, and nothing that others put in the way.
#include "formats/byte_reader.h"
#include "unit/message_of.h"

#include <fcntl.h>
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

namespace tenon::formats {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "tenon_write_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/out";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) const {
    write_file(path_, [&](std::ostream& out) { out << text; });
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  std::string folder_, path_;
};

TEST_F(WriteFile, ReplacesWhatWasThereAndKeepsItsMode) {
  write("one");
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  write("two");
  EXPECT_EQ(text_of(path_), "two");
  EXPECT_EQ(static_cast<int>(fs::status(path_).permissions()), 0600);
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WriteFile, LeavesTheOldFileWhereWritingFails) {
  write("one");
  EXPECT_THROW(write_file(path_, [](std::ostream&) { fail("no more"); }), UserError);
  EXPECT_EQ(text_of(path_), "one");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WriteFile, NeedsAName) {
  EXPECT_EQ(message_of([] { write_file("", [](std::ostream&) {}); }),
            "expected the name of a file to write, found an empty one");
}

// A disk that is full.
TEST_F(WriteFile, LeavesTheOldFileWhereThereIsNoRoom) {
  write("one");
  pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    ErrorCode code = ErrorCode::internal;
    try {
      write(std::string(100000, 'x'));
    } catch (const UserError& e) {
      code = e.code();
    }
    ::_exit(code == ErrorCode::bad_file ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text_of(path_), "one");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WriteFile, FollowsNoLink) {
  std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "precious";
  // The names that come next, whoever guesses them, and the name itself.
  for (int i = 0; i < 50; ++i)
    fs::create_symlink(victim,
                       path_ + ".part" + std::to_string(::getpid()) + "-" + std::to_string(i));
  fs::create_symlink(victim, path_ + ".part" + std::to_string(::getpid()));
  fs::create_symlink(victim, path_);
  write("text");
  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_EQ(text_of(path_), "text");
  EXPECT_FALSE(fs::is_symlink(path_));
}

TEST_F(WriteFile, MayBeCalledByManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) write(std::string(5000, static_cast<char>('a' + t)));
    });
  for (std::thread& t : threads) t.join();
  std::string text = text_of(path_);
  EXPECT_EQ(text, std::string(5000, text[0]));
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WriteFile, WritesToTheOpenFileThatALinkOfTheSystemNames) {
  int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::write(descriptor, "before ", 7), 7);
  std::string name = message("/dev/fd/{}", descriptor);
  write_file(name, [](std::ostream& out) { out << "behind"; });
  struct stat link {};
  EXPECT_EQ(::lstat(name.c_str(), &link), 0);
  EXPECT_TRUE(S_ISLNK(link.st_mode));
  ::close(descriptor);
  EXPECT_EQ(text_of(path_), "before behind");
}

TEST_F(WriteFile, LeavesDevicesWhatTheyAre) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  write("through");
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, 7), 7);
  EXPECT_STREQ(text, "through");
  EXPECT_TRUE(fs::is_fifo(path_));
  ::close(reader);
}

}  // namespace
}  // namespace tenon::formats
