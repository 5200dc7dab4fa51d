// Messages of checks, and reading a flag.
#include "error_flag.h"

#include <tenon/plugin.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace tenon::cuda {

namespace {

struct Checks {
  std::mutex adding;
  std::map<std::string, int64_t, std::less<>> numbers;
  std::vector<const std::string*> texts;  // of number i + 1
};

Checks& checks() {
  static auto* const all = new Checks;
  return *all;
}

std::string text_of(int64_t check) {
  Checks& all = checks();
  std::lock_guard lock(all.adding);
  bool known = check > 0 && static_cast<size_t>(check) <= all.texts.size();
  return known ? *all.texts[static_cast<size_t>(check) - 1] : "a kernel met a wrong value: {}";
}

}  // namespace

int64_t add_check(std::string_view text) {
  Checks& all = checks();
  std::lock_guard lock(all.adding);
  if (auto known = all.numbers.find(text); known != all.numbers.end()) return known->second;
  auto number = static_cast<int64_t>(all.texts.size()) + 1;
  all.texts.push_back(&all.numbers.emplace(std::string(text), number).first->first);
  return number;
}

void tell_of(tn_cuda_error_flag& flag) {
  std::atomic_ref<int64_t> check(flag.check);
  if (check.load(std::memory_order_acquire) == 0) return;
  int64_t value = std::atomic_ref<int64_t>(flag.value).load(std::memory_order_relaxed);
  int64_t number = check.exchange(0, std::memory_order_acq_rel);
  if (number == 0) return;  // another thread has told of it
  std::string what = text_of(number);
  bool shows_value = what.find("{}") != std::string::npos;
  throw plugin::error(TN_OUT_OF_RANGE, shows_value ? plugin::text(what, value) : what);
}

}  // namespace tenon::cuda
