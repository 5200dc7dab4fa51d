// Tensors that stand for another one: fakes while a body runs, and those that a body has kept.
#pragma once

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

namespace tenon {

/// Whether they are one in memory, too, which is_same() does not ask for.
inline bool same_head(const Tensor& a, const Tensor& b) { return a.head() == b.head(); }

/// While a recorder runs: the tensor that a fake of a body stands for, if it is known. An undefined
/// one for what has none yet. capture/tape/grad_effects.cpp.
extern Tensor (*object_behind_slot)(const Tensor& fake);
/// While a body runs: its fake for a tensor that it has named. Undefined for others. capture/api.cpp.
extern Tensor (*fake_of_body_slot)(const Tensor& real);
/// While a recorder runs: is_same() was asked of a fake and of another tensor, which no guard sees.
/// capture/tape/grad_effects.cpp.
extern void (*object_asked_slot)();

/// While a body runs, before somebody asks for the history of a real tensor: its fake, where the body
/// has given it one; undefined for others. The code that gives it to the real tensor has not run yet,
/// but where it gives one to a tensor that the body has not named: then it has run. capture/api.cpp.
extern Tensor (*written_fake_slot)(const Tensor& real);
inline Tensor written_fake_of(const Tensor& t) {
  return thread_modes.tracer && !t.is_fake() && written_fake_slot ? written_fake_slot(t) : Tensor();
}

/// What was a fake and is kept beyond its body stands for `real` from here on: it is the same as
/// that, and has its gradient and its history.
void stand_for(const Tensor& kept, const Tensor& real);
/// What `t` was told to stand for, or null.
inline const Tensor* stands_for(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  bool stands = impl->extra && impl->extra->concrete.defined() && !t.is_fake();
  return stands ? &impl->extra->concrete : nullptr;
}

/// The object that a body means by `t`: the captured tensor behind a fake, and what that stands for. What
/// a body was given once may be what it is given again.
Tensor object_behind(Tensor t);

/// Makes a fake stand for `real` for a while; gives what it was, for end_show.
Tensor show_as(const Tensor& fake, const Tensor& real);
/// `shown` is again what it was `before` show_as. Where code has reshaped it, `real` is reshaped;
/// whether that is so.
bool end_show(const Tensor& shown, const Tensor& real, const Tensor& before);

}  // namespace tenon
