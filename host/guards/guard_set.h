// Guards: the conditions under which compiled code may serve a call.
//
// Made from what a recording took for granted, checked before each later call, kind by kind in the
// order of the rows in guard_kinds.cpp: the thread's state first, then the arguments, aliasing, and
// the program over symbolic sizes. Stops at the first failure, allocates nothing, takes no lock.
// About 10 ns for one tensor, 5 ns for each further one.
#pragma once

#include "core/sym/sym_int.h"
#include "core/sym/sym_program.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/detail/leaves.h>

#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// What is fixed of one tensor. All of it lies in one place: calls check hundreds of parameters.
struct TensorGuard {
  int32_t dtype, device_type, device_index, ndim;
  bool requires_grad = false, defined = true;
  uint64_t free_sizes = 0, free_strides = 0;  ///< bit d: dimension d is not compared
  InlineVector<int64_t, 4> sizes, strides;
  bool any_requires_grad = false;  ///< requires_grad is not compared
  uint64_t dynamic_marks = 0, maybe_marks = 0, unbacked_marks = 0;  ///< that it was made for
  const void* address = nullptr;  ///< where its memory must be; null: anywhere
};

/// Everything about the tensor, fixed.
TensorGuard guard_of(const Tensor& tensor);
bool matches(const TensorGuard& guard, const Tensor& tensor);

/// The stride of dimension `outer` is stride times size of dimension `inner`.
struct DenseStep {
  uint32_t outer, inner;
};
/// All of them, those of small strides first.
std::vector<DenseStep> dense_steps(const Tensor& tensor);

/// Which word of the arguments a symbol of the program is read from.
struct SymbolLoad {
  /// item: a tensor's one integer; body: a number that the body passes to an operation
  enum class Kind : uint8_t { size, stride, number, item, body } kind;
  uint32_t index, dim;
};

/// Where an argument begins in its memory.
struct PlaceGuard {
  uint32_t tensor;
  int64_t offset;
};

/// Conditions that can be tested when the body has passed its number `index` to an operation: on
/// that number, the earlier ones, and the arguments.
struct NumberGuard {
  std::vector<const Expr*> conditions;
  SymProgram program;
};

/// What a recording knows of its call: the arguments, and what of them are symbols.
struct GuardedCall {
  const detail::Leaves& leaves;
  std::span<const TensorMeta> metas;    ///< by tensor leaf, as it came in
  const std::vector<bool>& needs_grad;  ///< likewise: the body may have given it a history
  std::span<const Number> numbers;      ///< by number leaf
  const ShapeEnv& env;
  bool any_requires_grad = false;           ///< requires_grad of the arguments does not count
  std::span<const uint32_t> by_place = {};  ///< tensor leaves that the body looks at by place
};

struct GuardSet {
  uint64_t global = 0;                  ///< global_state() when recorded
  std::optional<double> memory_budget;  ///< around the call, see autograd::MemoryBudget
  uint64_t structure = 0;
  std::vector<TensorGuard> tensors;
  /// By tensor: index of the first argument that is the same object; empty: all are distinct.
  std::vector<uint32_t> same_as;
  std::vector<PlaceGuard> places;
  std::vector<detail::PlainLeaf> plain;
  std::vector<std::string> texts;
  std::vector<Number> numbers;    ///< of SymInt and SymFloat arguments; symbolic ones are free
  std::vector<SymbolLoad> loads;  ///< in the order of the program's symbols
  SymProgram program;             ///< its outputs are what the words of `equal_loads` must be
  std::vector<SymbolLoad> equal_loads;
  SymProgram backend_program;  ///< conditions that the backend asked for while compiling
  bool has_backend_program = false;
  std::vector<NumberGuard> numbers_of_body;
  bool plain_list = false;  ///< check by why_not(), one guard after the other: the reference
  // For reasons: of the program, of `equal_loads`, of the backend's program.
  std::vector<std::string> condition_texts, equal_texts, backend_texts;

  bool check(const detail::Leaves& leaves) const;
  /// The same for a call whose body runs: what it does with plain values is seen then.
  bool check_before_body(const detail::Leaves& leaves) const;
  /// Why check fails, in one line; empty when it holds.
  std::string why_not(const detail::Leaves& leaves) const;
  /// Why check_before_body fails.
  std::string why_not_before_body(const detail::Leaves& leaves) const;
  /// What the program can do against failures such as that of check_before_body; empty: nothing.
  std::string_view advice(const detail::Leaves& leaves) const;
  /// Everything that makes check fail, a line each.
  std::string every_failure(const detail::Leaves& leaves) const;
  /// One line a guard.
  std::string to_text() const;
  /// Reads the words of `loads`, the values of the program's symbols; 0 for numbers of the body that
  /// are not given.
  void load(const detail::Leaves& leaves, int64_t* words,
            std::span<const int64_t> numbers_of_body = {}) const;
  /// Whether the conditions on the body's numbers hold; on its first `n`, where only they are given.
  bool numbers_hold(const detail::Leaves& leaves, std::span<const int64_t> numbers,
                    size_t n = SIZE_MAX) const;
  /// Adds the conditions that a backend asked for, over the symbols of `loads`.
  void add_backend_conditions(std::string_view backend, const ShapeEnv& env,
                              std::span<const Expr* const> conditions);
  /// Keeps a condition on numbers of the body; false for others. `symbols`: those of `loads`, in their
  /// order.
  bool add_number_condition(const ShapeEnv& env, std::span<const Expr* const> symbols,
                            const Expr* condition);
  /// Whether the conditions on symbolic sizes and numbers hold.
  bool sizes_hold(const detail::Leaves& leaves) const;
  std::string why_sizes_fail(const detail::Leaves& leaves) const;

 private:
  int failed_equality(const detail::Leaves& leaves, const int64_t* words) const;
};

/// The symbols that are read from the arguments, in the order of GuardSet::loads.
std::vector<const Expr*> argument_symbols(const ShapeEnv& env);

/// The guards of a recording: what each kind keeps of it.
GuardSet make_guards(const GuardedCall& call);

}  // namespace tenon
