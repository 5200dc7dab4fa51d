// The numbers that a body holds, and when they are copied.
#include "capture/lazy_numbers.h"

#include "capture/body_scope.h"
#include "capture/follow/follow.h"
#include "core/error.h"
#include "graph/record.h"
#include "guards/overlap.h"
#include "ops/op_table.h"

#include <tenon/ops/copy.h>
#include <tenon/thread_object.hpp>

#include <utility>

namespace tenon {

namespace {

LazyNumbers& lazy_numbers() { return LazyNumbersOfBody::current(); }

// Copies of a Scalar, and several of one tensor, are read from one.
class CopiesOfFakes {
 public:
  template <class F>
  Tensor copy_of(const Tensor& fake, F copy) {
    for (const auto& [known, copied] : copies_)
      if (same_head(known, fake)) return copied;
    return copies_.emplace_back(fake, copy(fake)).second;
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

// From here on they have memory of their own.
template <class F>
void give_own_memory(F copy) {
  CopiesOfFakes copies;
  for (const std::weak_ptr<detail::LazyNumber>& held : std::exchange(lazy_numbers(), {}))
    if (std::shared_ptr<detail::LazyNumber> number = held.lock())
      number->tensor = copies.copy_of(number->tensor, copy);
}

Tensor real_now(const Tensor& fake) {
  if (!fake.is_fake()) return fake;
  const Follower* follower = Follower::current();
  return follower ? follower->walk().real_of(fake) : concrete_of(fake);
}

Tensor copy_of_real(const Tensor& real) {
  PauseRecording pause;
  return real.clone();
}

const HostWrites* host_writes_of_body() {
  if (const Follower* follower = Follower::current()) return &follower->host_writes;
  const Trace* trace = Trace::current();
  return trace ? &trace->inputs().host_writes : nullptr;
}

// What the program may write before the number is looked at; undefined: it cannot.
Tensor real_in_reach_of_host(const Tensor& fake) {
  const HostWrites* writes = host_writes_of_body();
  if (!writes || writes->are_none() || !impl_of(fake)->extra) return Tensor();
  Tensor real = real_now(fake);
  return real.defined() && writes->reach(real) ? real : Tensor();
}

}  // namespace

std::shared_ptr<detail::LazyNumber> detail::lazy_number(Tensor t) {
  bool is_of_trace = t.is_fake() && thread_modes.tracer && !BodyScope::is_inside();
  auto number = std::make_shared<LazyNumber>(std::move(t));
  if (!is_of_trace) return number;
  if (Tensor real = real_in_reach_of_host(number->tensor); real.defined()) {
    number->tensor = copy_of_real(real);
    return number;
  }
  // Loops read many and hold few.
  if (lazy_numbers().size() == lazy_numbers().capacity())
    std::erase_if(lazy_numbers(), [](const auto& held) { return held.expired(); });
  lazy_numbers().push_back(number);
  return number;
}

// The numbers of a branch or of a loop's body are looked at nowhere.
void keep_lazy_numbers(const CallArgs& call) {
  if (!holds_lazy_numbers() || !written_args(call) || BodyScope::is_inside()) return;
  EnableGradGuard off(false);
  give_own_memory([](const Tensor& fake) { return fake.clone(); });
}

void settle_lazy_numbers() {
  if (!holds_lazy_numbers()) return;
  give_own_memory([](const Tensor& fake) {
    Tensor real = real_now(fake);
    ensure(real.defined(), "a number is read from a tensor without data, and nothing is pending");
    return copy_of_real(real);
  });
}

void settle_lazy_numbers_in(const Tensor& lent) {
  for (const std::weak_ptr<detail::LazyNumber>& held : lazy_numbers()) {
    std::shared_ptr<detail::LazyNumber> number = held.lock();
    Tensor real = number ? real_now(number->tensor) : Tensor();
    if (real.defined() && share_lent_memory(real, lent)) number->tensor = copy_of_real(real);
  }
}

void settle_lazy_numbers(const Tensor& fake, const Tensor& real) {
  std::shared_ptr<detail::LazyNumber> number;
  for (const std::weak_ptr<detail::LazyNumber>& held : lazy_numbers())
    if ((number = held.lock()) && same_head(number->tensor, fake))
      number->tensor = copy_of_real(real);
}

thread_local constinit LazyNumbersOfBody* LazyNumbersOfBody::innermost_ = nullptr;

LazyNumbers& LazyNumbersOfBody::outside() { return ThreadObject<LazyNumbers>::get(); }

}  // namespace tenon
