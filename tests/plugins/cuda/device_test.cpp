// Devices, streams and events.
#include "double.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(CudaDevice, IsCountedAndDescribed) {
  TENON_NEEDS_THE_DOUBLE();
  EXPECT_EQ(device_count(DeviceType::cuda), 2);
  EXPECT_EQ(why_no_device(DeviceType::cuda), "");
  DeviceProperties p = device_properties(second_gpu);
  EXPECT_EQ(p.name, "double of a GPU, number 1");
  EXPECT_EQ(p.arch, "simt");
  EXPECT_GT(p.total_bytes, 0);
}

TEST(CudaDevice, OfAnIndexThatThereIsNotIsNamed) {
  TENON_NEEDS_THE_DOUBLE();
  Tensor x = ones({2});
  try {
    moved(Device(DeviceType::cuda, 7), x);
    FAIL() << "an error was expected";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no device cuda:7; this machine has 2"));
  }
}

TEST(CudaDevice, EachThreadHasItsOwnCurrentStream) {
  TENON_NEEDS_TWO_GPUS();
  Stream mine(gpu);
  StreamGuard on(mine);
  EXPECT_EQ(Stream::current(gpu), mine);
  EXPECT_FALSE(Stream::current(second_gpu) == mine);
  std::thread([&] { EXPECT_FALSE(Stream::current(gpu) == mine); }).join();
}

TEST(CudaDevice, AGuardGivesTheFormerStreamBack) {
  Stream before = Stream::current(gpu), a(gpu), b(gpu);
  {
    StreamGuard outer(a);
    { StreamGuard inner(b); }
    EXPECT_EQ(Stream::current(gpu), a);
  }
  EXPECT_EQ(Stream::current(gpu), before);
}

TEST(CudaDevice, AStreamOfTheProgramIsUsedAsItIs) {
  Stream own(gpu);
  Stream wrapped = Stream::wrap(gpu, own.native());
  EXPECT_EQ(wrapped.native(), own.native());
  StreamGuard on(wrapped);
  Tensor x = moved(gpu, arange(4));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(CudaDevice, AnEventIsDoneAfterTheWorkBeforeIt) {
  Stream stream(gpu);
  Event begin(gpu, /*timing=*/true), end(gpu, /*timing=*/true);
  begin.record(stream);
  StreamGuard on(stream);
  Tensor x = moved(gpu, ones({100}));
  Tensor y = x.clone();
  end.record(stream);
  end.synchronize();
  EXPECT_TRUE(end.is_done());
  EXPECT_GT(begin.elapsed_ms(end), 0);
}

TEST(CudaDevice, AStreamWaitsForAnEventOfAnother) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    seed_streams(seed);
    Stream first(gpu), second(gpu);
    Tensor x, y;
    Event ready(gpu);
    {
      StreamGuard on(first);
      x = moved(gpu, full({64}, 3.0));
      ready.record(first);
    }
    StreamGuard on(second);
    second.wait(ready);
    y = x.clone();
    record_stream(x, second);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(64, 3.0f)) << "seed " << seed;
  }
}

TEST(CudaDevice, NothingIsLeftOfStreamsAndEvents) {
  TENON_NEEDS_THE_DOUBLE();
  Stream::current(gpu).synchronize();
  {
    Stream a(gpu), b(gpu);
    Event e(gpu), f(gpu);
  }
  FakeCudaCounts before = counts();
  for (int i = 0; i < 100; ++i) {
    Stream a(gpu);
    Event e(gpu), timed(gpu, true);
    e.record(a);
  }
  FakeCudaCounts after = counts();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
}

}  // namespace
}  // namespace tenon
