// Log lines, counters, events.
#include "config/config.h"
#include "report/events.h"
#include "report/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace fs = std::filesystem;

namespace tenon::report {
namespace {

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    static int made = 0;  // an open log file keeps its folder's name taken
    folder_ = fs::temp_directory_path() /
              ("tenon_report_" + std::to_string(::getpid()) + "_" + std::to_string(++made));
    fs::create_directories(folder_);
    config::set("logging.out", (folder_ / "log.txt").string());
  }
  void TearDown() override {
    config::forget();
    restart_trace();
    fs::remove_all(folder_);
  }
  std::string text(const std::string& name) const {
    std::stringstream out;
    out << std::ifstream(folder_ / name).rdbuf();
    return out.str();
  }
  fs::path folder_;
};

TEST_F(Report, LinesBelowTheLevelAreNotWritten) {
  LogCapture capture;
  log(LogLevel::info, "capture", "quiet {}", 1);
  log(LogLevel::warning, "capture", "loud {}", 2);
  config::set("logging.level", "debug");
  log(LogLevel::debug, "capture", "deep {}", 3);
  EXPECT_EQ(capture.lines(),
            (std::vector<std::string>{"warning: [capture] loud 2", "debug: [capture] deep 3"}));
}

TEST_F(Report, TheLevelFollowsThePatchOfTheThread) {
  auto patch = config::patch({{"logging.level", "trace"}});
  EXPECT_TRUE(log_enabled(LogLevel::trace, "aot"));
  bool other = true;
  std::thread([&] { other = log_enabled(LogLevel::info, "aot"); }).join();
  EXPECT_FALSE(other);
}

TEST_F(Report, ComponentsAndArtifactsAreChosenByName) {
  config::set("logging.logs", std::vector<std::string>{"+dynamic", "-aot", "recompiles"});
  EXPECT_TRUE(log_enabled(LogLevel::debug, "dynamic"));
  EXPECT_FALSE(log_enabled(LogLevel::warning, "aot"));
  EXPECT_FALSE(log_enabled(LogLevel::info, "capture"));
  EXPECT_TRUE(artifact_enabled("recompiles"));
  EXPECT_FALSE(artifact_enabled("guards"));
  LogCapture capture;
  log_artifact("recompiles", "0/1 again");
  log_artifact("guards", "never");
  EXPECT_EQ(capture.lines(), std::vector<std::string>{"info: [recompiles] 0/1 again"});
}

TEST_F(Report, AnUnknownArtifactIsNamedWithItsNeighbours) {
  LogCapture capture;
  config::set("logging.logs", std::vector<std::string>{"recompile"});
  log_enabled(LogLevel::info, "aot");
  EXPECT_EQ(capture.count("did you mean recompiles"), 1u);
}

TEST_F(Report, LinesGoToTheFileOfTheFlag) {
  config::set("dynamo.log_file_name", (folder_ / "copy.txt").string());
  log(LogLevel::error, "aot", "both");
  EXPECT_NE(text("log.txt").find("error: [aot] both"), std::string::npos);
  EXPECT_NE(text("copy.txt").find("error: [aot] both"), std::string::npos);
}

TEST_F(Report, AFileThatCannotBeOpenedIsNamedWithItsFlagAndLinesComeOnce) {
  std::ofstream(folder_ / "file") << "no folder";
  config::set("logging.out", std::string());
  config::set("dynamo.log_file_name", (folder_ / "file" / "copy.txt").string());
  ::testing::internal::CaptureStderr();
  log(LogLevel::error, "aot", "first");
  log(LogLevel::error, "aot", "second");
  std::string seen = ::testing::internal::GetCapturedStderr();
  auto count = [&](std::string_view part) {
    int n = 0;
    for (size_t at = seen.find(part); at != seen.npos; at = seen.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("[report] dynamo.log_file_name: "), 1) << seen;
  EXPECT_EQ(count("[aot] first"), 1) << seen;
  EXPECT_EQ(count("[aot] second"), 1) << seen;
}

TEST_F(Report, AFileThatBothFlagsNameGetsEachLineOnce) {
  config::set("dynamo.log_file_name", (folder_ / "log.txt").string());
  log(LogLevel::error, "aot", "once");
  std::string lines = text("log.txt");
  EXPECT_NE(lines.find("[aot] once"), std::string::npos);
  EXPECT_EQ(lines.find("[aot] once"), lines.rfind("[aot] once"));
}

TEST_F(Report, ALineThatNobodyReadsIsLostAndNothingElse) {
  config::set("logging.out", std::string());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int stderr_before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[0]);
  ::close(ends[1]);
  log(LogLevel::error, "aot", "lost");  // else SIGPIPE ends the test
  sigset_t pending, blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  ::dup2(stderr_before, STDERR_FILENO);
  ::close(stderr_before);
  std::clearerr(stderr);
  EXPECT_FALSE(::sigismember(&pending, SIGPIPE));
  EXPECT_FALSE(::sigismember(&blocked, SIGPIPE));
}

TEST_F(Report, AWarningComesOncePerKey) {
  forget_warnings();
  LogCapture capture;
  EXPECT_TRUE(warn_once("site 1", "capture", "limit reached"));
  EXPECT_FALSE(warn_once("site 1", "capture", "limit reached"));
  EXPECT_TRUE(warn_once("site 2", "capture", "limit reached"));
  EXPECT_EQ(capture.count("limit reached"), 2u);
}

TEST_F(Report, WarningsOfTheFlagsAreLogLines) {
  LogCapture capture;
  log_enabled(LogLevel::error, "config");
  config::set("dynamo.skip_fsdp_hooks", true);
  EXPECT_EQ(capture.count("warning: [config] dynamo.skip_fsdp_hooks = true"), 1u);
}

TEST_F(Report, CountersCountFromAllThreads) {
  Counter& counter = report::counter("report.test");
  counter.reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) report::counter("report.test").add();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 4000);
  EXPECT_EQ(counters().at("report.test"), 4000);
  reset_counters();
  EXPECT_FALSE(counters().contains("report.test"));
}

TEST_F(Report, ListenersGetEventsAndThenNone) {
  std::vector<std::string> seen;
  {
    auto listener = add_listener([&](const Event& event) {
      seen.push_back(std::to_string(static_cast<int>(event.phase)) + std::string(event.name));
    });
    EXPECT_TRUE(tracing());
    Span span("compile", "aot", "0/1");
    instant("miss", "guards");
  }
  instant("unseen", "guards");
  EXPECT_FALSE(tracing());
  EXPECT_EQ(seen, (std::vector<std::string>{"0compile", "2miss", "1compile"}));
}

TEST_F(Report, ATraceIsJsonAtAnyTime) {
  config::set("logging.trace", (folder_ / "trace").string());
  restart_trace();
  auto parsed = [&] { return nlohmann::json::parse(text("trace/trace.json")); };
  EXPECT_EQ(parsed().size(), 0u);
  {
    Span span("compile \"f\"\n", "aot", "0/1", {{"nodes", 12}, {"ratio", 0.5}, {"text", "a\tb"}});
    EXPECT_EQ(parsed().size(), 1u);
  }
  sample("bytes", "core", 1e6);
  auto events = parsed();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["ph"], "B");
  EXPECT_EQ(events[0]["name"], "compile \"f\"\n");
  EXPECT_EQ(events[0]["args"]["id"], "0/1");
  EXPECT_EQ(events[0]["args"]["nodes"], 12);
  EXPECT_EQ(events[0]["args"]["text"], "a\tb");
  EXPECT_EQ(events[1]["ph"], "E");
  EXPECT_GE(events[1]["ts"], events[0]["ts"]);
  std::istringstream lines(text("trace/events.jsonl"));
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n)
    EXPECT_TRUE(nlohmann::json::parse(line).contains("event"));
  EXPECT_EQ(n, 3);
}

TEST_F(Report, ATraceIsJsonWhateverTheNames) {
  config::set("logging.trace", (folder_ / "trace").string());
  restart_trace();
  instant(
      "gr\xf6\xdf"
      "e",
      "gr\u00f6\u00dfe");
  auto events = nlohmann::json::parse(text("trace/trace.json"));
  EXPECT_EQ(events.at(0)["name"], "gr\uFFFD\uFFFDe");
  EXPECT_EQ(events.at(0)["cat"], "gr\u00f6\u00dfe");
  EXPECT_TRUE(nlohmann::json::accept(text("trace/events.jsonl")));
}

// Their place in a file would be common to both, too.
TEST_F(Report, AForkedChildHasATraceOfItsOwn) {
  config::set("logging.trace", (folder_ / "trace").string());
  restart_trace();
  instant("before", "core");
  pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 3; ++i) instant("of_child", "core");
    std::fflush(nullptr);  // as its end does
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  instant("after", "core");
  auto names = [&](const std::string& file) {
    std::vector<std::string> out;
    for (const auto& event : nlohmann::json::parse(text("trace/" + file)))
      out.push_back(event["name"]);
    return out;
  };
  std::string own = "." + std::to_string(child);
  EXPECT_EQ(names("trace.json"), (std::vector<std::string>{"before", "after"}));
  EXPECT_EQ(names("trace" + own + ".json"), std::vector<std::string>(3, "of_child"));
  EXPECT_EQ(text("trace/events.jsonl").find("of_child"), std::string::npos);
  EXPECT_NE(text("trace/events" + own + ".jsonl").find("of_child"), std::string::npos);
}

}  // namespace
}  // namespace tenon::report
