// Shared by the tests of symbolic expressions: symbols by name, and building from text.
#pragma once

#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/sym_text.h"

#include <cstdlib>
#include <string>

namespace tenon::test {

/// s0, s1, ... as integers and zf0, ... as reals, in no environment.
inline const Expr* free_symbol(std::string_view name) {
  bool real = name.starts_with("zf");
  auto number = static_cast<uint32_t>(std::atoi(std::string(name.substr(real ? 2 : 1)).c_str()));
  return intern_symbol(1'000'000 + number, real ? ExprKind::real : ExprKind::integer);
}

inline std::string free_name(const Expr* symbol) {
  return (symbol->kind == ExprKind::real ? "zf" : "s") +
         std::to_string(symbol->symbol() - 1'000'000);
}

inline const Expr* parse(std::string_view text) { return parse_expr(text, free_symbol); }
inline std::string text_of(const Expr* expr) { return expr_text(expr, free_name); }

/// The canonical text of an expression, without facts.
inline std::string canonical(std::string_view text) { return text_of(parse(text)); }

/// An environment with backed sizes s0, s1, ... of the given example values, for texts over them.
struct TestTrace {
  std::shared_ptr<ShapeEnv> env = ShapeEnv::make();
  ShapeEnvScope scope{*env};

  explicit TestTrace(std::initializer_list<int64_t> hints, SymbolOptions options = own_size()) {
    uint32_t dim = 0;
    for (int64_t hint : hints) {
      std::string source = "x.size(" + std::to_string(dim) + ")";
      env->create_symbol(hint, {SymbolSource::Kind::input_size, 0, dim++}, source, options);
    }
  }
  static SymbolOptions own_size() { return {.policy = SymbolPolicy::own}; }
  const Expr* expr(std::string_view text) const {
    return parse_expr(text, [this](std::string_view name) { return env->find_symbol(name); });
  }
  SymInt size(std::string_view name) const { return SymInt::from_expr(env->find_symbol(name)); }
  std::string simplified(std::string_view text) const {
    return env->text(env->simplify(expr(text)));
  }
  std::string guards() const {
    std::string out;
    for (const RecordedGuard& guard : env->guards())
      out += (out.empty() ? "" : "; ") + env->text(guard.condition);
    return out;
  }
  std::string conditions() const {
    std::string out;
    for (const RecordedGuard& guard : env->guard_conditions())
      out += (out.empty() ? "" : "; ") + env->text(guard.condition);
    return out;
  }
};

}  // namespace tenon::test
