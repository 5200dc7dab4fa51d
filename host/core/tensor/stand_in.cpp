// Which object a tensor stands for.
#include "core/tensor/stand_in.h"

#include "core/dispatch.h"

namespace tenon {

Tensor (*object_behind_slot)(const Tensor&) = nullptr;
void (*object_asked_slot)() = nullptr;

// What is given again and kept again does not become a chain.
void stand_for(const Tensor& kept, const Tensor& real) {
  const Tensor* object = &real;
  while (const Tensor* next = stands_for(*object)) object = next;
  impl_of(kept)->ensure_extra().concrete = Tensor(*object);
}

namespace {

// What a body was given once may be what it is given again.
Tensor object_of(Tensor t) {
  if (t.is_fake() && thread_modes.tracer)
    if (Tensor real = object_behind_slot(t); real.defined()) t = std::move(real);
  while (const Tensor* object = stands_for(t)) t = Tensor(*object);
  return t;
}

}  // namespace

bool detail::stand_for_one(const Tensor& a, const Tensor& b) {
  auto is_itself = [](const Tensor& t) { return !t.is_fake() && !stands_for(t); };
  if (is_itself(a) && is_itself(b)) return false;
  if (thread_modes.tracer && a.is_fake() != b.is_fake()) object_asked_slot();
  return same_head(object_of(a), object_of(b));
}

}  // namespace tenon
