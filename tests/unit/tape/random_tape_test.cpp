// Random tapes, run by the engine and compiled. TENON_RANDOM_TAPES sets how many,
// TENON_RANDOM_TAPES_FROM the first, TENON_RANDOM_TAPES_BACKEND what compiles them; the default
// takes a second.
#include "fuzz/harness/random_tape.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace tenon {
namespace {

namespace ca = compiled_autograd;

TEST(RandomTapes, AreCompiledAsTheEngineRunsThem) {
  const char* wanted = std::getenv("TENON_RANDOM_TAPES");
  uint64_t n = wanted ? std::strtoull(wanted, nullptr, 10) : 400;
  const char* from = std::getenv("TENON_RANDOM_TAPES_FROM");
  const char* backend = std::getenv("TENON_RANDOM_TAPES_BACKEND");
  uint64_t first = from ? std::strtoull(from, nullptr, 10) : 0;
  ca::reset();
  for (uint64_t seed = first; seed < first + n; ++seed) {
    std::string with = backend ? backend : seed % 4 == 0 ? "aot_eager" : "eager";
    fuzz::Choices choices(static_cast<uint32_t>(seed));
    ASSERT_EQ(fuzz::difference_in_tape(choices, with), "") << "seed " << seed;
  }
  ca::Stats stats = ca::stats();
  RecordProperty("captures", static_cast<int>(stats.captures));
  if (wanted)
    std::printf("%lld captures, %lld hits, %lld on the engine, %lld left\n",
                static_cast<long long>(stats.captures), static_cast<long long>(stats.hits),
                static_cast<long long>(stats.eager_passes),
                static_cast<long long>(stats.departures));
  EXPECT_GT(stats.hits, static_cast<int64_t>(n) / 2);
  EXPECT_LT(stats.eager_passes, static_cast<int64_t>(n));
  ca::reset();
}

}  // namespace
}  // namespace tenon
