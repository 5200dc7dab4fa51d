// The symbols of one trace, looked up by number and by name.
#include "core/sym/symbol_table.h"

#include "core/error.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/sym_text.h"
#include "core/sym/symbol_numbers.h"

#include <algorithm>

namespace tenon {

std::string (*user_location_slot)() = nullptr;

std::string user_location() { return user_location_slot ? user_location_slot() : std::string(); }

std::string at_location(const std::string& location) {
  return location.empty() ? std::string() : " at " + location;
}

SymbolTable::~SymbolTable() { release_symbol_numbers(number_blocks_); }

const Expr* SymbolTable::next_symbol(ExprKind kind) {
  size_t within = symbols_.size() % symbol_block_size;
  if (within == 0) {
    uint32_t after = number_blocks_.empty() ? 0 : number_blocks_.back() + 1;
    number_blocks_.push_back(take_symbol_numbers(after, *this));
  }
  return intern_symbol(number_blocks_.back() * symbol_block_size + static_cast<uint32_t>(within),
                       kind);
}

std::string SymbolTable::next_name(bool unbacked, bool real) {
  static constexpr const char* prefixes[2][2] = {{"s", "zf"}, {"u", "zuf"}};
  std::string name;
  do name = prefixes[unbacked][real] + std::to_string(n_named_[unbacked][real]++);
  while (find(name) != nullptr);
  return name;
}

const SymbolInfo& SymbolTable::add(SymbolInfo info) {
  info.expr = next_symbol(info.kind);
  info.location = user_location();
  if (info.name.empty()) info.name = next_name(info.unbacked, info.kind == ExprKind::real);
  names_values_ = names_values_ || info.stands_for;
  return symbols_.emplace_back(std::move(info));
}

const SymbolInfo* SymbolTable::find(const Expr* symbol) const {
  auto it = std::partition_point(symbols_.begin(), symbols_.end(), [&](const SymbolInfo& s) {
    return s.expr->symbol() < symbol->symbol();
  });
  return it != symbols_.end() && it->expr == symbol ? &*it : nullptr;
}

const SymbolInfo& SymbolTable::info(const Expr* symbol) const {
  const SymbolInfo* found = find(symbol);
  ensure(found != nullptr, "a symbol was looked up in the environment of another trace");
  return *found;
}

const SymbolInfo* SymbolTable::find(std::string_view name) const {
  auto it = std::ranges::find(symbols_, name, &SymbolInfo::name);
  return it != symbols_.end() ? &*it : nullptr;
}

bool SymbolTable::owns(const Expr* expr) const {
  if (expr->is_symbol()) return find(expr) != nullptr;
  if (expr->symbol_mask == 0) return true;
  auto operands = expr->operands();
  return std::all_of(operands.begin(), operands.end(), [this](const Expr* e) { return owns(e); });
}

bool SymbolTable::has_unbacked(const Expr* expr) const {
  if (expr->symbol_mask == 0) return false;
  if (expr->is_symbol()) return info(expr).unbacked;
  auto operands = expr->operands();
  return std::any_of(operands.begin(), operands.end(),
                     [this](const Expr* e) { return has_unbacked(e); });
}

const Expr* SymbolTable::spelled_out(const Expr* expr) const {
  if (!names_values_) return expr;
  return substitute(expr, [this](const Expr* symbol) { return info(symbol).stands_for; });
}

std::string SymbolTable::text(const Expr* expr) const {
  return expr_text(expr, [this](const Expr* symbol) {
    const SymbolInfo* info = find(symbol);
    return info ? info->name : symbol_text(symbol);
  });
}

std::string SymbolTable::source_text(const Expr* expr) const {
  return expr_text(expr, [this](const Expr* symbol) {
    const SymbolInfo& made = info(symbol);
    return made.source_text.empty() ? made.name : made.source_text;
  });
}

}  // namespace tenon
