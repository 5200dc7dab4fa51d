// The data loader: order, batches, threads that read ahead, and what they throw.
#include "unit/nn/nn_test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <tenon/data.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <latch>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace tenon {
namespace {

using data::DataLoader;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

struct Sample {
  Tensor x;
  std::vector<Tensor> labels;
};

// Samples that know their number and seed; late ones come sooner.
struct Numbers {
  int64_t count = 10, broken = -1;
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  int64_t size() const { return count; }
  Sample get(int64_t i, uint64_t seed) const {
    ++*made;
    if (i == broken) throw std::runtime_error("sample " + std::to_string(i) + " is broken");
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (count - i)));
    return {full({2}, i), {full({}, static_cast<int64_t>(seed % 1000))}};
  }
};

template <class Loader>
std::vector<int64_t> seen_by(Loader& loader) {
  std::vector<int64_t> out;
  for (auto& batch : loader)
    for (int64_t v : batch.x.select(1, 0).template to_vector<int64_t>()) out.push_back(v);
  return out;
}

template <class Loader>
std::vector<int64_t> seeds_of(Loader& loader) {
  std::vector<int64_t> out;
  for (auto& batch : loader)
    for (int64_t v : batch.labels[0].template to_vector<int64_t>()) out.push_back(v);
  return out;
}

std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(DataLoaders, StackSamplesOfAStruct) {
  DataLoader loader(Numbers{}, {.batch_size = 4});
  EXPECT_EQ(loader.size(), 3);
  std::vector<std::string> shapes;
  for (auto& [x, labels] : loader) shapes.push_back(to_text(x) + to_text(labels[0]));
  EXPECT_THAT(shapes, ElementsAre("i64[4, 2]i64[4]", "i64[4, 2]i64[4]", "i64[2, 2]i64[2]"));
  EXPECT_EQ(seen_by(loader), counted(10));
}

TEST(DataLoaders, LeaveOutTheRestWhenTold) {
  DataLoader loader(Numbers{}, {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(seen_by(loader), counted(8));
}

TEST(DataLoaders, ShuffleByTheirSeedAndEpoch) {
  DataLoader a(Numbers{}, {.batch_size = 3, .shuffle = true, .seed = 1}),
      b = a, c(Numbers{}, {.batch_size = 3, .shuffle = true, .seed = 2});
  std::vector<int64_t> first = seen_by(a), second = seen_by(a);
  EXPECT_THAT(first, UnorderedElementsAreArray(counted(10)));
  EXPECT_NE(first, counted(10));
  EXPECT_NE(first, second);
  EXPECT_EQ(seen_by(b), first);
  EXPECT_NE(seen_by(c), first);
}

TEST(DataLoaders, WithoutASeedFollowTheGenerator) {
  DataLoader loader(Numbers{}, {.batch_size = 3, .shuffle = true});
  manual_seed(4);
  std::vector<int64_t> first = seen_by(loader), second = seen_by(loader);
  manual_seed(4);
  EXPECT_EQ(seen_by(loader), first);
  EXPECT_NE(second, first);
}

TEST(Workers, ChangeNeitherOrderNorSeeds) {
  auto loader = [](int workers) {
    return DataLoader(
        Numbers{.count = 40},
        {.batch_size = 3, .shuffle = true, .workers = workers, .prefetch = 1, .seed = 9});
  };
  auto alone = loader(0), one = loader(1), four = loader(4);
  std::vector<int64_t> order = seen_by(alone), seeds = seeds_of(alone);
  EXPECT_EQ(seen_by(one), order);
  EXPECT_EQ(seen_by(four), order);
  EXPECT_EQ(seeds_of(four), seeds);
  EXPECT_NE(seeds_of(four), seeds) << "another epoch";
}

TEST(Workers, StayAFewBatchesAhead) {
  Numbers numbers{.count = 100};
  DataLoader loader(numbers, {.batch_size = 1, .workers = 2, .prefetch = 3});
  {
    auto it = loader.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_LE(*numbers.made, 7) << "one batch was read, six may be ahead";
  }
  EXPECT_LE(*numbers.made, 7) << "leaving the loop ends the workers";
}

TEST(Workers, HandTheirExceptionsToTheLoop) {
  for (int workers : {0, 3}) {
    DataLoader loader(Numbers{.count = 20, .broken = 7}, {.batch_size = 2, .workers = workers});
    int batches = 0;
    EXPECT_EQ(message_of([&] {
                for (auto& batch : loader) batches += batch.x.defined();
              }),
              "sample 7 is broken");
    EXPECT_EQ(batches, 3) << workers;
  }
}

// From here on this process gets room for about three more stacks.
void leave_room_for_few_threads() {
  constexpr size_t stack = size_t{32} << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack);
  ::pthread_setattr_default_np(&attributes);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlim_t room = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + 4 * stack;
  rlimit limit{room, room};
  ::setrlimit(RLIMIT_AS, &limit);
}

bool gives_threads(int wanted) {
  std::latch ends(1);
  std::vector<std::jthread> threads;
  try {
    while (std::ssize(threads) < wanted) threads.emplace_back([&] { ends.wait(); });
  } catch (const std::system_error&) {
  }
  ends.count_down();
  return std::ssize(threads) == wanted;
}

TEST(Workers, AreAsManyAsTheSystemGives) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  auto in_child = [] {
    leave_room_for_few_threads();
    if (gives_threads(50)) return 2;
    DataLoader loader(Numbers{.count = 60}, {.workers = 50});
    return seen_by(loader) == counted(60) ? 0 : 1;
  };
  pid_t child = ::fork();
  if (child == 0) ::_exit(in_child());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(TensorDatasets, GiveRowsOfAllTensors) {
  data::TensorDataset rows(arange(6).reshape({3, 2}), arange(3));
  auto [x, y] = rows.get(2);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{4, 5}));
  DataLoader loader(rows, {.batch_size = 2});
  for (auto& [bx, by] : loader) EXPECT_EQ(to_text(bx.select(1, 0).div(2)), to_text(by * 1.0));
  EXPECT_EQ(message_of([] { data::TensorDataset(ones({3}), ones({4})); }),
            "TensorDataset: expected tensors with 3 rows, found f32[4]");
}

TEST(RandomSplits, PartTheSamples) {
  Numbers numbers;
  auto [train, test] = data::random_split(numbers, {7, 3}, 1);
  EXPECT_EQ(train.size(), 7);
  DataLoader first(train, {.batch_size = 3}), second(test, {.batch_size = 3});
  std::vector<int64_t> all = seen_by(first), rest = seen_by(second);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_THAT(all, UnorderedElementsAreArray(counted(10)));
  EXPECT_NE(all, counted(10));
  auto again = data::random_split(numbers, {7, 3}, 1);
  EXPECT_EQ(again[0].indices(), train.indices());
}

TEST(RandomSplits, TakeFractionsAndWholeBatches) {
  data::TensorDataset rows(arange(11));
  auto [one, two, three] = data::random_split(rows, {0.5, 0.25, 0.25});
  EXPECT_THAT((std::vector{one.size(), two.size(), three.size()}), ElementsAre(6, 3, 2));
  DataLoader loader(one, {.batch_size = 6});
  EXPECT_EQ(std::get<0>(*loader.begin()).to_vector<int64_t>(), one.indices());
}

TEST(RandomSplits, RefuseLengthsThatDoNotFit) {
  EXPECT_EQ(message_of([] {
              data::random_split(Numbers{}, {7, 4});
            }),
            "random_split: expected lengths that add up to 10 samples, found [7, 4]");
  EXPECT_EQ(message_of([] {
              data::random_split(Numbers{}, {0.5, 0.25});
            }),
            "random_split: expected fractions that add up to 1, found a sum of 0.75");
}

TEST(DataLoaders, OfNothingHaveNoBatches) {
  DataLoader loader(Numbers{.count = 0}, {.batch_size = 2, .workers = 2});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(seen_by(loader).empty());
}

TEST(DataLoaders, RefuseOptionsThatMakeNoSense) {
  EXPECT_EQ(message_of([] { DataLoader(Numbers{}, {.batch_size = 0}); }),
            "DataLoader: expected batch_size of 1 or more, found 0");
  EXPECT_EQ(message_of([] { DataLoader(Numbers{}, {.workers = -1}); }),
            "DataLoader: expected workers of 0 or more and prefetch of 1 or more, found -1 and 2");
}

TEST(DataLoaders, RefuseSamplesOfDifferentStructure) {
  struct Ragged {
    int64_t size() const { return 2; }
    std::vector<Tensor> get(int64_t i) const {
      return std::vector<Tensor>(static_cast<size_t>(i + 1), ones({1}));
    }
  };
  DataLoader loader(Ragged{}, {.batch_size = 2});
  EXPECT_EQ(message_of([&] { loader.begin(); }),
            "DataLoader: samples of a batch have 1 and 2 tensors; expected one structure");
}

}  // namespace
}  // namespace tenon
