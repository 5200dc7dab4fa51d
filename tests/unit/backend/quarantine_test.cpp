// Breadcrumbs of plugins that are being loaded: whose process is gone, and what becomes of them.
#include "backend/find/quarantine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "config/cache_folder.h"
#include "report/log.h"
#include "tenon/config.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

class Quarantine : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_quarantine_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    folder_ = root_ + "/plugins/loading";
  }
  void TearDown() override { fs::remove_all(root_); }

  size_t n_breadcrumbs() const {
    if (!fs::exists(folder_)) return 0;
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  Diagnosis verdict(const FileIdentity& file) const {
    return quarantine_verdict(crash_records(folder_), path_, file);
  }
  /// Leaves a breadcrumb in a child process, which then does `end`. Returns how that ended.
  template <class F>
  int end_while_loading(F end, bool reap = true) {
    pid_t child = ::fork();
    if (child == 0) {
      Breadcrumb crumb(folder_, path_, "mine", file_);
      end();
      ::_exit(0);
    }
    child_ = child;
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | (reap ? 0 : WNOWAIT));
    return info.si_status;
  }

  std::string root_, folder_, path_ = "/opt/tenon_mine.so";
  FileIdentity file_{1, 2, 3, 4};
  pid_t child_ = 0;
};

TEST_F(Quarantine, IsOverWhenLoadingHasEnded) {
  {
    Breadcrumb crumb(folder_, path_, "mine", file_);
    EXPECT_EQ(n_breadcrumbs(), 1u);
    EXPECT_FALSE(verdict(file_));  // this process lives
  }
  EXPECT_EQ(n_breadcrumbs(), 0u);
}

// Sanitizers handle signals, and a shell may have started the test with some ignored.
class DefaultAction {
 public:
  explicit DefaultAction(int signal) : signal_(signal), before_(::signal(signal, SIG_DFL)) {}
  ~DefaultAction() { ::signal(signal_, before_); }
  DefaultAction(const DefaultAction&) = delete;

 private:
  int signal_;
  void (*before_)(int);
};

TEST_F(Quarantine, TellsSignalAndTimeOfACrash) {
  DefaultAction crash(SIGSEGV);
  EXPECT_EQ(end_while_loading([] { ::raise(SIGSEGV); }), SIGSEGV);
  Diagnosis d = verdict(file_);
  EXPECT_EQ(d.fault, PluginFault::quarantined);
  std::regex expected(
      "P16 /opt/tenon_mine\\.so: loading it ended process " + std::to_string(child_) +
      " with SIGSEGV on \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC; `tenon plugin check "
      "/opt/tenon_mine\\.so` shows where; `tenon plugin release mine` lets it be loaded again");
  EXPECT_TRUE(std::regex_match(to_text(d), expected)) << to_text(d);
}

TEST_F(Quarantine, BelievesNobodyElse) {
  end_while_loading([] { ::raise(SIGSEGV); });
  struct stat s {};
  for (const char* folder : {"/plugins", "/plugins/loading"}) {
    ASSERT_EQ(::stat((root_ + folder).c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777, 0700u) << folder;
  }
  ASSERT_TRUE(verdict(file_));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::string crumb = crash_records(folder_).at(0).breadcrumb;
  ASSERT_EQ(::chown(crumb.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(verdict(file_));
}

// A process may be killed at any time: only several such ends in a row are a reason.
TEST_F(Quarantine, TakesThreeEndsThatNobodyExplains) {
  EXPECT_EQ(end_while_loading([] { ::_exit(7); }), 7);
  EXPECT_FALSE(verdict(file_));
  EXPECT_EQ(end_while_loading([] { ::kill(::getpid(), SIGKILL); }, false), SIGKILL);
  EXPECT_FALSE(verdict(file_));
  EXPECT_EQ(end_while_loading([] { ::kill(::getpid(), SIGKILL); }), SIGKILL);
  EXPECT_EQ(crash_records(folder_).size(), 3u);  // one is dead, though nobody has waited for it
  EXPECT_NE(verdict(file_).reason.find("in an unknown way, the last of 3"), std::string::npos);
}

TEST_F(Quarantine, ForgetsUnexplainedEndsAfterALoading) {
  for (int i = 0; i < 3; ++i) end_while_loading([] { ::_exit(7); });
  ASSERT_TRUE(verdict(file_));
  { Breadcrumb crumb(folder_, path_, "mine", file_); }
  EXPECT_EQ(n_breadcrumbs(), 0u);
}

TEST_F(Quarantine, ForgetsUnexplainedEndsAfterAnHour) {
  for (int i = 0; i < 3; ++i) end_while_loading([] { ::_exit(7); });
  std::vector<CrashRecord> records = crash_records(folder_);
  for (CrashRecord& r : records) r.time -= 3601;
  EXPECT_FALSE(quarantine_verdict(records, path_, file_));
  records[0].signal = SIGSEGV;
  EXPECT_TRUE(quarantine_verdict(records, path_, file_));
}

TEST_F(Quarantine, IsNotMeantByASignalFromOutside) {
  DefaultAction crash(SIGSEGV);
  EXPECT_EQ(end_while_loading([] {
              pid_t loading = ::getpid();
              if (::fork() == 0) {
                ::kill(loading, SIGSEGV);
                ::_exit(0);
              }
              ::sleep(10);
            }),
            SIGSEGV);
  EXPECT_FALSE(verdict(file_));
}

TEST_F(Quarantine, IsMeantByExitWhileLoading) {
  EXPECT_EQ(end_while_loading([] { ::exit(5); }), 5);
  EXPECT_TRUE(verdict(file_));
}

// Ctrl-C at a terminal: the signal comes from the kernel.
TEST_F(Quarantine, LetsATerminalInterruptALoading) {
  DefaultAction request(SIGINT);
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "no terminals can be made here";
  ASSERT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
  std::string name = ::ptsname(terminal);
  pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    int own = ::open(name.c_str(), O_RDWR);  // a session without a terminal gets it
    Breadcrumb crumb(folder_, path_, "mine", file_);
    if (::write(own, "!", 1) == 1) ::sleep(10);
    ::_exit(7);
  }
  char ready = 0;
  ASSERT_EQ(::read(terminal, &ready, 1), 1);
  ASSERT_EQ(::write(terminal, "\x03", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_EQ(n_breadcrumbs(), 0u);
}

TEST_F(Quarantine, IsNotMeantByARequestToEnd) {
  DefaultAction request(SIGINT);
  EXPECT_EQ(end_while_loading([] { ::raise(SIGINT); }), SIGINT);
  EXPECT_EQ(n_breadcrumbs(), 0u);
  EXPECT_FALSE(verdict(file_));
}

TEST_F(Quarantine, LeavesTheHandlersOfTheProgramAsTheyWere) {
  struct sigaction mine {};
  mine.sa_handler = [](int) { ::_exit(42); };
  ::sigaction(SIGSEGV, &mine, nullptr);
  EXPECT_EQ(end_while_loading([] { ::raise(SIGSEGV); }), 42);  // and runs them
  EXPECT_NE(verdict(file_).reason.find("with SIGSEGV"), std::string::npos);
  { Breadcrumb crumb(folder_, path_, "mine", file_); }
  struct sigaction now {};
  ::sigaction(SIGSEGV, nullptr, &now);
  EXPECT_EQ(now.sa_handler, mine.sa_handler);
  ::signal(SIGSEGV, SIG_DFL);
}

TEST_F(Quarantine, HoldsForTheFileAsItWas) {
  end_while_loading([] { ::raise(SIGSEGV); });
  ASSERT_TRUE(verdict(file_));
  for (FileIdentity other : {FileIdentity{1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}})
    EXPECT_FALSE(verdict(other));
  EXPECT_TRUE(verdict({9, 2, 3, 4}));  // mounted elsewhere
  EXPECT_FALSE(quarantine_verdict(crash_records(folder_), "/other.so", file_));
  { Breadcrumb crumb(folder_, path_, "mine", {1, 9, 3, 4}); }  // new content sweeps the old crash
  EXPECT_EQ(n_breadcrumbs(), 0u);
}

TEST_F(Quarantine, SeesThroughANumberThatIsUsedAgain) {
  end_while_loading([] { ::raise(SIGSEGV); });
  std::string crumb = crash_records(folder_).at(0).breadcrumb;
  std::ifstream in(crumb);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  auto with = [&](const std::string& word, const std::string& value) {
    std::ofstream(crumb) << std::regex_replace(text, std::regex("(^|\n)" + word + " [^\n]*"),
                                               "$1" + word + " " + value);
    return static_cast<bool>(verdict(file_));
  };
  EXPECT_TRUE(with("pid", std::to_string(::getpid())));  // began at another time
  EXPECT_FALSE(with("machine", "another pid:[1]"));      // may be at work there
  text = std::regex_replace(text, std::regex("machine [^\n]*"), "machine another");
  EXPECT_TRUE(with("time", "1000000000"));
}

TEST_F(Quarantine, ReadsAnythingThatLiesInTheFolder) {
  fs::create_directories(folder_ + "/folder");
  std::ofstream(folder_ + "/garbage") << std::string(100'000, '\xff') << "\npid x\nsignal\n";
  std::ofstream(folder_ + "/empty");
  EXPECT_FALSE(verdict(file_));
  EXPECT_TRUE(crash_records("").empty());
  EXPECT_TRUE(crash_records("/no/such/folder").empty());
}

TEST_F(Quarantine, CostsALineWhenTheFolderCannotBeWritten) {
  std::ofstream(root_ + "/file");
  auto debug = config::patch({{"logging.level", "debug"}});
  report::LogCapture log;
  { Breadcrumb crumb(root_ + "/file/loading", path_, "mine", file_); }
  EXPECT_EQ(log.count("a crash while /opt/tenon_mine.so is loaded will not be remembered"), 1u);
  { Breadcrumb none("", path_, "mine", file_); }
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(CacheFolder, FollowsTheEnvironment) {
  std::string own = std::getenv("TENON_CACHE_DIR") ? std::getenv("TENON_CACHE_DIR") : "";
  std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::setenv("TENON_CACHE_DIR", "/own", 1);
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(config::cache_folder(), "/own");
  ::unsetenv("TENON_CACHE_DIR");
  EXPECT_EQ(config::cache_folder(), "/xdg/tenon");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(config::cache_folder(), "/home/me/.cache/tenon");
  ::unsetenv("HOME");
  EXPECT_EQ(config::cache_folder(), "");
  if (!own.empty()) ::setenv("TENON_CACHE_DIR", own.c_str(), 1);
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace tenon
