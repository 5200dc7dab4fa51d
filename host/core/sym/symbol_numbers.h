// Numbers of symbols: unique among living environments, handed out in blocks and used again.
//
// The program may keep numbers over the symbols of a trace for ever, and nobody knows whether it does.
// So numbers whose values are kept rest for long before they are used again.
#pragma once

#include "core/sym/sym_eval.h"
#include "core/sym/sym_expr.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon {

class SymbolTable;

inline constexpr uint32_t symbol_block_size = 16;
/// So many blocks of dead environments keep their values; some 1 kB each, with their expressions.
inline constexpr size_t most_resting_blocks = 1 << 15;

/// The lowest free block that is not below `at_least`, so that an environment's numbers ascend.
uint32_t take_symbol_numbers(uint32_t at_least, const SymbolTable& owner);
void release_symbol_numbers(std::span<const uint32_t> blocks);
/// The living environment that a symbol belongs to, or null. The answer is stable only while the
/// caller knows that environment to live.
const SymbolTable* symbol_owner(uint32_t symbol);

/// The value of the symbol in the call that is traced, which may be over.
void keep_value(const Expr* symbol, const std::optional<SymValue>& value, bool is_over);
struct KeptSymbol {
  bool is_over = false;                ///< its trace is
  bool is_of_other_thread = false;     ///< its trace is not over, and belongs to another thread
  std::optional<SymValue> value = {};  ///< for this thread
};
KeptSymbol kept_symbol(const Expr* symbol);

/// Text without an environment at hand: names of the owner, or "sym12" when it is gone.
std::string symbol_text(const Expr* expr);

}  // namespace tenon
