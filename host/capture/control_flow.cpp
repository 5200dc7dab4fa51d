// Functions given to cond, while_loop, map and scan: run, or recorded as bodies.
//
// Problem: a body sees its operands only, but a function sees every tensor around it. Model: a body
// is recorded within the recording in progress, on fakes of its own. A tensor from around becomes a
// further operand when the body first uses it. Method: bodies of one call share the list of such
// tensors; a body that was recorded before a tensor joined the list gets an input that it does not
// read. Looking at data inside ends in an error, since no body has any.
#include <tenon/control_flow.h>

#include "capture/body_scope.h"
#include "capture/errors/error_of_run.h"
#include "capture/guard_match.h"
#include "capture/outside.h"
#include "capture/trace.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"
#include "graph/body.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::detail {

namespace {

std::string place_of(BodySite site) {
  return message("{} at {}", site.op, user_location(site.where));
}

std::vector<TensorMeta> metas_of(const Tensors& tensors, BodySite site) {
  std::vector<TensorMeta> metas;
  for (const Tensor& t : tensors) {
    require(t.defined(), "{}: an operand is undefined; expected a tensor", place_of(site));
    metas.push_back(meta_of(t));
  }
  return metas;
}

/// Records the bodies of one call.
class BodyRecorder {
 public:
  explicit BodyRecorder(BodySite site) : site_(site), outer_(recorder_of_thread()) {}

  /// Body `name` on fakes like `inputs`, which are the tensors `like` or, without `are_operands`,
  /// slices of them or what becomes of them.
  void add(const char* name, std::span<const TensorMeta> inputs, const Tensors& like,
           const BodyFunction& fn, bool are_operands = false) {
    GraphRecorder recorder(outer_.shape_env());
    recorder.opens = outer_.opens;
    recorder.runs_outside = outer_.runs_outside;
    recorder.on_data_dependent = [&](const CallArgs& call) -> bool {
      fail(ErrorCode::graph_break,
           "{} gives what only the run knows, inside of a body of {}; move it out of the body",
           call.op->name, place_of(site_));
    };
    recorder.on_open_question = [](const CallArgs&) { return ErrorOfRun::note_current(), false; };
    size_t n_own = inputs.size();
    BodyScope scope(message("inside of a body of {}", place_of(site_)), outer_);
    InProgress here{recorder, scope, {}};
    recorder.import = [&](const Tensor& t) { return stand_in(here, t); };
    recorder.lift = [&](const Tensor& real) { return stand_in(here, real); };
    RecordScope records(recorder);
    Tensors fakes;
    for (size_t i = 0; i < n_own; ++i) {
      GraphValue value;
      value.flags.requires_grad = i < like.size() && like[i].requires_grad();
      fakes.push_back(recorder.add_input(inputs[i], 0, std::move(value)));
      scope.stands_for(fakes.back(), are_operands ? outer_.as_fake(like[i]) : Tensor());
    }
    for (const Tensor& outer : captured_) here.add_captured(outer);
    Tensors outputs = fn(fakes);
    for (const Tensor& t : outputs)
      require(t.defined(), "{}: a body gives an undefined tensor", place_of(site_));
    std::shared_ptr<Graph> body = recorder.finish(outputs);
    body->name = name;
    require_no_writes(*body, n_own);
    isolate_outputs(*body);
    bodies_.push_back(std::move(body));
    n_own_.push_back(n_own);
  }

  /// Calls the op on the operands, with what the bodies have captured as the last of them.
  Tensors call(const OpEntry& op, std::vector<Value> before, std::vector<Tensors> lists) {
    std::vector<std::vector<TensorMeta>> metas;
    for (const Tensors& list : lists) metas.push_back(metas_of(list, site_));
    std::ranges::copy(metas_of(captured_, site_), std::back_inserter(metas.back()));
    lists.back().insert(lists.back().end(), named_.begin(), named_.end());
    std::vector<Value> args = std::move(before);
    for (size_t b = 0; b < bodies_.size(); ++b) {
      for (size_t i = bodies_[b]->inputs().size() - n_own_[b]; i < captured_.size(); ++i) {
        GraphValue unread;
        unread.meta = meta_of(captured_[i]);
        bodies_[b]->add_input(std::move(unread));
      }
      for (ValueId v : bodies_[b]->inputs()) bodies_[b]->value(v).flags = {};
      bind_shown_symbols(*bodies_[b]);
      args.push_back(keep_body(outer_.graph(), bodies_[b]));
    }
    for (const Tensors& list : lists) args.push_back(Value::of(TensorList(list)));
    std::vector<const Graph*> graphs;
    for (const auto& body : bodies_) graphs.push_back(body.get());
    std::string problem = control_flow_problem(control_flow_of(op), graphs, metas);
    require(problem.empty(), "{}: {}", place_of(site_), problem);
    Value results[1];
    dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, 1);
    return take<Tensors>(results[0]);
  }

 private:
  /// A body while it is recorded.
  struct InProgress {
    GraphRecorder& recorder;
    BodyScope& scope;
    Tensors stand_ins;  // of captured_, by position

    void add_captured(const Tensor& outer) {
      GraphValue value;
      value.flags.requires_grad = outer.requires_grad();
      stand_ins.push_back(recorder.add_input(meta_of(outer), 0, std::move(value)));
      scope.stands_for(stand_ins.back(), outer);
    }
  };

  // Whoever runs the body may run it again, or not at all.
  void require_no_writes(const Graph& body, size_t n_own) const {
    AliasClasses classes(body);
    for (const Node& node : body.nodes())
      for (size_t a = 0; a < node.args.size(); ++a) {
        if (!(written_args(node) >> a & 1)) continue;
        for_each_value(node.args[a], [&](ValueId v) {
          for (ValueId input : body.inputs())
            if (classes.of(input) == classes.of(v)) fail_written(node, body.value(input), n_own);
        });
      }
  }

  [[noreturn]] void fail_written(const Node& node, const GraphValue& input, size_t n_own) const {
    fail(ErrorCode::graph_break,
         "{}{} writes {}, inside of a body of {}, which does not own it; write a copy, return "
         "it, and store it outside of the body",
         entry_of(node.op).name, at_place(node.where), tensor_named(input, n_own), place_of(site_));
  }

  static std::string tensor_named(const GraphValue& input, size_t n_own) {
    std::string text =
        message("{}{}", name_of(input.meta.dtype), symbolic_text(list_of(input.meta.sizes)));
    return input.source_index < n_own ? message("operand {} ({})", input.source_index, text)
                                      : message("a tensor from around it ({})", text);
  }

  // The input of the body that a tensor from around is, a new one where it is used for the first
  // time.
  Tensor stand_in(InProgress& body, const Tensor& t) {
    Tensor outer = outer_.as_fake(t);
    auto known =
        std::ranges::find_if(captured_, [&](const Tensor& c) { return same_head(c, outer); });
    auto at = static_cast<size_t>(known - captured_.begin());
    if (known == captured_.end()) {
      captured_.push_back(outer);
      named_.push_back(t);
    }
    if (at == body.stand_ins.size()) body.add_captured(outer);
    return body.stand_ins[at];
  }

  BodySite site_;
  GraphRecorder& outer_;
  Tensors captured_;  // fakes of the recording around
  Tensors named_;     // the same as the body names them: the tape knows leaves by that
  std::vector<std::shared_ptr<Graph>> bodies_;
  std::vector<size_t> n_own_;  // by body: inputs that are not captured
};

template <class P>
Tensors record_branches(P pred, const OpEntry& op, const BodyFunction& then,
                        const BodyFunction& otherwise, const Tensors& operands, BodySite site) {
  BodyRecorder bodies(site);
  std::vector<TensorMeta> inputs = metas_of(operands, site);
  GuardMatch guards(place_of(site));
  bodies.add("true_graph", inputs, operands, then, true);
  guards.next();
  bodies.add("false_graph", inputs, operands, otherwise, true);
  try {
    guards.check();
    return bodies.call(op, {pred}, {operands});
  } catch (...) {
    ErrorOfRun::note_current();  // a plain run takes one branch, whatever the other is like
    throw;
  }
}

}  // namespace

// What code that is not compiled calls runs one by one.
bool records_bodies() { return thread_modes.tracer != nullptr && !is_uncompiled(); }

// Of a body over no slices, which runs on fakes to say what a slice would look like.
static bool is_without_data(const Tensor& t) {
  return t.defined() && t.is_fake() && !thread_modes.tracer && !concrete_of(t).defined();
}

bool is_true(const Tensor& pred, BodySite site) {
  require(pred.defined() && pred.dtype() == Dtype::bool_ && pred.numel().guard_int() == 1,
          "{}: the condition is {}; expected a bool tensor with one element", place_of(site), pred);
  if (is_without_data(pred)) return false;  // what is carried looks the same after any iteration
  return item_bool(pred, site.where);
}

Tensors record_cond(const Tensor& pred, const BodyFunction& then, const BodyFunction& otherwise,
                    const Tensors& operands, BodySite site) {
  require(pred.defined() && pred.dtype() == Dtype::bool_,
          "{}: the condition is {}; expected a bool tensor with one element", place_of(site), pred);
  return record_branches(Value::of(pred), op_of(ControlFlow::cond), then, otherwise, operands,
                         site);
}

Tensors record_cond(SymBool pred, const BodyFunction& then, const BodyFunction& otherwise,
                    const Tensors& operands, BodySite site) {
  return record_branches(Value::of(Number(pred)), op_of(ControlFlow::cond, true), then, otherwise,
                         operands, site);
}

Tensors record_while_loop(const BodyFunction& condition, const BodyFunction& body,
                          const Tensors& carried, BodySite site) {
  BodyRecorder bodies(site);
  std::vector<std::vector<TensorMeta>> lists{metas_of(carried, site), {}};
  std::vector<TensorMeta> inputs = body_inputs(ControlFlow::while_loop, 0, lists);
  bodies.add("cond_graph", inputs, carried, condition);
  bodies.add("body_graph", inputs, carried, body);
  return bodies.call(op_of(ControlFlow::while_loop), {}, {carried, {}});
}

void check_next(const Tensors& now, const Tensors& next, BodySite site) {
  for (size_t i = 0; i < now.size() && i < next.size(); ++i) {
    bool same = next[i].defined() && now[i].dtype() == next[i].dtype() &&
                std::ranges::equal(now[i].sizes(), next[i].sizes(),
                                   [](SymInt a, SymInt b) { return a.word() == b.word(); });
    require(same,
            "{}: carried value {} was {} and becomes {}; expected the same dtype and sizes in "
            "every iteration",
            place_of(site), i, now[i], next[i]);
  }
  require(now.size() == next.size(), "{}: {} values were carried, now there are {}", place_of(site),
          now.size(), next.size());
}

namespace {

int64_t n_slices(const Tensors& xs, BodySite site) {
  require(!xs.empty(), "{}: nothing to iterate over: xs has no tensors", place_of(site));
  for (const Tensor& x : xs) {
    require(x.defined() && x.dim() > 0, "{}: a tensor of xs has no dimension 0 to iterate over: {}",
            place_of(site), x);
    require(x.size(0).guard_int() == xs[0].size(0).guard_int(),
            "{}: tensors of xs have {} and {} slices; expected as many", place_of(site),
            xs[0].size(0), x.size(0));
  }
  return xs[0].size(0).guard_int();
}

Tensors slices_at(const Tensors& xs, int64_t i) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(x.select(0, i));
  return out;
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Stacks of no slice: what one would look like is asked on fakes.
Tensors empty_stacks(const BodyFunction& combine, const Tensors& init, const Tensors& xs) {
  std::vector<TensorMeta> metas;
  {
    PauseRecording pause;  // of other fakes
    FakeScope on_fakes;
    Tensors fakes;
    for (const Tensor& t : init) fakes.push_back(make_fake(meta_of(t)));
    for (const Tensor& x : xs)
      fakes.push_back(make_fake(contiguous_meta(x.sizes().slice(1), x.dtype(), x.device())));
    for (const Tensor& t : combine(fakes)) metas.push_back(meta_of(t));
  }
  Tensors out;
  for (size_t i = init.size(); i < metas.size(); ++i) {
    Dims sizes{SymInt(0)};
    for (SymInt s : metas[i].sizes) sizes.push_back(s);
    out.push_back(empty(list_of(sizes), metas[i].dtype, std::nullopt, metas[i].device));
  }
  return out;
}

Tensors run_scan_here(const BodyFunction& combine, const Tensors& init, const Tensors& xs,
                      BodySite site) {
  int64_t n = n_slices(xs, site);
  if (n == 0) return joined(init, empty_stacks(combine, init, xs));
  Tensors state = init;
  std::vector<Tensors> parts;
  for (int64_t i = 0; i < n; ++i) {
    Tensors results = combine(joined(state, slices_at(xs, i)));
    auto middle = results.begin() + static_cast<ptrdiff_t>(init.size());
    Tensors next(results.begin(), middle);
    check_next(state, next, site);
    state = std::move(next);
    parts.resize(results.size() - init.size());
    for (size_t r = 0; r < parts.size(); ++r) parts[r].push_back(results[init.size() + r]);
  }
  for (const Tensors& list : parts) state.push_back(stack(list));
  return state;
}

}  // namespace

Tensors run_scan(const BodyFunction& combine, const Tensors& init, const Tensors& xs,
                 BodySite site) {
  if (!records_bodies()) return run_scan_here(combine, init, xs, site);
  BodyRecorder bodies(site);
  std::vector<std::vector<TensorMeta>> lists{metas_of(init, site), metas_of(xs, site), {}};
  std::vector<TensorMeta> inputs = body_inputs(ControlFlow::scan, 0, lists);
  bodies.add("combine_graph", inputs, joined(init, xs), combine);
  return bodies.call(op_of(ControlFlow::scan), {}, {init, xs, {}});
}

Tensors run_map(const BodyFunction& body, const Tensors& xs, BodySite site) {
  if (!records_bodies()) return run_scan_here(body, {}, xs, site);
  BodyRecorder bodies(site);
  std::vector<std::vector<TensorMeta>> lists{metas_of(xs, site), {}};
  bodies.add("body_graph", body_inputs(ControlFlow::map, 0, lists), xs, body);
  return bodies.call(op_of(ControlFlow::map), {}, {xs, {}});
}

Tensors run_associative_scan(const BodyFunction& combine, const Tensors& xs, BodySite site) {
  if (!records_bodies()) {
    require(n_slices(xs, site) > 0, "{}: xs has no slices; expected one or more", place_of(site));
    Tensors first = slices_at(xs, 0), others;
    for (const Tensor& x : xs) others.push_back(x.slice(0, 1));
    auto twice = [&](const Tensors& in) {
      Tensors next = combine(in);
      return joined(next, next);
    };
    Tensors out = run_scan_here(twice, first, others, site);
    Tensors result;
    for (size_t i = 0; i < xs.size(); ++i)
      result.push_back(cat({first[i].unsqueeze(0), out[xs.size() + i]}, 0));
    return result;
  }
  BodyRecorder bodies(site);
  std::vector<std::vector<TensorMeta>> lists{metas_of(xs, site), {}};
  std::vector<TensorMeta> inputs = body_inputs(ControlFlow::associative_scan, 0, lists);
  bodies.add("combine_graph", inputs, joined(xs, xs), combine);
  return bodies.call(op_of(ControlFlow::associative_scan), {}, {xs, {}});
}

void fail_body_leaves(BodySite site) {
  fail(
      "{}: a body gives a number or a text; expected tensors only: make a tensor of it, or return "
      "it outside of the body",
      place_of(site));
}

void fail_body_trees(BodySite site) {
  fail(
      "{}: bodies give trees of different structure, or one that changes between iterations; "
      "expected the same containers with as many tensors",
      place_of(site));
}

}  // namespace tenon::detail

namespace tenon {

std::optional<bool> Predicate::known() const {
  if (!tensor_.defined() && !symbol_.is_symbolic()) return symbol_.guard_bool();
  if (detail::records_bodies()) return std::nullopt;
  if (detail::is_without_data(tensor_)) return true;  // either branch says what results look like
  return tensor_.defined() ? detail::is_true(tensor_, site()) : symbol_.guard_bool();
}

detail::Tensors Predicate::record(const detail::BodyFunction& then,
                                  const detail::BodyFunction& otherwise,
                                  const detail::Tensors& operands) const {
  return tensor_.defined() ? detail::record_cond(tensor_, then, otherwise, operands, site())
                           : detail::record_cond(symbol_, then, otherwise, operands, site());
}

}  // namespace tenon
