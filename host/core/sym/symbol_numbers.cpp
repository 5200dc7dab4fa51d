// The table of blocks of symbol numbers and their owners.
#include "core/sym/symbol_numbers.h"

#include "core/kept_numbers.h"
#include "core/sym/sym_text.h"
#include "core/sym/symbol_table.h"

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <thread>

namespace tenon {

namespace {

struct Block {
  const SymbolTable* owner = nullptr;
  std::thread::id taken_by = {};
  bool is_over = false;  // its trace, while numbers over its symbols may be held
  std::array<std::optional<SymValue>, symbol_block_size> values = {};

  bool is_free() const { return !owner && !is_over; }
};

struct Blocks {
  std::mutex owners_mutex;
  std::deque<Block> all;
  size_t first_free = 0;         // none is free below
  std::deque<uint32_t> resting;  // by the time at which their environments died

  void free(uint32_t block) {
    all[block] = {};
    first_free = std::min<size_t>(first_free, block);
  }
};

// Never destroyed: environments in static storage release their numbers late.
Blocks& blocks() {
  static auto* result = new Blocks;
  return *result;
}

}  // namespace

uint32_t take_symbol_numbers(uint32_t at_least, const SymbolTable& owner) {
  std::lock_guard lock(blocks().owners_mutex);
  auto& [mutex, all, first_free, resting] = blocks();
  auto next_free = [&](size_t block) {
    while (block < all.size() && !all[block].is_free()) ++block;
    return block;
  };
  first_free = next_free(first_free);
  size_t block = at_least <= first_free ? first_free : next_free(at_least);
  if (block >= all.size()) all.resize(block + 1);
  all[block].owner = &owner;
  all[block].taken_by = std::this_thread::get_id();
  return static_cast<uint32_t>(block);
}

void release_symbol_numbers(std::span<const uint32_t> released) {
  if (released.empty()) return;  // a destructor asks: the first look at the table would allocate it
  std::lock_guard lock(blocks().owners_mutex);
  auto& [mutex, all, first_free, resting] = blocks();
  for (uint32_t block : released) {
    all[block].owner = nullptr;
    if (!all[block].is_over) {
      blocks().free(block);
      continue;
    }
    resting.push_back(block);
    if (resting.size() <= most_resting_blocks) continue;
    blocks().free(resting.front());
    resting.pop_front();
  }
}

const SymbolTable* symbol_owner(uint32_t symbol) {
  std::lock_guard lock(blocks().owners_mutex);
  size_t block = symbol / symbol_block_size;
  return block < blocks().all.size() ? blocks().all[block].owner : nullptr;
}

void keep_value(const Expr* symbol, const std::optional<SymValue>& value, bool is_over) {
  std::lock_guard lock(blocks().owners_mutex);
  Block& block = blocks().all[symbol->symbol() / symbol_block_size];
  block.is_over |= is_over;
  block.values[symbol->symbol() % symbol_block_size] = value;
  detail::has_kept_values.store(true, std::memory_order_relaxed);
}

KeptSymbol kept_symbol(const Expr* symbol) {
  std::lock_guard lock(blocks().owners_mutex);
  size_t number = symbol->symbol() / symbol_block_size;
  if (number >= blocks().all.size()) return {};
  const Block& block = blocks().all[number];
  bool is_of_other = !block.is_over && block.owner && block.taken_by != std::this_thread::get_id();
  if (is_of_other) return {.is_of_other_thread = true};
  return {block.is_over, false, block.values[symbol->symbol() % symbol_block_size]};
}

std::string symbol_text(const Expr* expr) {
  return expr_text(expr, [](const Expr* symbol) {
    const SymbolTable* owner = symbol_owner(symbol->symbol());
    bool known = owner != nullptr && owner->owns(symbol);
    return known ? owner->info(symbol).name : "sym" + std::to_string(symbol->symbol());
  });
}

}  // namespace tenon
