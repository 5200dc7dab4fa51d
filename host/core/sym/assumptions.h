// What a trace took for granted about its symbols: to check before a call, or inside the graph.
#pragma once

#include "core/sym/sym_facts.h"
#include "core/sym/symbol_table.h"

#include <string>
#include <vector>

namespace tenon {

struct RecordedGuard {
  const Expr* condition;
  std::string location;  ///< user's file and line, where known
};

/// A condition on unbacked symbols, to be tested inside the graph.
struct RuntimeAssert {
  const Expr* condition;
  const Expr* after;  ///< the newest unbacked symbol in it: test right after the op that binds it
  std::string message;
  std::string location;
};

/// The value found at `source` must equal `expr` (sizes that share a symbol, strides).
struct SourceEquality {
  SymbolSource source;
  std::string source_text;
  const Expr* expr;
};

/// A symbol that a guard fixed to one value.
struct Specialization {
  const Expr* symbol;
  int64_t value;
  std::string location;
};

struct Assumptions {
  std::vector<RecordedGuard> guards;
  std::vector<RuntimeAssert> asserts;
  std::vector<SourceEquality> equalities;
  std::vector<Specialization> specializations;
  std::vector<std::string> violations;  ///< sizes marked dynamic whose example is a constant

  /// Adds the symbols that the facts fix to one value by now.
  void note_specializations(const SymFacts& facts, const std::string& location);
  /// Everything to test before a call: ranges of symbols first, then guards in order.
  std::vector<RecordedGuard> conditions(const SymbolTable& symbols) const;
  /// Throws ConstraintViolationError if a size marked dynamic was fixed.
  void check_constraints(const SymbolTable& symbols) const;
};

}  // namespace tenon
