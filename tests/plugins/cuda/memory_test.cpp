// Tensors on a device: their memory, and copies of every kind.
#include "double.h"

#include "core/tensor/tensor_impl.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(CudaMemory, ATensorGoesThereAndComesBack) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::i64, Dtype::bool_, Dtype::u8}) {
    Tensor x = randint(0, 2, {3, 5}).to(dtype);
    Tensor there = moved(gpu, x);
    EXPECT_EQ(there.device(), gpu);
    EXPECT_TRUE(equal(to_cpu(there), x)) << to_text(there);
  }
}

TEST(CudaMemory, ViewsShareTheMemoryOfTheDevice) {
  Tensor x = moved(gpu, arange(12).reshape({3, 4}));
  Tensor column = x.t().select(0, 1);
  EXPECT_EQ(column.device(), gpu);
  EXPECT_TRUE(equal(to_cpu(column), tensor({1, 5, 9}).to(Dtype::i64)));
  column.copy_(moved(gpu, zeros({3}).to(Dtype::i64)));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 2, 3, 4, 0, 6, 7, 8, 0, 10, 11}));
}

TEST(CudaMemory, CopiesKeepStridesDtypesAndBroadcasts) {
  Tensor x = randn({4, 6});
  Tensor there = moved(gpu, x);
  EXPECT_TRUE(equal(to_cpu(there.t().contiguous()), x.t().contiguous()));
  EXPECT_TRUE(equal(to_cpu(there.to(Dtype::f64)), x.to(Dtype::f64)));
  Tensor rows = moved(gpu, zeros({4, 6}));
  rows.copy_(there.select(0, 2));
  EXPECT_TRUE(equal(to_cpu(rows), x.select(0, 2).expand({4, 6}).contiguous()));
  Tensor host = zeros({6, 4});
  host.copy_(there.t());
  EXPECT_TRUE(equal(host, x.t().contiguous()));
}

TEST(CudaMemory, LargeTensorsGoThroughTheStagingBuffers) {
  Tensor x = randn({3'000'001});  // 12 MB: two buffers of 4 MiB, and a rest
  Tensor there = moved(gpu, x);
  EXPECT_TRUE(equal(to_cpu(there), x));
}

TEST(CudaMemory, GoesFromOneDeviceToAnother) {
  TENON_NEEDS_TWO_GPUS();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    seed_streams(seed);
    Tensor x = randn({100});
    Tensor a = moved(gpu, x);
    Tensor b = moved(second_gpu, a);
    EXPECT_EQ(b.device(), second_gpu);
    EXPECT_TRUE(equal(to_cpu(b), x));
  }
}

TEST(CudaMemory, MakersWriteOnTheDevice) {
  Tensor z = zeros({2, 3}, Dtype::f32, std::nullopt, gpu);
  EXPECT_EQ(z.device(), gpu);
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(ones_like(z).device(), gpu);
  EXPECT_EQ(full_like(z, 2.0).to_vector<float>(), std::vector<float>(6, 2));
  EXPECT_EQ(arange(3, std::nullopt, std::nullopt, gpu).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 1, 2}));
}

TEST(CudaMemory, RandomNumbersAreThoseOfTheCpu) {
  manual_seed(7);
  Tensor here = rand({1000});
  manual_seed(7);
  Tensor there = rand({1000}, std::nullopt, std::nullopt, gpu);
  EXPECT_TRUE(equal(to_cpu(there), here));
}

TEST(CudaMemory, NumbersAreReadBack) {
  Tensor x = moved(gpu, tensor({2.5f}));
  EXPECT_EQ(static_cast<double>(x.item<float>()), 2.5);
  EXPECT_TRUE(static_cast<bool>(x));
  EXPECT_TRUE(equal(x, x.clone()));
}

TEST(CudaMemory, PinnedMemoryIsReadWhenTheCopyRuns) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    seed_streams(seed);
    Tensor x = randn({256});
    Tensor there = zeros({256}, Dtype::f32, std::nullopt, gpu);
    there.copy_(pin_memory(x));  // the pinned block goes back while the copy waits
    Tensor other = pin_memory(randn({256}));
    EXPECT_TRUE(is_pinned(other));
    EXPECT_TRUE(equal(to_cpu(there), x));
  }
}

TEST(CudaMemory, GoesBackBehindTheWorkOfOtherStreams) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seed_streams(seed);
    Stream side(gpu);
    Tensor x = moved(gpu, full({512}, 5.0)), y;
    Event ready(gpu);
    ready.record(Stream::current(gpu));
    {
      StreamGuard on(side);
      side.wait(ready);
      y = x.clone();
      record_stream(x, side);
    }
    x = Tensor();
    Tensor z = moved(gpu, zeros({512}));  // may take the same memory
    side.synchronize();
    StreamGuard on(side);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(512, 5.0f)) << "seed " << seed;
  }
}

TEST(CudaMemory, IsGivenBack) {
  TENON_NEEDS_THE_DOUBLE();
  synchronize(gpu);
  empty_cache(gpu);
  FakeCudaCounts before = counts();
  int64_t in_use = memory_stats(gpu).allocated_bytes;
  for (int i = 0; i < 1000; ++i) {
    Tensor x = moved(gpu, ones({100}));
    Tensor y = x.clone().t();
  }
  synchronize(gpu);
  EXPECT_EQ(memory_stats(gpu).allocated_bytes, in_use) << "what a stream keeps is free";
  empty_cache(gpu);
  EXPECT_EQ(counts().allocations, before.allocations);
  EXPECT_EQ(counts().bytes, before.bytes);
  EXPECT_GE(memory_stats(gpu).allocations, 2000);
}

Tensor floats_there(int64_t n) { return empty({n}, Dtype::f32, std::nullopt, gpu); }
const void* place_of(const Tensor& t) { return impl_of(t)->data; }

// A few pieces of small sizes wait for the stream's next allocations.
TEST(CudaMemory, OfSmallTensorsIsKeptForTheStream) {
  TENON_NEEDS_THE_DOUBLE();
  synchronize(gpu);
  empty_cache(gpu);
  { Tensor warm = moved(gpu, ones({100})).clone(); }
  uint64_t calls = counts().calls;
  const void* last = nullptr;
  for (int i = 0; i < 50; ++i) {
    Tensor x = floats_there(90 + i);
    if (i > 0 && i < 30) {
      EXPECT_EQ(place_of(x), last) << i << ": of one size, rounded up";
    }
    last = place_of(x);
  }
  EXPECT_LE(counts().calls - calls, 1u) << "another size";
  std::vector<Tensor> many;
  for (int i = 0; i < 3000; ++i) many.push_back(floats_there(8000));
  many.clear();
  { Tensor large = floats_there(1 << 20); }
  synchronize(gpu);
  FakeCudaCounts held = counts();
  empty_cache(gpu);
  EXPECT_LE(held.bytes - counts().bytes, uint64_t{2} << 20);
  Stream side(gpu);
  {
    StreamGuard on(side);
    last = place_of(floats_there(100));
  }
  EXPECT_NE(place_of(floats_there(100)), last) << "another stream's";
}

TEST(CudaMemory, ThatIsGoneIsAnErrorAndTheNextCallWorks) {
  TENON_NEEDS_THE_DOUBLE();
  Tensor x = ones({1 << 20});
  std::vector<Tensor> held;
  try {
    for (int i = 0; i < 10000; ++i) held.push_back(moved(gpu, x));
    FAIL() << "the device cannot hold that much";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("cuda:0 has no 4194304 bytes left"));
  }
  held.clear();
  EXPECT_TRUE(equal(to_cpu(moved(gpu, x)), x));
}

TEST(CudaMemory, IsPrintedAndSavedLikeAnyOther) {
  Tensor x = moved(gpu, tensor({1.0f, 2.0f}));
  EXPECT_THAT(to_text(x), HasSubstr("on cuda:0"));
  std::ostringstream out;
  out << x;
  EXPECT_THAT(out.str(), HasSubstr("2"));
}

TEST(CudaMemory, EmptyTensorsAndTensorsWithoutDimensionsAreTensorsToo) {
  EXPECT_EQ(to_cpu(moved(gpu, zeros({0, 3}))).size(1), 3);
  EXPECT_EQ(static_cast<double>(to_cpu(moved(gpu, full({}, 4.0))).item<float>()), 4.0);
}

}  // namespace
}  // namespace tenon
