// Each name that logging.logs takes, with a program that makes it write, and what it then writes.
#include <tenon/compiled_autograd.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// ---- programs

Options on(std::string backend) {
  Options options;
  options.backend = std::move(backend);
  options.name = "step";
  return options;
}

void infer() {
  auto f = compile([](const Tensor& x) { return softmax(x * 2.0, -1) + 1.0; }, on("inductor"));
  f(ones({4, 8}));
}
void train() {
  auto f = compile([](const Tensor& x) { return (x.sin() * x).sum(); }, on("inductor"));
  f(rand({8}).requires_grad_()).backward();
}
// Of other sizes each time: the process remembers the best way.
void multiply() {
  static int64_t size = 64;
  size += 16;
  Options options = on("inductor");
  options.mode = "max-autotune";
  auto f = compile([](const Tensor& x, const Tensor& w) { return x.matmul(w); }, options);
  f(rand({size, size}), rand({size, size}));
}
void recompile() {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x + y; }, on("eager"));
  f(ones({2}), ones({2}));
  f(ones({2}, Dtype::f64), ones({2}, Dtype::f64));
}
void grow() {
  auto f = compile([](const Tensor& x) { return x.size(0) > 2 ? x * 2.0 : x; }, on("eager"));
  for (int64_t n : {3, 4, 5}) f(ones({n}));
}
void look_at_data() {
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x + 1.0 : x - 1.0; },
                   on("eager"));
  f(ones({2}));
}
void write() {
  auto f = compile([](Tensor x) { return x.add_(1.0); }, on("eager"));
  f(ones({2}));
}
void leave_to_host() {
  auto f = compile([](const Tensor& x) { return x.digamma().cumsum(0).median(); }, on("inductor"));
  f(rand({16}));
  auto g = compile([](const Tensor& x) { return linalg_eigvals(x).abs() + 1.0; }, on("inductor"));
  g(rand({3, 3}));
}
// With another tape each time: programs of tapes are kept.
void backward_pass() {
  static int n_sines = 0;
  ++n_sines;
  auto enabled = compiled_autograd::enable("aot_eager");
  Tensor x = rand({3}).requires_grad_(), y = x;
  for (int i = 0; i < n_sines; ++i) y = y.sin();
  (y * 2.0).sum().backward();
}
void backward_on_the_engine() {
  auto enabled = compiled_autograd::enable("aot_eager");
  Tensor x = rand({3}).requires_grad_();
  static_cast<void>(autograd::grad(std::vector<Tensor>{(x * x * x).sum()}, std::vector<Tensor>{x},
                                   {.create_graph = true}));
}
void bypass_the_cache() {
  auto patch = config::patch({{"compiler.force_disable_caches", false}});
  auto f = compile([](const Tensor& x) { return x.relu() * 5.0; }, on("aot_eager"));
  f(ones({5}));
}
void load_a_plugin() {
  auto f = compile([](const Tensor& x) { return x.relu(); }, on("debug_nop"));
  f(ones({5}));
}
void compile_twice() {
  auto patch = config::patch({{"compiler.force_disable_caches", false}});
  for (int i = 0; i < 2; ++i) {
    auto f = compile([](const Tensor& x) { return x.relu() * 3.0; }, on("inductor"));
    f(ones({5}));
  }
}

// ---- the table

struct Row {
  std::string_view name;
  std::function<void()> program;
  std::string_view shows;
};

const Row artifacts[] = {
    {"aot_graphs", train, "aten.sin.default"},
    {"aot_joint_graph", train, "tangents_1"},
    {"autotuning", multiply, " of "},
    {"benchmarking", multiply, "us, the median of"},
    {"caching", compile_twice, "hit"},
    {"compiled_autograd", backward_pass, "graph @backward"},
    {"compiled_autograd_verbose", backward_pass, "SinBackward"},
    {"fusion", infer, "->"},
    {"graph", infer, "OPERATION"},
    {"graph_breaks", look_at_data, "item() at"},
    {"graph_code", infer, "tng 1"},
    {"graph_sizes", infer, "[4, 8]"},
    {"guards", infer, "sizes [4, 8]"},
    {"inductor_metrics", infer, "\"kernels\": "},
    {"ir_post_fusion", infer, "kernel"},
    {"ir_pre_fusion", infer, "loop v"},
    {"kernel_code", infer, "ret"},
    {"loop_ordering", infer, "outer ["},
    {"metrics", infer, "\"outcome\":\"compiled\""},
    {"output_code", infer, "0 kernel"},
    {"perf_hints", leave_to_host, "host"},
    {"post_grad_graphs", infer, "inductor"},
    {"pre_grad_graphs", infer, "aten.softmax.int"},
    {"recompiles", recompile, "tensor argument 0: dtype expected f32, found f64"},
    {"recompiles_verbose", recompile, "tensor argument 1: dtype expected f32, found f64"},
    {"schedule", infer, "0 kernel"},
    {"side_effects", write, "writes tensor argument 0"},
    {"trace_call", infer, "aten.softmax.int(%"},
    {"trace_shape_events", grow, "symbol s"},
    {"trace_source", infer, "log_names"},
    {"verbose_guards", grow, "log_names"},
};

// Whatever these programs do, these names have lines of their own tests, or none but for faults.
const std::vector<std::string> tested_elsewhere = {
    "cudagraph_static_inputs", "cudagraphs",  // recordings of a GPU: cudagraphs_tests
    "summary",                                // written when the process ends: Observing.*Summary*
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LogNames : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tenon_log_names_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    config::set("compiler.force_disable_caches", true);
  }
  void TearDown() override {
    config::unset("logging.out");
    config::unset("compiler.force_disable_caches");
    fs::remove_all(folder_);
  }

  /// What the program writes to the log under that name.
  std::string log_of(std::string_view names, const std::function<void()>& program) {
    fs::path path = folder_ / ("log_" + std::to_string(n_logs_++));
    config::set("logging.out", path.string());
    reset();
    {
      LogScope scope(names);
      program();
    }
    std::string out;
    for (const std::string& line : lines_of(path)) out += line + "\n";
    return out;
  }

  fs::path folder_;
  inline static int n_logs_ = 0;  // an open file keeps its name taken
};

TEST_F(LogNames, EachArtifactIsWrittenByAProgram) {
  for (const Row& row : artifacts) {
    std::string log = log_of(row.name, row.program);
    EXPECT_THAT(log, testing::HasSubstr("info: [" + std::string(row.name) + "]")) << row.name;
    EXPECT_THAT(log, testing::HasSubstr(std::string(row.shows))) << row.name;
  }
}

TEST_F(LogNames, AnArtifactThatNobodyAsksForIsNotWritten) {
  for (const Row& row : artifacts) {
    std::string log = log_of("-config", row.program);
    EXPECT_EQ(log.find("[" + std::string(row.name) + "]"), std::string::npos) << row.name;
  }
}

// ---- components

void warn_of_a_flag() { auto patch = config::patch({{"dynamo.skip_fsdp_hooks", true}}); }
void fix_a_size() {
  auto patch = config::patch({{"shapes.print_specializations", true}});
  auto f = compile([](const Tensor& x) { return x.size(0) == 3 ? x * 2.0 : x; },
                   {.backend = "eager", .dynamic = true});
  f(ones({3}));
}
void show_cut() {
  auto patch = config::patch({{"functorch.debug_partitioner", true}});
  train();
}
void measure_kernels() {
  auto patch = config::patch({{"inductor.profile", true}});
  infer();
}
void reach_limit() {
  auto patch = config::patch({{"dynamo.recompile_limit", 1}});
  recompile();
}

const Row components[] = {
    {"+cache", bypass_the_cache, "[cache]"},
    {"+compiled_autograd", backward_on_the_engine, "[compiled_autograd]"},
    {"+config", warn_of_a_flag, "[config]"},
    {"+dynamic", fix_a_size, "[dynamic]"},
    {"+dynamo", recompile, "[guards]"},
    {"+guards", recompile, "[guards]"},
    {"+inductor", measure_kernels, "[plugin."},
    {"+partition", show_cut, "[partition]"},
    {"+plugins", measure_kernels, "[plugin."},
    {"+runtime", reach_limit, "[runtime]"},
    {"+backend", load_a_plugin, "[backend]"},
};

TEST_F(LogNames, EachComponentWritesItsLines) {
  for (const Row& row : components)
    EXPECT_THAT(log_of(row.name, row.program), testing::HasSubstr(std::string(row.shows)))
        << row.name;
}

// aot, capture, ops, report: their lines tell of faults, which tests of these rooms make.
TEST_F(LogNames, TheTablesHaveEveryName) {
  std::vector<std::string> known = {"all", "help", "aot", "capture", "ops", "report"};
  known.insert(known.end(), tested_elsewhere.begin(), tested_elsewhere.end());
  for (const Row& row : artifacts) known.emplace_back(row.name);
  for (const Row& row : components) known.emplace_back(row.name.substr(1));
  std::ranges::sort(known);
  auto repeated = std::ranges::unique(known);
  known.erase(repeated.begin(), repeated.end());
  EXPECT_EQ(known, log_names());
}

TEST_F(LogNames, AComponentAtLevelDebugAsksForItsArtifacts) {
  std::string log = log_of("+dynamo", recompile);
  for (const char* name : {"graph", "graph_code", "graph_sizes", "guards", "recompiles",
                           "side_effects", "trace_call", "trace_source"})
    EXPECT_THAT(log, testing::HasSubstr("info: [" + std::string(name) + "]"));
  EXPECT_EQ(log.find("[recompiles_verbose]"), std::string::npos);
  EXPECT_EQ(log_of("dynamo", recompile).find("[graph]"), std::string::npos);
}

TEST_F(LogNames, TheStackDepthSaysHowManyFramesAnOperationHas) {
  auto frames = [&](int64_t depth) {
    auto patch = config::patch({{"capture.stack_depth", depth}});
    std::string log = log_of("trace_source", infer);
    return std::count(log.begin(), log.end(), '#');
  };
  int64_t one = frames(1);
  EXPECT_GT(one, 0);
  EXPECT_EQ(frames(3), 3 * one);
  EXPECT_EQ(frames(0), 0);
}

TEST_F(LogNames, HelpListsThem) {
  std::string log = log_of("help", [] { recompile(); });
  EXPECT_THAT(log, testing::HasSubstr("graph_breaks: where a body looks at data"));
  EXPECT_THAT(log, testing::HasSubstr("inductor: the backend inductor"));
}

TEST_F(LogNames, ANameOfPyTorchsWithoutLinesIsRefusedWithTheNearest) {
  auto message_of = [](std::string_view names) -> std::string {
    try {
      set_logs(names);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of("bytecode"),
              testing::HasSubstr("bytecode is a name of PyTorch's that has no lines here: C++ has "
                                 "no bytecode; the nearest is graph_code"));
  EXPECT_THAT(message_of("graphs"), testing::HasSubstr("did you mean graph"));
}

// TENON_LOGS and files are only warned about: a program goes on.
TEST_F(LogNames, OneInAFlagIsAWarning) {
  std::string log = log_of("-config", [] {
    auto patch = config::patch({{"logging.logs", std::vector<std::string>{"ddp_graphs"}}});
    recompile();
  });
  EXPECT_THAT(log, testing::HasSubstr("[report] logging.logs: ddp_graphs is a name of PyTorch's"));
}

}  // namespace
}  // namespace tenon
