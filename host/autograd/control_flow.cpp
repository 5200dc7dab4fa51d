// Derivatives of control flow within recordings.
//
// Problem: a recording holds no branch that was taken and no number of iterations, so the tape
//   cannot follow the ops of the bodies. Model: the derivative of a body is a body: from its inputs
//   and the gradients of its results the gradients of its inputs. Of cond it is the cond of both
//   derivatives. Of scan it is a scan from the last slice to the first, which carries the gradients
//   of the carry and those of what every iteration reads; the forward stacks the carry that each
//   iteration began with, which is a result like others where a second derivative sends it a
//   gradient. map is a scan that carries nothing. Method: the body is recorded again on a tape of
//   its own, and the engine walks that tape, all within a recording inside of the one in progress.
//   Cost: the forward of each body is computed again in the backward.
#include "autograd/control_flow.h"

#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "autograd/run_cond.h"
#include "autograd/saved/saved_tensor.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "graph/body.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

using Tensors = std::vector<Tensor>;
using Body = std::shared_ptr<Graph>;

// The body of a call, which the graph in progress or another one owns, as one that a node can keep.
Body kept(const Graph* body) {
  for (const Body& known : recorder_of_thread().graph().subgraphs)
    if (known.get() == body) return known;
  return clone(*body);
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<TensorMeta> metas_of(const Tensors& tensors) {
  std::vector<TensorMeta> metas;
  for (const Tensor& t : tensors) metas.push_back(meta_of(t));
  return metas;
}

Tensors call_list(const OpEntry& op, std::span<const Value> args) {
  Value results[1];
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, 1);
  return take<Tensors>(results[0]);
}

Value keep(Body body) { return keep_body(recorder_of_thread().graph(), std::move(body)); }

const OpEntry& scan_op() {
  static const OpEntry& op = op_of(ControlFlow::scan);
  return op;
}

/// One list of operands on the tape.
struct SavedList {
  std::vector<SavedTensor> tensors;
  size_t first_edge = 0;

  SavedList() = default;
  SavedList(const Tensors& list, Node& node) : first_edge(node.next.size()) {
    for (const Tensor& t : list) {
      tensors.emplace_back(t, false);
      node.next.push_back(edge_of(t));
    }
  }
  Tensors unpack(const std::shared_ptr<Node>& owner) const {
    Tensors out;
    for (const SavedTensor& t : tensors) out.push_back(t.unpack(owner, "an operand"));
    return out;
  }
  /// Positions in the list whose gradient somebody wants.
  std::vector<size_t> wanted(const Node& node) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (node.next[first_edge + i]) out.push_back(i);
    return out;
  }
  void release() {
    for (SavedTensor& t : tensors) t.release();
  }
};

Tensor zeros_like_meta(const GradMeta& meta) {
  return zeros(list_of(meta.sizes), meta.dtype, {}, meta.device);
}

// The gradients of a node's floating results, zeros where none arrived.
Tensors tangents_of(const Tensors& grads, const Node& node, size_t first, size_t end) {
  Tensors out;
  for (size_t i = first; i < end; ++i)
    if (is_differentiable(node.inputs[i].dtype))
      out.push_back(grads[i].defined() ? grads[i] : zeros_like_meta(node.inputs[i]));
  return out;
}

// Where bodies of cond differ in a size, the call's result has one that the data decide, and each
// body's has its own; so have gradients of it. `values` of the call as a body takes them: those whose
// size differs are to lie row by row, as nothing else is said of them.
void add_metas(std::vector<TensorMeta>& metas, Tensors& values, const Graph& body,
               std::span<const ValueId> own_values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor& value = values[i];
    const TensorMeta& own = body.value(own_values[i]).meta;
    bool is_own = !same_sizes(value.sizes(), list_of(own.sizes));
    if (is_own) value = value.contiguous();
    metas.push_back(is_own ? contiguous_meta(list_of(own.sizes), value.dtype(), value.device())
                           : meta_of(value));
  }
}

std::vector<ValueId> floating_results(const Graph& body) {
  std::vector<ValueId> out;
  for (ValueId v : body.outputs())
    if (is_differentiable(body.value(v).meta.dtype)) out.push_back(v);
  return out;
}

// The body once more, then from the gradients of its floating results those of `wanted` inputs.
Tensors body_gradients(const Graph& body, const Tensors& inputs, const std::vector<size_t>& wanted,
                       const Tensors& tangents) {
  Tensors results = replay_body(body, inputs);
  std::vector<Edge> roots, leaves;
  Tensors sent;
  size_t next_tangent = 0;
  for (const Tensor& result : results) {
    if (!is_differentiable(result.dtype())) continue;
    const Tensor& tangent = tangents[next_tangent++];
    if (!result.requires_grad()) continue;
    roots.push_back(edge_of(result));
    sent.push_back(tangent);
  }
  for (size_t w : wanted) leaves.push_back(edge_of(inputs[w]));
  Tensors gradients(wanted.size());
  if (!roots.empty()) {
    // Gradients are off for the engine; whoever runs the body decides anew.
    GraphRecorder& recorder = recorder_of_thread();
    bool before = std::exchange(recorder.is_backward, true);
    gradients = run_engine(roots, std::move(sent), leaves, {.accumulate = false});
    recorder.is_backward = before;
  }
  for (size_t k = 0; k < wanted.size(); ++k)
    if (!gradients[k].defined()) gradients[k] = inputs[wanted[k]].zeros_like();
  return gradients;
}

std::vector<bool> flags_of(size_t n, const std::vector<size_t>& positions) {
  std::vector<bool> flags(n);
  for (size_t p : positions) flags[p] = true;
  return flags;
}

// A node whose results are those of the call.
void give_history(const CallArgs& call, const std::shared_ptr<Node>& node) {
  node->add_inputs(call);
  std::vector<bool> needs = results_that_need_gradients(call);
  each_result(call, [&](const Tensor& t, uint32_t input) {
    if (needs[input]) set_history(t, node, input);
  });
}

// ---- cond

class CondNode final : public Node {
 public:
  explicit CondNode(const CallArgs& call) : op_(*call.op), number_(call.args[0]) {
    if (number_.tag == Tag::tensor) {
      predicate_ = SavedTensor(*number_.as<Tensor>(), false);
      number_ = {};
    }
    ControlCall parts = control_call(op_, call.args, call.n_args);
    for (const Graph* body : parts.bodies) bodies_.push_back(kept(body));
    operands_ = SavedList(parts.operands[0], *this);
  }

  std::string name() const override { return "CondBackward"; }

  void release() override {
    predicate_.release();
    operands_.release();
  }

  Tensors apply(Tensors grads) override {
    Tensors out(next.size());
    std::vector<size_t> wanted = operands_.wanted(*this);
    if (wanted.empty()) return out;
    Tensors operands = operands_.unpack(shared_from_this());
    size_t n = operands.size();
    Tensors tangents = tangents_of(grads, *this, 0, grads.size());
    Tensor predicate;
    if (predicate_.defined()) predicate = predicate_.unpack(shared_from_this(), "the predicate");
    std::vector<Value> args{predicate.defined() ? Value::of(predicate) : number_};
    for (const Body& body : bodies_) {
      std::vector<TensorMeta> metas;
      add_metas(metas, operands, *body, body->inputs());
      add_metas(metas, tangents, *body, floating_results(*body));
      args.push_back(keep(record_body(
          metas,
          [&](const Tensors& fakes) {
            auto middle = fakes.begin() + static_cast<ptrdiff_t>(n);
            return body_gradients(*body, {fakes.begin(), middle}, wanted, {middle, fakes.end()});
          },
          true, flags_of(n, wanted))));
    }
    Tensors inputs = joined(std::move(operands), tangents);
    args.push_back(Value::of(TensorList(inputs)));
    Tensors gradients = call_list(op_, args);
    for (size_t k = 0; k < wanted.size(); ++k) out[wanted[k]] = gradients[k];
    return out;
  }

 private:
  const OpEntry& op_;
  SavedTensor predicate_;
  Value number_;  // where the predicate is not a tensor
  std::vector<Body> bodies_;
  SavedList operands_;
};

void record_cond(const CallArgs& call) {
  auto node = std::make_shared<CondNode>(call);
  note_origin(*node, call.op->name);
  {
    BelowAutograd below;
    dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
  }
  give_history(call, node);
}

// ---- scan and map

/// The operands of a scan; of a map nothing is carried.
struct ScanParts {
  Body body;
  Tensors init, xs, extra;

  explicit ScanParts(const CallArgs& call) {
    ControlCall parts = control_call(*call.op, call.args, call.n_args);
    body = kept(parts.bodies[0]);
    size_t at = 0;
    if (parts.kind == ControlFlow::scan) init = std::move(parts.operands[at++]);
    xs = std::move(parts.operands[at++]);
    extra = std::move(parts.operands[at]);
  }

  // The body with the carry that it was given as further results.
  Body showing_carry() const {
    Body shown = clone(*body);
    std::vector<ValueId> outputs(shown->outputs().begin(), shown->outputs().end());
    for (size_t i = 0; i < init.size(); ++i) outputs.push_back(shown->inputs()[i]);
    shown->set_outputs(std::move(outputs));
    isolate_outputs(*shown);
    return shown;
  }
};

Tensors run_scan(Value body, const Tensors& init, const Tensors& xs, const Tensors& extra) {
  Value args[] = {body, Value::of(TensorList(init)), Value::of(TensorList(xs)),
                  Value::of(TensorList(extra))};
  return call_list(scan_op(), args);
}

Tensors flipped(const Tensors& list) {
  Tensors out;
  for (const Tensor& t : list) out.push_back(t.flip({0}));
  return out;
}

class ScanNode final : public Node {
 public:
  ScanNode(const ScanParts& parts, std::string name)
      : name_(std::move(name)), body_(parts.body), n_carried_(parts.init.size()) {
    for (const Tensor& t : parts.init) next.push_back(edge_of(t));
    xs_ = SavedList(parts.xs, *this);
    extra_ = SavedList(parts.extra, *this);
  }
  /// After the results have their history: what `shown` gives besides them, whose history is this
  /// node too.
  void save_carries(const Tensors& stacked, Body shown, const std::vector<bool>& needs) {
    shown_ = std::move(shown);
    for (size_t i = 0; i < stacked.size(); ++i) {
      uint32_t input = add_input(stacked[i]);
      carries_.tensors.emplace_back(stacked[i], true, needs[i] ? input : SavedTensor::no_history);
    }
  }

  std::string name() const override { return name_; }

  void release() override {
    xs_.release();
    extra_.release();
    carries_.release();
  }

  Tensors apply(Tensors grads) override {
    const std::vector<size_t> xs = xs_.wanted(*this), extra = extra_.wanted(*this);
    std::shared_ptr<Node> self = shared_from_this();
    const Graph& body = body_for(grads);
    grads.resize(body.outputs().size());
    Tensors also = extra_.unpack(self);
    // What the backward scan carries: gradients of the carry, and sums for what all iterations
    // read.
    Tensors carried = tangents_of(grads, *this, 0, n_carried_);
    for (size_t e : extra) carried.push_back(also[e].zeros_like());
    Tensors slices = joined(joined(xs_.unpack(self), carries_.unpack(self)),
                            tangents_of(grads, *this, n_carried_, grads.size()));
    slices = flipped(slices);
    std::vector<std::vector<TensorMeta>> lists{metas_of(carried), metas_of(slices), metas_of(also)};
    Body backward = backward_body(body, body_inputs(ControlFlow::scan, 0, lists), carried.size());
    Tensors found = run_scan(keep(std::move(backward)), carried, slices, also);
    return placed(found, xs, extra);
  }

 private:
  // A first derivative sends the stacked carries nothing.
  const Graph& body_for(const Tensors& grads) const {
    auto of_carries = std::span(grads).subspan(body_->outputs().size());
    return std::ranges::any_of(of_carries, &Tensor::defined) ? *shown_ : *body_;
  }

  std::vector<size_t> floating_carries() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < n_carried_; ++i)
      if (is_differentiable(inputs[i].dtype)) out.push_back(i);
    return out;
  }

  // Inputs of the body whose gradients are computed: floating carries, wanted slices, wanted extra.
  std::vector<size_t> wanted_inputs() const {
    std::vector<size_t> out = floating_carries();
    for (size_t x : xs_.wanted(*this)) out.push_back(n_carried_ + x);
    for (size_t e : extra_.wanted(*this)) out.push_back(n_carried_ + xs_.tensors.size() + e);
    return out;
  }

  // (gradients of the carry, sums; slices, carry, gradients of outputs; extra)
  //   -> (gradients of the carry before, sums; gradients of the slices)
  Body backward_body(const Graph& body, const std::vector<TensorMeta>& metas,
                     size_t n_backward_carry) const {
    size_t n_xs = xs_.tensors.size(), n_extra = extra_.tensors.size();
    size_t n_grads = floating_carries().size(), first_slice = n_backward_carry;
    size_t n_outputs = metas.size() - first_slice - n_xs - n_carried_ - n_extra;
    std::vector<size_t> wanted = wanted_inputs();
    size_t n_wanted_xs = xs_.wanted(*this).size();
    auto run = [&](const Tensors& f) {
      auto part = [&](size_t from, size_t n) {
        auto at = f.begin() + static_cast<ptrdiff_t>(from);
        return Tensors(at, at + static_cast<ptrdiff_t>(n));
      };
      Tensors given = joined(joined(part(first_slice + n_xs, n_carried_), part(first_slice, n_xs)),
                             part(f.size() - n_extra, n_extra));
      Tensors sent = joined(part(0, n_grads), part(first_slice + n_xs + n_carried_, n_outputs));
      Tensors found = body_gradients(body, given, wanted, sent);
      Tensors out(found.begin(), found.begin() + static_cast<ptrdiff_t>(n_grads));
      for (size_t e = 0; e < n_backward_carry - n_grads; ++e)
        out.push_back(f[n_grads + e] + found[n_grads + n_wanted_xs + e]);
      for (size_t x = 0; x < n_wanted_xs; ++x) out.push_back(found[n_grads + x]);
      return out;
    };
    size_t first_extra = metas.size() - n_extra;
    return record_body(metas, run, true,
                       flags_of(metas.size(), positions(wanted, first_slice, first_extra)));
  }

  // Where inputs of the body stand among those of the backward body.
  std::vector<size_t> positions(const std::vector<size_t>& wanted, size_t first_slice,
                                size_t first_extra) const {
    size_t n_xs = xs_.tensors.size();
    std::vector<size_t> out;
    for (size_t w : wanted)
      out.push_back(w < n_carried_          ? first_slice + n_xs + w
                    : w < n_carried_ + n_xs ? first_slice + (w - n_carried_)
                                            : first_extra + (w - n_carried_ - n_xs));
    return out;
  }

  Tensors placed(const Tensors& found, const std::vector<size_t>& xs,
                 const std::vector<size_t>& extra) const {
    Tensors out(next.size());
    std::vector<size_t> carries = floating_carries();
    size_t at = 0;
    for (size_t c : carries) {
      if (next[c]) out[c] = found[at];
      ++at;
    }
    for (size_t e : extra) out[extra_.first_edge + e] = found[at++];
    for (size_t x : xs) out[xs_.first_edge + x] = found[at++].flip({0});
    return out;
  }

  std::string name_;
  Body body_, shown_;  // the second one of a scan only
  size_t n_carried_;
  SavedList xs_, extra_, carries_;
};

void record_map(const CallArgs& call) {
  auto node = std::make_shared<ScanNode>(ScanParts(call), "MapBackward");
  note_origin(*node, call.op->name);
  {
    BelowAutograd below;
    dispatch(*call.op, call.args, call.n_args, call.results, call.n_results);
  }
  give_history(call, node);
}

void record_scan(const CallArgs& call) {
  ScanParts parts(call);
  auto node = std::make_shared<ScanNode>(parts, "ScanBackward");
  note_origin(*node, call.op->name);
  Body showing = parts.showing_carry();
  Tensors results;
  {
    BelowAutograd below;
    results = run_scan(keep(showing), parts.init, parts.xs, parts.extra);
  }
  auto shown = results.end() - static_cast<ptrdiff_t>(parts.init.size());
  Tensors carries(shown, results.end());
  results.erase(shown, results.end());
  call.results[0] = Value::own(std::move(results));
  give_history(call, node);
  // A carry that any iteration gives a gradient is among the results that need one.
  node->save_carries(carries, std::move(showing), results_that_need_gradients(call));
}

// The first slice is the carry of a scan over the others, which puts out each new carry.
void record_associative_scan(const CallArgs& call) {
  ControlCall parts = control_call(*call.op, call.args, call.n_args);
  Body twice = clone(*parts.bodies[0]);
  std::vector<ValueId> outputs(twice->outputs().begin(), twice->outputs().end());
  outputs.insert(outputs.end(), twice->outputs().begin(), twice->outputs().end());
  twice->set_outputs(std::move(outputs));
  isolate_outputs(*twice);
  Tensors first, others, out;
  for (const Tensor& x : parts.operands[0]) {
    first.push_back(x.select(0, 0));
    others.push_back(x.slice(0, 1));
  }
  Tensors results = run_scan(keep(std::move(twice)), first, others, parts.operands[1]);
  for (size_t i = 0; i < first.size(); ++i)
    out.push_back(cat({first[i].unsqueeze(0), results[first.size() + i]}, 0));
  call.results[0] = Value::own(std::move(out));
}

}  // namespace

// The backward computes bodies again: they must not draw other numbers then, nor act twice.
static void require_repeatable_bodies(const CallArgs& call) {
  constexpr bool random = true, checks = false;
  for (const Graph* body : control_call(*call.op, call.args, call.n_args).bodies)
    require(!has_effects(*body, random, checks), ErrorCode::unsupported,
            "{}: its body draws random numbers or has effects, so its derivative, which runs the "
            "body again, is not recorded ahead; differentiate it on real tensors, or draw the "
            "numbers outside of the body",
            call.op->name);
}

void record_control_flow(const CallArgs& call) {
  bool is_cond = control_flow_of(*call.op) == ControlFlow::cond;
  if (!thread_modes.tracer) return is_cond ? run_cond(call) : run_loop(call);
  require_repeatable_bodies(call);
  switch (control_flow_of(*call.op)) {
    case ControlFlow::cond:
      return record_cond(call);
    case ControlFlow::map:
      return record_map(call);
    case ControlFlow::scan:
      return record_scan(call);
    case ControlFlow::associative_scan:
      return record_associative_scan(call);
    default:
      fail(ErrorCode::unsupported,
           "while_loop: how often it runs is known at run time only, so its derivative is not "
           "recorded ahead; differentiate it on real tensors, or use scan where the number of "
           "iterations is a size");
  }
}

}  // namespace tenon::autograd
