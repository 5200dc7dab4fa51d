// The table of blocks of symbol numbers and their owners.
#include "core/sym/symbol_numbers.h"

#include "core/sym/sym_text.h"
#include "core/sym/symbol_table.h"

#include <mutex>

namespace tenon {

namespace {

struct Blocks {
  std::mutex owners_mutex;
  std::vector<const SymbolTable*> owners;  // by block; null: free
};

// Never destroyed: environments in static storage release their numbers late.
Blocks& blocks() {
  static auto* result = new Blocks;
  return *result;
}

}  // namespace

uint32_t take_symbol_numbers(uint32_t at_least, const SymbolTable& owner) {
  std::lock_guard lock(blocks().owners_mutex);
  auto& owners = blocks().owners;
  size_t block = at_least;
  while (block < owners.size() && owners[block] != nullptr) ++block;
  if (block >= owners.size()) owners.resize(block + 1);
  owners[block] = &owner;
  return static_cast<uint32_t>(block);
}

void release_symbol_numbers(std::span<const uint32_t> released) {
  if (released.empty()) return;  // a destructor asks: the first look at the table would allocate it
  std::lock_guard lock(blocks().owners_mutex);
  for (uint32_t block : released) blocks().owners[block] = nullptr;
}

const SymbolTable* symbol_owner(uint32_t symbol) {
  std::lock_guard lock(blocks().owners_mutex);
  size_t block = symbol / symbol_block_size;
  return block < blocks().owners.size() ? blocks().owners[block] : nullptr;
}

std::string symbol_text(const Expr* expr) {
  return expr_text(expr, [](const Expr* symbol) {
    const SymbolTable* owner = symbol_owner(symbol->symbol());
    bool known = owner != nullptr && owner->owns(symbol);
    return known ? owner->info(symbol).name : "sym" + std::to_string(symbol->symbol());
  });
}

}  // namespace tenon
