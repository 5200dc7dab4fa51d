// Which object a tensor stands for.
#include "core/tensor/stand_in.h"

#include "core/dispatch.h"

#include <algorithm>
#include <utility>

namespace tenon {

Tensor (*object_behind_slot)(const Tensor&) = nullptr;
Tensor (*fake_of_body_slot)(const Tensor&) = nullptr;
void (*object_asked_slot)() = nullptr;
Tensor (*written_fake_slot)(const Tensor&) = nullptr;

// What is given again and kept again does not become a chain.
void stand_for(const Tensor& kept, const Tensor& real) {
  const Tensor* object = &real;
  while (const Tensor* next = stands_for(*object)) object = next;
  impl_of(kept)->ensure_extra().concrete = Tensor(*object);
}

Tensor show_as(const Tensor& fake, const Tensor& real) {
  TensorImpl *impl = impl_of(fake), *from = impl_of(real);
  Tensor before = make_fake(contiguous_meta({}, fake.dtype(), fake.device()));
  become_fake(before, fake);
  impl_of(before)->grad = std::move(impl->grad);
  impl_of(before)->base = std::exchange(impl->base, from->base);
  impl_of(before)->base_version = std::exchange(impl->base_version, from->base_version);
  become(fake, real);
  mark_requires_grad(fake, real.requires_grad());
  stand_for(fake, real);
  return before;
}

static bool same_place(const Tensor& a, const Tensor& b) {
  auto same = [](SymIntList x, SymIntList y) {
    return std::ranges::equal(x, y, {}, &SymInt::word, &SymInt::word);
  };
  return shares_storage(a, b) && same(a.sizes(), b.sizes()) && same(a.strides(), b.strides()) &&
         a.storage_offset() == b.storage_offset();
}

bool end_show(const Tensor& shown, const Tensor& real, const Tensor& before) {
  TensorImpl *impl = impl_of(shown), *from = impl_of(before);
  bool is_reshaped = !same_place(shown, real);
  if (is_reshaped) {
    impl_of(real)->storage_ref = impl->storage_ref;
    replace_metadata(real, shown.sizes(), shown.strides(), shown.storage_offset());
  }
  become_fake(shown, before);
  impl->grad = std::move(from->grad);
  impl->base = std::move(from->base);
  impl->base_version = from->base_version;
  return is_reshaped;
}

Tensor object_behind(Tensor t) {
  if (t.is_fake() && thread_modes.tracer)
    if (Tensor real = object_behind_slot(t); real.defined()) t = std::move(real);
  while (const Tensor* object = stands_for(t)) t = Tensor(*object);
  return t;
}

bool detail::stand_for_one(const Tensor& a, const Tensor& b) {
  auto is_itself = [](const Tensor& t) { return !t.is_fake() && !stands_for(t); };
  if (is_itself(a) && is_itself(b)) return false;
  if (thread_modes.tracer && a.is_fake() != b.is_fake()) object_asked_slot();
  return same_head(object_behind(a), object_behind(b));
}

}  // namespace tenon
