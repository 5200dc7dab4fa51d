// Programs over state, plain and compiled: whatever a body reads and changes besides its arguments,
// calls give the same, bit by bit, on backend "eager". An input "programs FIRST COUNT" is a range
// of seeds (a loop over 100000 is "programs 0 100000"), with "state", "whole", "steps" or
// "free_steps" behind it one of programs of this theme; any other text makes the decisions about
// one program. TENON_FUZZ_PRINT=1 shows each program before it runs.
#include "harness/fuzz.h"
#include "harness/stateful_check.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

using namespace tenon;
using namespace tenon::fuzz;

namespace {

const std::string backend = "eager";

void check_program(const StatefulProgram& program, std::string_view name) {
  static const bool prints = std::getenv("TENON_FUZZ_PRINT") != nullptr;
  if (prints)
    std::fprintf(stderr, "%s\n%s", std::string(name).c_str(), lines_of(program.body).c_str());
  std::string what = difference_in(program, backend);
  if (what.empty()) return;
  StatefulProgram small =
      reduced(program, [](const StatefulProgram& p) { return !difference_in(p, backend).empty(); });
  fuzz::check(false, message("{}: {}\n{}", name, what, text_of(small, backend)));
}

/// The programs of some seeds.
struct Range {
  uint32_t first = 0, count = 0;
  std::optional<Theme> theme;
};

std::optional<Theme> theme_in(std::string_view text) {
  if (text.starts_with("state")) return Theme::state;
  if (text.starts_with("whole")) return Theme::whole;
  if (text.starts_with("steps")) return Theme::steps;
  if (text.starts_with("free_steps")) return Theme::free_steps;
  return std::nullopt;
}

std::optional<Range> range_in(std::string_view input) {
  constexpr std::string_view mark = "programs ";
  if (!input.starts_with(mark)) return std::nullopt;
  const char* end = input.data() + input.size();
  Range range;
  auto [space, error] = std::from_chars(input.data() + mark.size(), end, range.first);
  if (error != std::errc() || space == end) return std::nullopt;
  auto [rest, second_error] = std::from_chars(space + 1, end, range.count);
  if (second_error != std::errc()) return std::nullopt;
  if (rest != end) range.theme = theme_in({rest + 1, end});
  return range;
}

}  // namespace

TENON_FUZZ_TARGET(follow_programs) {
  auto range = range_in(input);
  if (!range) return check_program(random_stateful_program(Choices(input)), "program");
  for (uint32_t i = 0; i < range->count; ++i) {
    uint32_t seed = range->first + i;
    check_program(random_stateful_program(Choices(seed), range->theme),
                  message("program {}", seed));
  }
}
