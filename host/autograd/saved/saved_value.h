// An argument or result of a call that a node keeps, and the values of a call made from such.
#pragma once

#include "autograd/saved/saved_tensor.h"
#include "core/value.h"

#include <deque>

namespace tenon {
struct GraphValue;
class ShapeEnv;
}  // namespace tenon

namespace tenon::autograd {

/// Values to call a function with, and what they point to.
struct CallMemory {
  std::vector<Value> values;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> lists;

  void add(Value plain) { values.push_back(plain); }
  void add(Tensor t) { values.push_back(Value::of(tensors.emplace_back(std::move(t)))); }
  void add(std::vector<Tensor> l) {
    values.push_back(Value::of(TensorList(lists.emplace_back(std::move(l)))));
  }
};

/// Whether some of the recorded numbers are symbols, and all have these values.
bool stand_for(const ShapeEnv& env, SymIntList recorded, SymIntList plain);

class SavedValue {
 public:
  enum class Part : uint8_t {
    whole,
    sizes,  ///< of a tensor: a list of integers
    meta,   ///< a fake like the tensor, or fakes like those of a list
  };

  /// An argument, which may be of any kind; with `copy` a tensor is cloned, since it is about to be
  /// written.
  SavedValue(const Value& argument, Part part, bool copy);
  /// A result: see SavedTensor.
  SavedValue(const Tensor& result, Part part, uint32_t result_input);

  /// Adds the value to a call; valid as long as this and `call`. Throws as SavedTensor::unpack.
  void add_to(CallMemory& call, const std::shared_ptr<Node>& owner, std::string_view what) const;
  /// For code in the node's place; false as SavedTensor::collect. Numbers that may differ, such as
  /// sizes, are taken by the code; others are a part of what it does.
  bool collect(Collector& collector, bool may_differ) const;
  /// Symbols of a recording take the places of the plain numbers that they stand for: in an argument,
  /// or in the sizes of a tensor.
  void take_symbols(const ShapeEnv& env, const Value& argument);
  void take_symbols(const ShapeEnv& env, const GraphValue& tensor);
  /// Drops tensors; whether there were any, without which the value cannot be used again.
  bool release();

 private:
  struct More {
    std::vector<SavedTensor> tensors;
    std::vector<Tensor> fakes;  ///< of a list; one for a tensor
    std::vector<uint64_t> words;
    std::string text;
    std::unique_ptr<bool[]> bools;
  };
  More& more();
  bool collect_list(Collector& collector, bool may_differ) const;
  /// What add_to() gives: on a thread that records a pass, what stands there instead.
  Value scalar() const;
  const std::vector<uint64_t>& words() const;
  const std::vector<Tensor>& fakes() const;
  void keep_tensors(TensorList list, bool copy);
  void keep_list(const Value& list);
  void take_list(const ShapeEnv& env, SymIntList recorded);

  Tag tag_ = Tag::none;
  Part part_;
  Value plain_;  ///< of numbers, dtypes and the like
  SavedTensor tensor_;
  std::unique_ptr<More> more_;
};

}  // namespace tenon::autograd
