// Programs without memory and without threads: they end with an error, or go on with less. They do
// not crash, hang or compute something else.
#include "backend/life/load.h"
#include "core/threads/thread_pool.h"
#include "formats/json.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tenon {
namespace {

namespace fs = std::filesystem;

const char* own_path = nullptr;

constexpr int no_memory = 77;  // the status of a child of this program

class Injected : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "tenon-inject-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    // Names in that folder, where the lines below run: other paths may have spaces.
    fs::create_symlink(TENON_PROGRAM, folder_ + "/tenon");
    fs::create_symlink(TENON_FAIL_CALLS, folder_ + "/fail_calls.so");
    fs::create_symlink(own_path, folder_ + "/own");
    std::ofstream(folder_ + "/x.tng") << "tng 1\ngraph @f {\n  input %x: f32[4, 4]\n"
                                         "  %y: f32[4, 4] = aten.mm.default(%x, %x)\n"
                                         "  %e: f32[4, 4] = aten.exp.default(%x)\n"
                                         "  %z: f32[4, 4] = aten.sub.Tensor(%y, %e)\n"
                                         "  output %z\n}\n";
    // Of the host's own kernels: libraries behind others may end the process for want of memory.
    // Many nodes, so that each step of a compilation and of a call takes a share of the failures.
    std::ofstream points(folder_ + "/points.tng");
    points << "tng 1\ngraph @f {\n  input %x: f32[4, 4]\n  %v0: f32[4, 4] = aten.exp.default(%x)\n";
    for (int i = 1; i <= n_points; ++i)
      points << "  %v" << i << ": f32[4, 4] = aten.sub.Tensor(%x, %v" << i - 1 << ")\n";
    points << "  output %v" << n_points << "\n}\n";
    std::ofstream(folder_ + "/dynamo.toml") << "dynamo.verbose = true\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// How a shell in the folder ends the line: 128 + signal, or a status.
  int shell(const std::string& line) const {
    int status = std::system(
        ("cd '" + folder_ + "' && export TENON_CACHE_DIR=\"$PWD/cache\" && " + line).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// The same, of the line with `settings` in its environment.
  int run(const std::string& settings, const std::string& line) const {
    return shell("timeout -k 1 20 env " + settings + " LD_PRELOAD=./fail_calls.so " + line +
                 " > out.txt 2> err.txt");
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }
  /// Shape and least element with few digits: where a plugin of kernels found no memory, those of
  /// the host run, which round otherwise.
  std::string rough_results() const { return text_of("out.txt").substr(0, 28); }
  /// Fails the allocations of a line one by one, or from one on, at some 60 points; then at as many
  /// before the last point that made an error, since most allocations are those of the start, and
  /// compilation and call come last.
  void fail_allocations(const std::string& how, const std::string& line) {
    ASSERT_EQ(run("COUNT_ALLOCATIONS=count", line), 0) << text_of("err.txt");
    expected_ = rough_results();
    long n = std::stol(text_of("count")), last = 0;
    for (long at = 1 + n / 120; at <= n; at += n / 60)
      if (is_error_at(how, at, line)) last = at;
    for (long at = last - n / 20; at <= last; at += n / 1200) is_error_at(how, at, line);
  }
  /// Whether the line ends with an error, as it may.
  bool is_error_at(const std::string& how, long at, const std::string& line) {
    int status = run(how + "=" + std::to_string(at), line);
    std::string told = text_of("err.txt");
    EXPECT_TRUE(status == 0 || (status >= 3 && status <= 5))
        << how << " " << at << ": " << status << "\n"
        << told;
    if (status == 0) {
      EXPECT_EQ(rough_results(), expected_) << how << " " << at;
    }
    EXPECT_EQ(told.find("what it takes to see this again"), told.npos) << told;
    return status != 0;
  }

  /// Fails each allocation of a line: how many of them it cannot do without.
  long failures_of(const std::string& line) {
    EXPECT_EQ(run("COUNT_ALLOCATIONS=count", line), 0) << text_of("err.txt");
    long n = std::stol(text_of("count")), failed = 0;
    for (long at = 1; at <= n; ++at) {
      int status = run("FAIL_ALLOCATION=" + std::to_string(at), line);
      EXPECT_TRUE(status == 0 || status == no_memory) << at << ": " << status;
      failed += status == no_memory;
    }
    return failed;
  }

  static constexpr int n_points = 41;
  std::string folder_, expected_;
};

// In a child, since the policy cannot be taken back.
bool policy_exists() {
  return std::system(("'" + std::string(own_path) + "' --without-code /bin/true").c_str()) == 0;
}

const std::string eager = "./tenon run points.tng --backend eager --config dynamo.toml";

TEST_F(Injected, OneAllocationThatFailsIsAnErrorOrNothing) {
  fail_allocations("FAIL_ALLOCATION", eager);
}

TEST_F(Injected, NoMemoryAtAllIsAnError) { fail_allocations("FAIL_ALLOCATIONS", eager); }

TEST_F(Injected, ValuesOfFlagsAreCopiedOrNot) {
  // Four kinds of copies of three values at least.
  EXPECT_GE(failures_of("./own --copy-values"), 12);
}

TEST_F(Injected, WhereTheLibraryLiesIsKnownOrNot) {
  EXPECT_GE(failures_of("./own --plugin-folder"), 2);
}

TEST_F(Injected, WithoutThreadsOneDoesTheWork) {
  EXPECT_EQ(run("FAIL_THREADS=1", "./own --without-threads"), 0) << text_of("err.txt");
  EXPECT_NE(text_of("err.txt").find("the system gives no more threads: kernels run on 1 of 4"),
            std::string::npos)
      << text_of("err.txt");
}

// Linear layers run by the host's own kernels where the system lets nobody make code.
TEST_F(Injected, WithoutCodeTheHostsKernelsRun) {
  if (!policy_exists()) GTEST_SKIP() << "the kernel is older than 6.3";
  std::string without = "./own --without-code ./tenon run x.tng";
  ASSERT_EQ(run("", "./tenon run x.tng --backend eager"), 0) << text_of("err.txt");
  std::string expected = rough_results();
  EXPECT_EQ(run("", without), 0) << text_of("err.txt");
  std::string told = text_of("err.txt");
  size_t at = told.find("the default backend inductor cannot be used: the system does not let");
  EXPECT_NE(at, told.npos) << told;
  EXPECT_EQ(told.find("the default backend", at + 1), told.npos) << told;
  EXPECT_EQ(run("", without + " --backend eager"), 0) << text_of("err.txt");
  EXPECT_EQ(text_of("err.txt"), "");
  EXPECT_EQ(rough_results(), expected);
  EXPECT_EQ(run("", without + " --backend aot_eager"), 0) << text_of("err.txt");
  EXPECT_EQ(run("", without + " --backend inductor"), 0) << text_of("err.txt");
  EXPECT_EQ(rough_results(), expected);
}

// An interrupted program takes its children and its folders with it.
TEST_F(Injected, AnInterruptedPluginCheckLeavesNothingBehind) {
  std::string line =
      "TMPDIR=\"$PWD/tmp\" ./tenon plugin check print.so > out.txt 2>&1 & "
      "parent=$!; for i in $(seq 100); do "
      "child=$(cat /proc/$parent/task/$parent/children); "
      "test -n \"$child\" && break; sleep 0.05; done; "
      "kill -INT $parent; wait $parent; test $? = 130 || exit 1; "
      "test -n \"$child\" || exit 2; for i in $(seq 100); do "
      "grep -qs \"State:.[^ZX]\" /proc/$child/status || exit 0; sleep 0.05; done; "
      "exit 3";
  fs::create_directory(folder_ + "/tmp");
  fs::path plugins = fs::path(TENON_PROGRAM).parent_path() / "../lib/tenon/plugins";
  fs::create_symlink(plugins / "tenon_print.so", folder_ + "/print.so");
  EXPECT_EQ(shell("bash -c 'trap : INT; " + line + "'"), 0) << text_of("out.txt");
  EXPECT_TRUE(fs::is_empty(folder_ + "/tmp"));
}

constexpr int set_policy = 65;  // PR_SET_MDWE, which older headers lack

// What a test above runs: a program that may not execute what it wrote.
int run_without_code(char** line) {
  if (::prctl(set_policy, 1UL, 0UL, 0UL, 0UL) != 0) return 99;
  ::execv(line[0], line);
  return 98;
}

// What the test of values runs: each kind of copy, of texts that need memory.
template <class Value>
bool copies_of(const Value& value) {
  Value made(value), given;
  given = value;
  Value over(value);
  over = value;
  std::vector<Value> many(2, value);
  size_t kind = value.index();
  return made.index() == kind && given.index() == kind && over.index() == kind &&
         many[1].index() == kind;
}
int copy_values() {
  try {
    const std::string text(100, 'x');
    bool right = copies_of(config::Value(text)) &&
                 copies_of(config::Value(std::vector<std::string>{text, text})) &&
                 copies_of(formats::Json(formats::Json::Array{text}).value());
    return right ? 0 : 1;
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

// What the test of folders runs: the call after one that failed has memory.
int find_plugin_folder() {
  try {
    return plugin_install_dir().empty() ? 1 : 0;
  } catch (const std::bad_alloc&) {
    return plugin_install_dir().empty() ? 2 : no_memory;
  }
}

// What the test of threads runs.
int work_without_threads() {
  set_num_threads(4);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 3; ++i)
    parallel_chunks(
        1000, [&](int64_t chunk, int) { sum += chunk; }, 1e6);
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  bool open = sigisemptyset(&blocked) != 0;
  Tensor product = ones({300, 300}).matmul(ones({300, 300}));
  bool right = sum == 3 * 499500 && product.to_vector<float>()[7] == 300.0f;
  std::fprintf(stderr, "signals open: %d, right: %d, threads: %d\n", open, right, num_threads());
  return open && right && num_threads() == 1 ? 0 : 1;
}

}  // namespace
}  // namespace tenon

int main(int n, char** arguments) {
  if (n > 2 && std::string(arguments[1]) == "--without-code")
    return tenon::run_without_code(arguments + 2);
  if (n > 1 && std::string(arguments[1]) == "--copy-values") return tenon::copy_values();
  if (n > 1 && std::string(arguments[1]) == "--plugin-folder") return tenon::find_plugin_folder();
  if (n > 1 && std::string(arguments[1]) == "--without-threads")
    return tenon::work_without_threads();
  testing::InitGoogleTest(&n, arguments);
  std::string own = std::filesystem::canonical("/proc/self/exe");
  tenon::own_path = own.c_str();
  return RUN_ALL_TESTS();
}
