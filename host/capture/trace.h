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

#include "core/shape_env.h"
#include "graph/record.h"
#include "guards/guard_set.h"

#include <tenon/compile.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// How one dimension (or number) of the arguments enters a recording: as a constant, as a symbol
/// that equal sizes share, as a symbol of its own, or as one that must stay a symbol.
enum class DimPolicy : uint8_t { fixed, duck, alone, own };

/// Choices of a recording, made from the options, the marks and what earlier calls have shown.
struct TracePolicy {
  std::vector<std::vector<DimPolicy>> sizes;    ///< by tensor leaf, by dimension
  std::vector<std::vector<DimPolicy>> strides;  ///< by tensor leaf; fixed = taken as it is
  std::vector<bool> numbers;                    ///< by number leaf: symbolic
  bool fullgraph = false;
  bool specialize_one = true;
  bool keep_empty = false;  ///< a body without operations gives a graph, too
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

/// Where a graph's input, or an output of the call, comes from.
struct ValueOrigin {
  enum class Kind : uint8_t { leaf, implicit, graph, number, undefined } kind = Kind::undefined;
  uint32_t index = 0;
};

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
  GuardSet guards;
  std::vector<Tensor> outputs;         ///< of a cut body: real tensors
  std::vector<Number> output_numbers;  ///< symbolic where they follow from sizes
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
  /// The body saw plain data, so it must run on every call.
  void mark_open(std::string reason);
  Tensor fake_for_result(const Tensor& real);

 private:
  Tensor make_leaf(const detail::Leaves& leaves, size_t index, const TracePolicy& policy);
  Tensor lift(const Tensor& real);
  void run_outside(const CallArgs& call);
  void flush();
  void bind_symbols(Graph& g);
  std::vector<int64_t> symbol_words(const Graph& g) const;
  void finish(std::span<const Tensor> body_outputs);
  void finish_escapes(std::span<const Tensor> body_outputs);
  void make_guards(const detail::Leaves& leaves);
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
  int64_t n_cuts_ = 0;
  bool fullgraph_, keep_empty_;
  bool any_grad_;  // requires_grad does not count: gradients are off, and guards need not be strict
  bool mutates_ = false;
  std::string open_reason_;
};

/// Names what a recording needs from the user's code: file:line of the innermost user frame.
std::string user_location(std::source_location where);

}  // namespace tenon
