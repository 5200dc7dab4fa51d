// Tests of what happens once in a process, such as the first call that loads a plugin.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tenon {

/// Runs `body` in a new process that has run nothing but this test up to here. Once a test.
template <class Body>
void in_own_process(Body&& body) {
  auto run = [&] {
    std::forward<Body>(body)();
    const testing::TestResult& told =
        *testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int i = 0; i < told.total_part_count(); ++i)
      std::fprintf(stderr, "line %d: %s\n", told.GetTestPartResult(i).line_number(),
                   told.GetTestPartResult(i).summary());
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // executes the program anew instead of forking
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace tenon
