// Dependencies of steps, closed: what waits for a step waits for all that the step waits for.
#include "step_order.h"

namespace loopir {

StepOrder::StepOrder(std::span<const Access> steps, size_t n_buffers,
                     std::span<const uint32_t> effects)
    : before_(steps.size(), Bits(steps.size())), is_gone_(steps.size()) {
  std::vector<std::vector<uint32_t>> reading(n_buffers), writing(n_buffers);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    auto wait_for = [&](const std::vector<uint32_t>& others) {
      for (uint32_t other : others) wait(i, other);
    };
    for (Id t : steps[i].reads) wait_for(writing[t]);
    for (Id t : steps[i].writes) wait_for(writing[t]), wait_for(reading[t]);
    for (Id t : steps[i].reads) reading[t].push_back(i);
    for (Id t : steps[i].writes) writing[t].push_back(i);
  }
  keep_order(effects);
}

void StepOrder::wait(uint32_t step, uint32_t other) {
  if (step == other || is_before(other, step)) return;
  before_[step].add(other);
  before_[step].add(before_[other]);
}

// Each waits for the one before it, and so does all that waits for it.
void StepOrder::keep_order(std::span<const uint32_t> effects) {
  for (size_t k = 1; k < effects.size(); ++k)
    for (uint32_t i = effects[k]; i < before_.size(); ++i)
      if (i == effects[k] || is_before(effects[k], i)) wait(i, effects[k - 1]);
}

bool StepOrder::has_detour(uint32_t from, uint32_t to) const {
  if (!is_before(from, to)) return false;
  auto n_steps = static_cast<uint32_t>(before_.size());
  for (uint32_t i = 1; i < n_steps; ++i) {
    uint32_t n = (from + i) % n_steps;  // the nearest behind it is found first
    if (!is_gone_[n] && is_before(n, to) && is_before(from, n)) return true;
  }
  return false;
}

void StepOrder::join(uint32_t gone, uint32_t kept) {
  is_gone_[gone] = true;
  before_[kept].add(before_[gone]);
  before_[kept].remove(gone);
  for (uint32_t n = 0; n < before_.size(); ++n) {  // who waited for one of them waits for both
    bool waits_for_gone = is_before(gone, n), waits_for_kept = is_before(kept, n);
    if (n == kept || (!waits_for_gone && !waits_for_kept)) continue;
    before_[n].remove(gone);
    before_[n].add(kept);
    if (!waits_for_gone || !waits_for_kept) before_[n].add(before_[kept]);
  }
}

std::vector<uint32_t> StepOrder::steps() const {
  std::vector<uint32_t> out;
  std::vector<bool> done = is_gone_;
  auto visit = [&](auto& self, uint32_t n) -> void {
    if (done[n]) return;
    done[n] = true;
    for (uint32_t before = 0; before < before_.size(); ++before)
      if (is_before(before, n)) self(self, before);
    out.push_back(n);
  };
  for (uint32_t n = 0; n < before_.size(); ++n) visit(visit, n);
  return out;
}

}  // namespace loopir
