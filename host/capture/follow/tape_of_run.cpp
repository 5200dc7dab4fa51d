// What a follower does about the tape of its body: writes and needs that the tape asks for, hooks,
// functions, and the end of it.
#include "capture/errors/error_of_run.h"
#include "capture/follow/follow.h"
#include "capture/tape/hooks.h"
#include "capture/tape/run_again.h"
#include "core/dispatch.h"
#include "core/tensor/each_tensor.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <ranges>

namespace tenon {

// What the tape keeps of a captured tensor it keeps as it was then; its code has yet to write it.
void Follower::count_write(const Tensor& captured) {
  written_.push_back({captured, version_of(captured)});
  bump_version(captured);
}

// The operations so far had it as it was. An argument is the program's, too; guards ask for it as the
// call found it.
void Follower::change_need_on_tape(const Tensor& t, bool value) {
  late_tape_.make();
  has_changed_needs_ = true;
  const Tensor real = t.is_fake() ? walk_.real_of(t) : Tensor();
  if (real.defined()) needs_of_arguments_.push_back({real, value});
}

void Follower::leave_needs() {
  if (needs_of_arguments_.empty()) return;
  PauseRecording as_they_are;
  for (auto& [real, value] : std::exchange(needs_of_arguments_, {})) {
    ChangesOfRun::note(
        [real = real, before = real.requires_grad()] { real.requires_grad_(before); });
    real.requires_grad_(value);
  }
}

std::optional<autograd::HookHandle> Follower::takes_hook(const Tensor& t,
                                                         const autograd::HookWish& wish) {
  settle_needs();
  if (is_off_path_) return std::nullopt;
  auto real = [&] { return Tensor(t.is_fake() ? walk_.real_of(t) : t); };  // a segment may make it
  if (takes_at_once(real(), wish)) return attach_now(wish, real());
  std::optional<ValueId> value = walk_.pending_value(t);
  auto expects = [&] { return walk_.expects_hook(*value, wish.on_node); };
  if (value && (expects() || changes_path(expects))) return wait_with(wish, *value, walk_.requests);
  // A break of the recording is not one for it, unless such a write was the reason.
  auto has_break = [&] {
    auto [part, own] = *walk_.output_of_segment(t);
    return is_written_through_views(*part->graph, own) && passes_break();
  };
  if (!value || has_break()) {
    require_node_to_come(wish);
    if (auto output = walk_.output_of_segment(t))
      require_whole_gradient(wish, *output->first->graph, output->second, [&](size_t i) {
        return i < output->first->outputs.size() && walk_.is_reachable(output->first->outputs[i]);
      });
    return attach_now(wish, real());
  }
  difference_ = message("{} is called after {} operations", wish.what, walk_.at().next_step());
  return std::nullopt;
}

bool Follower::takes_function(const autograd::FunctionCall& call,
                              const autograd::FunctionTensors& tensors) {
  settle_needs();
  if (is_off_path_) return false;
  auto fits = [&] { return walk_.ends_function(tensors, call.waiting()->kinds()); };
  if (!fits() && !changes_path(fits)) {
    difference_ = message("{} ends after {} operations", call.name, walk_.at().next_step());
    return false;
  }
  walk_.add_function(call.waiting());
  return true;
}

// Leaves get back the gradients that they had, and no tensor of the run has a history any more.
void Follower::leave_tape() {
  late_tape_.end();
  for (auto& [t, before] : written_ | std::views::reverse)
    impl_of(t)->storage_ref->version = before;
  written_.clear();
  gradients_.give_back();
  Position& at = walk_.at();
  at.each_object_of_body([&](uint32_t o) { drop_history(at.frame().objects[o]); });
  at.path().frames().mark_arguments(at.frame());
}

}  // namespace tenon
