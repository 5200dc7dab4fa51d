// How work is cut for threads, in a host of eight threads that only counts.
#include "plugins/plain_host.h"

#include <inductor_runtime/workers.h>

#include <vector>

namespace inductor {
namespace {

class InductorWorkers : public PlainHost<8> {
 protected:
  static std::vector<int> visits(const Workers& workers, int64_t n) {
    std::vector<int> out(size_t(n), 0);
    workers.run(n, [&](int64_t i) { ++out[size_t(i)]; });
    return out;
  }
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
