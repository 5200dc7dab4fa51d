// Programs over state, plain and compiled: whatever a body reads and changes besides its arguments,
// calls give the same, on backend "eager" bit by bit. An input "programs FIRST COUNT" is a range of
// seeds (a loop over 100000 is "programs 0 100000"); behind it may stand "state", "whole", "steps" or
// "free_steps", for programs of this theme, and the name of a backend. Any other text makes the
// decisions about one program. TENON_FUZZ_PRINT=1 shows each program before it runs.
#include "harness/fuzz.h"
#include "harness/stateful_check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace tenon;
using namespace tenon::fuzz;

namespace {

void check_program(const StatefulProgram& program, const std::string& backend,
                   std::string_view name) {
  static const bool prints = std::getenv("TENON_FUZZ_PRINT") != nullptr;
  if (prints)
    std::fprintf(stderr, "%s\n%s", std::string(name).c_str(), lines_of(program.body).c_str());
  std::string what = difference_in(program, backend);
  if (what.empty()) return;
  StatefulProgram small = reduced(
      program, [&](const StatefulProgram& p) { return !difference_in(p, backend).empty(); });
  fuzz::check(false, message("{}: {}\n{}", name, what, text_of(small, backend)));
}

/// The programs of some seeds.
struct Range {
  uint32_t first = 0, count = 0;
  std::optional<Theme> theme;
  std::string backend = "eager";
};

std::optional<Theme> theme_named(std::string_view name) {
  constexpr std::string_view names[] = {"state", "whole", "steps", "free_steps"};
  const auto* at = std::ranges::find(names, name);
  if (at == std::end(names)) return std::nullopt;
  return static_cast<Theme>(at - names);
}

std::optional<Range> range_in(std::string_view input) {
  std::istringstream words{std::string(input)};
  Range range;
  std::string word;
  if (!(words >> word >> range.first >> range.count) || word != "programs") return std::nullopt;
  constexpr std::string_view backends[] = {"eager", "aot_eager", "inductor", "ts", "nnc"};
  while (words >> word) {
    if (auto theme = theme_named(word))
      range.theme = theme;
    else if (std::ranges::find(backends, word) != std::end(backends))
      range.backend = word;
    else
      return std::nullopt;
  }
  return range;
}

}  // namespace

TENON_FUZZ_TARGET(follow_programs) {
  auto range = range_in(input);
  if (!range) return check_program(random_stateful_program(Choices(input)), "eager", "program");
  for (uint32_t i = 0; i < range->count; ++i) {
    uint32_t seed = range->first + i;
    check_program(random_stateful_program(Choices(seed), range->theme), range->backend,
                  message("program {}", seed));
  }
}
