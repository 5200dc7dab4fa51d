// Re-recording: steps of a path as operations of a trace.
#include "capture/record_steps.h"

#include "core/dispatch.h"
#include "core/sym/sym_simplify.h"
#include "core/tensor/each_tensor.h"
#include "graph/record.h"
#include "graph/symbol_use.h"

#include <tenon/autograd.h>

namespace tenon {

namespace {

// The numbers of one recording's expressions in another recording of the same arguments.
class Renamed {
 public:
  Renamed(const ShapeEnv& from, const ShapeEnv& to) {
    for (const SymbolInfo& old : from.symbols())
      for (const SymbolInfo& symbol : to.symbols())
        if (symbol.source == old.source && symbol.kind == old.kind)
          pairs_.emplace_back(old.expr, symbol.expr);
  }
  /// The number over the other's symbols, or the plain one where it lacks some.
  Number operator()(Number n, Number plain) const {
    if (!n.is_symbolic()) return n;
    const Expr* expr = expression_of(n);
    for (const Expr* symbol : free_symbols(expr))
      if (!other_of(symbol)) return plain;
    return number_over(substitute(expr, [this](const Expr* s) { return other_of(s); }));
  }

 private:
  const Expr* other_of(const Expr* symbol) const {
    for (const auto& [old, other] : pairs_)
      if (old == symbol) return other;
    return nullptr;
  }
  std::vector<std::pair<const Expr*, const Expr*>> pairs_;
};

}  // namespace

namespace {

/// The tensors of the trace, by object of the path.
std::vector<Tensor> known_tensors(Trace& trace, const Path& path, const Frame& frame) {
  std::vector<Tensor> known(frame.objects.size());
  for (size_t o = 0; o < known.size(); ++o) {
    const ValueOrigin& origin = path.objects()[o].origin;
    if (origin.kind == ValueOrigin::Kind::leaf)
      known[o] = trace.inputs().argument_fakes()[origin.index];
    if (origin.kind == ValueOrigin::Kind::implicit && origin.index < frame.slots.size())
      known[o] = frame.slots[origin.index];
  }
  return known;
}

/// The number that stands at a place of a frame.
Number plain_number(const Path& path, const Frame& frame, uint32_t arg, size_t element) {
  const Value& plain = frame.args[arg];
  if (plain.tag == Tag::ints) return SymInt(plain.as<int64_t>()[element]);
  if (plain.sub != Frame::body_number) return plain.number();
  auto word = static_cast<uint64_t>(frame.numbers[plain.payload]);
  return Value::make(path.numbers()[plain.payload].kind, word).number();
}

/// The arguments of a step, over tensors and symbols of the trace.
std::vector<Value> arguments_of(const Path& path, const Frame& frame, const Path::Step& step,
                                const Renamed& renamed, std::span<const Tensor> known,
                                ArgumentLists& lists) {
  std::span<const Value> recorded = path.graph().node(step.node).args;
  std::vector<Value> args(recorded.begin(), recorded.end());
  for (uint32_t a = 0; a < args.size(); ++a) {
    size_t element = 0;
    map_arguments(
        std::span<Value>(&args[a], 1), lists,
        [&](ValueId value) { return Value::of(known[path.object_of(value)]); },
        [&](Number n) {
          while (recorded[a].tag == Tag::ints && !recorded[a].as<SymInt>()[element].is_symbolic())
            ++element;
          return renamed(n, plain_number(path, frame, step.first_arg + a, element++));
        });
  }
  return args;
}

}  // namespace

void record_steps(Trace& trace, const Path& path, const Frame& frame, size_t n) {
  Renamed renamed(*path.graph().shape_env, *trace.so_far().shape_env);
  std::vector<Tensor> known = known_tensors(trace, path, frame);
  for (const Path::Step& step : path.steps().first(n)) {
    ArgumentLists lists;
    std::vector<Value> args = arguments_of(path, frame, step, renamed, known, lists);
    std::vector<Value> results(std::max<uint32_t>(step.n_results, 1));
    EnableGradGuard mode(step.grad);
    CallArgs call{step.op, args.data(), results.data(), step.n_args, step.op->n_returns};
    recorder_of_thread().record(call);
    each_result(call, [&](const Tensor& t, uint32_t r) {
      if (step.in_place < 0) known[path.object_of(step.first_result + r)] = t;
    });
    for (Value& v : results) drop(v);
  }
  for (size_t o = 0; o < known.size(); ++o) {
    const Tensor& held = frame.objects[o];
    bool is_held = held.defined() && held.head()->references.load(std::memory_order_relaxed) >
                                         1 + path.objects()[o].n_arguments;
    if (is_held && known[o].defined())
      trace.take_place(recorder_of_thread().as_fake(known[o]), held);
  }
}

}  // namespace tenon
