// Fakes of one root on the tape of the program.
#include "capture/tape/views_outside.h"

#include "capture/inputs.h"
#include "core/tensor/each_tensor.h"
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

// What is known of the program, and gets its history by the code that is being recorded.
Tensor root_given_history(const Tensor& fake, const Tensor& written) {
  const Tensor& real = concrete_of(fake);
  bool gets_it = has_history_to_come(fake, real) && shares_storage(fake, written);
  return gets_it ? root_on_tape(real) : Tensor();
}

}  // namespace

bool give_histories_to_views(GraphRecorder& recorder, const CallArgs& call) {
  if (!(call.op->mutated_args & 1) || call.args[0].tag != Tag::tensor) return false;
  const Tensor& written = *call.args[0].as<Tensor>();
  if (!written.is_fake() || !has_need(written)) return false;
  const std::vector<Tensor> of_graph = recorder.live_fakes();
  std::vector<Tensor> fakes = of_graph;
  std::ranges::copy(recorder.earlier_fakes(), std::back_inserter(fakes));
  bool any = false;
  for (const Tensor& given : of_graph) {
    Tensor root = root_given_history(given, written);
    for (const Tensor& fake : fakes) {
      const Tensor& real = concrete_of(fake);
      bool may_be_view = root.defined() && real.defined() && !has_need(fake) &&
                         is_differentiable(fake.dtype()) && shares_storage(real, root);
      any = any || may_be_view;
      if (!may_be_view || !same_head(root_on_tape(real), root)) continue;
      mark_requires_grad(fake, true);
      if (recorder.owns(fake)) mark_relatives(recorder, fake);
    }
  }
  return any;
}

}  // namespace tenon
