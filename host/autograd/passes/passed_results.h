// Which results of a piece of a body backward passes have come through. One node stands for all of
// them, where a plain run has some for each: what it keeps stays until the last one had its gradient.
#pragma once

#include <algorithm>
#include <vector>

namespace tenon::autograd {

class PassedResults {
 public:
  /// Before the first pass; a node that expects none is as any other.
  void expect(size_t n_results) {
    waits_.assign(n_results, true);
    of_pass_.assign(n_results, false);
    used_up_ = of_pass_;
  }
  size_t size() const { return waits_.size(); }
  void note(size_t result, bool has_gradient) {
    of_pass_[result] = has_gradient;
    if (has_gradient) waits_[result] = false;
  }
  bool are_awaited() const { return std::ranges::find(waits_, true) != waits_.end(); }
  /// A plain run has freed what the last pass came through.
  void use_up() {
    for (size_t k = 0; k < size(); ++k)
      if (of_pass_[k]) used_up_[k] = true;
  }
  bool is_used_up(size_t result) const { return used_up_[result]; }
  bool any_is_used_up() const { return std::ranges::find(used_up_, true) != used_up_.end(); }

 private:
  std::vector<bool> waits_, of_pass_, used_up_;
};

}  // namespace tenon::autograd
