// The rows of control flow: running bodies by hand, one after the other.
//
// Each kernel is also the row's decomposition: on the tape it runs under the autograd key, so that
// the ops of the bodies that run are recorded one by one. Recordings of gradients get nodes of
// their own instead, autograd/control_flow.cpp.
#include "graph/control_flow.h"

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"
#include "graph/body.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>
#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

namespace {

constexpr std::pair<std::string_view, ControlFlow> kinds[] = {
    {"cond", ControlFlow::cond},
    {"while_loop", ControlFlow::while_loop},
    {"map", ControlFlow::map},
    {"scan", ControlFlow::scan},
    {"associative_scan", ControlFlow::associative_scan},
};

}  // namespace

const OpEntry& op_of(ControlFlow kind, bool by_number) {
  auto row = std::ranges::find(kinds, kind, [](const auto& k) { return k.second; });
  ensure(row != std::end(kinds), "an op without bodies is asked for");
  return entry_of(op_id(message("higher_order.{}.{}", row->first, by_number ? "bool" : "default")));
}

ControlFlow control_flow_of(const OpEntry& op) {
  if (!(op.tags & TN_TAG_HIGHER_ORDER) || op.schema.ns != "higher_order") return ControlFlow::none;
  for (const auto& [name, kind] : kinds)
    if (op.schema.name == name) return kind;
  return ControlFlow::none;
}

ControlCall control_call(const OpEntry& op, const Value* args, uint32_t n_args) {
  ControlCall call;
  call.kind = control_flow_of(op);
  for (uint32_t i = 0; i < n_args; ++i) {
    if (op.schema.args[i].type.base == BaseType::graph)
      call.bodies.push_back(args[i].tag == Tag::graph ? args[i].as<Graph>() : nullptr);
    else if (op.schema.args[i].type.is_list)
      call.operands.emplace_back(args[i].as<Tensor>(), args[i].as<Tensor>() + args[i].count);
  }
  return call;
}

namespace ops {

namespace {

const Graph& body_of(const Value& v) {
  require(v.tag == Tag::graph, "control flow was called without its body");
  return *v.as<Graph>();
}

bool is_shared(const Tensor& t, TensorList others) {
  return std::any_of(others.begin(), others.end(), [&](const Tensor& o) {
    return o.defined() && (o.is_same(t) || shares_storage(o, t));
  });
}

bool is_constant_of(const Graph& body, const Tensor& t) {
  return std::ranges::any_of(body.constants(),
                             [&](ValueId c) { return shares_storage(body.constant(c), t); });
}

// Results as memory of their own, so that a write to one is seen nowhere else.
void own_memory(std::vector<Tensor>& results, TensorList operands, const Graph& body) {
  for (size_t i = 0; i < results.size(); ++i)
    if (is_shared(results[i], operands) || is_shared(results[i], TensorList(results.data(), i)) ||
        is_constant_of(body, results[i]))
      results[i] = results[i].clone(MemoryFormat::contiguous);
}

// A result in the layout that the body was recorded with: other operands may have given another.
Tensor as_promised(Tensor t, const TensorMeta& meta) {
  bool is_known = std::ranges::none_of(meta.strides, &SymInt::is_symbolic) &&
                  std::ranges::none_of(meta.sizes, &SymInt::is_symbolic);
  if (!is_known || t.numel() == 0) return t;
  for (size_t d = 0; d < meta.sizes.size(); ++d)
    if (meta.sizes[d] != 1 && t.strides()[d] != meta.strides[d])
      return copy(t.new_empty_strided(t.sizes(), list_of(meta.strides)), t);
  return t;
}

std::vector<Tensor> choose(bool which, const Value& true_graph, const Value& false_graph,
                           TensorList operands) {
  const Graph &a = body_of(true_graph), &b = body_of(false_graph);
  const Graph& taken = which ? a : b;
  require(a.outputs().size() == b.outputs().size(),
          "cond: true_graph gives {} results, false_graph {}; expected as many", a.outputs().size(),
          b.outputs().size());
  std::vector<Tensor> results = run_body(taken, {operands.begin(), operands.end()});
  own_memory(results, operands, taken);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = same_layout(a, b, i)
                     ? as_promised(std::move(results[i]), a.value(a.outputs()[i]).meta)
                     : results[i].contiguous();
  return results;
}

bool verdict(const Tensor& t, std::string_view who) {
  require(t.defined() && t.dtype() == Dtype::bool_ && t.numel().guard_int() == 1,
          "{}: expected one bool with one element, found {}", who, t);
  return detail::item_bool(t, std::source_location::current());
}

std::vector<Tensor> cond_kernel(const Tensor& pred, Value true_graph, Value false_graph,
                                TensorList operands) {
  return choose(verdict(pred, "the predicate of cond"), true_graph, false_graph, operands);
}

std::vector<Tensor> cond_number_kernel(bool pred, Value true_graph, Value false_graph,
                                       TensorList operands) {
  return choose(pred, true_graph, false_graph, operands);
}

std::vector<Tensor> row_by_row(TensorList list) {
  std::vector<Tensor> out;
  for (const Tensor& t : list) out.push_back(t.contiguous());
  return out;
}

std::vector<Tensor> joined(std::vector<Tensor> a, std::span<const Tensor> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool same_sizes(SymIntList a, SymIntList b) {
  return std::ranges::equal(a, b, [](SymInt x, SymInt y) { return x.word() == y.word(); });
}

// Values of the next iteration look like those of this one.
void check_carried(std::string_view op, const std::vector<Tensor>& now,
                   const std::vector<Tensor>& next) {
  for (size_t i = 0; i < now.size(); ++i)
    require(now[i].dtype() == next[i].dtype() && same_sizes(now[i].sizes(), next[i].sizes()),
            "{}: carried value {} was {} and becomes {}; expected the same dtype and sizes in "
            "every iteration",
            op, i, now[i], next[i]);
}

std::vector<Tensor> while_loop_kernel(Value cond_graph, Value body_graph, TensorList carried,
                                      TensorList extra) {
  const Graph &condition = body_of(cond_graph), &body = body_of(body_graph);
  require(body.outputs().size() == carried.size() && condition.outputs().size() == 1,
          "while_loop: body_graph gives {} results, {} values are carried; expected as many",
          body.outputs().size(), carried.size());
  std::span<const Tensor> also{extra.begin(), extra.end()};
  std::vector<Tensor> state = row_by_row(carried);
  for (;;) {
    std::vector<Tensor> inputs = joined(state, also);
    if (!verdict(run_body(condition, inputs)[0], "the condition of while_loop")) break;
    std::vector<Tensor> next = row_by_row(run_body(body, inputs));
    check_carried("while_loop", state, next);
    state = std::move(next);
  }
  own_memory(state, carried, body);
  for (size_t i = 0; i < state.size(); ++i)
    if (is_shared(state[i], extra)) state[i] = state[i].clone(MemoryFormat::contiguous);
  return state;
}

/// What is iterated over: tensors with as many slices each.
class Slices {
 public:
  Slices(TensorList xs, std::string_view op) : xs_(row_by_row(xs)) {
    require(!xs_.empty(), "{}: nothing to iterate over: xs is empty", op);
    for (const Tensor& x : xs_) {
      require(x.dim() > 0, "{}: a tensor of xs has no dimension 0 to iterate over", op);
      require(x.size(0).word() == xs_[0].size(0).word(), "{}: tensors of xs have {} and {} slices",
              op, xs_[0].size(0), x.size(0));
    }
    n_ = xs_[0].size(0).guard_int();
  }
  int64_t size() const { return n_; }
  std::vector<Tensor> at(int64_t i) const {
    std::vector<Tensor> out;
    for (const Tensor& x : xs_) out.push_back(x.select(0, i));
    return out;
  }
  /// Fakes like a slice, for bodies that have nothing to run on.
  std::vector<Tensor> like_one() const {
    std::vector<Tensor> out;
    for (const Tensor& x : xs_) out.push_back(like(x.sizes().slice(1), x.dtype(), x.device()));
    return out;
  }
  static Tensor like(SymIntList sizes, Dtype dtype, Device device) {
    return make_fake(contiguous_meta(sizes, dtype, device));
  }

 private:
  std::vector<Tensor> xs_;
  int64_t n_ = 0;
};

// Results of no iteration at all: their shapes are what the body says on fakes.
std::vector<Tensor> stacked_nothing(const Graph& body, std::span<const Tensor> state,
                                    const Slices& slices, TensorList extra) {
  std::vector<Tensor> fakes;
  std::vector<TensorMeta> metas;
  {
    FakeScope on_fakes;
    for (const Tensor& t : state) fakes.push_back(Slices::like(t.sizes(), t.dtype(), t.device()));
    for (Tensor& t : slices.like_one()) fakes.push_back(std::move(t));
    for (const Tensor& t : extra) fakes.push_back(make_fake(meta_of(t)));
    for (const Tensor& t : run_body(body, fakes)) metas.push_back(meta_of(t));
  }
  std::vector<Tensor> out;
  for (size_t i = state.size(); i < metas.size(); ++i) {
    Dims sizes{SymInt(0)};
    for (SymInt s : metas[i].sizes) sizes.push_back(s);
    out.push_back(empty(list_of(sizes), metas[i].dtype, std::nullopt, metas[i].device));
  }
  return out;
}

std::vector<Tensor> stack_each(const std::vector<std::vector<Tensor>>& by_result) {
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& parts : by_result) out.push_back(stack(parts));
  return out;
}

std::vector<Tensor> scan_kernel(Value combine_graph, TensorList init, TensorList xs,
                                TensorList extra) {
  const Graph& combine = body_of(combine_graph);
  require(combine.outputs().size() >= init.size(),
          "scan: combine_graph gives {} results, {} values are carried; expected as many or more",
          combine.outputs().size(), init.size());
  Slices slices(xs, "scan");
  std::span<const Tensor> also{extra.begin(), extra.end()};
  std::vector<Tensor> state = row_by_row(init);
  size_t n_carried = state.size(), n_stacked = combine.outputs().size() - n_carried;
  std::vector<std::vector<Tensor>> parts(n_stacked);
  for (int64_t i = 0; i < slices.size(); ++i) {
    std::vector<Tensor> results = run_body(combine, joined(joined(state, slices.at(i)), also));
    for (size_t r = 0; r < n_stacked; ++r) parts[r].push_back(results[n_carried + r]);
    results.resize(n_carried);
    std::vector<Tensor> next = row_by_row(results);
    check_carried("scan", state, next);
    state = std::move(next);
  }
  std::vector<Tensor> ys =
      slices.size() ? stack_each(parts) : stacked_nothing(combine, state, slices, extra);
  std::vector<Tensor> operands =
      joined(joined({init.begin(), init.end()}, {xs.begin(), xs.end()}), also);
  own_memory(state, operands, combine);
  return joined(std::move(state), ys);
}

std::vector<Tensor> map_kernel(Value body_graph, TensorList xs, TensorList extra) {
  return scan_kernel(body_graph, {}, xs, extra);
}

// The first result is the first slice; each further one is made of the last and the next slice.
std::vector<Tensor> associative_scan_kernel(Value combine_graph, TensorList xs, TensorList extra) {
  const Graph& combine = body_of(combine_graph);
  require(combine.outputs().size() == xs.size(),
          "associative_scan: combine_graph gives {} results for {} tensors; expected as many",
          combine.outputs().size(), xs.size());
  Slices slices(xs, "associative_scan");
  require(slices.size() > 0, "associative_scan: xs has no slices; expected one or more");
  std::vector<Tensor> state = slices.at(0);
  std::vector<std::vector<Tensor>> parts;
  for (const Tensor& t : state) parts.push_back({t});
  for (int64_t i = 1; i < slices.size(); ++i) {
    std::vector<Tensor> inputs = joined(joined(state, slices.at(i)), {extra.begin(), extra.end()});
    std::vector<Tensor> next = row_by_row(run_body(combine, inputs));
    check_carried("associative_scan", state, next);
    state = std::move(next);
    for (size_t r = 0; r < state.size(); ++r) parts[r].push_back(state[r]);
  }
  return stack_each(parts);
}

// ---- what results look like

std::vector<TensorMeta> metas_of(ControlFlow kind, std::initializer_list<const Value*> graphs,
                                 std::initializer_list<TensorList> lists) {
  std::vector<const Graph*> bodies;
  for (const Value* g : graphs) bodies.push_back(&body_of(*g));
  std::vector<std::vector<TensorMeta>> operands;
  for (TensorList list : lists) {
    operands.emplace_back();
    for (const Tensor& t : list) {
      require(t.defined(), "an operand of control flow is undefined; expected a tensor");
      operands.back().push_back(meta_of(t));
    }
  }
  return control_flow_metas(kind, bodies, operands);
}

std::vector<TensorMeta> cond_meta(const Tensor& pred, Value true_graph, Value false_graph,
                                  TensorList operands) {
  require(pred.dtype() == Dtype::bool_ && expect_true(pred.numel() == 1),
          "the predicate of cond is {}; expected a bool with one element", pred);
  return metas_of(ControlFlow::cond, {&true_graph, &false_graph}, {operands});
}

std::vector<TensorMeta> cond_number_meta(SymBool, Value true_graph, Value false_graph,
                                         TensorList operands) {
  return metas_of(ControlFlow::cond, {&true_graph, &false_graph}, {operands});
}

std::vector<TensorMeta> while_loop_meta(Value cond_graph, Value body_graph, TensorList carried,
                                        TensorList extra) {
  return metas_of(ControlFlow::while_loop, {&cond_graph, &body_graph}, {carried, extra});
}

std::vector<TensorMeta> map_meta(Value body_graph, TensorList xs, TensorList extra) {
  return metas_of(ControlFlow::map, {&body_graph}, {xs, extra});
}

std::vector<TensorMeta> scan_meta(Value combine_graph, TensorList init, TensorList xs,
                                  TensorList extra) {
  return metas_of(ControlFlow::scan, {&combine_graph}, {init, xs, extra});
}

std::vector<TensorMeta> associative_scan_meta(Value combine_graph, TensorList xs,
                                              TensorList extra) {
  return metas_of(ControlFlow::associative_scan, {&combine_graph}, {xs, extra});
}

}  // namespace

static constexpr OpDef graph_control_flow_rows[] = {
    {.schema = "higher_order::cond(Tensor pred, Graph true_graph, Graph false_graph, Tensor[] "
               "operands) -> Tensor[]",
     .core = true,
     .meta = fn<cond_meta>,
     .eager = fn<cond_kernel>,
     .decomp = fn<cond_kernel>},
    {.schema = "higher_order::cond.bool(SymBool pred, Graph true_graph, Graph false_graph, "
               "Tensor[] operands) -> Tensor[]",
     .core = true,
     .meta = fn<cond_number_meta>,
     .eager = fn<cond_number_kernel>,
     .decomp = fn<cond_number_kernel>},
    {.schema = "higher_order::while_loop(Graph cond_graph, Graph body_graph, Tensor[] carried, "
               "Tensor[] extra) -> Tensor[]",
     .core = true,
     .meta = fn<while_loop_meta>,
     .eager = fn<while_loop_kernel>,
     .decomp = fn<while_loop_kernel>},
    {.schema = "higher_order::map(Graph body_graph, Tensor[] xs, Tensor[] extra) -> Tensor[]",
     .core = true,
     .meta = fn<map_meta>,
     .eager = fn<map_kernel>,
     .decomp = fn<map_kernel>},
    {.schema = "higher_order::scan(Graph combine_graph, Tensor[] init, Tensor[] xs, Tensor[] "
               "extra) -> Tensor[]",
     .core = true,
     .meta = fn<scan_meta>,
     .eager = fn<scan_kernel>,
     .decomp = fn<scan_kernel>},
    {.schema = "higher_order::associative_scan(Graph combine_graph, Tensor[] xs, Tensor[] extra) "
               "-> Tensor[]",
     .core = true,
     .meta = fn<associative_scan_meta>,
     .eager = fn<associative_scan_kernel>,
     .decomp = fn<associative_scan_kernel>},
};

extern constinit const OpFamily op_family_graph_control_flow{graph_control_flow_rows};

}  // namespace ops
}  // namespace tenon
