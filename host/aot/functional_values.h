// The values of a graph that is recorded again: the memory that each shows, and what is in it now.
#pragma once

#include "aot/lower.h"
#include "aot/view_inverse.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace tenon {

/// The latest value of one storage.
struct Base {
  Tensor current;
  uint32_t generation = 0;
  uint32_t input = no_value;     ///< an input of the original graph in this memory, or no_value
  uint32_t position = no_value;  ///< the input of the functional graph that is this memory
  bool is_shared = false;        ///< several inputs are views of it from the start
  SymInt first = 0;              ///< of such memory: where it begins in their storage
  ValueId origin = no_value;     ///< of memory that a node made: the value that it was made as
  Tensor made;                   ///< the input, or the node's value, before any write
  bool written_with_grad = false;
};

/// A tensor of the original graph.
struct Alias {
  size_t base = 0;
  std::vector<ViewStep> chain;
  Tensor value;
  uint32_t generation = 0;
  uint32_t input = no_value;     ///< the original input that it is
  ValueId identity = no_value;   ///< equal for values that are one tensor
  ValueId restrided = no_value;  ///< the value with its sizes, once they were changed in place
  uint32_t made_in = 0;          ///< of views: the generation of the memory in which they were made
  ValueId detached = no_value;   ///< of views of what detach() gives: the identity of that
  bool is_packed = false;        ///< of views: `value` has the elements, but not their places
  /// Some change of sizes in place was made with gradients on.
  bool reshaped_with_grad = false;
  /// Of views by place: `value` was made of a tensor that shows less, as a reader's tape has it; and
  /// the views that led there, in place of `chain`.
  bool shows_more = false;
  std::vector<ViewStep> made_by;
};

/// A data-dependent size gets a new symbol when its op is recorded again; what is written over the
/// old one follows.
class RenewedSymbols {
 public:
  bool empty() const { return renewed_.empty(); }
  void note(const Expr* original, const Expr* renewed) { renewed_[original] = renewed; }
  SymInt renewed(SymInt value) const { return renewed(Number(value)).sym_int(); }
  Number renewed(Number value) const;

 private:
  std::map<const Expr*, const Expr*> renewed_;  // by the symbol of the original graph
};

class FunctionalValues {
 public:
  FunctionalValues(const Graph& graph, bool training, RenewedSymbols symbols);

  const RenewedSymbols& symbols() const { return symbols_; }
  Number& number(ValueId id) { return numbers_[id]; }
  bool is_known(ValueId id) const { return aliases_[id].has_value(); }
  const Alias& alias(ValueId id) const { return *aliases_[id]; }
  const Base& base_of(const Alias& alias) const { return bases_[alias.base]; }
  const std::deque<Base>& bases() const { return bases_; }
  /// The positions of inputs of the functional graph whose memory has been written.
  std::set<uint32_t> written_inputs() const;

  /// A value in memory of its own.
  void add_memory(ValueId id, Base base);
  /// The members are views of one memory, which is input `position` of the functional graph.
  void add_shared_memory(const SharedInput& shared, uint32_t position, Tensor memory, SymInt first);
  /// One result of a node: a view of an argument, or memory of its own.
  void add_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index, Tensor value);
  /// From here on `id` is the tensor that `same` is.
  void join(ValueId id, ValueId same) { aliases_[id] = aliases_[same]; }
  /// From here on `self` is the view `view` of what it was.
  void restride(ValueId self, ValueId view);
  /// From here on `self` has the sizes and strides of the value `resized`: a view by place within
  /// its memory, or memory of its own that begins with what was in it.
  void resize(ValueId self, ValueId resized);
  /// From here on `self`, which is no argument, has other memory and looks as the value `seen`.
  void give_memory(ValueId self, ValueId seen, Tensor content);
  /// The symbols that the results of a node have now.
  void note_symbols(NodeId node);

  Tensor& current(ValueId id);
  /// The same as it lies in its memory, for those who look at it by place.
  Tensor& in_place(ValueId id);
  /// Whether gradients were on at the node that is lowered next.
  void note_grad_mode(bool is_on) { grad_is_on_ = is_on; }
  /// `content` becomes what `id` shows, and with it what all views of its memory show.
  void write(ValueId id, Tensor content);
  /// Contents of writes that gradients do not see, where the memory had a history.
  const std::vector<Tensor>& with_older_history() const { return with_older_history_; }
  /// The arguments of a node as they are now; good until the next call.
  std::vector<Value> arguments(const Node& node);

 private:
  Value argument(ValueId id);
  void see_from_base(ValueId id);
  void find_place(ValueId id, std::vector<Value>& args);
  ViewStep view_step(const Node& node, const OpEntry& op, uint32_t index, ViewStep::Place viewed);
  ViewStep place_step(const GraphValue& seen, SymInt offset);
  std::vector<ViewStep> views_of_shared(const GraphValue& member, Dtype memory, SymInt first);
  void become(ValueId self, const Alias& now);
  bool is_alias(ValueId id, ValueId argument, const Alias& viewed, const Tensor& value) const;
  void check_strided(const Alias& alias) const;
  void check_within(const Alias& alias) const;
  bool is_hidden_from_grad(const Alias& alias) const;

  const Graph& graph_;
  const bool training_;
  bool grad_is_on_ = true;
  const bool knows_aliases_;  // imported graphs tell of their inputs only
  RenewedSymbols symbols_;
  std::deque<Base> bases_;
  std::vector<std::optional<Alias>> aliases_;      // by value of the original graph
  std::vector<Number> numbers_;                    // likewise
  std::vector<Tensor> with_older_history_;         // see above
  ArgumentLists lists_;                            // of arguments()
  std::deque<std::vector<Value>> kept_arguments_;  // of views, as they were made
  std::deque<Tensor> kept_tensors_;                // likewise
  std::deque<Dims> kept_dims_;                     // likewise
  ArgumentLists kept_lists_;                       // likewise
};

}  // namespace tenon
