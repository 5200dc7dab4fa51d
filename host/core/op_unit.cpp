// Beginning and ending units.
#include "core/op_unit.h"

#include <atomic>

namespace tenon {

bool (*may_have_op_unit_slot)() = nullptr;
bool (*take_op_unit_slot)(OpUnit&) = nullptr;
OpUnit::Start (*begin_op_unit_slot)() = nullptr;
void (*end_op_unit_slot)(const OpUnit&, const OpUnit::Start&) = nullptr;

constinit thread_local int OpUnit::n_open_ = 0;

namespace {

// Autocast and defaults of factories decide what is recorded; with gradients on, each write of a
// leaf has to be refused.
bool has_plain_modes() {
  return !(thread_modes.include & ~thread_modes.exclude & keys_of_user) &&
         !thread_modes.grad_enabled;
}

}  // namespace

bool OpUnit::is_of_use() {
  return thread_modes.tracer && has_plain_modes() && may_have_op_unit_slot();
}

OpUnit::OpUnit(uint64_t number, std::span<const Tensor* const> tensors,
               std::span<const uint64_t> facts)
    : number_(number), tensors_(tensors), facts_(facts) {
  ++n_open_;
  if (!thread_modes.tracer || !has_plain_modes()) return;
  if (thread_modes.follower)
    is_done_ = take_op_unit_slot(*this);
  else
    start_ = begin_op_unit_slot();
}

OpUnit::~OpUnit() {
  --n_open_;
  if (std::uncaught_exceptions() > n_exceptions_) forget();  // not all of it was called
  if (start_.trace || (thread_modes.follower && !is_done_)) end_op_unit_slot(*this, start_);
}

uint64_t new_op_unit_number() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace tenon
