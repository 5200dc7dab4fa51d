// Threads that round otherwise for a while, or flush denormal numbers to zero: all parts of a large
// result are computed as the thread of the call computes, and nothing of it stays.
#include "program.h"

#include <tenon/compiler.h>

#include <cfenv>
#include <stdexcept>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tenon::programs {
namespace {

constexpr int64_t many = 1 << 20;  // several threads compute them

class Rounding {
 public:
  explicit Rounding(int mode) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(FE_TONEAREST); }
  Rounding(const Rounding&) = delete;
};

constexpr int directions[] = {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD};

float third_of(float number, int direction) {
  Rounding scope(direction);
  volatile float numerator = number, denominator = 3;  // divided here and now
  volatile float quotient = numerator / denominator;
  return quotient;
}

// Where plain runs may be wrong as well, equal logs say little.
void expect_all(const Tensor& results, float expected) {
  for (float result : results.to_vector<float>())
    if (result != expected) throw std::runtime_error("parts of a result are computed otherwise");
}

TENON_PROGRAM(TheModeOfTheFirstCallIsNotThatOfLaterOnes, 1) {
  auto f = run.compile([](const Tensor& x) { return x / 3.0; });
  {
    Rounding up(FE_UPWARD);
    f(full({many}, 5.0));
  }
  for (int i = 0; i < 20; ++i) expect_all(f(full({many}, 5.0)), third_of(5, FE_TONEAREST));
}

TENON_PROGRAM(EachCallRoundsAsItsThreadDoesThen, 1) {
  auto f = run.compile([](const Tensor& x) { return x / 3.0; });
  for (int i = 0; i < 8; ++i)
    for (int direction : directions) {
      Tensor x = full({many}, 5.0), y;
      {
        Rounding scope(direction);
        y = f(x);
      }
      expect_all(y, third_of(5, direction));
    }
}

TENON_PROGRAM(ThreadsThatRoundDifferentlyCallAtOnce, 1) {
  auto f = run.compile([](const Tensor& x) { return x / 3.0; });
  in_threads(3, [&](int i) {
    for (int k = 0; k < 8; ++k) {
      Tensor x = full({many}, 5.0), y;
      {
        Rounding scope(directions[i]);
        y = f(x);
      }
      expect_all(y, third_of(5, directions[i]));
    }
  });
}

#if defined(__x86_64__)
TENON_PROGRAM(DenormalNumbersAreFlushedWhileTheThreadSaysSo, 1) {
  auto f = run.compile([](const Tensor& x) { return x * 0.5; });
  for (int i = 0; i < 8; ++i) {
    Tensor x = full({many}, 1.2e-38), y;
    const unsigned before = _mm_getcsr();
    if (i % 2 == 0) _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
    y = f(x);
    _mm_setcsr(before);
    expect_all(y, i % 2 == 0 ? 0 : 0.6e-38f);
  }
}
#endif

// Rounds in the middle of a body, where the operations run.
template <class Divide>
void round_in_bodies(Run& run, Divide divide) {
  auto f = run.compile([divide](const Tensor& x, int direction) {
    Tensor nearest = x / 3.0;
    Tensor other = divide(x, direction);
    return std::pair(nearest + 0.0, other + 0.0);
  });
  for (int i = 0; i < 3; ++i)
    for (int direction : directions) {
      auto [nearest, other] = f(full({4}, 5.0), direction);
      expect_all(nearest, third_of(5, FE_TONEAREST));
      expect_all(other, third_of(5, direction));
    }
}

TENON_PROGRAM(ADisabledFunctionRoundsOtherwise, 9) {
  round_in_bodies(run, tenon::disable([](const Tensor& x, int direction) {
                    Rounding scope(direction);
                    return x / 3.0;
                  }));
}

TENON_PROGRAM(APartThatIsNotCompiledRoundsOtherwise, 9) {
  round_in_bodies(run, [](const Tensor& x, int direction) {
    NoCompile as_it_is;
    Rounding scope(direction);
    return x / 3.0;
  });
}

}  // namespace
}  // namespace tenon::programs
