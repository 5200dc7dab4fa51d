// Fakes share memory where the tensors do that the recording has met.
#include "capture/follow/memory_of_run.h"

#include "autograd/view.h"
#include "capture/memory_of_inputs.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon {

namespace {

// `f` gets the tensors of the call over the memory of `fake`, and their own fakes.
template <class F>
void each_in_memory_of(const Position& at, const Tensor& fake, F f) {
  auto look_at = [&](uint32_t object, const Tensor& given) {
    if (object == Path::no_object) return;
    const Tensor& known = at.frame().objects[object];
    if (shares_storage(known, fake)) f(given, known);
  };
  for (uint32_t i = 0; i < at.leaves().tensors.size(); ++i)
    look_at(at.path().argument_objects()[i], *at.leaves().tensors[i]);
  for (uint32_t i = 0; i < at.frame().slots.size(); ++i)
    look_at(at.path().object_at({ValueOrigin::Kind::implicit, i}), at.frame().slots[i]);
}

}  // namespace

bool lies_in(const Position& at, const Tensor& real, const Tensor& fake) {
  const Tensor& made = concrete_of(fake);  // by an earlier segment
  bool does = made.defined() && shares_storage(made, real);
  each_in_memory_of(at, fake, [&](const Tensor& given, const Tensor&) {
    does = does || shares_storage(given, real);
  });
  // A view of what an earlier segment has made.
  return does || std::ranges::any_of(at.frame().objects, [&](const Tensor& o) {
           return o.defined() && shares_storage(o, fake) && concrete_of(o).defined() &&
                  shares_storage(concrete_of(o), real);
         });
}

void check_writes(const Position& at, size_t end) {
  const std::span written = at.path().written_inputs();
  auto one = std::ranges::lower_bound(written, at.next_step(), {}, &Path::WrittenInput::step);
  if (one == written.end() || one->step >= end) return;
  PauseRecording as_they_are;  // a tensor that the body gives a history is no leaf any more
  for (; one != written.end() && one->step < end; ++one) {
    const Tensor& real = at.real_of(one->object);
    const std::string& op = at.path().steps()[one->step].op->name;
    if (one->is_view)
      autograd::check_write_of_view(real, /*from_no_grad=*/false, op);
    else
      autograd::check_write(real, op);
  }
}

int64_t offset_of(const Position& at, const Tensor& fake) {
  int64_t beyond = 0;
  each_in_memory_of(at, fake, [&](const Tensor& given, const Tensor& known) {
    beyond = elements_beyond(fake, given, known);
  });
  return impl_of(fake)->storage_offset + beyond;
}

}  // namespace tenon
