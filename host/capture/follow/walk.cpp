// One run of a body: the ends of its parts, their code, and recording after all.
#include "capture/follow/walk.h"

#include "capture/follow/memory_of_run.h"
#include "capture/follow/record_steps.h"
#include "capture/host_writes.h"
#include "capture/rescue.h"
#include "capture/tape/hooks.h"
#include "capture/tape/views_outside.h"
#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <algorithm>

namespace tenon {

Walk::Walk(const detail::Leaves& leaves, const PathVersion& version)
    : at_(leaves, version), reach_(at_), grad_(gradients_are_on()) {}

// ---- the end of the body in one piece

bool Walk::ends_whole(std::span<const Tensor> outputs, const TouchedGradients* gradients) {
  return at_.next_step() == path().steps().size() && at_.fits_results(outputs, gradients) &&
         has_requests_of(path().parts()[0]);
}

// How many hold the fake of an object besides the walk and `results`.
static int32_t others_that_hold(const Walk& walk, uint32_t object,
                                std::span<const Tensor> results) {
  const Tensor& t = walk.at().frame().objects[object];
  if (!t.defined()) return 0;
  int32_t others = t.head()->references.load(std::memory_order_relaxed) - 1 -
                   walk.path().objects()[object].n_arguments;
  if (others == 0) return 0;
  for (const Tensor& out : results) others -= out.defined() && same_head(out, t);
  return others;
}

// Whether somebody keeps a fake beyond the body.
bool Walk::has_escapes(std::span<const Tensor> outputs, const TouchedGradients& gradients) const {
  bool has = false;
  at_.each_object_of_body([&](uint32_t o) {
    int32_t others = others_that_hold(*this, o, outputs);
    has = has || (others != 0 && others != gradients.references(at_.frame().objects[o]));
  });
  return has;
}

std::vector<uint32_t> kept_beside(const Walk& walk, std::span<const Tensor> results) {
  std::vector<uint32_t> kept;
  walk.at().each_object_of_body([&](uint32_t o) {
    if (others_that_hold(walk, o, results) > 0) kept.push_back(o);
  });
  return kept;
}

bool Walk::has_written() const {
  std::span<const Path::Step> pending = path().steps().subspan(begun_, at_.next_step() - begun_);
  return std::ranges::any_of(
      pending, [this](const auto& step) { return has_effect(*step.op, path().args_of(step)); });
}

bool Walk::is_to_be_written(const Tensor& real) const {
  bool is = false;
  for (const Path::Step& step : path().steps().subspan(begun_, at_.next_step() - begun_)) {
    auto look_at = [&](ValueId value) {
      uint32_t object = path().object_of(path().number_of(path().parts()[step.part], value));
      is = is || lies_in(at_, real, at_.frame().objects[object]);
    };
    std::span<const Value> args = path().args_of(step);
    uint64_t written = written_args(*step.op, args);
    for (uint32_t i = 0; i < args.size(); ++i)
      if (written >> i & 1) for_each_value(args[i], look_at);
  }
  return is;
}

bool Walk::has_used_memory_of(const Tensor& lent) const {
  if (!has_pending_steps()) return false;
  const Path::Step& last = path().steps()[at_.next_step() - 1];
  const Path::Part& part = path().parts()[last.part];
  const Tensor no_tensor;
  auto real_of = [&](size_t input) -> const Tensor& {
    uint32_t object = part.inputs[input];
    bool is_tensor = object != Path::no_object && at_.has_met(path().objects()[object].origin);
    return is_tensor ? at_.real_of(object) : no_tensor;
  };
  return use_memory_of(lent, *part.graph, last.node + 1, real_of);
}

bool has_history_to_come(const Walk& walk, const Tensor& real) {
  if (is_alone_in_memory(real) || !walk.is_to_be_written(real)) return false;
  auto gives_it = [&](const Tensor& other, const Tensor& fake) {
    return has_history_to_come(fake, other) && shares_storage(other, real);
  };
  bool has = false;
  walk.each_named([&](const Tensor& other) { has = has || gives_it(other, walk.fake_of(other)); });
  return has || std::ranges::any_of(walk.at().frame().objects, [&](const Tensor& made) {
           return made.defined() && gives_it(concrete_of(made), made);
         });
}

// ---- segments

const Tensor& Walk::real_of(const Tensor& fake) const {
  const TensorExtra& extra = *impl_of(fake)->extra;
  if (extra.trace_id != at_.frame().id) return concrete_of(fake);
  return at_.real_of(path().object_of(extra.trace_value));
}

Tensor Walk::take_real(const Tensor& result) {
  const Tensor& real = real_of(result);
  Tensor& concrete = impl_of(result)->extra->concrete;
  constexpr int32_t frame_and_result = 2;  // whoever else holds the fake is given the tensor, too
  bool is_last = &real == &concrete &&
                 result.head()->references.load(std::memory_order_relaxed) == frame_and_result;
  return is_last ? std::move(concrete) : real;
}

std::optional<Number> Walk::item_of_argument(const Tensor& fake) const {
  const TensorExtra* extra = impl_of(fake)->extra.get();
  if (!extra || extra->trace_id != at_.frame().id) return std::nullopt;
  const Path::Object& object = path().objects()[path().object_of(extra->trace_value)];
  auto is_it = [&](const SymbolLoad& load) {
    return load.kind == SymbolLoad::Kind::item && load.index == object.origin.index;
  };
  bool is_read = object.origin.kind == ValueOrigin::Kind::leaf &&
                 extra->trace_value == object.value &&
                 std::ranges::any_of(at_.version().recording->guards.loads, is_it);
  if (!is_read) return std::nullopt;
  PauseRecording pause;
  return detail::item_int(*at_.leaves().tensors[object.origin.index],
                          std::source_location::current());
}

bool Walk::looks_next_at(const Tensor& fake) const {
  if (!has_pending_steps() || n_run_ == path().parts().size()) return false;
  const Path::Part& part = path().parts()[n_run_];
  const TensorExtra* extra = impl_of(fake)->extra.get();
  return part.end_step == at_.next_step() && extra && extra->trace_id == at_.frame().id &&
         extra->trace_value == part.looked_at;
}

bool Walk::ends_segment(const SegmentCalls& calls) {
  if (!has_pending_steps()) return true;
  if (n_run_ == path().parts().size()) return false;
  const Path::Part& part = path().parts()[n_run_];
  if (part.end_step != at_.next_step() || !gives_what_is_held(part) || !finds_inputs(part) ||
      !has_requests_of(part))
    return false;
  std::vector<Overlap> overlaps;
  if (part.segment->writes) overlaps = overlaps_of(inputs_of(part));
  symbols_.clear();
  path().frames().add_symbols(at_.frame(), n_run_, symbols_);
  code_ = calls.find(*part.segment, symbols_.span(), overlaps);
  return code_ != nullptr;
}

bool Walk::gives_what_is_held(const Path::Part& part) const {
  for (uint32_t o = part.first_object; o < part.end_object; ++o) {
    const Tensor& t = at_.frame().objects[o];
    bool is_held = t.defined() && t.head()->references.load(std::memory_order_relaxed) > 1;
    if (is_held && std::ranges::find(part.outputs, o) == part.outputs.end()) return false;
  }
  return true;
}

// What the body let go of is gone: it cannot have named it since. A captured tensor that no step
// has named is not there yet.
bool Walk::finds_inputs(const Path::Part& part) {
  inputs_.clear();
  for (uint32_t object : part.inputs) {
    bool is_tensor = object != Path::no_object;
    if (is_tensor && !at_.has_met(path().objects()[object].origin)) return false;
    detail::TensorHead* head = is_tensor ? at_.real_of(object).head() : nullptr;
    if (is_tensor && !head) return false;
    inputs_.push(head);
  }
  return true;
}

std::vector<const Tensor*> Walk::inputs_of(const Path::Part& part) const {
  std::vector<const Tensor*> inputs;
  for (uint32_t object : part.inputs)
    if (object != Path::no_object) inputs.push_back(&at_.real_of(object));
  return inputs;
}

namespace {

// What a segment has been asked for is done with when it has run, or failed.
struct BroughtOnce {
  autograd::TapeRequests& requests;
  ~BroughtOnce() {
    requests.hooks.clear();
    requests.functions.clear();
  }
};

}  // namespace

// What is no view, and stands for nothing, says so itself.
static bool needs_grad(const Tensor& made) {
  const TensorImpl* impl = impl_of(made);
  if (impl->flags & TN_T_REQUIRES_GRAD) return true;
  return (impl->base.defined() || impl->extra) && made.requires_grad();
}

void Walk::run_segment(const SegmentCalls& calls) {
  const Path::Part& part = path().parts()[n_run_];
  const Frame& frame = at_.frame();
  begun_ = at_.next_step();  // also where it throws: it has run once
  PauseRecording pause;
  detail::ResultTensors outputs;
  outputs.grow_to(part.outputs.size());
  std::exception_ptr failure;
  {
    GradientsAsRecorded grad(grad_);
    BroughtOnce once{requests};
    const std::optional<autograd::TapeRequests> asked = requests_to(part, *this);
    autograd::RequestsOfCall brings(asked);
    auto code = [&] { calls.run(*code_, inputs_.span(), symbols_.span(), outputs.span()); };
    auto fake_of = [&](size_t i) -> const Tensor& { return frame.objects[part.outputs[i]]; };
    failure = run_or_rescue(code, *part.segment, inputs_.span(), symbols_.span(), outputs.span(),
                            fake_of);
  }
  Tensor* made = outputs.data();
  for (uint32_t object : part.outputs) {
    const Tensor& fake = frame.objects[object];
    if (made->defined() && needs_grad(*made)) mark_requires_grad(fake, true);
    impl_of(fake)->extra->concrete = std::move(*made++);
  }
  ++n_run_;
  if (failure) std::rethrow_exception(failure);
  reach_.let_go_behind(part);
}

void Walk::let_escape(std::span<const uint32_t> objects) {
  for (uint32_t o : objects) {
    const Tensor& t = at_.frame().objects[o];
    bool made_here = path().objects()[o].origin.kind == ValueOrigin::Kind::undefined;
    escape(t, Tensor(real_of(t)), made_here);
  }
  if (!objects.empty()) path().frames().replace_objects(at_.frame(), objects);
}

// ---- requests to the tape

// Of fakes, and of captured tensors that the body has named.
uint32_t Walk::object_of(const Tensor& t) const {
  const TensorExtra* extra = impl_of(t)->extra.get();
  if (t.is_fake()) {
    bool is_ours = extra && extra->trace_id == at_.frame().id;
    return is_ours ? path().object_of(extra->trace_value) : Path::no_object;
  }
  return at_.object_of_real(t);
}

std::optional<ValueId> Walk::pending_value(const Tensor& t) const {
  uint32_t object = object_of(t);
  if (object == Path::no_object) return std::nullopt;
  ValueId value = impl_of(at_.frame().objects[object])->extra->trace_value;
  bool is_pending =
      path().value(value).source == ValueSource::node && path().part_of(value) >= n_run_;
  return is_pending ? std::optional(value) : std::nullopt;
}

std::optional<std::pair<const Path::Part*, ValueId>> Walk::output_of_segment(
    const Tensor& t) const {
  uint32_t object = object_of(t);
  if (object == Path::no_object) return std::nullopt;
  ValueId value = impl_of(at_.frame().objects[object])->extra->trace_value;
  if (path().value(value).source != ValueSource::node) return std::nullopt;
  const Path::Part& part = path().parts()[path().part_of(value)];
  return std::pair(&part, value - part.first_value);
}

bool Walk::is_reachable(uint32_t object) const {
  const Tensor& t = at_.frame().objects[object];
  bool is_held = t.defined() && t.head()->references.load(std::memory_order_relaxed) > 1;
  return is_held || std::ranges::any_of(path().parts(), [object](const Path::Part& part) {
           return std::ranges::find(part.inputs, object) != part.inputs.end();
         });
}

static bool has_hook_at(const Path::Part& part, ValueId own, bool on_node) {
  if (std::ranges::find(part.hooked, own) == part.hooked.end()) return false;
  return !on_node || autograd::has_own_node(part.graph->node(part.graph->value(own).source_index));
}

bool Walk::expects_hook(ValueId value, bool on_node) const {
  const Path::Part& part = path().parts()[path().part_of(value)];
  ValueId own = value - part.first_value;
  const Path::Step& last = path().steps()[at_.next_step() - 1];
  return has_hook_at(part, own, on_node) &&
         !is_written_through_views(*part.graph, own, last.node + 1);
}

bool Walk::ends_function(const autograd::FunctionTensors& tensors,
                         const autograd::ResultKinds& kinds) {
  if (!has_pending_steps()) return false;
  const Path::Step& last = path().steps()[at_.next_step() - 1];
  const Path::Part& part = path().parts()[last.part];
  auto place = autograd::FunctionPlace::of(part.graph->node(last.node));
  if (!place || place->kinds != kinds) return false;
  auto are = [&](const std::vector<ValueId>& values, const std::vector<Tensor>& list) {
    return std::ranges::equal(values, list, [&](ValueId v, const Tensor& t) {
      if (v == no_value || !t.defined()) return v == no_value && !t.defined();
      return at_.names(path().number_of(part, v), t);
    });
  };
  return are(place->inputs, tensors.inputs) && are(place->results, tensors.results) &&
         are(place->saved, tensors.saved);
}

void Walk::add_function(std::shared_ptr<const autograd::WaitingFunction> function) {
  auto last = static_cast<uint32_t>(at_.next_step() - 1);
  requests.functions.push_back({last, std::move(function)});
}

std::optional<autograd::TapeRequests> requests_to(const Path::Part& part, const Walk& walk) {
  if (walk.requests.is_empty()) return std::nullopt;
  autograd::TapeRequests asked = walk.requests;
  for (autograd::HookOnValue& on : asked.hooks) on.value -= part.first_value;
  for (autograd::FunctionAtNode& at : asked.functions) at.last = walk.path().steps()[at.last].node;
  return asked;
}

// The code goes on the tape where the recording asked for it, and nowhere else.
bool Walk::has_requests_of(const Path::Part& part) const {
  if (requests.is_empty()) return part.hooked.empty() && part.functions.empty();
  auto has_hook = [&](ValueId value) {
    return std::ranges::find(requests.hooks, part.first_value + value,
                             &autograd::HookOnValue::value) != requests.hooks.end();
  };
  // It may have been expected on another path.
  auto is_expected = [&](const autograd::HookOnValue& on) {
    return has_hook_at(part, on.value - part.first_value, on.on_node);
  };
  auto node = [&](const autograd::FunctionAtNode& at) { return path().steps()[at.last].node; };
  return std::ranges::all_of(part.hooked, has_hook) &&
         std::ranges::all_of(requests.hooks, is_expected) &&
         std::ranges::equal(part.functions, requests.functions, {}, {}, node);
}

// ---- recording after all

OpUnit::Start Walk::become_recording(Trace& trace, size_t open_unit) {
  if (n_run_) trace.resume(*at_.version().recording, path(), n_run_, at_.frame());
  StepRange pending{begun_, at_.next_step(), open_unit};
  OpUnit::Start open = record_steps(trace, path(), at_.frame(), pending, requests);
  at_.drop_frame();
  return open;
}

}  // namespace tenon
