// Runs the programs: one test for each program and backend, in the suite of the program's file.
#include "program.h"

#include <tenon/compiled_autograd.h>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>
#include <thread>

namespace tenon::programs {

std::vector<Program>& all_programs() {
  static std::vector<Program> programs;
  return programs;
}

std::string Run::number_text(double number) {
  if (std::isnan(number)) return "nan";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.5g", number == 0 ? 0.0 : number);
  return digits;
}

std::string Run::text(const Tensor& t) {
  if (!t.defined()) return "undefined";
  if (t.is_fake()) return "a tensor without data";
  std::string out = to_text(t.dtype()) + to_text(t.sizes()) + ":";
  for (double v : t.detach().to(Dtype::f64).to_vector<double>()) out += " " + number_text(v);
  return out;
}

std::string Run::kind_of_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError&) {
    return "UserError";
  } catch (const BackendError&) {
    return "BackendError";
  } catch (const InternalError&) {
    return "InternalError";
  } catch (const std::exception& error) {
    return std::string("std::exception: ") + error.what();
  }
  return "none";
}

void Run::add_line(std::string line) {
  std::lock_guard lock(lines_lock_);
  lines_.push_back(std::move(line));
}

void Run::add(const CallStats& stats) {
  std::lock_guard lock(lines_lock_);
  stats_ += stats;
}

void set_simply(const std::vector<Tensor>& parameters, double scale) {
  NoGradGuard no_grad;
  int i = 0;
  for (const Tensor& p : parameters)
    p.copy_((arange(p.numel()) % 5 - 2).reshape(p.sizes()) * scale + 0.125 * i++);
}

Tensor halves(std::vector<int64_t> sizes, int i) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return ((arange(n) * (2 * i + 3)) % 7 - 3).reshape(IntList(sizes)).to(Dtype::f32) * 0.5;
}

void in_threads(int n, const std::function<void(int)>& f) {
  Device device = default_device();
  std::mutex error_lock;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      DefaultDevice there(device);
      try {
        f(i);
      } catch (...) {
        std::lock_guard lock(error_lock);
        error = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

namespace {

bool runs_on_gpu() { return std::getenv("TENON_PROGRAMS_ON_GPU") != nullptr; }

// Counts by hand take their time.
unsigned seconds_a_run() { return std::getenv("TENON_PROGRAM_TURNS") ? 3600 : 60; }
char running[256] = "";

// A program that hangs would take the others with it, without a word about which one it is.
void end_hanging_program(int) {
  ssize_t ignored = ::write(STDERR_FILENO, running, std::strlen(running));
  static_cast<void>(ignored);
  ::_exit(124);
}

void run_program(const Program& program, Run& run) {
  std::snprintf(running, sizeof running, "%s hangs, %s\n", program.name,
                run.is_plain() ? "plain" : run.backend().c_str());
  ::alarm(seconds_a_run());
  manual_seed(7);
  DefaultDevice there(runs_on_gpu() ? Device(DeviceType::cuda) : kCPU);
  // All backward passes of a compiled run are compiled, too: those inside of callables and others.
  bool compiles_passes = !run.is_plain() && std::getenv("TENON_PROGRAMS_COMPILE_PASSES");
  if (compiles_passes) compiled_autograd::enable_everywhere(run.backend());
  try {
    program.body(run);
  } catch (const std::exception& error) {
    run.log("ended by an error:", error.what());
    EXPECT_FALSE(run.is_plain()) << "the program itself is wrong: " << error.what();
  }
  compiled_autograd::disable_everywhere();
  ::alarm(0);
}

std::string line(const Run& run, size_t i) {
  return i < run.lines().size() ? run.lines()[i] : "the end";
}

void compare_runs(const Program& program, const std::string& backend) {
  Run plain(""), compiled(backend, program.in_one_graph);
  run_program(program, plain);
  run_program(program, compiled);
  for (size_t i = 0; i < std::max(plain.lines().size(), compiled.lines().size()); ++i)
    ASSERT_EQ(line(compiled, i), line(plain, i)) << "line " << i << " of the log";
  EXPECT_LE(compiled.stats().compiles, program.most_compiles);
}

// Those named in the environment, or those that take other ways from the graph to the code.
std::vector<std::string> backends() {
  const char* named = std::getenv("TENON_PROGRAMS_BACKENDS");
  std::istringstream names(named           ? named
                           : runs_on_gpu() ? "eager aot_eager inductor cudagraphs"
                                           : "eager aot_eager inductor");
  std::vector<std::string> installed = list_backends(std::vector<std::string>()), tested;
  for (std::string name; names >> name;)
    if (std::ranges::find(installed, name) != installed.end()) tested.push_back(name);
  return tested;
}

class ProgramTest : public testing::Test {
 public:
  ProgramTest(const Program& program, std::string backend)
      : program_(program), backend_(std::move(backend)) {}
  void TestBody() override { compare_runs(program_, backend_); }

 private:
  const Program& program_;
  std::string backend_;
};

/// Of a program that is known to fail on some backend.
class ExpectedFailure : public testing::Test {
 public:
  explicit ExpectedFailure(const Program& program) : program_(program) {}
  void TestBody() override {
    testing::TestPartResultArray failures;
    {
      testing::ScopedFakeTestPartResultReporter reporter(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      for (const std::string& backend : backends()) compare_runs(program_, backend);
    }
    EXPECT_GT(failures.size(), 0) << program_.name << " works by now: make it a TENON_PROGRAM";
  }

 private:
  const Program& program_;
};

void register_tests() {
  for (const Program& program : all_programs())
    if (program.is_expected_to_fail)
      testing::RegisterTest("expected_failures", program.name, nullptr, nullptr, program.file,
                            __LINE__,
                            [&]() -> testing::Test* { return new ExpectedFailure(program); });
  for (const std::string& backend : backends()) {
    for (const Program& program : all_programs()) {
      if (program.is_expected_to_fail) continue;
      std::string suite = std::filesystem::path(program.file).stem();
      std::string name = std::string(program.name) + "_" + backend;
      testing::RegisterTest(
          suite.c_str(), name.c_str(), nullptr, nullptr, program.file, __LINE__,
          [&program, backend]() -> testing::Test* { return new ProgramTest(program, backend); });
    }
  }
}

}  // namespace
}  // namespace tenon::programs

int main(int argc, char** argv) {
  if (std::string why = tenon::why_no_device(tenon::DeviceType::cuda);
      tenon::programs::runs_on_gpu() && !why.empty()) {
    std::printf("no GPU: %s\n", why.c_str());
    return 0;
  }
  ::signal(SIGALRM, tenon::programs::end_hanging_program);
  tenon::programs::register_tests();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
