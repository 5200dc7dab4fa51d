// The symbols of one trace: numbers, names, and where their values come from.
#pragma once

#include "core/sym/sym_eval.h"
#include "core/sym/sym_expr.h"
#include "core/sym/sym_range.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

/// Where a value can be read again before a later call; input_item is the one element of an input,
/// body_number a number that the user's code passes to an operation. A named_value is known, over
/// other symbols: its own is for what is taken for granted about it alone.
struct SymbolSource {
  enum class Kind : uint8_t {
    none,
    input_size,
    input_stride,
    input_value,
    input_item,
    body_number,
    named_value,
    node_value,
  };
  Kind kind = Kind::none;
  uint32_t index = 0;  ///< input, number or node
  uint32_t dim = 0;    ///< for sizes and strides
  friend auto operator<=>(const SymbolSource&, const SymbolSource&) = default;
};

struct SymbolInfo {
  const Expr* expr = nullptr;
  std::string name = {};  ///< s0 from inputs, u0 unbacked, zf0 floats
  ExprKind kind = ExprKind::integer;
  bool unbacked = false;
  bool size_like = false;  ///< unbacked and used as a size
  bool must_stay_dynamic = false;
  std::optional<SymValue> hint = {};
  std::optional<int64_t> cost_hint = {};  ///< that costs are computed with, in the place of `hint`
  Range checked = {};  ///< declared, tested before each call; guards may narrow it
  SymbolSource source = {};
  const Expr* stands_for = nullptr;  ///< of a named value, over symbols that are none
  std::string source_text = {};      ///< "arg0.size(1)"
  std::string location = {};         ///< user line that made it

  /// Whether the arguments of a call tell its value.
  bool is_from_input() const {
    return source.kind != SymbolSource::Kind::none && source.kind != SymbolSource::Kind::node_value;
  }
  /// Whether its value is known before a graph runs; otherwise a node of the graph gives it.
  bool is_known_before_run() const { return !unbacked || is_from_input(); }
};

/// The user's file and line, for guards; set by the tracer, null until then.
extern std::string (*user_location_slot)();
std::string user_location();
/// " at " and the location, for messages; empty where it is not known.
std::string at_location(const std::string& location);

/// Numbers and names are unique; the numbers are free again when the table dies.
class SymbolTable {
 public:
  SymbolTable() = default;
  ~SymbolTable();
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  /// Adds the symbol that `info` describes, under a name of its own if it has none.
  const SymbolInfo& add(SymbolInfo info);
  /// Symbols in order of creation, which is that of their numbers.
  std::span<const SymbolInfo> all() const { return symbols_; }
  const SymbolInfo* find(const Expr* symbol) const;
  const SymbolInfo* find(std::string_view name) const;
  const SymbolInfo& info(const Expr* symbol) const;
  SymbolInfo& info(const Expr* symbol) {
    return const_cast<SymbolInfo&>(std::as_const(*this).info(symbol));
  }
  /// Whether every symbol inside is one of these.
  bool owns(const Expr* expr) const;
  bool has_unbacked(const Expr* expr) const;
  const Expr* spelled_out(const Expr* expr) const;
  std::string text(const Expr* expr) const;
  /// With source texts for symbols: "arg0.size(1) <= 5".
  std::string source_text(const Expr* expr) const;

 private:
  const Expr* next_symbol(ExprKind kind);
  std::string next_name(bool unbacked, bool real);

  std::vector<SymbolInfo> symbols_;  // ascending numbers
  std::vector<uint32_t> number_blocks_;
  bool names_values_ = false;
  int n_named_[2][2] = {};  // by unbacked and real
};

}  // namespace tenon
