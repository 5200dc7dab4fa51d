// What does not fit into a graph: calls that run outside of the recording, and fakes that somebody
// keeps beyond it.
#include "autograd/grad_state.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"

#include <deque>

namespace tenon {

// Runs what is pending, then the operation itself.
void Trace::run_outside(const CallArgs& call) {
  cut(call.op->name, std::source_location::current());
  std::vector<Value> args(call.args, call.args + call.n_args);
  std::deque<Tensor> held;
  std::deque<std::vector<Tensor>> lists;
  std::deque<std::vector<SymInt>> numbers;
  auto real = [](const Tensor& t) { return t.defined() && t.is_fake() ? concrete_of(t) : t; };
  for (Value& a : args) {
    if (a.tag == Tag::tensor) {
      a = Value::of(held.emplace_back(real(*a.as<Tensor>())));
    } else if (a.tag == Tag::tensors) {
      auto& list = lists.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) list.push_back(real(a.as<Tensor>()[i]));
      a = Value::of(TensorList(list));
    } else if (a.is_number()) {
      a = Value::of(plain(a.number()));
    } else if (a.tag == Tag::ints) {
      auto& list = numbers.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) list.push_back(plain(a.as<SymInt>()[i]).sym_int());
      a = Value::of(SymIntList(List<SymInt>(list)));
    }
  }
  PauseRecording pause;
  dispatch(*call.op, args.data(), call.n_args, call.results, call.n_results);
  for (uint32_t r = 0; r < call.n_results; ++r) {
    if (call.results[r].tag != Tag::tensor_owned) continue;
    Tensor made = take<Tensor>(call.results[r]);
    call.results[r] = Value::own(fake_for_result(made));
  }
}

// The same for a function that has a derivative of its own.
std::vector<Tensor> Trace::run_outside(std::string_view what, const std::vector<Tensor>& inputs,
                                       FunctionRef<autograd::TensorsFn> f) {
  cut(what, std::source_location::current());
  std::vector<Tensor> real = inputs;
  for (Tensor& t : real)
    if (t.defined() && t.is_fake()) t = concrete_of(t);
  PauseRecording pause;
  std::vector<Tensor> results = f(real);
  for (Tensor& t : results)
    if (t.defined()) t = fake_for_result(t);
  return results;
}

Tensor Trace::fake_for_result(const Tensor& real) {
  Tensor fake = make_fake(meta_of(real), real.storage_offset());
  impl_of(fake)->ensure_extra().concrete = real;
  impl_of(fake)->keys |= bit(Key::meta);
  if (real.requires_grad()) mark_requires_grad(fake, true);
  lifted_.push_back({real, fake});
  return fake;
}

namespace {

// What a fake stood for takes its place, with its history.
void escape(const Tensor& fake) {
  Tensor real = Trace::concrete_of(fake);
  become(fake, real);
  mark_requires_grad(fake, false);
  if (autograd::Edge edge = autograd::edge_of(real))
    autograd::set_history(fake, edge.node, edge.input);
}

}  // namespace

// A fake that somebody keeps beyond the call gets its real tensor, and the body runs on every call.
void Trace::finish_escapes(std::span<const Tensor> body_outputs) {
  std::vector<Tensor> escaped;
  for (Tensor& fake : recorder_.live_fakes()) {
    int32_t ours = 1 + recorder_.own_references(fake);  // 1: `fake` itself
    for (const Tensor& t : body_outputs) ours += t.is_same(fake);
    for (const Tensor& t : leaf_fakes_) ours += t.is_same(fake);
    for (auto& [real, lifted] : lifted_) ours += lifted.is_same(fake);
    for (const TouchedGradient& t : touched_) ours += t.after.is_same(fake) + t.leaf.is_same(fake);
    for (const PendingLogCall& call : pending_logs_)
      for (const Tensor& t : call.tensors) ours += t.is_same(fake);
    if (fake.head()->references.load() > ours) escaped.push_back(fake);
  }
  if (escaped.empty()) return;
  require(config::flags().capture.on_escape != "error", ErrorCode::graph_break,
          "{} traced tensors were stored outside of the function, the first is {}, and "
          "capture.on_escape is \"error\"; return them instead",
          escaped.size(), escaped[0]);
  cut("a traced tensor was stored outside of the function", std::source_location::current());
  for (const Tensor& fake : escaped)
    if (concrete_of(fake).defined()) escape(fake);
}

namespace {

const bool runs_functions = (
    autograd::run_outside_slot =
        [](std::string_view what, const std::vector<Tensor>& inputs,
           FunctionRef<autograd::TensorsFn> f) {
          require(Trace::current() != nullptr, ErrorCode::unsupported,
                  "{}: a function with a derivative of its own cannot be recorded into a graph",
                  what);
          return Trace::current()->run_outside(what, inputs, f);
        },
    true);

}  // namespace

}  // namespace tenon
