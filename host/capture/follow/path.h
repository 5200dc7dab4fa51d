// The course of a recorded body: what a later run of it is compared with, operation by operation.
//
// A path is made from a recording. It knows the operations with their arguments (values by number,
// captured tensors by slot, plain values as they were) and the shapes of their results. A body in
// one piece has one part; one with graph breaks has a part for each segment, and a run leaves a
// part where it looks at data. Values are numbered over all parts. A tensor that the body may hold
// is an object; it has one value after the other where operations write it in place, and goes on
// with its last one where a later part names it.
//
// Threads: constant.
#pragma once

#include "capture/recording.h"
#include "ops/custom_op.h"
#include "ops/op_table.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class FrameStore;

/// Whether something of a run is left besides the results: writes, or random numbers that were drawn.
inline bool has_effect(const OpEntry& op, std::span<const Value> args) {
  return written_args(op, args) != 0 || (op.tags & TN_TAG_RANDOM) != 0 || has_drawing_parts(op);
}
/// Whether a node only asserts what the recording took for granted about numbers; no operation of
/// the body.
bool is_assertion(const Node& node);

class Path {
 public:
  /// One operation.
  struct Step {
    const OpEntry* op;
    uint32_t part;
    NodeId node;                 ///< of the part's graph
    uint32_t first_arg, n_args;  ///< in Frame::args
    ValueId first_result;
    uint32_t n_results;
    int32_t in_place;  ///< the object that is result 0 itself; -1: results are objects of their own
    bool grad;         ///< gradients were on
  };
  /// A step has given this object a history by writing another one over its memory.
  struct GivenHistory {
    uint32_t step, object;
  };
  /// With gradients on, a step writes this object, an argument or a captured tensor or what an
  /// earlier part has made, or a view of it; the first such step of a part. Without a tape.
  struct WrittenInput {
    size_t step;
    uint32_t object;
    bool is_view;
  };
  /// A tensor that the body may hold.
  struct Object {
    ValueId value;             ///< its first one
    ValueOrigin origin;        ///< leaf or slot; undefined for results
    int32_t n_arguments = 0;   ///< in how many leaves it is
    bool is_reshaped = false;  ///< its values lie differently
  };
  static constexpr uint32_t no_object = 0xFFFFFFFFu, no_arg = 0xFFFFFFFFu;
  /// A segment, or the body in one piece.
  struct Part {
    std::shared_ptr<const Graph> graph;
    ValueId first_value;
    size_t first_step, end_step;
    uint32_t first_object, end_object;  ///< those that its operations make
    std::vector<uint32_t> inputs;       ///< objects; no_object for numbers
    std::vector<uint32_t> outputs;      ///< objects, of segments
    ValueId looked_at = no_value;       ///< the value that ended it, as the body looked at it
    std::vector<uint32_t> last_uses;    ///< objects that have no use after it, but no arguments
    std::vector<ValueId> hooked;        ///< values of the graph that the body has hooks on
    std::vector<NodeId> functions;      ///< nodes that end the forward of one
    const Segment* segment;             ///< null: the body in one piece
    bool has_other_needs = false;       ///< an input needs gradients, or none, unlike before
  };
  /// Steps that a run may take as one, see core/op_unit.h.
  struct Unit {
    struct Write {
      uint32_t object;
      ValueId value;       ///< what it is after the unit
      bool is_new = true;  ///< has another version: an operation may return its argument unwritten
    };
    uint64_t number;
    size_t first_step, end_step;
    uint32_t first_object, end_object;  ///< that its steps make
    std::vector<uint32_t> given;        ///< those of them that are results
    std::vector<ValueId> values;  ///< of its tensors as it begins; no_value: it does not name one
    std::vector<uint32_t> order;  ///< of those that it names, by number: captured tensors last
    std::vector<Write> writes;
    std::vector<uint64_t> facts, notes;
    std::vector<ValueId> results;  ///< no_value: there is none
  };
  /// A number of the body that is a symbol.
  struct BodyNumber {
    NumberPlace place;
    uint32_t arg;   ///< in Frame::args; no_arg for sizes
    uint32_t word;  ///< among the words of all symbols
    Tag kind;
    int64_t example;
  };

  /// Why runs cannot be compared with the recording; empty: they can.
  static std::string why_not(const Recording& recording);
  /// The recording stays where it is.
  explicit Path(const Recording& recording);
  ~Path();
  Path(const Path&) = delete;

  bool has_breaks() const { return parts_[0].segment != nullptr; }
  std::span<const Part> parts() const { return parts_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const Object> objects() const { return objects_; }
  std::span<const BodyNumber> numbers() const { return numbers_; }
  std::span<const GivenHistory> given_histories() const { return given_histories_; }
  std::span<const WrittenInput> written_inputs() const { return written_inputs_; }
  /// The unit that begins with a step, or null.
  const Unit* unit_at(size_t step) const;
  size_t n_slots() const { return n_slots_; }
  /// By leaf: its object, or no_object for undefined tensors.
  std::span<const uint32_t> argument_objects() const { return argument_objects_; }

  const GraphValue& value(ValueId value) const;
  size_t part_of(ValueId value) const;
  uint32_t object_of(ValueId value) const { return object_of_[value]; }
  /// The number that stands for a value of a part: of an input the one that its object has then.
  ValueId number_of(const Part& part, ValueId value) const {
    return numbers_of_values_[part.first_value + value];
  }
  /// The arguments of a step, over values of its part.
  std::span<const Value> args_of(const Step& step) const {
    return parts_[step.part].graph->node(step.node).args;
  }
  /// The object of a slot, or no_object.
  uint32_t object_at(ValueOrigin origin) const;
  /// The values before the results of step `n`; all of them are known when it is the next one.
  ValueId values_before(size_t n) const;
  /// The number at a place; nothing where there is none or it is a symbol.
  std::optional<Number> number_at(const NumberPlace& place) const;
  /// How many numbers of the body the first `n` steps give.
  size_t numbers_before(size_t n) const;
  /// How many operations at the beginning both have in common, with the tensors that they name and
  /// the breaks between them.
  size_t shared_steps(const Path& other) const;
  FrameStore& frames() const { return *frames_; }
  /// Which path the last run went over to that left this one; sizes that take turns do so in an
  /// order.
  void note_successor(const Path& next) const {
    successor_.store(next.number_, std::memory_order_relaxed);
  }
  bool has_successor(const Path& next) const {
    return successor_.load(std::memory_order_relaxed) == next.number_;
  }

 private:
  void add_part(const Recording& recording, const Segment* segment);
  void add_inputs(Part& part, std::span<const ValueOrigin> origins);
  void add_last_uses(Part& part);
  void keep_last_uses();
  void add_steps(const Part& part, uint32_t number, std::span<const ValueId> values_before,
                 const std::vector<bool>& grads_on);
  void add_given_histories(const Graph& graph, ValueId first,
                           std::span<const ValueId> values_before, ValueId written);
  void add_written_inputs(const Part& part, const Node& node,
                          std::span<const ValueId> values_before);
  void add_units(const Part& part, std::span<const RecordedUnit> units);
  void add_arguments(const GuardSet& guards);
  void keep_units_without_numbers();
  void add_numbers(const Recording& recording);
  size_t count_shared_steps(const Path& other) const;

  std::vector<Part> parts_;
  std::vector<Step> steps_;
  std::vector<Object> objects_;
  std::vector<ValueId> current_;            // by object, while parts are added
  std::vector<uint32_t> outputs_;           // objects of all segments' outputs
  std::vector<uint32_t> object_of_;         // by value
  std::vector<ValueId> numbers_of_values_;  // by value
  std::map<std::pair<ValueOrigin::Kind, uint32_t>, uint32_t> by_origin_;  // objects
  std::vector<uint32_t> argument_objects_;
  std::vector<BodyNumber> numbers_;
  std::vector<uint32_t> numbers_before_;       // by step, where there are numbers
  std::vector<Unit> units_;                    // by first step
  std::vector<GivenHistory> given_histories_;  // by step
  std::vector<WrittenInput> written_inputs_;   // likewise
  size_t n_slots_ = 0, n_args_ = 0;
  const uint64_t number_;
  static constexpr uint64_t no_path = ~uint64_t{0};
  mutable std::atomic<uint64_t> successor_{no_path};
  mutable std::mutex shared_steps_lock_;
  mutable std::map<uint64_t, size_t> shared_steps_;  // by number of the other path
  std::unique_ptr<FrameStore> frames_;
};

}  // namespace tenon
