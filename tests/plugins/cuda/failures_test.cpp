// Failures of the driver at every call, a device that is lost, and forks.
#include "backend/backend.h"
#include "device_work.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

using testing::HasSubstr;

double step(nn::Linear& layer, optim::SGD& opt, const Tensor& x) {
  opt.zero_grad();
  Tensor loss = layer(moved(gpu, x)).sum();
  loss.backward();
  opt.step();
  return static_cast<double>(loss.item<float>());
}

// The call that was made to fail is named. What gives back only logs, and where a device does not
// tell its properties nothing is compiled for it: the op runs on the CPU then.
void expect_told(const std::string& why, uint64_t nth) {
  static const std::set<std::string> quiet{"", "cuMemFreeAsync", "cuModuleUnload", "cuMemGetInfo",
                                           "cuDeviceGetAttribute"};
  std::string call = failed_call() ? failed_call() : "";
  if (why == "no error")
    EXPECT_TRUE(quiet.contains(call)) << "call " << nth << " " << call;
  else
    EXPECT_THAT(why, HasSubstr(call)) << "call " << nth;
}

TEST(CudaFailures, AFailureAtEachCallOfAStepIsNamedAndTheNextStepWorks) {
  TENON_NEEDS_THE_DOUBLE();
  WithFallback fallback;
  nn::Linear layer(4, 3);
  layer.to(gpu);
  optim::SGD opt(layer.parameters(), {.lr = 1e-3});
  Tensor x = randn({2, 4});
  step(layer, opt, x);
  uint64_t before = counts().calls;
  step(layer, opt, x);
  uint64_t calls = counts().calls - before;
  ASSERT_GT(calls, 15u);
  for (uint64_t nth = 1; nth <= calls; ++nth) {
    fail_at("*", nth, 999);
    expect_told(error_of([&] { step(layer, opt, x); }), nth);
    fail_at("*", 0, 0);
    step(layer, opt, x);
  }
  synchronize(gpu);
}

// Code is made anew in each step, so that loading it and asking for its kernels fail, too.
TEST(CudaFailures, AFailureAtEachCallOfAStepThatCompilesLeaksNothing) {
  TENON_NEEDS_THE_DOUBLE();
  WithFallback fallback;
  nn::Linear layer(4, 3);
  layer.to(gpu);
  optim::SGD opt(layer.parameters(), {.lr = 1e-3});
  Tensor x = randn({2, 4});
  auto cold_step = [&] {
    forget_single_ops();
    return step(layer, opt, x);
  };
  auto held = [] {
    forget_single_ops();
    synchronize(gpu);
    empty_cache(gpu);
    return counts();
  };
  cold_step();
  FakeCudaCounts before = held();
  cold_step();
  uint64_t calls = counts().calls - before.calls;
  for (uint64_t nth = 1; nth <= calls; ++nth) {
    fail_at("*", nth, 999);
    std::string why = error_of([&] { cold_step(); });
    std::string name = failed_call() ? failed_call() : "";
    expect_told(why, nth);
    fail_at("*", 0, 0);
    EXPECT_EQ(error_of([&] { cold_step(); }), "no error") << "after call " << nth;
    FakeCudaCounts after = held();
    EXPECT_LE(after.allocations, before.allocations + (name == "cuMemFreeAsync"))
        << "call " << nth << " " << name;
    EXPECT_EQ(after.modules, before.modules + (name == "cuModuleUnload"))
        << "call " << nth << " " << name;
    EXPECT_EQ(after.events, before.events) << "call " << nth << " " << name;
    before = after;
  }
}

TEST(CudaFailures, ALostDeviceIsReportedWithItsFirstCause) {
  TENON_NEEDS_THE_DOUBLE();
  Tensor x = moved(gpu, ones({4}));
  fail_at("cuMemcpyAsync", 1, 700);
  auto why = [&] {
    try {
      to_cpu(x);
      return std::string("no error");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_THAT(why(), HasSubstr("cuMemcpyAsync failed on cuda:0"));
  revive();
  std::string again = why();
  EXPECT_THAT(again, HasSubstr("the device cuda:0 is lost"));
  EXPECT_THAT(again, HasSubstr("First cause"));
  x = Tensor();  // is let go of without a word
}

TEST(CudaFailures, AForkedChildIsToldToUseExec) {
  Tensor x = moved(gpu, ones({4}));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    std::string why = "no error";
    try {
      to_cpu(x);
    } catch (const Error& e) {
      why = e.what();
    }
    ssize_t written = ::write(ends[1], why.data(), why.size());
    ::_exit(written > 0 ? 0 : 1);
  }
  ::close(ends[1]);
  char text[1024] = {};
  ssize_t n = ::read(ends[0], text, sizeof text - 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_GT(n, 0);
  EXPECT_THAT(text, HasSubstr("exec or spawn"));
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 1.0f));
}

}  // namespace
}  // namespace tenon
