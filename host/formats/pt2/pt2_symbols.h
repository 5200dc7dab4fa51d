// Symbols of a .pt2 program: which inputs bind them, and its expressions as those of a ShapeEnv.
#pragma once

#include "core/sym/shape_env.h"
#include "formats/pt2/pt2.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::formats {

/// How one symbol gets its value at a call: a size of a user input, or (dim < 0) its value.
struct Pt2SymbolSource {
  std::string symbol;
  uint32_t input = 0;  ///< index into Pt2Program::inputs
  int32_t dim = -1;
  /// Null when the size is the symbol itself; else an affine expression in it, to be solved.
  SymExprPtr solve;
};

using Pt2SymbolValues = std::map<std::string, int64_t>;

/// The sources of all symbols that user inputs bind, each after those that its `solve` uses.
/// Symbols that occur bare come first.
std::vector<Pt2SymbolSource> symbol_sources(const Pt2Program& program);

/// The value of `source` when its place holds `found`; throws UserError where none gives it.
int64_t solve_symbol(const Pt2SymbolSource& source, int64_t found, const Pt2SymbolValues& known);

/// The value of a symbolic expression under `values`.
SymNumber evaluate_with(const SymExprAst& expr, const Pt2SymbolValues& values);

/// Whether `values` has every symbol of the expression.
bool has_all_symbols(const SymExprAst& expr, const Pt2SymbolValues& values);

/// The hints that the archive gives for the symbols of `sources`.
Pt2SymbolValues symbol_hints(const Pt2Program& program,
                             const std::vector<Pt2SymbolSource>& sources);

/// Turns the trees of the file into expressions of one ShapeEnv.
class Pt2SymbolTable {
 public:
  Pt2SymbolTable(const Pt2Program& program, std::shared_ptr<ShapeEnv> env);

  /// A symbol that an input binds.
  const Expr* declare(const std::string& name, int64_t hint, SymbolSource source);
  /// The expression; null when Tenon's engine has not the operation (a square root, bits).
  /// Symbols that are new become data-dependent ones.
  const Expr* convert(const SymExprAst& expr);
  /// The same for sizes and scalars; without an expression a constant.
  const Expr* convert(const Pt2Sym& sym);
  /// A data-dependent symbol that stands for what convert() cannot say.
  const Expr* fresh(ExprKind kind);

  ShapeEnv& env() { return *env_; }
  std::shared_ptr<ShapeEnv> share_env() const { return env_; }

 private:
  const Expr* symbol(const std::string& name);
  const Expr* combine(const SymExprAst& expr, const std::vector<const Expr*>& operands);

  std::shared_ptr<ShapeEnv> env_;
  std::unordered_map<std::string, Range> ranges_;
  std::unordered_map<std::string, const Expr*> known_;
  std::unordered_map<std::string, bool> is_size_;
  int fresh_ = 0;
};

}  // namespace tenon::formats
