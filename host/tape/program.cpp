// Running compiled backward passes.
#include "tape/program.h"

#include "autograd/accumulate_grad.h"
#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "tape/nan_check.h"

#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon::tape {

using autograd::PassRequest;

std::string_view name_of(Step::Kind kind) {
  constexpr std::string_view names[] = {"code",   "tensor hooks", "pre-hooks",
                                        "unpack", "function",     "post-hooks",
                                        "retain", "accumulate",   "update"};
  return names[static_cast<size_t>(kind)];
}

bool Program::serves(std::span<const int64_t> numbers) const {
  for (const auto& [at, value] : fixed)
    if (numbers[at] != value) return false;
  constexpr size_t on_stack = 64;
  int64_t local[on_stack];
  std::vector<int64_t> many;
  int64_t* words = local;
  if (condition_numbers.size() > on_stack) {
    many.resize(condition_numbers.size());
    words = many.data();
  }
  for (size_t i = 0; i < condition_numbers.size(); ++i) words[i] = numbers[condition_numbers[i]];
  return conditions.check({words, condition_numbers.size()});
}

namespace {

using Kind = Step::Kind;
using Tensors = std::vector<Tensor>;

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.device() == b.device() &&
         autograd::same_sizes(a.sizes(), b.sizes());
}

// Code that follows was made for the strides of what user code was given.
Tensor laid_out_like(Tensor t, const Tensor& like) {
  if (t.is_same(like) || autograd::same_sizes(t.strides(), like.strides())) return t;
  Tensor out = t.new_empty_strided(like.sizes(), like.strides());
  out.copy_(t);
  return out;
}

// What is marked as conjugate or negative is computed: the mark is no part of what code was made for.
Tensor plain(Tensor t) {
  constexpr uint64_t marks = TN_T_CONJ | TN_T_NEG;
  return t.head()->flags & marks ? t.resolve_conj().resolve_neg() : t;
}

class ProgramRun {
 public:
  ProgramRun(const Program& program, TapeWalk& walk, const PassRequest& request)
      : program_(program),
        walk_(walk),
        request_(request),
        values_(std::move(walk.collected.tensors)) {
    values_.resize(program.n_values);
    for (ValueNumber v : program.late_reads) versions_.push_back(version_of(values_[v]));
  }

  Tensors run(std::optional<Departure>& departure) {
    for (const Step& step : program_.steps) {
      if (!run_step(step)) {
        departure = std::move(departure_);
        return rest();
      }
      for (ValueNumber v : step.dying) values_[v] = Tensor();
    }
    return captured();
  }

 private:
  Node& node_at(uint32_t place) const { return *walk_.visits[walk_.order[place]].node; }
  const Visit& visit_at(uint32_t place) const { return walk_.visits[walk_.order[place]]; }
  Tensor value(ValueNumber v) const { return v == no_value ? Tensor() : values_[v]; }

  // False when user code has done what was not foreseen; `roots_` then says where to go on.
  bool run_step(const Step& step) {
    switch (step.kind) {
      case Kind::code:
        check_versions(step);
        free_nodes(step);
        return run_code(step), true;
      case Kind::update:
        return update(step), true;
      case Kind::tensor_hooks:
        return run_tensor_hooks(step);
      case Kind::before_hooks:
        return run_before_hooks(step);
      case Kind::unpack:
        return run_unpack(step);
      case Kind::function:
        return run_function(step);
      case Kind::after_hooks:
        return run_after_hooks(step);
      case Kind::retain:
        return autograd::retain(node_at(step.place), step.input, value(step.reads[0])), true;
      default:
        accumulate(node_at(step.place), take(step, 0));
        return !has_new_hooks(step) || depart(step, {});
    }
  }

  void accumulate(Node& leaf, Tensor grad) {
    check_nan(walk_, leaf, grad);
    autograd::call_function(leaf, {std::move(grad)}, request_.options.keep_graph);
  }

  // A value that dies in this step is moved, so that it can be taken over.
  Tensor take(const Step& step, size_t i) {
    ValueNumber v = step.reads[i];
    return step.moves[i] ? std::move(values_[v]) : values_[v];
  }

  Tensors given(const Step& step, size_t first, size_t count) const {
    Tensors out;
    for (size_t i = 0; i < count; ++i) out.push_back(value(step.reads[first + i]));
    return out;
  }

  // What nodes keep goes before the call, so that it is freed after its last use.
  // The engine finds it when a node unpacks its tensor, and says which one.
  void check_versions(const Step& step) {
    for (uint32_t i : step.late_reads)
      if (version_of(values_[program_.late_reads[i]]) != versions_[i]) fail_written(step);
  }

  [[noreturn]] void fail_written(const Step& step) {
    for (const Step::Done& done : step.done) {
      Node& node = node_at(done.place);
      autograd::Collector now;
      node.collect(now);
      if (!now.refusal) continue;
      Tensors grads;
      for (const autograd::GradMeta& meta : node.inputs)
        grads.push_back(zeros(list_of(meta.sizes), meta.dtype, {}, meta.device));
      autograd::call_function(node, std::move(grads), true);
    }
    fail("a saved tensor was written by a hook in the middle of a backward pass that needs it");
  }

  void free_nodes(const Step& step) {
    for (const Step::Done& done : step.done) {
      Node& node = node_at(done.place);
      std::lock_guard guard(node.lock);
      node.note_reached(done.reached);
      if (!request_.options.keep_graph) node.release();
    }
  }

  // A gradient that the caller gave may be the leaf itself, which is written bit by bit.
  void update(const Step& step) {
    auto is_as_found = [this](const Step::Updated& u) {
      return only_update_of(node_at(u.place)) == visit_at(u.place).update;
    };
    if (!std::ranges::all_of(step.updated, is_as_found)) {
      for (const Step::Updated& u : step.updated) accumulate(node_at(u.place), values_[u.grad]);
      return;
    }
    for (const Step::Updated& u : step.updated) {
      check_nan(walk_, node_at(u.place), values_[u.grad]);
      if (shares_storage(values_[u.grad], values_[u.leaf]))
        values_[u.grad] = values_[u.grad].clone();
    }
    run_code(step);
  }

  void run_code(const Step& step) {
    if (!step.artifact) return;
    struct Owner {
      std::vector<detail::TensorHead*> heads;
      ~Owner() {
        for (detail::TensorHead* h : heads)
          if (h) Tensor::adopt(h);
      }
    } owner;
    owner.heads.reserve(step.graph->inputs().size());
    for (size_t i = 0; i < step.reads.size(); ++i) owner.heads.push_back(take(step, i).release());
    owner.heads.resize(step.graph->inputs().size());
    constexpr size_t usual = 32;
    InlineVector<int64_t, usual> words;
    for (uint32_t n : step.numbers) words.push_back(walk_.collected.numbers[n]);
    Tensors made(step.writes.size());
    BelowAutograd below;
    BelowAutocast casts_are_recorded;
    step.artifact->call(owner.heads, {words.data(), words.size()}, made, true);
    for (size_t i = 0; i < made.size(); ++i) values_[step.writes[i]] = std::move(made[i]);
  }

  // Whether this node or a later one has a hook that this pass has registered: no step calls it.
  bool has_new_hooks(const Step& step) {
    uint64_t id = autograd::new_hook_id();
    if (std::exchange(last_hook_, id) + 1 == id) return false;
    auto is_new = [this](const auto& hook) { return hook.id > first_hook_; };
    for (uint32_t place = step.place; place < walk_.order.size(); ++place) {
      Node& node = node_at(place);
      if (visit_at(place).is_leaf) {
        autograd::GradState& state = autograd::ensure_state(leaf_of(node));
        std::lock_guard guard(state.lock);
        if (std::ranges::any_of(state.hooks, is_new)) return true;
        if (std::ranges::any_of(state.after_accumulate, is_new)) return true;
      }
      std::lock_guard guard(node.lock);
      if (!node.hooks) continue;
      if (node.hooks->last_retain > first_hook_) return true;
      for (const auto& list : node.hooks->tensors)
        if (std::ranges::any_of(list.hooks, is_new)) return true;
      if (std::ranges::any_of(node.hooks->before, is_new)) return true;
      if (std::ranges::any_of(node.hooks->after, is_new)) return true;
    }
    return false;
  }

  // The gradients that take the place of `before`; false unless they look like those.
  bool put(const Step& step, Tensors& now, const Tensors& before) {
    if (has_new_hooks(step)) return false;
    for (size_t i = 0; i < now.size(); ++i) {
      bool alike = now[i].defined() == before[i].defined() &&
                   (!now[i].defined() || same_shape(now[i], before[i]));
      if (!alike) return false;
    }
    for (size_t i = 0; i < now.size(); ++i)
      if (step.writes[i] != no_value)
        values_[step.writes[i]] = step.contiguous[i] ? plain(now[i]).contiguous()
                                                     : laid_out_like(plain(now[i]), before[i]);
    return true;
  }

  bool run_tensor_hooks(const Step& step) {
    Tensors before = given(step, 0, step.reads.size()), grads = before;
    Node& node = node_at(step.place);
    autograd::run_tensor_hooks(node, grads);
    if (put(step, grads, before)) return true;
    capture(step.place, grads);
    if (!visit_at(step.place).runs) return depart(step, {});
    autograd::run_before_hooks(node, grads);
    return depart(step, call_with_after_hooks(node, std::move(grads)));
  }

  bool run_before_hooks(const Step& step) {
    Tensors before = given(step, 0, step.reads.size()), grads = before;
    Node& node = node_at(step.place);
    autograd::run_before_hooks(node, grads);
    if (put(step, grads, before)) return true;
    return depart(step, call_with_after_hooks(node, std::move(grads)));
  }

  // Where the engine goes on from here it gets what the hooks gave, but calls one once more whose
  // tensor was written, to refuse it.
  bool run_unpack(const Step& step) {
    Node& node = node_at(step.place);
    const autograd::Collector::PackedPlace* places =
        walk_.collected.packed_places.data() + visit_at(step.place).first_packed;
    bool foreseen = true;
    autograd::StandIns unpacked;
    {
      std::lock_guard guard(node.lock);
      for (size_t i = 0; i < step.writes.size(); ++i) {
        const autograd::PackedTensor* packed = places[i].owner->packed();
        if (!packed) autograd::fail_released(node);
        autograd::Unpacked saved = packed->unpack();
        foreseen = foreseen && !saved.was_written() && same_shape(saved.tensor, packed->like);
        if (saved.was_written()) break;
        unpacked.tensors.emplace(places[i].owner, saved.tensor);
        if (foreseen)
          values_[step.writes[i]] = laid_out_like(plain(std::move(saved.tensor)), packed->like);
      }
    }
    if (foreseen && !has_new_hooks(step)) return true;
    autograd::StandInScope once(unpacked);
    return depart(step, call_with_after_hooks(node, given(step, 0, step.reads.size())));
  }

  Tensors call_with_after_hooks(Node& node, Tensors grads) {
    bool has_after = node.hooks && !node.hooks->after.empty();
    Tensors inputs = has_after ? grads : Tensors();
    if (node.sequence() == autograd::first_sequence) check_nan(walk_, node, grads[0]);
    Tensors outputs = autograd::call_function(node, std::move(grads), request_.options.keep_graph);
    autograd::run_after_hooks(node, outputs, inputs);
    return outputs;
  }

  bool run_function(const Step& step) {
    Tensors grads = given(step, 0, step.reads.size());
    Node& node = node_at(step.place);
    autograd::run_before_hooks(node, grads);
    Tensors outputs = call_with_after_hooks(node, std::move(grads));
    bool foreseen = true;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_needed(step.place, i))
        foreseen = foreseen && outputs[i].defined() == (step.writes[i] != no_value);
    if (!foreseen)
      for (const Tensor& t : outputs) departure_.defined.push_back(t.defined());
    if (!foreseen || has_new_hooks(step)) return depart(step, std::move(outputs));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (step.writes[i] != no_value)
        values_[step.writes[i]] = plain(fitted(node, i, std::move(outputs[i]))).contiguous();
    return true;
  }

  bool run_after_hooks(const Step& step) {
    size_t n = step.writes.size();
    Tensors before = given(step, 0, n), outputs = before;
    Node& node = node_at(step.place);
    autograd::run_after_hooks(node, outputs, given(step, n, step.reads.size() - n));
    return put(step, outputs, before) || depart(step, std::move(outputs));
  }

  bool is_needed(uint32_t place, size_t edge) const {
    uint32_t target = walk_.targets[visit_at(place).first_target + edge];
    return target != no_visit && walk_.visits[target].needed;
  }

  static Tensor fitted(Node& node, size_t edge, Tensor grad) {
    const Edge& to = node.next[edge];
    return autograd::fit_gradient(std::move(grad), to.node->inputs[to.input], node, edge);
  }

  void capture(uint32_t place, const Tensors& grads) {
    captured_now_.resize(program_.captured.size());
    for (size_t i = 0; i < captured_now_.size(); ++i)
      if (program_.captured_from[i].first == walk_.order[place])
        captured_now_[i] = grads[program_.captured_from[i].second];
  }

  // The node of this step has given `outputs`: with them and what is pending the engine goes on.
  bool depart(const Step& step, Tensors outputs) {
    departure_.place = step.place;
    auto send = [&](uint32_t visit, uint32_t input, Tensor grad) {
      roots_.push_back({walk_.visits[visit].node->shared_from_this(), input});
      root_grads_.push_back(std::move(grad));
    };
    for (const Step::Pending& p : step.pending) send(p.visit, p.input, value(p.value));
    Node& node = node_at(step.place);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].defined() && is_needed(step.place, i))
        send(walk_.targets[visit_at(step.place).first_target + i], node.next[i].input,
             fitted(node, i, std::move(outputs[i])));
    for (size_t place = step.place + 1; place < walk_.order.size(); ++place)
      if (!node_at(static_cast<uint32_t>(place)).inputs.empty())
        send(walk_.order[place], 0, Tensor());
    return false;
  }

  Tensors rest() {
    Tensors before = captured();
    values_.clear();
    Tensors out =
        autograd::run_nodes(roots_, std::move(root_grads_), request_.wanted, request_.options);
    for (size_t i = 0; i < before.size(); ++i)
      if (!out[i].defined())
        out[i] =
            i < captured_now_.size() && captured_now_[i].defined() ? captured_now_[i] : before[i];
    return out;
  }

  Tensors captured() const {
    Tensors out;
    for (ValueNumber v : program_.captured) out.push_back(value(v));
    return out;
  }

  const Program& program_;
  TapeWalk& walk_;
  const PassRequest& request_;
  Tensors values_;
  std::vector<uint64_t> versions_;  ///< of Program::late_reads, at the beginning
  uint64_t first_hook_ = autograd::new_hook_id(), last_hook_ = first_hook_;
  // ---- when the program is left
  Departure departure_;
  std::vector<Edge> roots_;
  Tensors root_grads_, captured_now_;
};

}  // namespace

Tensors run_program(const Program& program, TapeWalk& walk, const PassRequest& request,
                    std::optional<Departure>& departure) {
  return ProgramRun(program, walk, request).run(departure);
}

}  // namespace tenon::tape
