// Numbers of symbols: unique among living environments, handed out in blocks and used again.
#pragma once

#include "core/sym/sym_expr.h"

#include <cstdint>
#include <span>
#include <string>

namespace tenon {

class SymbolTable;

inline constexpr uint32_t symbol_block_size = 16;

/// The lowest free block that is not below `at_least`, so that an environment's numbers ascend.
uint32_t take_symbol_numbers(uint32_t at_least, const SymbolTable& owner);
void release_symbol_numbers(std::span<const uint32_t> blocks);
/// The living environment that a symbol belongs to, or null. The answer is stable only while the
/// caller knows that environment to live.
const SymbolTable* symbol_owner(uint32_t symbol);

/// Text without an environment at hand: names of the owner, or "sym12" when it is gone.
std::string symbol_text(const Expr* expr);

}  // namespace tenon
