// Timing of calls.
#include "cli/bench/bench_timing.h"

#include "core/error.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace tenon::cli {

using Clock = std::chrono::steady_clock;

std::vector<double> time_calls(const std::function<void()>& call, double seconds) {
  std::vector<double> us;
  call();
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    auto before = Clock::now();
    call();
    auto after = Clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(after - before).count());
    if (after > end && us.size() >= 3) return us;
  }
}

std::vector<double> time_calls(ModelRunner& runner, const std::vector<Tensor>& leaves,
                               double seconds) {
  return time_calls([&] { runner.run(leaves); }, seconds);
}

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  double at = q * static_cast<double>(sorted.size() - 1);
  auto low = static_cast<size_t>(at);
  size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
  return text;
}

double parse_seconds(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string unit(rest, end);
  double factor = unit == "ms" ? 1e-3 : unit == "m" ? 60 : unit == "s" || unit.empty() ? 1 : 0;
  require(error == std::errc() && factor > 0 && std::isfinite(value) && value > 0,
          "'{}' is not a time: expected a number with s, ms or m, such as 3s", text);
  return value * factor;
}

}  // namespace tenon::cli
