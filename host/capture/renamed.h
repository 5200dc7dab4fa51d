// Expressions of one recording over the symbols of another one of the same arguments.
#pragma once

#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"

#include <utility>
#include <vector>

namespace tenon {

/// Symbols are alike where they have the same source. Numbers of the body are numbered as a recording
/// meets them: they count only where both have met the same ones.
enum class BodySymbols : uint8_t { alike, unrelated };

class Renamed {
 public:
  Renamed(const ShapeEnv& from, const ShapeEnv& to, BodySymbols numbers = BodySymbols::alike)
      : from_(&from) {
    if (&from == &to) return;
    for (const SymbolInfo& old : from.symbols()) {
      bool is_number = old.source.kind == SymbolSource::Kind::body_number;
      if (old.stands_for || (is_number && numbers == BodySymbols::unrelated)) continue;
      for (const SymbolInfo& symbol : to.symbols())
        if (symbol.source == old.source && symbol.kind == old.kind)
          pairs_.emplace_back(old.expr, symbol.expr);
    }
    is_other_ = true;
  }
  /// Spelled out, see ShapeEnv. Null where the other recording lacks a symbol.
  const Expr* operator()(const Expr* expr) const {
    expr = from_->spelled_out(expr);
    if (!is_other_) return expr;
    for (const Expr* symbol : free_symbols(expr))
      if (!other_of(symbol)) return nullptr;
    return substitute(expr, [this](const Expr* s) { return other_of(s); });
  }

 private:
  const Expr* other_of(const Expr* symbol) const {
    for (const auto& [old, other] : pairs_)
      if (old == symbol) return other;
    return nullptr;
  }
  const ShapeEnv* from_;
  std::vector<std::pair<const Expr*, const Expr*>> pairs_;
  bool is_other_ = false;
};

}  // namespace tenon
