// The interner of symbolic expressions, their order, and walks over them.
#include "core/sym/sym_expr.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace tenon {

namespace {

struct NodeKey {
  SymOp op;
  ExprKind kind;
  int64_t payload;
  std::span<const Expr* const> operands;
  uint32_t hash;
};

uint64_t mix(uint64_t h) {  // finalizer of splitmix64 (Steele, Lea, Flood 2014)
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

NodeKey make_key(SymOp op, ExprKind kind, int64_t payload, std::span<const Expr* const> operands) {
  uint64_t h = mix(static_cast<uint64_t>(payload) + 0x9e3779b97f4a7c15 +
                   (static_cast<uint64_t>(op) << 8) + static_cast<uint64_t>(kind));
  for (const Expr* e : operands) h = mix(h + reinterpret_cast<uint64_t>(e));
  return {op, kind, payload, operands, static_cast<uint32_t>(h >> 32)};
}

bool matches(const Expr* e, const NodeKey& key) {
  return e->hash == key.hash && e->op == key.op && e->kind == key.kind &&
         e->payload == key.payload && e->n_operands == key.operands.size() &&
         std::equal(key.operands.begin(), key.operands.end(), e->operands().begin());
}

uint16_t degree_of(const NodeKey& key) {
  auto operands = key.operands;
  uint32_t degree = 0;
  switch (key.op) {
    case SymOp::constant:
      return 0;
    case SymOp::mul:
      for (const Expr* e : operands) degree += e->degree;
      break;
    case SymOp::add:
      for (const Expr* e : operands) degree = std::max<uint32_t>(degree, e->degree);
      break;
    case SymOp::pow: {
      const Expr* exponent = operands[1];
      bool natural = exponent->is_constant() && exponent->kind == ExprKind::integer &&
                     exponent->integer() > 0 && exponent->integer() < 1000;
      degree = natural ? operands[0]->degree * static_cast<uint32_t>(exponent->integer()) : 1;
      break;
    }
    default:
      degree = 1;
  }
  return static_cast<uint16_t>(std::min<uint32_t>(degree, 0xffff));
}

uint32_t tree_nodes_of(const NodeKey& key) {
  uint64_t nodes = 1;
  for (const Expr* e : key.operands) nodes += e->tree_nodes;
  require(nodes <= max_tree_nodes, ErrorCode::unsupported,
          "a symbolic expression has {} terms and operations, the limit is {}; mark sizes static, "
          "so that they are numbers",
          nodes, max_tree_nodes);
  return static_cast<uint32_t>(nodes);
}

/// One of the interner's tables: open addressing over nodes that are never freed.
class Shard {
 public:
  const Expr* intern(const NodeKey& key) {
    std::lock_guard lock(mutex_);
    if (count_ * 2 >= slots_.size()) grow();
    size_t place = find_place(key);
    if (slots_[place] != nullptr) return slots_[place];
    slots_[place] = store(key);
    ++count_;
    return slots_[place];
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  size_t find_place(const NodeKey& key) const {
    size_t mask = slots_.size() - 1, place = (key.hash >> 4) & mask;
    while (slots_[place] != nullptr && !matches(slots_[place], key)) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    std::vector<const Expr*> old(std::max<size_t>(64, slots_.size() * 2));
    old.swap(slots_);
    size_t mask = slots_.size() - 1;
    for (const Expr* e : old) {
      if (e == nullptr) continue;
      size_t place = (e->hash >> 4) & mask;
      while (slots_[place] != nullptr) place = (place + 1) & mask;
      slots_[place] = e;
    }
  }
  const Expr* store(const NodeKey& key) {
    const uint32_t tree_nodes = tree_nodes_of(key);
    size_t bytes = sizeof(Expr) + key.operands.size_bytes();
    auto* e = new (take(bytes)) Expr{.op = key.op,
                                     .kind = key.kind,
                                     .degree = degree_of(key),
                                     .n_operands = static_cast<uint32_t>(key.operands.size()),
                                     .symbol_mask = 0,
                                     .payload = key.payload,
                                     .hash = key.hash,
                                     .tree_nodes = tree_nodes};
    if (key.op == SymOp::symbol) e->symbol_mask = uint64_t{1} << (key.payload & 63);
    for (const Expr* operand : key.operands) e->symbol_mask |= operand->symbol_mask;
    if (!key.operands.empty())
      std::memcpy(static_cast<void*>(e + 1), key.operands.data(), key.operands.size_bytes());
    return e;
  }
  void* take(size_t bytes) {
    static constexpr size_t chunk_bytes = 1 << 14;
    if (bytes > left_) {
      left_ = std::max(chunk_bytes, bytes);
      next_ = static_cast<std::byte*>(std::malloc(left_));
      if (next_ == nullptr) throw std::bad_alloc();
    }
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }

  std::mutex mutex_;
  std::vector<const Expr*> slots_;
  size_t count_ = 0;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

// Never destroyed: expressions outlive every object with static storage.
std::array<Shard, 16>& shards() {
  static auto* result = new std::array<Shard, 16>;
  return *result;
}

const Expr* intern(SymOp op, ExprKind kind, int64_t payload,
                   std::span<const Expr* const> operands = {}) {
  NodeKey key = make_key(op, kind, payload, operands);
  return shards()[key.hash & 15].intern(key);
}

template <class T>
int three_way(T a, T b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

void collect_symbols(const Expr* expr, std::vector<const Expr*>& out) {
  if (expr->symbol_mask == 0) return;
  if (expr->is_symbol()) {
    if (std::find(out.begin(), out.end(), expr) == out.end()) out.push_back(expr);
    return;
  }
  for (const Expr* operand : expr->operands()) collect_symbols(operand, out);
}

}  // namespace

const Expr* intern_integer(int64_t value) {
  return intern(SymOp::constant, ExprKind::integer, value);
}
const Expr* intern_real(double value) {
  return intern(SymOp::constant, ExprKind::real, std::bit_cast<int64_t>(value));
}
const Expr* intern_boolean(bool value) { return intern(SymOp::constant, ExprKind::boolean, value); }
const Expr* intern_symbol(uint32_t id, ExprKind kind) { return intern(SymOp::symbol, kind, id); }
const Expr* intern_node(SymOp op, ExprKind kind, std::span<const Expr* const> operands) {
  return intern(op, kind, 0, operands);
}

size_t interned_count() {
  size_t total = 0;
  for (Shard& shard : shards()) total += shard.count();
  return total;
}

namespace {

bool is_product(const Expr* e) { return e->op == SymOp::mul || e->op == SymOp::pow; }

struct PowerView {
  const Expr* base;
  int64_t exponent;
};

PowerView power_at(const Expr* e, size_t i) {
  const Expr* factor = e->op == SymOp::mul ? e->operand(i) : e;
  bool natural = factor->op == SymOp::pow && factor->operand(1)->is_constant() &&
                 factor->kind == ExprKind::integer;
  return natural ? PowerView{factor->operand(0), factor->operand(1)->integer()}
                 : PowerView{factor, 1};
}

/// Lexicographic, as a monomial order has to be: s0**2, s0*s1, s1**2.
int compare_products(const Expr* a, const Expr* b) {
  size_t n = a->op == SymOp::mul ? a->n_operands : 1, m = b->op == SymOp::mul ? b->n_operands : 1;
  for (size_t i = 0; i < std::min(n, m); ++i) {
    PowerView x = power_at(a, i), y = power_at(b, i);
    if (x.base == a || y.base == b) break;  // a power with a symbolic exponent: by structure
    if (int order = compare_order(x.base, y.base)) return order;
    if (x.exponent != y.exponent) return x.exponent > y.exponent ? -1 : 1;
  }
  return three_way(m, n);
}

}  // namespace

int compare_order(const Expr* a, const Expr* b) {
  if (a == b) return 0;
  if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
  if (is_product(a) && is_product(b))
    if (int order = compare_products(a, b)) return order;
  if (a->is_symbol() != b->is_symbol()) return a->is_symbol() ? -1 : 1;
  if (a->op != b->op) return three_way(a->op, b->op);
  if (a->n_operands != b->n_operands) return three_way(a->n_operands, b->n_operands);
  for (size_t i = 0; i < a->n_operands; ++i)
    if (int order = compare_order(a->operand(i), b->operand(i))) return order;
  if (a->payload != b->payload) return three_way(a->payload, b->payload);
  return three_way(a->kind, b->kind);
}

std::vector<const Expr*> free_symbols(const Expr* expr) {
  std::vector<const Expr*> out;
  collect_symbols(expr, out);
  std::sort(out.begin(), out.end(),
            [](const Expr* a, const Expr* b) { return a->symbol() < b->symbol(); });
  return out;
}

bool contains(const Expr* expr, const Expr* part) {
  if (expr == part) return true;
  if ((expr->symbol_mask & part->symbol_mask) != part->symbol_mask) return false;
  for (const Expr* operand : expr->operands())
    if (contains(operand, part)) return true;
  return false;
}

const Expr* as_expr(SymInt value) {
  return value.is_symbolic() ? value.expr() : intern_integer(value.word());
}
const Expr* as_expr(SymBool value) {
  return value.is_symbolic() ? value.expr() : intern_boolean(value.guard_bool());
}
const Expr* as_expr(SymFloat value) {
  return value.is_symbolic() ? value.expr() : intern_real(value.guard_float());
}

SymInt as_sym_int(const Expr* expr) {
  ensure(expr->kind == ExprKind::integer, "an integer expression was expected");
  return expr->is_constant() ? SymInt(expr->integer()) : SymInt::from_expr(expr);
}
SymBool as_sym_bool(const Expr* expr) {
  ensure(expr->kind == ExprKind::boolean, "a boolean expression was expected");
  return expr->is_constant() ? SymBool(expr->is_true()) : SymBool::from_expr(expr);
}
SymFloat as_sym_float(const Expr* expr) {
  ensure(expr->kind == ExprKind::real, "a real expression was expected");
  return expr->is_constant() ? SymFloat(expr->real()) : SymFloat::from_expr(expr);
}

}  // namespace tenon
