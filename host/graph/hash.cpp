// Hashes and equality of graphs.
#include "graph/hash.h"

#include "core/tensor/tensor_impl.h"
#include "graph/symbol_use.h"
#include "graph/text/elements.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <unordered_map>

namespace tenon {

[[noreturn]] static void fail_for_libcrypto() {
  unsigned long reason = ERR_get_error();
  if (reason == 0 || ERR_GET_REASON(reason) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
  std::array<char, 256> text{};
  ERR_error_string_n(reason, text.data(), text.size());
  // It says so of a lack of memory, too.
  throw UserError(ErrorCode::unsupported,
                  message("libcrypto makes no SHA-256 digest ({}): its configuration leaves out "
                          "SHA-256, or there is not enough memory",
                          text.data()));
}

Digest sha256(std::string_view bytes) {
  Digest digest;
  unsigned size = 0;
  // Fetched once: without a type of its own each digest would look for one.
  static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  const EVP_MD* type = fetched ? fetched : EVP_sha256();
  bool done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, type, nullptr) == 1;
  if (!done) fail_for_libcrypto();
  ensure(size == digest.size(), "a SHA-256 digest has the wrong size");
  return digest;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    (out += digits[byte >> 4]) += digits[byte & 15];
  }
  return out;
}

Digest hash_of(const Graph& graph) { return sha256(canonical_text(graph)); }

std::string hash_text(const Graph& graph) {
  Digest digest = hash_of(graph);
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

size_t element_bytes_of(Tag tag) {
  switch (tag) {
    case Tag::ints:
    case Tag::floats:
      return 8;
    case Tag::bools:
    case Tag::string:
      return 1;
    case Tag::refs:
      return sizeof(ValueId);
    default:
      return 0;
  }
}

namespace {

/// 64-bit mixing: multiply and fold, as in wyhash.
class Hasher {
 public:
  void add(uint64_t word) {
    unsigned __int128 product = static_cast<unsigned __int128>(state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ =
        static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ 0xA0761D6478BD642Fu;
  }
  void add(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      add(word);
    }
  }
  uint64_t result() const { return state_; }

 private:
  uint64_t state_ = 0x2D358DCCAA6C78A5u;
};

uint32_t flag_bits(const ValueFlags& f) {
  return f.parameter | f.buffer << 1 | f.static_address << 2 | f.mutated << 3 |
         f.requires_grad << 4 | f.saved << 5 | f.tangent << 6 | f.user_output << 7;
}

bool is_expression(const Value& v) { return v.is_number() && v.number().is_symbolic(); }

/// Symbols by their place among the bindings; the others keep their number.
using SymbolPlaces = std::unordered_map<const Expr*, uint64_t>;

SymbolPlaces places_of(const Graph& graph) {
  SymbolPlaces places;
  for (const SymbolBinding& b : graph.symbols) places.emplace(b.symbol, places.size());
  return places;
}

class GraphHasher {
 public:
  explicit GraphHasher(const Graph& graph) : graph_(graph), places_(places_of(graph)) {}
  uint64_t run();

 private:
  void add(const Expr* expr);
  void add(SymInt v) {
    if (v.is_symbolic())
      add(v.expr());
    else
      h_.add(static_cast<uint64_t>(v.word()));
  }
  void add(Number n) {
    if (n.is_symbolic())
      add(expression_of(n));
    else
      h_.add(static_cast<uint64_t>(n.word()));
  }
  void add(const Value& arg);
  void add(const GraphValue& value);

  const Graph& graph_;
  SymbolPlaces places_;
  Hasher h_;
};

void GraphHasher::add(const Expr* expr) {
  h_.add(static_cast<uint64_t>(expr->op) << 8 | static_cast<uint64_t>(expr->kind));
  if (expr->is_symbol()) {
    auto place = places_.find(expr);
    h_.add(place == places_.end() ? ~uint64_t{0} : place->second);
  } else if (expr->is_constant()) {
    h_.add(static_cast<uint64_t>(expr->payload));
  }
  for (const Expr* operand : expr->operands()) add(operand);
}

void GraphHasher::add(const Value& arg) {
  h_.add(static_cast<uint64_t>(arg.tag) << 32 | arg.count);
  if (arg.is_number()) return add(arg.number());
  if (arg.tag == Tag::ints) {
    for (uint32_t i = 0; i < arg.count; ++i) add(arg.as<SymInt>()[i]);
  } else if (arg.tag == Tag::graph) {
    h_.add(structural_hash(*arg.as<Graph>()));
  } else if (arg.tag != Tag::opaque) {
    h_.add(hash_argument(arg));
  }
}

void GraphHasher::add(const GraphValue& value) {
  h_.add(static_cast<uint64_t>(value.kind) << 48 | static_cast<uint64_t>(value.source) << 40 |
         flag_bits(value.flags));
  h_.add(value.alias_group);
  add(value.scalar);
  if (value.kind != ValueKind::tensor || !value.meta.defined) return;
  h_.add(static_cast<uint64_t>(value.meta.dtype) << 32 |
         static_cast<uint64_t>(value.meta.device.type));
  h_.add(value.meta.sizes.size());
  for (SymInt v : value.meta.sizes) add(v);
  for (SymInt v : value.meta.strides) add(v);
}

uint64_t GraphHasher::run() {
  for (const GraphValue& value : graph_.values()) add(value);
  for (const Node& node : graph_.nodes()) {
    h_.add(static_cast<uint64_t>(node.op) << 32 | node.n_results);
    for (const Value& arg : node.args) add(arg);
    for (const auto& [key, fact] : node.facts) {
      h_.add(key);
      h_.add(fact);
    }
  }
  for (ValueId v : graph_.outputs()) h_.add(v);
  for (const SymbolBinding& b : graph_.symbols)
    h_.add(uint64_t{b.value} << 33 | static_cast<uint64_t>(static_cast<uint32_t>(b.dim)) << 1 |
           b.stride);
  return h_.result();
}

// Where inputs begin in their memory is seen by no other op.
bool offsets_matter(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return (entry_of(node.op).tags & TN_TAG_BY_PLACE) != 0;
  });
}

/// Compares two graphs; symbols of one stand for those of the other by place.
class GraphComparer {
 public:
  GraphComparer(const Graph& a, const Graph& b) : a_(a), b_(b) {
    size_t n = std::min(a.symbols.size(), b.symbols.size());
    for (size_t i = 0; i < n; ++i) match_.emplace(a.symbols[i].symbol, b.symbols[i].symbol);
  }
  /// Of bodies: symbols of the graphs around them are those that stand for each other there.
  GraphComparer(const Graph& a, const Graph& b, const GraphComparer& around) : GraphComparer(a, b) {
    match_.insert(around.match_.begin(), around.match_.end());
  }
  bool run() const;

 private:
  bool same(const Expr* x, const Expr* y) const;
  bool same(SymInt x, SymInt y) const {
    if (x.is_symbolic() && y.is_symbolic()) return same(x.expr(), y.expr());
    return x.word() == y.word();
  }
  bool same(Number x, Number y) const {
    if (x.kind() != y.kind() || x.is_symbolic() != y.is_symbolic()) return false;
    return x.is_symbolic() ? same(expression_of(x), expression_of(y)) : x.word() == y.word();
  }
  bool same(const Dims& x, const Dims& y) const {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](SymInt p, SymInt q) { return same(p, q); });
  }
  bool same(const Value& x, const Value& y) const;
  bool same(const GraphValue& x, const GraphValue& y) const;
  bool same(const Node& x, const Node& y) const;
  bool same_symbols() const;
  bool same_constants() const;

  const Graph &a_, &b_;
  const bool offsets_matter_ = offsets_matter(a_);
  std::unordered_map<const Expr*, const Expr*> match_;
};

bool GraphComparer::same(const Expr* x, const Expr* y) const {
  if (x->op != y->op || x->kind != y->kind || x->n_operands != y->n_operands) return false;
  if (x->is_symbol()) {
    auto matched = match_.find(x);
    return matched == match_.end() ? x == y && a_.shape_env == b_.shape_env : matched->second == y;
  }
  if (x->is_constant()) return x->payload == y->payload;
  for (size_t i = 0; i < x->n_operands; ++i)
    if (!same(x->operand(i), y->operand(i))) return false;
  return true;
}

bool GraphComparer::same(const Value& x, const Value& y) const {
  if (x.tag != y.tag || x.count != y.count) return false;
  if (x.is_number()) return same(x.number(), y.number());
  if (x.tag == Tag::ints)
    return std::equal(x.as<SymInt>(), x.as<SymInt>() + x.count, y.as<SymInt>(),
                      [&](SymInt p, SymInt q) { return same(p, q); });
  if (x.tag == Tag::graph) return GraphComparer(*x.as<Graph>(), *y.as<Graph>(), *this).run();
  return same_argument(x, y);
}

bool GraphComparer::same(const GraphValue& x, const GraphValue& y) const {
  if (x.kind != y.kind || x.source != y.source || x.source_index != y.source_index ||
      x.result_index != y.result_index || flag_bits(x.flags) != flag_bits(y.flags) ||
      x.alias_group != y.alias_group || x.meta.defined != y.meta.defined ||
      !same(x.scalar, y.scalar))
    return false;
  if (x.kind != ValueKind::tensor || !x.meta.defined) return true;
  return x.meta.dtype == y.meta.dtype && x.meta.device == y.meta.device &&
         same(x.meta.sizes, y.meta.sizes) && same(x.meta.strides, y.meta.strides) &&
         (!offsets_matter_ || same(x.offset, y.offset));
}

bool GraphComparer::same(const Node& x, const Node& y) const {
  return x.op == y.op && x.n_results == y.n_results && x.first_result == y.first_result &&
         x.facts == y.facts &&
         std::equal(x.args.begin(), x.args.end(), y.args.begin(), y.args.end(),
                    [&](const Value& p, const Value& q) { return same(p, q); });
}

bool GraphComparer::same_symbols() const {
  return std::equal(a_.symbols.begin(), a_.symbols.end(), b_.symbols.begin(), b_.symbols.end(),
                    [](const SymbolBinding& x, const SymbolBinding& y) {
                      return x.value == y.value && x.dim == y.dim && x.stride == y.stride &&
                             x.symbol->kind == y.symbol->kind;
                    });
}

bool same_tensor(const Tensor& x, const Tensor& y) {
  constexpr int64_t small = 16;
  const TensorImpl *p = impl_of(x), *q = impl_of(y);
  if (p == q) return true;
  if (is_wrapped_number(x) != is_wrapped_number(y)) return false;
  if (p->storage_id == q->storage_id) return p->storage_offset == q->storage_offset;
  return p->numel <= small && q->numel <= small && !x.is_fake() && !y.is_fake() &&
         element_bytes(x) == element_bytes(y);
}

bool GraphComparer::same_constants() const {
  for (size_t i = 0; i < a_.constants().size(); ++i)
    if (!same_tensor(a_.constant(a_.constants()[i]), b_.constant(b_.constants()[i]))) return false;
  return true;
}

bool GraphComparer::run() const {
  auto equal = [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const auto& p, const auto& q) { return same(p, q); });
  };
  return a_.nodes().size() == b_.nodes().size() && a_.values().size() == b_.values().size() &&
         a_.constants().size() == b_.constants().size() &&
         std::ranges::equal(a_.outputs(), b_.outputs()) && same_symbols() &&
         equal(a_.values(), b_.values()) && equal(a_.nodes(), b_.nodes()) && same_constants();
}

}  // namespace

bool same_argument(const Value& a, const Value& b) {
  if (a.tag != b.tag || a.count != b.count) return false;
  if (a.tag == Tag::strings)
    return std::equal(a.as<std::string_view>(), a.as<std::string_view>() + a.count,
                      b.as<std::string_view>());
  if (size_t size = element_bytes_of(a.tag))
    return a.count == 0 || std::memcmp(a.as<void>(), b.as<void>(), size * a.count) == 0;
  return a.payload == b.payload && is_expression(a) == is_expression(b);
}

uint64_t hash_argument(const Value& v) {
  Hasher h;
  h.add(static_cast<uint64_t>(v.tag) << 32 | v.count);
  if (v.tag == Tag::strings)
    for (uint32_t i = 0; i < v.count; ++i) h.add(v.as<std::string_view>()[i]);
  else if (size_t size = element_bytes_of(v.tag))
    h.add(std::string_view(v.as<char>(), size * v.count));
  else
    h.add(v.payload);
  return h.result();
}

uint64_t structural_hash(const Graph& graph) { return GraphHasher(graph).run(); }

bool structurally_equal(const Graph& a, const Graph& b) {
  return &a == &b || GraphComparer(a, b).run();
}

}  // namespace tenon
