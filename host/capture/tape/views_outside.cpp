// Fakes of one root on the tape of the program.
#include "capture/tape/views_outside.h"

#include "capture/inputs.h"
#include "core/grad_mode.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <algorithm>
#include <iterator>

namespace tenon {

namespace {

// Of a tensor of the program, or one that an earlier segment has made.
Tensor root_on_tape(const Tensor& real) {
  const Tensor* object = stands_for(real);
  const Tensor& itself = object ? *object : real;
  return impl_of(itself)->base.defined() ? impl_of(itself)->base : itself;
}

// Of what is known of the program over the memory of `written`, and gets its history by the code that
// is being recorded.
std::vector<Tensor> roots_given_history(const GraphRecorder& recorder, const Tensor& written) {
  std::vector<Tensor> roots;
  for (const Tensor& fake : recorder.live_fakes())
    if (shares_storage(fake, written) && has_history_to_come(fake, concrete_of(fake)))
      roots.push_back(root_on_tape(concrete_of(fake)));
  return roots;
}

// Whether the fake stands for a tensor over the memory of `root` that needs no gradient. Marks it where
// that is a view of `root`.
bool give_history(GraphRecorder& recorder, const Tensor& fake, const Tensor& root) {
  const Tensor& real = concrete_of(fake);
  bool may_be_view = real.defined() && !has_need(fake) && is_differentiable(fake.dtype()) &&
                     shares_storage(real, root);
  if (!may_be_view || !same_head(root_on_tape(real), root)) return may_be_view;
  mark_requires_grad(fake, true);
  if (recorder.owns(fake)) mark_relatives(recorder, fake);
  return true;
}

}  // namespace

// Optimisers write many parameters, with gradients off.
bool give_histories_to_views(GraphRecorder& recorder, const CallArgs& call) {
  if (!(call.op->mutated_args & 1) || call.args[0].tag != Tag::tensor) return false;
  const Tensor& written = *call.args[0].as<Tensor>();
  if (!gradients_are_on() || !written.is_fake() || !has_need(written)) return false;
  const std::vector<Tensor> roots = roots_given_history(recorder, written);
  if (roots.empty()) return false;
  std::vector<Tensor> fakes = recorder.live_fakes();
  std::ranges::copy(recorder.earlier_fakes(), std::back_inserter(fakes));
  bool any = false;
  for (const Tensor& root : roots)
    for (const Tensor& fake : fakes) any |= give_history(recorder, fake, root);
  return any;
}

}  // namespace tenon
