// What flags of messages, records and dumps do.
#include "backend/abi/bridge.h"
#include "backend/abi/compile_context.h"
#include "report/compile_record.h"
#include "report/dumps.h"
#include "unit/config/observable_fixture.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tenon {
namespace {

using report::LogCapture;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

auto relu_plus_one() {
  return compile([](const Tensor& x) { return x.relu() + 1; }, keeping);
}

size_t count_of(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(Observable, LogFileNameGetsACopyOfTheGraph) {
  std::string path = (root_ / "log.txt").string();
  auto scope = config::patch(
      {{"dynamo.log_file_name", path}, {"logging.logs", std::vector<std::string>{"graph"}}});
  relu_plus_one()(ones({2}));
  EXPECT_THAT(text_of(path), HasSubstr("aten.relu.default"));
}

TEST_F(Observable, LoggingLogsNamesTheArtifactsThatAreWritten) {
  auto logged = [&](std::vector<std::string> names) {
    auto scope = config::patch({{"logging.logs", std::move(names)}});
    LogCapture lines;
    relu_plus_one()(ones({2}));
    return lines.count("aten.relu.default");
  };
  EXPECT_EQ(logged({}), 0u);
  EXPECT_EQ(logged({"graph"}), 1u);
  EXPECT_EQ(logged({"graph", "guards"}), 1u);
}

TEST_F(Observable, LoggingLevelAndOutDecideAboutLines) {
  std::string path = (root_ / "out.txt").string();
  {
    auto scope = config::patch({{"logging.out", path}, {"logging.level", "info"}});
    report::log_line(report::LogLevel::info, "runtime", "an info line");
  }
  {
    auto scope = config::patch({{"logging.out", path}, {"logging.level", "error"}});
    report::log_line(report::LogLevel::warning, "runtime", "a warning line");
  }
  EXPECT_THAT(text_of(path), HasSubstr("an info line"));
  EXPECT_THAT(text_of(path), Not(HasSubstr("a warning line")));
}

TEST_F(Observable, LoggingTraceGetsThePhasesOfACompilation) {
  config::set("logging.trace", (root_ / "trace").string());
  report::restart_trace();
  relu_plus_one()(ones({2}));
  config::unset("logging.trace");
  report::restart_trace();
  std::string events = text_of((root_ / "trace/events.jsonl").string());
  EXPECT_THAT(events, HasSubstr("\"name\":\"trace\""));
  EXPECT_THAT(events, HasSubstr("\"name\":\"backend\""));
}

TEST_F(Observable, VerboseAddsTheStackAndKeepsTheFirstLine) {
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : x + 1; },
                   {.backend = "keeping", .fullgraph = true});
  auto message = [&](bool verbose) {
    auto scope = config::patch({{"dynamo.verbose", verbose}});
    return message_of([&] { f(ones({2})); });
  };
  std::string quiet = message(false), loud = message(true);
  EXPECT_EQ(loud.substr(0, loud.find('\n')), quiet.substr(0, quiet.find('\n')));
  EXPECT_EQ(count_of(quiet, "\n  #"), 0u);
  EXPECT_GT(count_of(loud, "\n  #"), 5u);
}

TEST_F(Observable, ReportGuardFailuresOffLeavesTheReasonsOut) {
  auto explained = [](bool report_failures) {
    auto scope = config::patch({{"dynamo.report_guard_failures", report_failures}});
    auto f = relu_plus_one();
    f(ones({2}));
    f(ones({3}));
    return f.explain();
  };
  EXPECT_THAT(explained(true), HasSubstr("recompiled because"));
  EXPECT_THAT(explained(false), Not(HasSubstr("recompiled because")));
}

TEST_F(Observable, BaseDirIsCutFromTheNamesOfFiles) {
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : x + 1; },
                   {.backend = "keeping", .fullgraph = true});
  std::string whole = message_of([&] { f(ones({2})); });
  EXPECT_THAT(whole, HasSubstr(__FILE__));
  std::string folder = std::filesystem::path(__FILE__).parent_path().string();
  auto scope = config::patch({{"dynamo.base_dir", folder}});
  std::string cut = message_of([&] { f(ones({2})); });
  EXPECT_THAT(cut, HasSubstr(" observable_messages_test.cpp:"));
  EXPECT_THAT(cut, Not(HasSubstr(folder)));
}

TEST_F(Observable, LogCompilationMetricsKeepsOneRecordACompilation) {
  report::forget_compile_records();
  std::filesystem::create_directories(root_ / "dumps");
  auto f = relu_plus_one();
  f(ones({2}));
  f(ones({3}));
  ASSERT_EQ(report::compile_records().size(), 2u);
  const report::CompileRecord record = report::compile_records()[1];
  EXPECT_EQ(record.outcome, "compiled");
  EXPECT_EQ(record.backend, "keeping");
  EXPECT_EQ(record.n_ops, 2u);
  EXPECT_EQ(record.n_symbols, 1u);
  EXPECT_EQ(record.n_entries, 2u);
  std::istringstream lines(text_of((root_ / "dumps/metrics.jsonl").string()));
  size_t n = 0;
  for (std::string line; std::getline(lines, line); ++n)
    EXPECT_TRUE(nlohmann::json::parse(line).at("ms").contains("trace")) << line;
  EXPECT_EQ(n, 2u);

  auto scope = config::patch({{"dynamo.log_compilation_metrics", false}});
  relu_plus_one()(ones({2}));
  EXPECT_EQ(report::compile_records().size(), 2u);
}

TEST_F(Observable, AFailedCompilationHasARecordToo) {
  report::forget_compile_records();
  auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "failing"});
  EXPECT_THROW(f(ones({2})), BackendError);
  ASSERT_EQ(report::compile_records().size(), 1u);
  EXPECT_EQ(report::compile_records()[0].outcome, "failed");
}

TEST_F(Observable, CprofileWritesThePhasesAsAChromeTrace) {
  std::string prefix = (root_ / "phases_").string();
  {
    auto scope = config::patch({{"dynamo.cprofile", prefix}});
    relu_plus_one()(ones({2}));
  }
  std::string path;
  for (auto& entry : std::filesystem::directory_iterator(root_))
    if (entry.path().filename().string().starts_with("phases_")) path = entry.path().string();
  auto events = nlohmann::json::parse(text_of(path));
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[0].at("name"), "compile");
  for (const auto& event : events) {
    EXPECT_GE(event.at("ts"), events[0].at("ts"));
    EXPECT_LE(event.at("dur"), events[0].at("dur")) << "the root holds all phases";
  }
  auto scope = config::patch({{"dynamo.cprofile", true}});
  relu_plus_one()(ones({2}));
  EXPECT_THAT(dumps(), Contains("profile.json"));
}

TEST_F(Observable, DebugDirRootIsTheFolderOfAllDumps) {
  std::string folder = (root_ / "elsewhere").string();
  auto scope = config::patch({{"dynamo.debug_dir_root", folder}});
  EXPECT_TRUE(report::dumps_wanted());
  EXPECT_TRUE(report::dump_folder("7/1").starts_with(folder + "/run_"));
  EXPECT_TRUE(std::filesystem::is_directory(report::dump_folder("7/1")));
  auto plain = config::patch({{"dynamo.debug_dir_root", "tenon_debug"}});
  EXPECT_FALSE(report::dumps_wanted());
}

TEST_F(Observable, PluginsGetAFolderOfTheirCompilationWhereDumpsAreWanted) {
  CompileRequest request;
  request.compile_id = "5/2";
  tn_ctx ctx;
  ctx.request = &request;
  auto folder = [&] {
    tn_str text = host_table()->svc->debug_dir(&ctx);
    return std::string(text.data, text.size);
  };
  EXPECT_TRUE(folder().ends_with("/5_2"));
  EXPECT_TRUE(std::filesystem::is_directory(folder()));
  auto plain = config::patch({{"dynamo.debug_dir_root", "tenon_debug"}});
  EXPECT_EQ(folder(), "");
}

TEST_F(Observable, SaveConfigIgnoreLeavesFlagsOut) {
  config::set("dynamo.verbose", true);
  config::set("dynamo.repro_level", 3);
  EXPECT_THAT(config::save(), Not(HasSubstr("repro_level")));
  config::set("dynamo._save_config_ignore", std::vector<std::string>{"verbose", "no_such_flag"});
  EXPECT_THAT(config::save(), HasSubstr("repro_level"));
  EXPECT_THAT(config::save(), Not(HasSubstr("verbose = ")));
  EXPECT_THAT(config::save_portable(), Not(HasSubstr("_save_config_ignore")));
}

}  // namespace
}  // namespace tenon
