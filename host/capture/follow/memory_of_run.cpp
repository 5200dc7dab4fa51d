// Fakes share memory where the tensors do that the recording has met.
#include "capture/follow/memory_of_run.h"

#include "autograd/view.h"
#include "capture/memory_of_inputs.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon {

namespace {

// `f` gets the tensors of the call over the memory of `fake`.
template <class F>
void each_in_memory_of(const Position& at, const Tensor& fake, F f) {
  auto look_at = [&](uint32_t object, const Tensor& given) {
    if (object == Path::no_object) return;
    if (shares_storage(at.frame().objects[object], fake)) f(given);
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
  each_in_memory_of(at, fake,
                    [&](const Tensor& given) { does = does || shares_storage(given, real); });
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

namespace {

// Of what the node has made, whose place follows from that of what it views; no_value: from none.
ValueId viewed_by(const Graph& graph, const Node& node, uint32_t group) {
  bool is_placed = (entry_of(node.op).def->tags & OpTags::by_place) &&
                   node.args.back().tag != Tag::none;  // the offset
  ValueId viewed = no_value;
  if (!is_placed)
    Graph::for_each_use(node, [&](ValueId v) {
      if (viewed == no_value && group && graph.value(v).alias_group == group) viewed = v;
    });
  return viewed;
}

// The input of the graph that the place of a value follows from, or what a node has made.
const GraphValue& viewed_in(const Graph& graph, ValueId v) {
  while (graph.value(v).source == ValueSource::node) {
    const Node& node = graph.node(graph.value(v).source_index);
    ValueId viewed = viewed_by(graph, node, graph.value(v).alias_group);
    if (viewed == no_value) break;
    v = viewed;
  }
  return graph.value(v);
}

}  // namespace

// A part counts from where its inputs began when it was recorded, maybe in another call than the
// parts before it.
int64_t offset_of(const Position& at, const Tensor& fake) {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  const int64_t own = impl_of(fake)->storage_offset;
  if (!extra || extra->trace_id != at.frame().id) return own;
  const Tensor& made = at.real_of(at.path().object_of(extra->trace_value));
  if (made.defined()) return made.storage_offset();
  const Path::Part& part = at.path().parts()[at.path().part_of(extra->trace_value)];
  const GraphValue& viewed = viewed_in(*part.graph, extra->trace_value - part.first_value);
  if (viewed.source != ValueSource::input) return own;
  const uint32_t input = part.inputs[viewed.source_index];
  const Tensor& known = at.frame().objects[input];
  int64_t recorded =
      viewed.offset.is_symbolic() ? impl_of(known)->storage_offset : viewed.offset.word();
  return own + elements_beyond(fake, at.real_of(input), recorded);
}

}  // namespace tenon
