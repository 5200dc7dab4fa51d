// Symbols of a .pt2 program: which inputs bind them, and its expressions as those of a ShapeEnv.
#pragma once

#include "core/sym/shape_env.h"
#include "formats/pt2/pt2.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tenon::formats {

enum class Pt2SourceKind : uint8_t { size, stride, offset, value };

/// How one symbol gets its value at a call: a size, a stride or the storage offset of a user input,
/// or the value of a number.
struct Pt2SymbolSource {
  const Expr* symbol = nullptr;
  uint32_t input = 0;  ///< index into Pt2Program::inputs
  int32_t dim = -1;    ///< of sizes and strides
  /// Null when the place is the symbol itself; else an affine expression in it, to be solved.
  const Expr* solve = nullptr;
  Pt2SourceKind kind = Pt2SourceKind::size;

  /// Whether the graph gets the symbol as an input of its own, which the caller fills in.
  bool is_own_input() const {
    return solve || kind == Pt2SourceKind::stride || kind == Pt2SourceKind::offset;
  }
};
/// What the archive says of the place.
const Pt2Sym& sym_at(const Pt2Program& program, const Pt2SymbolSource& source);
/// "dimension 1", "stride 0", "storage offset", "value".
std::string place_text(const Pt2SymbolSource& source);

/// By symbol of Pt2Program::symbols.
using Pt2SymbolValues = std::map<const Expr*, int64_t>;
/// In a body that is recorded, where sizes are symbolic.
using Pt2SymbolNumbers = std::map<const Expr*, SymInt>;

/// The sources of all symbols that user inputs bind, each after those that its `solve` uses.
/// Symbols that occur bare come first, and sizes and numbers before strides and offsets.
std::vector<Pt2SymbolSource> symbol_sources(const Pt2Program& program);

/// The value of `source` when its place holds `found`; throws UserError where none gives it.
int64_t solve_symbol(const Pt2SymbolSource& source, int64_t found, const Pt2SymbolValues& known);
SymInt solve_symbol(const Pt2SymbolSource& source, SymInt found, const Pt2SymbolNumbers& known);

/// The integer that `expr` is under `values`; nothing for null, where a value is missing, and where
/// it is no integer of 64 bits.
std::optional<int64_t> evaluate_with(const Expr* expr, const Pt2SymbolValues& values);
std::optional<SymInt> evaluate_with(const Expr* expr, const Pt2SymbolNumbers& values);
/// What `expr` is where its symbols are these numbers; nothing where one of them is missing.
const Expr* express_with(const Expr* expr,
                         const std::function<std::optional<SymInt>(const Expr* symbol)>& numbers);

/// The hints that the archive gives for the symbols of `sources`.
Pt2SymbolValues symbol_hints(const Pt2Program& program,
                             const std::vector<Pt2SymbolSource>& sources);

/// Turns expressions over the program's symbols into those of a graph, which knows more of them.
class Pt2SymbolTable {
 public:
  Pt2SymbolTable(const Pt2Program& program, std::shared_ptr<ShapeEnv> env);

  /// A symbol that an input binds.
  const Expr* declare(const Expr* symbol, int64_t hint, SymbolSource source);
  /// Symbols that are new become data-dependent ones. What expressions cannot say is such a symbol,
  /// of this kind.
  const Expr* convert(const Pt2Sym& sym, ExprKind kind);
  /// Whether an input has a size with which the exporter never traced: 0 or 1.
  bool has_untraced() const { return has_untraced_; }
  /// The symbol of the graph, which declare() or convert() has made, or null.
  const Expr* find(const Expr* symbol) const;

  ShapeEnv& env() { return *env_; }
  std::shared_ptr<ShapeEnv> share_env() const { return env_; }

 private:
  const Expr* symbol(const Expr* of_program);

  std::shared_ptr<ShapeEnv> env_;
  std::unordered_map<const Expr*, Range> ranges_;
  std::unordered_map<const Expr*, const Expr*> known_;
  std::unordered_set<const Expr*> in_sizes_;
  int fresh_ = 0;
  bool has_untraced_ = false;
};

}  // namespace tenon::formats
