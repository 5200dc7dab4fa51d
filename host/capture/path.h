// The course of a recorded body: what a later run of it is compared with, operation by operation.
//
// A path is made from a recording in one piece. It knows the operations with their arguments
// (values by number, captured tensors by slot, plain values as they were) and the shapes of their
// results; symbolic sizes and numbers are computed from the arguments of each call. A frame is what
// one run along a path needs: a fake for each tensor that the body may hold, and the arguments as
// plain values. Frames are kept and lent out again, so a run makes neither fakes nor lists.
//
// Threads: a path is constant but for its store of frames, which any thread may use; a frame belongs
// to one run at a time.
#pragma once

#include "capture/recording.h"
#include "core/sym/sym_program.h"
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

class Path;

/// Whether a node only asserts what the recording took for granted about numbers; no operation of
/// the body.
bool is_assertion(const Node& node);

/// The tensors and arguments of one run along a path.
struct Frame {
  explicit Frame(const Path& path);
  /// In `Value::sub` of `args`: a number that the body gives, `payload` tells which, or a list with
  /// such numbers.
  static constexpr uint16_t body_number = 0x8000;

  uint64_t id;                              ///< the trace_id of its fakes
  std::vector<Tensor> objects;              ///< by number of the object, see Path
  std::vector<Tensor> arguments;            ///< those of `objects` that the body gets, by leaf
  std::vector<Value> args;                  ///< of all steps, as plain values and numbers of values
  std::vector<std::vector<int64_t>> lists;  ///< those of `args` that depend on symbols
  std::vector<int64_t> numbers;             ///< words of the body's numbers
  std::vector<Tensor> slots;                ///< the captured tensors that the body has named
  std::vector<int64_t> symbols;             ///< words of the symbols that all this was computed for
};

class Path {
 public:
  /// One operation.
  struct Step {
    const OpEntry* op;
    NodeId node;
    uint32_t first_arg, n_args;
    ValueId first_result;
    uint32_t n_results;
    int32_t in_place;  ///< the object that is result 0 itself; -1: results are objects of their own
    bool grad;         ///< gradients were on
  };
  /// A tensor that the body may hold: an input of the graph, or a result. Values that an object
  /// gets by operations in place are no objects of their own.
  struct Object {
    ValueId value;            ///< its first one
    ValueOrigin origin;       ///< of inputs; undefined for results
    int32_t n_arguments = 0;  ///< in how many leaves it is
  };

  /// A number of the body that is a symbol.
  struct BodyNumber {
    NumberPlace place;
    uint32_t arg;   ///< in Frame::args
    uint32_t word;  ///< among the words of all symbols
    Tag kind;
    bool is_alone;  ///< nothing else of the path depends on it
    int64_t example;
  };

  /// Why runs cannot be compared with the recording; empty: they can.
  static std::string why_not(const Recording& recording);
  explicit Path(const Recording& recording);
  ~Path();
  Path(const Path&) = delete;

  const Graph& graph() const { return *graph_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const Object> objects() const { return objects_; }
  uint32_t object_of(ValueId value) const { return object_of_[value]; }
  size_t n_slots() const { return n_slots_; }
  /// The values before the results of step `n`; all of them are known when it is the next one.
  ValueId values_before(size_t n) const;
  std::span<const BodyNumber> numbers() const { return numbers_; }
  /// The number at a place; nothing where there is none or it is a symbol.
  std::optional<Number> number_at(const NumberPlace& place) const;
  /// How many of them the first `n` steps give.
  size_t numbers_before(size_t n) const;
  /// How many operations at the beginning both have in common, and the tensors that they name.
  size_t shared_steps(const Path& other) const;

  /// A frame for a call whose symbols have these values; `n_numbers` of the body's are among them.
  std::unique_ptr<Frame> lend(std::span<int64_t> symbols, size_t n_numbers) const;
  /// Sets number `index` of the body, and what depends on it.
  void set_number(Frame& frame, size_t index, int64_t word) const;
  /// It may be lent again; `steps` of the path have been taken.
  void give_back(std::unique_ptr<Frame> frame, size_t steps) const;

 private:
  friend struct Frame;
  // A number that depends on symbols: where it stands in a frame, and which word it is.
  struct SymbolicArg {
    uint32_t arg, word;
    int32_t element;  // of a list; -1: the argument itself
  };
  struct SymbolicDims {
    uint32_t object, first_word;  // sizes, strides, offset
  };

  size_t count_shared_steps(const Path& other) const;
  void add_steps();
  void add_objects(const Recording& recording);
  void add_numbers(const Recording& recording);
  void find_symbols(const Recording& recording);
  void set_symbols(Frame& frame, std::span<const int64_t> symbols) const;

  std::shared_ptr<const Graph> graph_;
  std::vector<Step> steps_;
  std::vector<Object> objects_;
  std::vector<uint32_t> object_of_;        // by value
  std::vector<int32_t> argument_objects_;  // by leaf; -1: undefined
  size_t n_slots_ = 0, n_args_ = 0;
  std::vector<BodyNumber> numbers_;
  std::vector<SymbolicArg> symbolic_args_;
  std::vector<SymbolicDims> symbolic_dims_;
  SymProgram program_;  // the words
  const uint64_t number_;
  mutable std::mutex frames_lock_;
  mutable std::atomic<Frame*> spare_{nullptr};  // the frame that was given back last
  mutable std::vector<std::unique_ptr<Frame>> frames_;
  mutable std::map<uint64_t, size_t> shared_steps_;  // by number of the other path
};

}  // namespace tenon
