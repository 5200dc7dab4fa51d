// Backward passes over random tapes, by the engine and compiled. An input "tapes FIRST COUNT" is a
// range of seeds; any other text makes the decisions about one tape.
#include "harness/fuzz.h"
#include "harness/random_tape.h"

#include <cstdio>

using namespace tenon;
using namespace tenon::fuzz;

namespace {

void check_tape(const Choices& choices, std::string_view name) {
  std::string what = difference_in_tape(choices, "aot_eager");
  fuzz::check(what.empty(), message("{}: {}", name, what));
}

}  // namespace

TENON_FUZZ_TARGET(random_tapes) {
  std::string text(input);
  unsigned first = 0, count = 0;
  if (std::sscanf(text.c_str(), "tapes %u %u", &first, &count) != 2)
    return check_tape(Choices(input), "tape");
  for (unsigned i = 0; i < count; ++i)
    check_tape(Choices(first + i), message("tape {}", first + i));
}
