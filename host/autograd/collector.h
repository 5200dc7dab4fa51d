// What code for a backward pass depends on and what it takes: collected from the nodes of a tape.
//
// Problem: a backward pass that was compiled serves another tape if the nodes of both are alike and
// what they keep differs in data and sizes only. Model: each node writes what must be equal into a
// key, and hands over what may differ: tensors, of which the key gets dtype, device and layout, and
// integers that are sizes. Tensors are numbered by identity, so that the key also says which of
// them are the same. Cost: about 10 ns a tensor.
#pragma once

#include "autograd/node.h"
#include "autograd/pointer_table.h"
#include "core/value.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::autograd {

class SavedTensor;
class SavedValue;

/// How the elements of a tensor lie in memory, as far as code depends on it.
struct TensorLayout {
  enum class Kind : uint8_t {
    contiguous,
    permuted,  ///< dense in another order of dimensions
    strided    ///< of any strides: those of 0 and 1 are facts, the others numbers
  } kind = Kind::contiguous;
  /// Of permuted layouts, four bits each: the dimensions from the innermost to the outermost.
  uint64_t order = 0;
};
/// Of a tensor with plain sizes and at most 15 dimensions.
TensorLayout layout_of(IntList sizes, IntList strides, bool counts_as_contiguous);

class Collector {
 public:
  /// Begins anew; `keeps_places`: for a recording, which must find the values again.
  void clear(bool keeps_places);
  /// For comparing passes over the fakes of one body: tensors go to `tensors` as they come, and sizes,
  /// which follow from the operations that made the nodes, are left out.
  bool of_one_body = false;

  // ---- what must be equal
  void key(uint64_t word) { words.push_back(word); }
  void key(const void* object) { words.push_back(reinterpret_cast<uintptr_t>(object)); }
  void key_text(std::string_view text);

  // ---- what may differ
  void tensor(const Tensor& t);
  void number(int64_t n) { numbers.push_back(n); }
  /// An integer among the arguments of an op. Negative ones stand for something, "to the end" or
  /// "as it is", and must be equal.
  void argument(int64_t n) {
    key(static_cast<uint64_t>(n < 0 ? n : 0));
    number(n);
  }
  /// Plain sizes.
  void sizes(SymIntList list) {
    key(list.size());
    note_sizes(static_cast<uint32_t>(list.size()));
    for (SymInt size : list) number(size.word());
  }

  // ---- of nodes
  void saved(const SavedTensor& owner, const Tensor& t);
  /// A tensor that hooks of the user bring back; it will look like `like`, which has no data.
  void packed(const SavedTensor& owner, const Tensor& like);
  /// The integers that follow are those of `owner`.
  void list_of(const void* owner, size_t count);
  /// An integer, or the bits of a double, that `owner` keeps.
  void scalar_of(const SavedValue& owner, uint64_t word, bool is_floating);
  /// A tensor without data that `owner` keeps for its sizes and strides.
  void meta_of(const SavedValue& owner, const Tensor& t);

  /// Nodes whose key says so have no other sizes than now.
  void fix_sizes() { sizes_are_fixed = true; }

  /// The pass cannot be compiled as its tape is now; the first reason counts.
  void refuse(const char* why) {
    if (!refusal) refusal = why;
  }

  /// A point to go back to.
  struct Mark {
    size_t words, tensors, numbers, sizes, saved, packed, lists, metas, scalars;
  };
  Mark mark() const {
    return {words.size(),       tensors.size(),      numbers.size(),
            size_places.size(), saved_places.size(), packed_places.size(),
            list_places.size(), meta_places.size(),  scalar_places.size()};
  }
  void go_back(const Mark& mark);

  std::vector<uint64_t> words;
  std::vector<Tensor> tensors;
  std::vector<uint32_t> first_numbers;  ///< by tensor: where its sizes begin
  std::vector<int64_t> numbers;
  const char* refusal = nullptr;
  bool sizes_are_fixed = false;  ///< of the node that is at it

  struct PackedPlace {
    const SavedTensor* owner;
    uint32_t first;  ///< of its sizes
  };
  std::vector<PackedPlace> packed_places;

  // ---- places, for a recording
  struct SavedPlace {
    const SavedTensor* owner;
    uint32_t tensor;
  };
  struct ListPlace {
    const void* owner;
    uint32_t first, count;
  };
  struct MetaPlace {
    const SavedValue* owner;
    Tensor meta;
    uint32_t first;
  };
  struct ScalarPlace {
    const SavedValue* owner;
    uint32_t number;
    bool is_floating;
  };
  /// Numbers that are the sizes of one tensor.
  struct SizePlace {
    uint32_t first, count;
    bool is_fixed;
  };
  std::vector<SizePlace> size_places;
  std::vector<ScalarPlace> scalar_places;
  std::vector<SavedPlace> saved_places;
  std::vector<ListPlace> list_places;
  std::vector<MetaPlace> meta_places;

 private:
  void note_sizes(uint32_t count) {
    if (keeps_places_) size_places.push_back({static_cast<uint32_t>(numbers.size()), count, false});
  }
  uint32_t number_of(const Tensor& t);
  void describe(const Tensor& t);

  PointerTable known_;
  bool keeps_places_ = false;
};

/// What a thread reads in the place of what the nodes keep, which stays as it is since other threads
/// may walk the same tape: while it records a pass, and of tensors that it has unpacked before.
struct StandIns {
  std::unordered_map<const SavedTensor*, Tensor> tensors;
  std::unordered_map<const void*, std::vector<uint64_t>> lists;  ///< of saved values and nodes
  std::unordered_map<const SavedValue*, Value> scalars;
  std::unordered_map<const SavedValue*, std::vector<Tensor>> metas;
  std::unordered_map<const Node*, std::vector<GradMeta>> inputs;
};
/// Null where there are none.
extern thread_local constinit const StandIns* stand_ins;

class StandInScope {
 public:
  explicit StandInScope(const StandIns& own) : before_(std::exchange(stand_ins, &own)) {}
  ~StandInScope() { stand_ins = before_; }
  StandInScope(const StandInScope&) = delete;

 private:
  const StandIns* before_;
};

/// What the gradient of this input looks like, in a recording with symbols.
const GradMeta& input_meta(const Node& node, size_t input);

}  // namespace tenon::autograd
