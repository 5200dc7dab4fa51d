// Nodes of recorded ops: saving what the rules need, and running them.
#include "autograd/row_node.h"

#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/each_tensor.h"
#include "graph/graph.h"
#include "ops/op_ids.h"

#include <tenon/ops/create.h>
#include <tenon/ops/reduce.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

using Kind = VjpUse::Kind;

SavedValue::Part part_of(Kind kind) {
  return kind == Kind::sizes                               ? SavedValue::Part::sizes
         : kind == Kind::meta || kind == Kind::result_meta ? SavedValue::Part::meta
                                                           : SavedValue::Part::whole;
}

Tensor zeros_for(const GradMeta& meta) {
  return zeros(list_of(meta.sizes), meta.dtype, {}, meta.device);
}

}  // namespace

bool RowNode::wants(const VjpPlanRule& rule) const {
  return std::ranges::any_of(rule.wrt, [&](uint8_t arg) { return wants_argument(arg); });
}

void RowNode::connect(const CallArgs& call) {
  for (uint32_t arg = 0; arg < call.n_args; ++arg) {
    bool written_self = arg == 0 && (call.op->mutated_args & 1);  // always edge 0: see view.h
    if (!(plan_.differentiable >> arg & 1) && !written_self) continue;
    const Value& value = call.args[arg];
    size_t first = next.size();
    if (value.tag == Tag::tensors)
      for (const Tensor& t : TensorList(value.as<Tensor>(), value.count))
        next.push_back(edge_of(t));
    else
      next.push_back(value.tag == Tag::tensor ? edge_of(*value.as<Tensor>()) : Edge{});
    std::span<const Edge> own(next.begin() + first, next.end());
    if (std::ranges::any_of(own, [](const Edge& edge) { return bool(edge); }))
      wanted_ |= uint64_t{1} << arg;
    slots_.push_back({static_cast<uint8_t>(arg), static_cast<uint32_t>(first),
                      static_cast<uint32_t>(own.size())});
  }
}

void RowNode::take_symbols(const Graph& graph, const tenon::Node& made) {
  const OpEntry& op = entry_of(made.op);
  bool is_it = &(op.functional ? *op.functional : op) == &op_;
  if (!is_it || !graph.shape_env) return;
  for (auto& [use, value] : saved_) {
    bool is_result = use.kind == Kind::result || use.kind == Kind::result_meta;
    Value arg = is_result ? Value::ref(made.first_result + use.index) : made.args[use.index];
    if (arg.tag == Tag::ref)
      value.take_symbols(*graph.shape_env, graph.value(static_cast<ValueId>(arg.payload)));
    else
      value.take_symbols(*graph.shape_env, arg);
  }
}

bool RowNode::keeps(const VjpUse& use) const {
  return std::ranges::any_of(saved_, [&](const auto& s) { return s.first == use; });
}

void RowNode::save_arguments(const CallArgs& call, int written) {
  for (const VjpPlanRule& rule : plan_.rules) {
    if (!wants(rule)) continue;
    for (const VjpUse& use : rule.uses) {
      if (!use.is_of_argument() || keeps(use)) continue;
      saved_.emplace_back(use, SavedValue(use.is_skipped(call) ? Value() : call.args[use.index],
                                          part_of(use.kind), use.index == written));
    }
  }
}

void RowNode::save_result(const VjpUse& use, const Tensor& result) {
  bool has_gradient = plan_.results >> use.index & 1;
  saved_.emplace_back(use, SavedValue(result, part_of(use.kind),
                                      has_gradient ? use.index : SavedTensor::no_history));
}

void RowNode::save_results(const CallArgs& call) {
  add_inputs(call);
  each_result(call, [&](const Tensor& t, uint32_t r) {
    for (const VjpPlanRule& rule : plan_.rules) {
      if (!wants(rule)) continue;
      for (const VjpUse& use : rule.uses) {
        bool is_result = use.kind == Kind::result || use.kind == Kind::result_meta;
        if (is_result && use.index == r && !keeps(use)) save_result(use, t);
      }
    }
  });
}

// ---- running

std::string RowNode::name() const { return node_name(op_); }

std::string node_name(const OpEntry& op) {
  std::string out = (op.functional ? *op.functional : op).schema.name;
  while (out.starts_with('_')) out.erase(0, 1);
  bool upper = true;
  std::string camel;
  for (char c : out) {
    if (c == '_') {
      upper = true;
      continue;
    }
    camel += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return camel + "Backward";
}

Tensor RowNode::gradient(size_t i, const VjpUse& use, const std::vector<Tensor>& grads) const {
  return grads[i].defined() || use.may_be_undefined ? grads[i] : zeros_for(input_meta(*this, i));
}

// `needs` has room for one flag an argument of the rule.
void RowNode::add_parameter(const VjpPlanRule& rule, const VjpUse& use,
                            const std::vector<Tensor>& grads, bool* needs, CallMemory& call) {
  switch (use.kind) {
    case Kind::grad:
      return call.add(gradient(use.index, use, grads));
    case Kind::grads: {
      std::vector<Tensor> all;
      for (size_t i = 0; i < grads.size(); ++i) all.push_back(gradient(i, use, grads));
      return call.add(std::move(all));
    }
    case Kind::needs:
      for (size_t i = 0; i < rule.wrt.size(); ++i) needs[i] = wants_argument(rule.wrt[i]);
      return call.add(Value::pointer(Tag::bools, needs, rule.wrt.size()));
    default: {
      auto kept = std::ranges::find_if(saved_, [&](const auto& s) { return s.first == use; });
      ensure(kept != saved_.end(), "a rule uses what its node did not keep");
      bool is_result = use.kind == Kind::result || use.kind == Kind::result_meta;
      std::string what = is_result ? message("its result {}", use.index)
                                   : "argument " + op_.schema.args[use.index].name;
      kept->second.add_to(call, shared_from_this(), what);
    }
  }
}

void RowNode::run(const VjpPlanRule& rule, const std::vector<Tensor>& grads,
                  std::vector<Tensor>& out) {
  CallMemory call;
  bool needs[64];
  for (const VjpUse& use : rule.uses) add_parameter(rule, use, grads, needs, call);
  Value results[8];
  size_t n_results = rule.derived ? 1 : rule.wrt.size();
  CallArgs args{rule.derived ? rule.derived : &op_, call.values.data(), results,
                static_cast<uint32_t>(call.values.size()), static_cast<uint32_t>(n_results)};
  if (rule.derived)
    dispatch(*rule.derived, args.args, args.n_args, results, 1);
  else
    rule.fn(args);
  put_gradients(rule, results, out);
}

void RowNode::put_gradients(const VjpPlanRule& rule, Value* results,
                            std::vector<Tensor>& out) const {
  for (size_t w = 0; w < rule.wrt.size(); ++w) {
    const auto& slots =
        *std::ranges::find_if(slots_, [&](const Slots& s) { return s.arg == rule.wrt[w]; });
    if (results[w].tag == Tag::tensors_owned) {
      auto list = take<std::vector<Tensor>>(results[w]);
      ensure(list.size() == slots.count, "a rule gave another number of gradients than arguments");
      for (uint32_t i = 0; i < slots.count; ++i)
        if (next[slots.first + i]) out[slots.first + i] = std::move(list[i]);
    } else {
      Tensor grad = take<Tensor>(results[w]);
      if (slots.count && next[slots.first]) out[slots.first] = std::move(grad);
    }
  }
}

std::vector<Tensor> RowNode::apply(std::vector<Tensor> grads) {
  if (released_) fail_released(*this);
  std::vector<Tensor> out(next.size());
  if (std::ranges::none_of(grads, [](const Tensor& g) { return g.defined(); })) return out;
  for (const VjpPlanRule& rule : plan_.rules) {
    if (!wants(rule)) continue;
    bool reached = std::ranges::any_of(rule.uses, [&](const VjpUse& use) {
      return use.kind == Kind::grads || (use.kind == Kind::grad && grads[use.index].defined());
    });
    if (reached) run(rule, grads, out);
  }
  return out;
}

void RowNode::release() {
  for (auto& [use, value] : saved_) released_ = value.release() || released_;
}

// Sizes, and the factors of losses and learning rates, which change from step to step. Other numbers
// choose what code is made: an exponent of 2 is a product.
bool RowNode::may_differ(const VjpUse& use) const {
  if (use.kind != Kind::argument) return false;
  BaseType type = op_.schema.args[use.index].type.base;
  if (type != BaseType::scalar) return type == BaseType::sym_int;
  return op_.id == OpId::aten_mul_Scalar || op_.id == OpId::aten_div_Scalar;
}

// Which values are kept follows from the plan and from the edges, which the walk writes.
bool RowNode::collect(Collector& collector) const {
  if (released_) collector.refuse("a tape that was freed");
  collector.key(&plan_);
  for (const Slots& s : slots_) collector.key(uint64_t{s.arg} << 32 | s.count);
  for (const auto& [use, value] : saved_)
    if (!value.collect(collector, may_differ(use))) return false;
  return true;
}

}  // namespace tenon::autograd
