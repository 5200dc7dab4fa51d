// Plans by shape: making oneDNN's primitives costs a millisecond, looking one up a fraction of a
// µs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace onednn {

/// Everything that a plan depends on, as numbers.
using PlanKey = std::vector<int64_t>;

/// Threads: any; two threads may make the same plan at the same time, one of them is kept.
template <class Plan>
class PlanCache {
 public:
  /// The plan under `key`, made by make() if need be. A null plan (no good implementation) is
  /// remembered too.
  template <class Make>
  std::shared_ptr<const Plan> get(const PlanKey& key, Make&& make) {
    {
      std::lock_guard lock(guarding_);
      if (auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    std::shared_ptr<const Plan> made = make();
    std::lock_guard lock(guarding_);
    if (plans_.size() >= most) plans_.clear();  // shapes that come and go
    return plans_.emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr size_t most = 2048;
  std::mutex guarding_;
  std::map<PlanKey, std::shared_ptr<const Plan>> plans_;
};

}  // namespace onednn
