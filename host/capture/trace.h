// Recording one call of a callable: fakes in, graph out, cut where the body looks at data.
//
// Model: the body runs on fakes; its operations go into the current segment's graph. When the body
// observes a value (a number, the truth of a tensor, data_ptr), the segment ends: its outputs are
// the values that some handle can still reach, it is compiled and run on the real inputs, and every
// such fake learns its real tensor. Recording goes on with a fresh segment whose inputs are the
// earlier values that it uses. So the answer that the body sees is the eager one, and every
// operation runs exactly once. A body without such a point is one graph, which is returned without
// having run.
//
// Threads: a Trace lives on one thread; ops of other threads are not recorded.
#pragma once

#include "autograd/tape.h"
#include "capture/log_calls.h"
#include "core/sym/shape_env.h"
#include "graph/record.h"
#include "guards/guard_set.h"

#include <tenon/compile.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// How one dimension (or number) of the arguments enters a recording: as a constant, as a symbol
/// that equal sizes share, as a symbol of its own, as one that must stay a symbol, or as one
/// without an example.
enum class DimPolicy : uint8_t { fixed, duck, alone, own, unbacked };

/// Choices of a recording, made from the options, the marks and what earlier calls have shown.
struct TracePolicy {
  std::vector<std::vector<DimPolicy>> sizes;    ///< by tensor leaf, by dimension
  std::vector<std::vector<DimPolicy>> strides;  ///< by tensor leaf; fixed = taken as it is
  std::vector<bool> numbers;                    ///< by number leaf: symbolic
  bool fullgraph = false;
  bool captures_scalars = false;  ///< item() gives a symbol
  bool captures_shapes = false;   ///< ops whose sizes depend on data are recorded
  bool specialize_one = true;
  bool keep_empty = false;  ///< a body without operations gives a graph, too
  bool on_tape = false;     ///< the body calls backward(): its ops go through the tape
  std::shared_ptr<const std::vector<Tensor>> state;  ///< what may be written; null: anything
};

/// A real tensor that the body met but did not get as an argument.
struct ImplicitInput {
  enum class Source : uint8_t {
    held,     ///< found by nothing: kept, and valid while somebody else keeps it too
    address,  ///< the handle's address stays: in the closure, behind it, or static
  };
  Source source = Source::held;
  const Tensor* address = nullptr;
  Tensor tensor;
};

/// What a body that calls backward() leaves in the `grad()` of a leaf.
struct GradEffect {
  ValueOrigin leaf;
  ValueOrigin gradient;  ///< undefined: none
};

/// The mode of a module, as the body has found it.
struct ReadMode {
  std::shared_ptr<const bool> mode;
  bool value;
};

/// Thrown out of a body that calls backward() in a recording without tape: record it once more.
struct WantsTape {};

/// Runs a finished segment's graph on real inputs; compiles it when its like was not seen before.
using SegmentRunner =
    std::function<void(const std::shared_ptr<Graph>& graph, std::span<detail::TensorHead*> inputs,
                       std::span<const int64_t> syms, std::span<Tensor> outputs)>;

class Trace {
 public:
  Trace(const detail::Leaves& leaves, const TracePolicy& policy, SegmentRunner run_segment);
  ~Trace();
  Trace(const Trace&) = delete;

  /// Runs the body on fakes. Throws what it throws, after having run the pending segment.
  void run(const detail::Body& body);

  /// True when the body was cut: everything has run, `outputs` are real.
  bool was_cut() const { return n_cuts_ > 0; }
  int64_t n_cuts() const { return n_cuts_; }
  /// Why a later call cannot do without the body; empty when it can.
  const std::string& open_reason() const { return open_reason_; }

  /// After run() has thrown: what was recorded of the last segment, with the op that failed.
  std::shared_ptr<Graph> execution_record();

  // Of a body in one piece; `graph` is null when nothing was recorded.
  std::shared_ptr<Graph> graph;
  std::vector<ValueOrigin> graph_inputs;
  std::vector<ValueOrigin> output_origins;
  std::vector<ImplicitInput> implicit;
  std::vector<LogCall> log_calls;  ///< to be run after the graph
  std::vector<ReadMode> modes;
  std::vector<GradEffect> grad_effects;
  std::vector<ValueOrigin> without_grad;  ///< leaves that were found without a gradient
  std::vector<bool> needs_history;        ///< by output: it needed a gradient in the body
  GuardSet guards;
  std::vector<Tensor> outputs;         ///< of a cut body: real tensors
  std::vector<Number> output_numbers;  ///< symbolic where they follow from sizes or data
  /// By output number: the output of the graph that is its value, or -1 where sizes tell it.
  std::vector<int32_t> number_outputs;
  std::shared_ptr<void> prototype;
  std::shared_ptr<ShapeEnv> shape_env;
  /// Plain values of the result, for comparing a repeat with the recording.
  std::vector<detail::PlainLeaf> plain_outputs;
  std::vector<std::string> text_outputs;

  // ---- called while the body runs

  /// The trace that this thread records, or null.
  static Trace* current();
  /// The real tensor of a fake, ending the segment if need be.
  Tensor observe(const Tensor& fake, std::string_view what, std::source_location where);
  /// Ends the segment.
  void cut(std::string_view what, std::source_location where);
  /// The element as a symbol. Only where captures_scalars().
  Number item_symbol(const Tensor& t, Dtype wanted);
  bool captures_scalars() const { return captures_scalars_; }
  /// What was taken for granted about data so far becomes nodes.
  void emit_asserts();
  /// The body saw plain data, so it must run on every call.
  void mark_open(std::string reason);
  Tensor fake_for_result(const Tensor& real);
  /// The tensor that a fake stands for, undefined before its segment has run.
  static const Tensor& concrete_of(const Tensor& fake);
  /// Runs what is pending, then `f` on the tensors that `inputs` stand for.
  std::vector<Tensor> run_outside(std::string_view what, const std::vector<Tensor>& inputs,
                                  FunctionRef<autograd::TensorsFn> f);
  bool is_on_tape() const { return recorder_.on_tape; }
  void want_tape(const char* what);
  void touch_gradient(const Tensor& leaf, bool reads);
  /// Runs the log function, now or after the graph, as the flags say.
  void call_log_fn(std::string_view name, std::string_view text, std::vector<Tensor> tensors);

 private:
  Tensor make_leaf(const detail::Leaves& leaves, size_t index, const TracePolicy& policy);
  Tensor lift(const Tensor& real);
  void run_outside(const CallArgs& call);
  void note_write(const Tensor& written);
  void note_writes(const CallArgs& call);
  void take_rules();
  void cut_because(std::string reason);
  void flush();
  bool captures(const OpEntry& op) const;
  std::optional<SymInt> item_of_argument(const Tensor& fake, Dtype wanted);
  bool is_bound(const Expr* condition);
  std::vector<const Expr*> show_symbols(std::vector<Tensor>& results);
  void learn_symbols(std::span<const Expr* const> symbols, std::span<const Tensor> values);
  void renew_sizes(const Tensor& fake) const;
  int64_t word_of(const SymbolInfo& symbol) const;
  bool may_look() const;
  std::optional<SymValue> look_at(const Expr* expr);
  Number plain(Number n) const;
  void show_output_numbers(std::vector<Tensor>& from_graph);
  void bind_symbols(Graph& g);
  std::vector<int64_t> symbol_words(const Graph& g) const;
  void finish(std::span<const Tensor> body_outputs);
  ValueOrigin origin_of(const Tensor& t, std::vector<Tensor>& from_graph);
  void run_pending_logs();
  void finish_escapes(std::span<const Tensor> body_outputs);
  void make_guards(const detail::Leaves& leaves);
  void take_gradients(std::span<const Tensor> body_outputs);
  void give_gradients_back();
  ValueOrigin origin_of_input(const Tensor& fake) const;
  void finish_gradients(std::vector<Tensor>& from_graph);
  ImplicitInput locate(const Tensor& real) const;

  const detail::Leaves& leaves_;
  SegmentRunner run_segment_;
  GraphRecorder recorder_;
  const detail::Body* body_ = nullptr;
  std::vector<Tensor> leaf_fakes_;
  std::vector<TensorMeta> leaf_metas_;  // as they came in; in-place metadata ops change the fakes
  std::vector<Number> number_leaves_;
  std::vector<Tensor> segment_inputs_;  // real, parallel to the graph's inputs
  std::vector<ValueOrigin> segment_origins_;
  std::vector<std::pair<Tensor, Tensor>> lifted_;  // real, fake
  std::vector<PendingLogCall> pending_logs_;
  std::map<size_t, SymInt> argument_items_;  // by tensor leaf
  std::vector<size_t> waiting_asserts_;      // of the environment, until their symbols are bound
  size_t n_seen_asserts_ = 0;
  int64_t n_cuts_ = 0;
  std::shared_ptr<const std::vector<Tensor>> state_;
  bool fullgraph_, keep_empty_, captures_scalars_, captures_shapes_;
  bool any_grad_;  // requires_grad does not count: gradients are off, and guards need not be strict
  bool mutates_ = false;      // in this segment
  bool has_mutated_ = false;  // in any
  std::string open_reason_;

  /// A leaf whose gradient the body has read or replaced.
  struct TouchedGradient {
    Tensor leaf, before, after;
    bool found_without = false;
  };
  std::vector<TouchedGradient> touched_;
  bool gave_back_ = false;
};

/// Names what a recording needs from the user's code: file:line of the innermost user frame.
std::string user_location(std::source_location where);

}  // namespace tenon
