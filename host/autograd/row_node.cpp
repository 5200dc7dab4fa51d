// Nodes of recorded ops: saving what the rules need, and running them.
#include "autograd/row_node.h"

#include "autograd/call_values.h"
#include "autograd/grad_state.h"
#include "core/dispatch.h"
#include "core/error.h"

#include <tenon/ops.h>

#include <algorithm>

namespace tenon::autograd {

namespace {

using Kind = VjpUse::Kind;

Tensor fake_of(const Tensor& t) {
  return t.defined() ? make_fake(meta_of(t), sym_offset_of(t)) : Tensor();
}

void save_words(SavedUse& saved, const Value& value, size_t count) {
  const auto* words = value.as<uint64_t>();
  saved.more->words.assign(words, words + count);
}

}  // namespace

bool RowNode::wants_argument(uint8_t arg) const {
  for (const Slots& s : slots_)
    if (s.arg == arg)
      for (uint32_t i = 0; i < s.count; ++i)
        if (next[s.first + i]) return true;
  return false;
}

bool RowNode::wants(const VjpPlanRule& rule) const {
  return std::ranges::any_of(rule.wrt, [&](uint8_t arg) { return wants_argument(arg); });
}

bool RowNode::needs_written(int argument) const {
  VjpUse use{Kind::argument, static_cast<uint8_t>(argument)};
  return std::ranges::any_of(plan_.rules, [&](const VjpPlanRule& rule) {
    return wants(rule) && std::ranges::find(rule.uses, use) != rule.uses.end();
  });
}

void RowNode::connect(const CallArgs& call) {
  for (uint32_t arg = 0; arg < call.n_args; ++arg) {
    bool written_self = arg == 0 && (call.op->mutated_args & 1);  // always edge 0: see view.h
    if (!(plan_.differentiable >> arg & 1) && !written_self) continue;
    const Value& value = call.args[arg];
    auto first = static_cast<uint32_t>(next.size());
    if (value.tag == Tag::tensors)
      for (const Tensor& t : TensorList(value.as<Tensor>(), value.count))
        next.push_back(edge_of(t));
    else
      next.push_back(value.tag == Tag::tensor ? edge_of(*value.as<Tensor>()) : Edge{});
    slots_.push_back(
        {static_cast<uint8_t>(arg), first, static_cast<uint32_t>(next.size()) - first});
  }
}

void RowNode::save(const VjpUse& use, const Value& value, bool copy) {
  for (const SavedUse& known : saved_)
    if (known.use == use) return;
  SavedUse& saved = saved_.emplace_back();
  saved.use = use;
  saved.tag = value.tag;
  auto more = [&]() -> SavedUse::More& {
    if (!saved.more) saved.more = std::make_unique<SavedUse::More>();
    return *saved.more;
  };
  if (use.kind == Kind::sizes && value.tag == Tag::tensor) {
    const Tensor& t = *value.as<Tensor>();
    for (SymInt size : t.sizes()) more().words.push_back(static_cast<uint64_t>(size.word()));
    more();
    return;
  }
  bool meta = use.kind == Kind::meta;
  switch (value.tag) {
    case Tag::tensor:
      if (meta)
        more().fakes.push_back(fake_of(*value.as<Tensor>()));
      else
        saved.tensor = SavedTensor(copy ? value.as<Tensor>()->clone() : *value.as<Tensor>(), false);
      break;
    case Tag::tensors:
      more();
      for (const Tensor& t : TensorList(value.as<Tensor>(), value.count))
        if (meta)
          more().fakes.push_back(fake_of(t));
        else
          more().tensors.emplace_back(t, false);
      break;
    case Tag::ints:
    case Tag::floats:
      more();
      save_words(saved, value, value.count);
      break;
    case Tag::bools:
      more().bools = std::make_unique<bool[]>(value.count);
      std::copy_n(value.as<bool>(), value.count, more().bools.get());
      saved.plain = value;
      break;
    case Tag::string:
      more().text.assign(value.as<char>(), value.count);
      break;
    default:
      saved.plain = value;
  }
}

void RowNode::save_arguments(const CallArgs& call, int written) {
  for (const VjpPlanRule& rule : plan_.rules) {
    if (!wants(rule)) continue;
    for (const VjpUse& use : rule.uses)
      if (use.kind == Kind::argument || use.kind == Kind::sizes || use.kind == Kind::meta) {
        bool skipped = use.unless >= 0 && call.args[use.unless].number().to_bool();
        save(use, skipped ? Value() : call.args[use.index],
             use.kind == Kind::argument && use.index == written);
      }
  }
}

void RowNode::save_results(const CallArgs& call) {
  add_inputs(call);
  each_result(call, [&](const Tensor& t, uint32_t r) {
    for (const VjpPlanRule& rule : plan_.rules) {
      if (!wants(rule)) continue;
      for (const VjpUse& use : rule.uses) {
        bool result = use.kind == Kind::result, meta = use.kind == Kind::result_meta;
        if ((!result && !meta) || use.index != r) continue;
        if (std::ranges::any_of(saved_, [&](const SavedUse& s) { return s.use == use; })) continue;
        SavedUse& saved = saved_.emplace_back();
        saved.use = use;
        saved.tag = t.defined() ? Tag::tensor : Tag::none;
        if (meta) {
          saved.more = std::make_unique<SavedUse::More>();
          saved.more->fakes.push_back(fake_of(t));
        } else if (t.defined()) {
          saved.tensor = SavedTensor(t, true, plan_.results >> r & 1 ? r : SavedTensor::no_history);
        }
      }
    }
  });
}

// ---- running

/// Memory behind the values of one rule's parameters.
struct RowNode::Call {
  std::vector<Value> values;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> lists;
  std::unique_ptr<bool[]> needs;

  void add(Tensor t) { values.push_back(Value::of(tensors.emplace_back(std::move(t)))); }
  void add(std::vector<Tensor> l) {
    values.push_back(Value::of(TensorList(lists.emplace_back(std::move(l)))));
  }
};

namespace {

Tensor zeros_for(const GradMeta& meta) {
  return zeros(list_of(meta.sizes), meta.dtype, {}, meta.device);
}

}  // namespace

std::string RowNode::name() const {
  std::string out = op_.schema.name;
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

void RowNode::run(const VjpPlanRule& rule, const std::vector<Tensor>& grads,
                  std::vector<Tensor>& out) {
  Call call;
  std::shared_ptr<Node> self = shared_from_this();
  auto add_saved = [&](const VjpUse& use) {
    auto at = std::ranges::find_if(saved_, [&](const SavedUse& s) { return s.use == use; });
    ensure(at != saved_.end(), "a rule uses what its node did not keep");
    const SavedUse& s = *at;
    bool is_result = use.kind == Kind::result || use.kind == Kind::result_meta;
    std::string what = is_result ? message("its result {}", use.index)
                                 : "argument " + op_.schema.args[use.index].name;
    if (s.tag == Tag::none) {
      call.values.emplace_back();
    } else if (use.kind == Kind::sizes) {
      call.values.push_back(Value::pointer(Tag::ints, s.more->words.data(), s.more->words.size()));
    } else if (use.kind == Kind::meta || use.kind == Kind::result_meta) {
      if (s.tag == Tag::tensors)
        call.add(s.more->fakes);
      else
        call.add(s.more && !s.more->fakes.empty() ? s.more->fakes[0] : Tensor());
    } else if (s.tag == Tag::tensor) {
      call.add(s.tensor.unpack(self, what));
    } else if (s.tag == Tag::tensors) {
      std::vector<Tensor> list;
      for (const SavedTensor& t : s.more->tensors) list.push_back(t.unpack(self, what));
      call.add(std::move(list));
    } else if (s.tag == Tag::ints || s.tag == Tag::floats) {
      call.values.push_back(Value::pointer(s.tag, s.more->words.data(), s.more->words.size()));
    } else if (s.tag == Tag::bools) {
      call.values.push_back(Value::pointer(Tag::bools, s.more->bools.get(), s.plain.count));
    } else if (s.tag == Tag::string) {
      call.values.push_back(Value::of(std::string_view(s.more->text)));
    } else {
      call.values.push_back(s.plain);
    }
  };
  auto gradient = [&](size_t i, bool may_be_undefined) {
    if (grads[i].defined() || may_be_undefined) return grads[i];
    return zeros_for(inputs[i]);
  };
  for (const VjpUse& use : rule.uses) {
    if (use.kind == Kind::grad) {
      call.add(gradient(use.index, use.may_be_undefined));
    } else if (use.kind == Kind::grads) {
      std::vector<Tensor> all;
      for (size_t i = 0; i < grads.size(); ++i) all.push_back(gradient(i, use.may_be_undefined));
      call.add(std::move(all));
    } else if (use.kind == Kind::needs) {
      call.needs = std::make_unique<bool[]>(rule.wrt.size());
      for (size_t i = 0; i < rule.wrt.size(); ++i) call.needs[i] = wants_argument(rule.wrt[i]);
      call.values.push_back(Value::pointer(Tag::bools, call.needs.get(), rule.wrt.size()));
    } else {
      add_saved(use);
    }
  }
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
  require(!released_,
          "backward through {} a second time: what it had kept was freed by the first pass; pass "
          "retain_graph = true to that one",
          name());
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
  released_ = !saved_.empty();
  for (SavedUse& s : saved_) {
    s.tensor.release();
    if (s.more)
      for (SavedTensor& t : s.more->tensors) t.release();
  }
}

}  // namespace tenon::autograd
