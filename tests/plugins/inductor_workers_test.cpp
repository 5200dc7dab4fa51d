// How work is cut for threads, in a host of eight threads that only counts.
#include <gtest/gtest.h>

#include <inductor/workers.h>

#include <vector>

namespace inductor {
namespace {

int64_t chunks_asked = 0;

int32_t eight() { return 8; }

tn_status* one_after_the_other(int64_t n, tn_status* (*body)(void*, int64_t, int32_t), void* user) {
  chunks_asked = n;
  for (int64_t c = 0; c < n; ++c) body(user, c, 0);
  return nullptr;
}

class InductorWorkers : public testing::Test {
 protected:
  void SetUp() override {
    before_ = tenon::plugin::host;
    services_.num_threads = eight;
    services_.parallel_chunks = one_after_the_other;
    host_.svc = &services_;
    tenon::plugin::host = &host_;
    chunks_asked = 0;
  }
  void TearDown() override { tenon::plugin::host = before_; }

  static std::vector<int> visits(const Workers& workers, int64_t n) {
    std::vector<int> out(size_t(n), 0);
    workers.run(n, [&](int64_t i) { ++out[size_t(i)]; });
    return out;
  }

 private:
  tn_svc_api services_{};
  tn_host host_{};
  const tn_host* before_ = nullptr;
};

TEST_F(InductorWorkers, AllThreadsMayWorkUnlessTheyAreLimited) {
  EXPECT_EQ(Workers{}.threads(), 8);
  EXPECT_EQ(Workers{3}.threads(), 3);
  EXPECT_EQ(Workers{100}.threads(), 8);
}

TEST_F(InductorWorkers, NoMoreChunksRunAtOnceThanThreadsAreAllowed) {
  EXPECT_EQ(visits(Workers{3}, 100), std::vector<int>(100, 1));
  EXPECT_EQ(chunks_asked, 3);
  EXPECT_EQ(visits(Workers{}, 100), std::vector<int>(100, 1));
  EXPECT_EQ(chunks_asked, 100);
}

TEST_F(InductorWorkers, FixedCutsDoNotDependOnThreads) {
  EXPECT_EQ((Workers{3, true}.slices()), (Workers{0, true}.slices()));
  EXPECT_NE((Workers{3, false}.slices()), (Workers{0, false}.slices()));
}

}  // namespace
}  // namespace inductor
