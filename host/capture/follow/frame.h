// Frames: what one run along a path needs.
//
// A frame has a fake for each tensor that the body may hold, and the arguments of all steps as
// plain values: symbolic sizes and numbers are computed from the arguments of the call. Frames are
// kept and lent out again, so that a run makes neither fakes nor lists; what depends on symbols is
// computed anew when they differ from those of the last run.
//
// Threads: frames may be lent to any thread; a frame belongs to one run at a time.
#pragma once

#include "capture/follow/path.h"
#include "core/sym/sym_program.h"

#include <atomic>
#include <map>

namespace tenon {

struct Frame {
  /// In `Value::sub` of `args`: a number that the body gives, `payload` tells which, or a list with
  /// such numbers.
  static constexpr uint16_t body_number = 0x8000;

  uint64_t id;                    ///< the trace_id of its fakes
  std::vector<Tensor> objects;    ///< by number of the object, see Path
  std::vector<Tensor> arguments;  ///< those of `objects` that the body gets, by leaf
  std::vector<Value> args;        ///< of all steps, as plain values and numbers of values
  // Those of `args` that are not the path's own.
  std::vector<std::vector<int64_t>> lists;
  std::vector<std::vector<ValueId>> value_lists;
  std::vector<int64_t> numbers;  ///< words of the body's numbers
  std::vector<Tensor> slots;     ///< the captured tensors that the body has named
  /// By slot: whether it needed gradients when the body named it, which has changed that since.
  std::map<uint32_t, bool> first_needs;
  std::vector<int64_t> symbols;       ///< words of the symbols that all this was computed for
  std::vector<int64_t> words;         ///< what has been computed from them
  std::vector<int64_t> words_before;  ///< its memory is kept
  bool is_usable = true;              ///< all of this is for the same symbols
  bool is_spoiled = false;            ///< fakes are not as a run begins: no other run gets it
};

/// What the tape has hung on a fake goes.
void drop_history(const Tensor& fake);

class FrameStore {
 public:
  FrameStore(const Path& path, const Recording& recording);
  ~FrameStore();
  FrameStore(const FrameStore&) = delete;

  /// A frame for a call whose symbols have these values; `n_numbers` of the body's are among them.
  std::unique_ptr<Frame> lend(std::span<int64_t> symbols, size_t n_numbers);
  /// Sets number `index` of the body, and what depends on it. Whether that has changed.
  bool set_number(Frame& frame, size_t index, int64_t word) const;
  /// Other fakes for these objects, whose own somebody keeps.
  void replace_objects(Frame& frame, std::span<const uint32_t> objects) const;
  /// Objects up to value `end` are those of another frame: others that share memory with them are
  /// made anew.
  void share_with_earlier(Frame& frame, ValueId end) const;
  /// It may be lent again; `steps` of the path have been taken.
  void give_back(std::unique_ptr<Frame> frame, size_t steps);
  /// What the symbols of a part's graph are.
  template <class List>
  void add_symbols(const Frame& frame, size_t part, List& list) const {
    for (SymbolWord at : symbol_words_[part])
      list.push((at.is_computed ? frame.words : frame.symbols)[at.word]);
  }
  /// Arguments need gradients as they did when the recording began.
  void mark_arguments(Frame& frame) const;
  /// An object lies as that one of its values does.
  void lay_out(const Frame& frame, ValueId value) const;
  /// An object lies as what it is by now does.
  void lay_out_object(const Frame& frame, uint32_t object) const;

 private:
  // A number that depends on symbols: where it stands in a frame, and which word it is.
  struct SymbolicArg {
    uint32_t arg, word;
    int32_t element;  // of a list; -1: the argument itself
  };
  struct SymbolicDims {
    uint32_t object;
    ValueId value;
    uint32_t first_word, n_words;  // sizes, strides, offset
  };
  // A symbol of a part: one of the path's, or what has been computed from them.
  struct SymbolWord {
    uint32_t word;
    bool is_computed;
  };
  // A step that writes an object; `value` is the object's first one.
  struct InPlaceStep {
    uint32_t step, object;
    ValueId value;
    bool requires_grad;  // then
  };

  void find_sharing();
  void join(uint32_t a, uint32_t b);
  void find_symbols(const Recording& recording);
  void find_what_runs_change();
  bool is_given(uint32_t arg, int32_t element) const;
  void keep_number(Frame& frame, size_t index, int64_t word) const;
  std::unique_ptr<Frame> make() const;
  void add_object(Frame& frame, uint32_t object) const;
  void add_arguments(Frame& frame) const;
  void add_args(Frame& frame) const;
  void set_dims(const Frame& frame, const SymbolicDims& at) const;
  void set_symbols(Frame& frame, std::span<const int64_t> symbols) const;

  const Path& path_;
  // By object: those that share memory with it, itself among them; null: it is alone.
  std::vector<std::shared_ptr<std::vector<uint32_t>>> sharing_;
  std::vector<SymbolicArg> symbolic_args_;
  std::vector<SymbolicDims> symbolic_dims_;            // by value
  std::vector<std::vector<SymbolWord>> symbol_words_;  // by part, by symbol of its graph
  std::vector<InPlaceStep> in_place_steps_;
  std::vector<uint32_t> given_objects_;  // what segments give, which a run makes real
  bool has_tape_;                        // runs have one, which says what needs a gradient
  // Objects of arguments, and whether they need gradients as the body begins.
  std::vector<std::pair<uint32_t, bool>> needs_of_arguments_;
  std::vector<bool> moves_;             // by number of the body: other things depend on it
  SymProgram program_;                  // the words
  std::atomic<Frame*> spare_{nullptr};  // the frame that was given back last
  std::mutex frames_lock_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

}  // namespace tenon
