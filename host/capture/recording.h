// What recording a body leaves: its graph, what that takes for granted, and how a call's results
// are made from what it computes. A Trace makes it, an entry of a call site keeps it.
#pragma once

#include "autograd/tape_requests.h"
#include "capture/body_numbers.h"
#include "capture/log_calls.h"
#include "core/sym/sym_int.h"
#include "graph/graph.h"
#include "guards/guard_set.h"
#include "guards/overlap.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct SegmentCode;

/// A real tensor that the body met but did not get as an argument.
struct ImplicitInput {
  enum class Source : uint8_t {
    held,      ///< found by nothing: kept, and valid while somebody else keeps it too
    address,   ///< the handle's address stays: in the closure, behind it, or static
    gradient,  ///< what another input has as its gradient
  };
  Source source = Source::held;
  const Tensor* address = nullptr;
  ValueOrigin leaf = {};  ///< of a gradient
  Tensor tensor;
  bool is_wrapped_number = false;  ///< a number in a tensor's place
  bool needs_grad = false;         ///< as the body has met it
  uint64_t free_sizes = 0;         ///< bit d: the size of dimension d is a symbol
  std::vector<DenseStep> dense;    ///< of strides that follow from such sizes
  bool is_by_place = false;        ///< it matters where it begins in its memory
};

/// Another handle that the body read, which held the same tensor as an input.
struct SameTensor {
  ImplicitInput handle;
  ValueOrigin input;
};

/// The mode of a module, as the body has found it.
struct ReadMode {
  std::shared_ptr<const bool> mode;
  bool value;
};

/// A condition of the program's own, see tenon::guard.
struct ProgramGuard {
  std::function<bool()> holds;
  std::string where;  ///< file and line
};

/// What a body that calls backward() does to gradients.
struct GradEffects {
  /// What it leaves in the `grad()` of a leaf.
  struct Left {
    ValueOrigin leaf;
    ValueOrigin gradient;  ///< undefined: none
    /// How many operations the body had called when it first dropped or replaced the gradient itself.
    uint32_t replaced_at = never;
    friend bool operator==(const Left& a, const Left& b) {
      return a.leaf == b.leaf && a.gradient == b.gradient;
    }
  };
  static constexpr uint32_t never = 0xFFFFFFFFu;
  std::vector<Left> left;
  std::vector<ValueOrigin> without_grad;  ///< leaves that were found without a gradient
  std::vector<bool> needs_history;        ///< by output: it needed a gradient in the body
  friend bool operator==(const GradEffects&, const GradEffects&) = default;
};

/// Plain values of a result, for comparing a repeat with the recording.
struct PlainResults {
  std::vector<detail::PlainLeaf> values;
  std::vector<std::string> texts;
  friend bool operator==(const PlainResults&, const PlainResults&) = default;
};

/// Where a unit, see core/op_unit.h, lies in a graph.
struct RecordedUnit {
  uint64_t number;
  NodeId first, end;
  std::vector<ValueId> values;  ///< of its tensors as it began; no_value: it does not name one
  std::vector<uint64_t> facts;
  std::vector<ValueId> results;  ///< no_value: there is none
  std::vector<uint64_t> notes;
};

/// What was recorded between two graph breaks, and has run.
struct Segment {
  std::shared_ptr<Graph> graph;
  std::vector<ValueOrigin>
      inputs;  ///< Kind::graph: an output of earlier segments, counted over all
  std::vector<ValueId> values_before;  ///< see Recording
  size_t n_outputs = 0;                ///< tensors that were alive at the break
  ValueId looked_at = no_value;        ///< the output that the body looked at, which ended it
  size_t place = 0;                    ///< how many the body has run before
  std::vector<RecordedUnit> units;
  std::vector<Overlap> overlaps;  ///< of the inputs, where some is written
  bool writes = false;
  std::shared_ptr<const SegmentCode> code;  ///< what has run it
};

struct Recording {
  std::shared_ptr<ShapeEnv> shape_env;
  int64_t n_graph_breaks = 0;
  /// Why a later call cannot do without the body; empty when it can.
  std::string break_reason;
  GuardSet guards;
  std::vector<ImplicitInput> implicit;
  std::vector<SameTensor> same_tensors;
  std::vector<ReadMode> modes;  ///< of modules that the body has asked
  std::vector<ProgramGuard> program_guards;
  bool seeks_gradients = false;            ///< the body asks for those of its own tensors
  bool reads_arguments = false;            ///< numbers of the arguments were told without a guard
  std::vector<std::string> break_reasons;  ///< one for each graph break that was met

  // Of a body with graph breaks.
  std::vector<Segment> segments;
  /// Of recordings that the first segments are from; they hold besides `guards`.
  std::vector<std::shared_ptr<const GuardSet>> earlier_guards;
  std::string why_not_followed;  ///< what the segments do not show of the body; empty: nothing

  // Of a body in one piece.
  std::shared_ptr<Graph> graph;
  std::vector<ValueId> values_before;  ///< of the same tensor objects, see GraphRecorder
  std::vector<RecordedUnit> units;
  GivenNumbers given;
  autograd::TapeRequests requests;  ///< of the body
  bool has_code = false;            ///< false: nothing was recorded, the graph is empty
  std::vector<ValueOrigin> inputs, outputs;
  std::vector<LogCall> log_calls;  ///< to be run after the graph
  bool has_backward = false;       ///< recorded through the tape: the body calls backward()
  bool changes_needs = false;      ///< then: by requires_grad_() on what it has named
  std::vector<bool> grads_on;      ///< then, by node of the graph: gradients were on
  GradEffects gradients;
  /// By output number: the output of the graph that is its value, or -1 where sizes tell it.
  std::vector<int32_t> number_outputs;

  std::vector<Tensor> results;         ///< of a body with graph breaks: real tensors
  std::vector<Number> output_numbers;  ///< symbolic where they follow from sizes or data
  std::shared_ptr<void> prototype;
  PlainResults plain_results;

  bool has_graph_breaks() const { return n_graph_breaks > 0; }
  /// The captured tensors, by slot.
  std::vector<Tensor> captured() const {
    std::vector<Tensor> tensors;
    for (const ImplicitInput& in : implicit) tensors.push_back(in.tensor);
    return tensors;
  }
};

}  // namespace tenon
