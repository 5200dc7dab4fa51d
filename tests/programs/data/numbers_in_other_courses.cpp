// A number that has been seen to change is a symbol in each course of the body: one version a course.
#include "program.h"

namespace tenon::programs {
namespace {

double rate(int i) { return 0.125 * (1 + i % 7); }

// Each course is longer by a turn, and runs with three rates.
template <class F>
void run_courses(Run& run, const F& f) {
  for (int i = 0; i < 12; ++i) run.log(f(halves({3}, i), i, 1 + i / 3));
}

TENON_PROGRAM(ASymbolicRate, 5) {
  auto f = run.compile([](Tensor x, SymFloat by, int turns) {
    for (int k = 0; k < turns; ++k) x = x - by * x.abs();
    return x;
  });
  run_courses(run, [&](const Tensor& x, int i, int turns) { return f(x, rate(i), turns); });
}

TENON_PROGRAM(ASymbolicRateFromTheStart, 4) {
  auto f = run.compile(
      [](Tensor x, SymFloat by, int turns) {
        for (int k = 0; k < turns; ++k) x = x - by * x.abs();
        return x;
      },
      {.dynamic = true});
  run_courses(run, [&](const Tensor& x, int i, int turns) { return f(x, rate(i), turns); });
}

TENON_PROGRAM(APlainRate, 5) {
  auto f = run.compile([](Tensor x, double by, int turns) {
    for (int k = 0; k < turns; ++k) x = x - by * x.abs();
    return x;
  });
  run_courses(run, [&](const Tensor& x, int i, int turns) { return f(x, rate(i), turns); });
}

TENON_PROGRAM(AWholeNumber, 5) {
  auto f = run.compile([](Tensor x, SymInt times, int turns) {
    for (int k = 0; k < turns; ++k) x = (x * times).remainder(5);
    return x;
  });
  run_courses(run, [&](const Tensor& x, int i, int turns) { return f(x, 3 + i, turns); });
}

TENON_PROGRAM(ACapturedRate, 5) {
  double by = 0;
  auto f = run.compile([&](Tensor x, int turns) {
    for (int k = 0; k < turns; ++k) x = x - by * x.abs();
    return x;
  });
  run_courses(run, [&](const Tensor& x, int i, int turns) {
    by = rate(i);
    return f(x, turns);
  });
}

TENON_PROGRAM(WhatIsMadeOfARate, 5) {
  auto f = run.compile([](Tensor x, SymFloat by, int turns) {
    SymFloat half = by * 0.5;
    for (int k = 0; k < turns; ++k) x = x * half + (x - by).abs();
    return x;
  });
  run_courses(run, [&](const Tensor& x, int i, int turns) { return f(x, rate(i), turns); });
}

// The two courses have nothing in common that comes before the rate.
TENON_PROGRAM(ACourseOfItsOwn, 6) {
  auto f = run.compile(
      [](const Tensor& x, SymFloat by, bool other) { return other ? x.abs() * by + 1 : x * by; });
  auto g = run.compile(
      [](const Tensor& x, double by, bool other) { return other ? x.abs() * by + 1 : x * by; });
  for (int i = 0; i < 10; ++i) {
    run.log(f(halves({3}, i), rate(i), i >= 4));
    run.log(g(halves({3}, i), rate(i), i >= 4));
  }
}

// Only by chance is the second number of a course the one that changes.
TENON_PROGRAM(AConstantHasItsValueOnce, 5) {
  auto f = run.compile([](const Tensor& x, double by, bool more) {
    Tensor y = x * by;
    return more ? y + x * 0.375 : y;
  });
  for (int i = 0; i < 10; ++i) run.log(f(halves({3}, i), rate(i), i >= 2));
}

}  // namespace
}  // namespace tenon::programs
