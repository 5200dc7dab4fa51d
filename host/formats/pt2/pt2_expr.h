// Symbolic expressions of .pt2 archives, read into those of core/sym.
//
// Problem: PyTorch writes sizes as SymPy's `srepr`, `Add(Symbol('s77', integer=True), Integer(1))`,
// and hands the text to an evaluator of Python when it reads it back; guards and the keys of range
// constraints are Python. Files are data, so nothing here may evaluate anything. Method: both are
// texts of core/sym/sym_text.h with SymPy's functions, from a fixed table, and with symbols of an
// environment that belongs to the program. Bounds: limits::expression_length, limits::symbols, and
// those of the parser on depth and number of operations.
#pragma once

#include "core/sym/shape_env.h"
#include "core/sym/sym_text.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon::formats {

/// The expressions of one program, each distinct text of a size read once.
class Pt2Expressions {
 public:
  Pt2Expressions() : env_(ShapeEnv::make()) {}

  /// Null for what Tenon's expressions cannot say, such as a cosine. Throws UserError(bad_file).
  const Expr* read(const std::string& text);
  /// A guard, in which `place` gives the symbols of `L['x'].size()[1]`, or null. Throws UserError,
  /// with the code `unsupported` for what Tenon's expressions cannot say.
  const Expr* read_guard(std::string_view text, const SymbolLookup& place);

  /// A symbol without a value; null where there are too many.
  const Expr* symbol(std::string_view name);
  /// What the symbols belong to.
  const std::shared_ptr<ShapeEnv>& env() const { return env_; }

 private:
  const Expr* leaf(std::string_view name);
  const Expr* call(std::string_view name, std::span<const Expr* const> operands);
  const Expr* otherwise();
  const Expr* without_open_choice(const Expr* e);

  std::shared_ptr<ShapeEnv> env_;
  std::unordered_map<std::string, const Expr*> read_;
  std::unordered_map<std::string, const Expr*> symbols_;
  const Expr* otherwise_ = nullptr;  ///< stands for the cases behind one of a choice
};

}  // namespace tenon::formats
