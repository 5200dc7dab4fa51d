// The recorder: runs ops on fake tensors and writes each into a graph.
//
// Everything that makes graphs uses it: capture of C++ callables, functionalisation, decomposition.
// While a RecordScope is active on a thread every op called there arrives in `record`: its tensors
// are looked up as values (real ones are lifted by the owner's hook), its meta function gives fake
// results, and a node is appended. The graph keeps mutation and views as written. Threads: a
// recorder belongs to one thread at a time.
#pragma once

#include "core/inline_vector.h"
#include "graph/graph.h"

#include <functional>
#include <memory>

namespace tenon {

struct ViewRoot;

/// The fakes of a trace that a handle can still reach.
std::vector<Tensor> tensors_of(const TraceLife& life);

class GraphRecorder {
 public:
  explicit GraphRecorder(std::shared_ptr<ShapeEnv> env);
  ~GraphRecorder();

  /// A fake input with these sizes; `value` carries flags and the name.
  Tensor add_input(const TensorMeta& meta, SymInt offset = 0, GraphValue value = {},
                   StorageRef storage = {});
  /// An input that is a symbolic number.
  ValueId add_scalar_input(Number symbol, std::string name);
  /// The fake that add_input gave for input `index`; kept as long as the graph is recorded.
  const Tensor& input_fake(uint32_t index) const { return input_fakes_[index]; }
  /// An existing fake becomes an input of this graph.
  ValueId adopt_input(const Tensor& fake, ValueFlags flags = {});
  /// A constant of the graph, as a fake.
  Tensor add_constant(const Tensor& real, std::string name);

  /// Records a call (or, where `opens` says so, the calls of its decomposition).
  void record(const CallArgs& call);
  /// The value of a fake of this trace; lifts a real tensor.
  ValueId value_of(const Tensor& t);
  bool owns(const Tensor& t) const;
  /// The fake that stands for `t` in this trace.
  Tensor as_fake(const Tensor& t);

  /// Ends the graph with these outputs (undefined tensors give no_value).
  std::shared_ptr<Graph> finish(std::span<const Tensor> outputs);
  /// Begins an empty graph with the same ShapeEnv and hooks; earlier fakes are foreign from here
  /// on, except inputs where they are to be kept, as they came in. Gives the graph so far.
  std::shared_ptr<const Graph> restart(bool keeps_inputs = false);
  Graph& graph() { return *graph_; }
  const Graph& graph() const { return *graph_; }
  const std::shared_ptr<ShapeEnv>& shape_env() const { return graph_->shape_env; }

  /// How many references to `fake` the recorder itself holds.
  int32_t own_references(const Tensor& fake) const;
  /// By value: the one that the same tensor object was before, by an operation in place or one that
  /// gave its argument back; else no_value.
  const std::vector<ValueId>& values_before() const { return values_before_; }
  /// Values that some handle outside the recorder can still reach, in order of creation.
  std::vector<Tensor> live_fakes() const { return tensors_of(*life_); }
  /// Those of earlier graphs, which a handle can still reach.
  std::vector<Tensor> earlier_fakes() const { return tensors_of(*earlier_); }
  /// `fake` is one of them: a value of a graph that another recorder has recorded.
  void know_earlier(const Tensor& fake);
  /// Gives the fake another value id (a mutated or functionalised tensor has a new value).
  void rebind(const Tensor& fake, ValueId id);
  /// `held`, a fake of nobody, becomes what `fake` is and takes its place.
  void take_place(const Tensor& fake, const Tensor& held);

  /// The fake for a real tensor (default: a constant). `real` is the caller's own handle.
  std::function<Tensor(const Tensor& real)> lift;
  /// The fake that stands here for a fake of another recording, or undefined.
  std::function<Tensor(const Tensor& fake)> import;
  /// Called for a fake of another graph; true when it was adopted.
  std::function<bool(const Tensor& fake)> adopt;
  std::function<bool(const OpEntry&)> opens;  ///< record the decomposition instead
  /// Called instead of recording an op whose result shape or value only run time knows. Returns
  /// false to record it with fresh unbacked symbols.
  std::function<bool(const CallArgs&)> on_data_dependent;
  /// Called when a meta function asks for a value that only run time knows. Returns true when the
  /// op has been run instead.
  std::function<bool(const CallArgs&)> on_open_question;
  /// May put symbols in the place of numbers among the arguments.
  std::function<void(const OpEntry&, std::span<Value> args, ArgumentLists&)> lift_numbers;
  /// Called before an op is recorded; true when it has been run instead.
  std::function<bool(const CallArgs&)> runs_outside;
  std::function<void()> before_node;                     ///< when the meta function has run
  std::function<void(const CallArgs&, NodeId)> on_node;  ///< after each node

  /// Under flag dynamo.replay_record_enabled: what was recorded up to the op whose meta function
  /// threw, with that op as its last node, whose result is not to be believed; else null.
  const std::shared_ptr<Graph>& failed_graph() const { return failed_; }

  uint64_t id() const { return id_; }
  /// Whether gradients were on when the recorder was made: what its graphs must be run under. Nodes
  /// recorded under the other mode have the fact `grad`.
  bool grad_enabled() const { return grad_enabled_; }
  /// The op whose meta function is running, or null.
  const OpEntry* op_in_meta() const { return in_meta_; }
  bool on_tape = false;      ///< ops arrive here from the tape, which knows what needs gradients
  bool for_metas = false;    ///< only what results look like is wanted, the graph is thrown away
  bool is_backward = false;  ///< given to the nodes that follow
  /// Of the nodes that follow: the checkpointed region that they are in, or -1. Their fact
  /// `recompute`.
  int32_t region = -1, n_regions = 0;
  SourceLocation where;     ///< given to the nodes that follow
  std::string module_path;  ///< likewise

 private:
  friend ViewRoot view_root(const GraphRecorder& recorder, ValueId v);
  void append(const CallArgs& call, std::span<const Value> fake_args);
  bool run_meta_of(const CallArgs& call, std::span<const Value> fake_args);
  using NodeArgs = InlineVector<Value, 12>;
  NodeArgs node_args(std::span<const Value> fake_args, ArgumentLists& lists);
  Value kept_body(const Graph& body);
  Number renewed(Number n) const;
  void note_failure(const CallArgs& call, std::span<const Value> fake_args);
  GraphValue describe(const Tensor& fake) const;
  void track(const Tensor& fake, ValueId id);
  void bind_unbacked(const GraphValue& value, ValueId id);

  std::shared_ptr<Graph> graph_, failed_;
  std::shared_ptr<TraceLife> life_, earlier_ = std::make_shared<TraceLife>();
  std::vector<Tensor> input_fakes_;    // undefined for scalars and adopted inputs
  std::vector<uint64_t> storage_ids_;  // by value
  std::vector<ValueId> values_before_;
  uint64_t id_;
  const OpEntry* in_meta_ = nullptr;
  bool grad_enabled_ = thread_modes.grad_enabled;
};

/// Of a value of what is being recorded.
ViewRoot view_root(const GraphRecorder& recorder, ValueId v);
/// What a view is given, its base and the other views of that have, too: those of the recorder's fakes
/// need a gradient that are views of one tensor with `given`.
void mark_relatives(GraphRecorder& recorder, const Tensor& given);
/// Fakes need gradients where the tensors that they stand for will: bodies ask, and later segments begin
/// with them. Marks what the call makes and writes, `fake_args` are its arguments. Without a tape.
void pass_requires_grad(GraphRecorder& recorder, const CallArgs& call,
                        std::span<const Value> fake_args);

/// The checkpointed region of a node, -1 for none; its fact may come from a file.
int32_t region_of(const Node& node);

/// The recorder of this thread. Who follows a recorded path stops following.
GraphRecorder& recorder_of_thread();
/// Filled in by capture/follow.cpp, for threads with a follower: whether it takes the call, and
/// going on without.
extern bool (*follow_slot)(const CallArgs& call);
extern void (*stop_following_slot)();

/// Sends the thread's ops to a recorder, and its symbolic decisions to the recorder's ShapeEnv.
class RecordScope {
 public:
  /// With recorder.on_tape ops go through the tape first.
  explicit RecordScope(GraphRecorder& recorder);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;

 private:
  void *previous_, *follower_;
  ModeScope keys_;
  uint64_t excluded_outside_;
  ShapeEnvScope shapes_;
};

/// Suspends recording: ops run as usual, on the tape where they ran on it before.
class PauseRecording {
 public:
  PauseRecording();
  ~PauseRecording();
  PauseRecording(const PauseRecording&) = delete;

 private:
  void *previous_, *follower_;
  uint64_t include_, exclude_;
};

}  // namespace tenon
