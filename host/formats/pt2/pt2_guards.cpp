// Guards of .pt2 programs: finding the leaf that `L['x'][0]` means, and evaluating.
#include "formats/pt2/pt2_guards.h"

#include "core/sym/sym_simplify.h"
#include "core/sym/symbol_numbers.h"
#include "formats/byte_reader.h"
#include "formats/pt2/pt2_parts.h"
#include "ops/shapes.h"
#include "report/log.h"

#include <tenon/tree.h>

#include <algorithm>
#include <charconv>

namespace tenon::formats {

namespace {

/// A part of the arguments' tree: the leaves from `first` on.
struct Subtree {
  const Pt2Tree* tree;
  size_t first;
};

std::optional<Subtree> child_at(Subtree at, size_t index) {
  if (index >= at.tree->children.size()) return std::nullopt;
  for (size_t i = 0; i < index; ++i) at.first += at.tree->children[i].leaf_count();
  return Subtree{&at.tree->children[index], at.first};
}

std::optional<Subtree> child_named(Subtree at, std::string_view key) {
  for (size_t i = 0; i < at.tree->keys.size(); ++i)
    if (at.tree->keys[i] == key) return child_at(at, i);
  return std::nullopt;
}

// in_tree is the tuple (args, kwargs).
std::optional<Subtree> argument(const Pt2Program& program, std::string_view name) {
  if (!program.in_tree) return std::nullopt;
  Subtree root{&*program.in_tree, 0};
  auto positional = child_at(root, 0), keywords = child_at(root, 1);
  if (!positional) return std::nullopt;
  for (size_t i = 0; i < program.argument_names.size(); ++i) {
    if (program.argument_names[i] != name) continue;
    if (auto found = child_at(*positional, i)) return found;
  }
  return keywords ? child_named(*keywords, name) : std::nullopt;
}

bool accept(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

// What stands between brackets, "[0]" or "['x']", without quotes; nothing where there are none.
std::optional<std::string_view> subscript(std::string_view& text) {
  if (!accept(text, "[")) return std::nullopt;
  bool is_quoted = text.starts_with("'") || text.starts_with("\"");
  size_t end = is_quoted ? text.find(text[0], 1) : text.find(']');
  if (end == text.npos) return std::nullopt;
  std::string_view inside = text.substr(is_quoted, end - is_quoted);
  text.remove_prefix(end + is_quoted);
  return accept(text, "]") ? std::optional(inside) : std::nullopt;
}

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

// `.size()[1]`, `.shape[1]`, `.stride()[0]`, `.storage_offset()`, `.dim()` or `.ndim` of a leaf;
// nothing is the value of a number.
bool read_property(std::string_view text, Pt2Place& place) {
  using Kind = Pt2Place::Kind;
  place.kind = Kind::value;
  if (text.empty()) return true;
  place.kind = Kind::rank;
  if (text == ".dim()" || text == ".ndim") return true;
  place.kind = Kind::storage_offset;
  if (text == ".storage_offset()") return true;
  place.kind = accept(text, ".stride()") ? Kind::stride : Kind::size;
  if (place.kind == Kind::size && !accept(text, ".size()") && !accept(text, ".shape")) return false;
  auto index = subscript(text);
  auto dim = index ? integer(*index) : std::nullopt;
  place.dim = dim.value_or(0);
  return dim && text.empty();
}

// The leaf of that number: exporters that trace a function of the leaves name them so.
std::optional<Subtree> flat_argument(const Pt2Program& program, int64_t number) {
  static const Pt2Tree leaf;
  auto index = static_cast<size_t>(number);
  bool is_there = program.in_tree && index < program.in_tree->leaf_count();
  return is_there ? std::optional(Subtree{&leaf, index}) : std::nullopt;
}

// `flat_args[0]`, and one of those that `*name` or `**name` gathers: `[0]` is the argument name_0,
// `['key']` is key.
std::optional<Subtree> gathered_argument(const Pt2Program& program, std::string_view name,
                                         std::string_view& text) {
  auto key = subscript(text);
  if (!key) return std::nullopt;
  auto number = integer(*key);
  if (number && name == "flat_args") return flat_argument(program, *number);
  return argument(program, number ? message("{}_{}", name, *key) : std::string(*key));
}

// `L['x']`, subscripts and fields down to a leaf, and a property of it.
std::optional<Pt2Place> place_of(const Pt2Program& program, std::string_view text) {
  accept(text, "L");
  auto name = subscript(text);
  auto at = name ? argument(program, *name) : std::nullopt;
  if (name && !at) at = gathered_argument(program, *name, text);
  Pt2Place place;
  while (at && !read_property(text, place)) {
    if (accept(text, ".")) {
      std::string_view field = text.substr(0, text.find_first_of(".["));
      text.remove_prefix(field.size());
      at = child_named(*at, field);
    } else if (auto key = subscript(text)) {
      auto index = integer(*key);
      at = index ? child_at(*at, static_cast<size_t>(*index)) : child_named(*at, *key);
    } else {
      return std::nullopt;
    }
  }
  if (!at || at->tree->kind != Pt2Tree::Kind::leaf) return std::nullopt;
  place.leaf = at->first;
  return place;
}

std::optional<SymInt> number_at(const Pt2Place& place, std::span<const Tensor> leaves) {
  if (place.leaf >= leaves.size() || !leaves[place.leaf].defined()) return std::nullopt;
  const Tensor& leaf = leaves[place.leaf];
  const int64_t rank = leaf.dim();
  bool inside = place.dim >= -rank && place.dim < rank;
  switch (place.kind) {
    case Pt2Place::Kind::value:
      if (rank == 0 && !is_floating(leaf.dtype())) return leaf.item<int64_t>().value();
      break;
    case Pt2Place::Kind::rank:
      return rank;
    case Pt2Place::Kind::storage_offset:
      return leaf.storage_offset();
    case Pt2Place::Kind::size:
      if (inside) return leaf.size(place.dim);
      break;
    case Pt2Place::Kind::stride:
      if (inside) return leaf.stride(place.dim);
      break;
  }
  return std::nullopt;
}

// Nothing where it cannot be told. Python stops at the first part that decides.
std::optional<bool> truth(const Expr* expr, const SymbolValues& values) {
  if (expr->op != SymOp::and_ && expr->op != SymOp::or_) {
    std::optional<SymValue> value = evaluate(expr, values);
    return value ? std::optional(value->word != 0) : std::nullopt;
  }
  const bool decides = expr->op == SymOp::or_;
  bool is_open = false;
  for (uint32_t i = 0; i < expr->n_operands; ++i) {
    std::optional<bool> part = truth(expr->operand(i), values);
    if (part == decides) return decides;
    is_open = is_open || !part;
  }
  return is_open ? std::nullopt : std::optional(!decides);
}

// What has no value, as a remainder of a division by 0, does not hold: PyTorch's guard raises an
// error there.
bool holds(const Pt2Guard& guard, std::span<const Tensor> leaves) {
  bool is_symbolic = false;
  auto number = [&](const Expr* symbol) {
    return number_at(*std::ranges::find(guard.places, symbol, &Pt2Place::symbol), leaves);
  };
  std::optional<bool> value = truth(guard.expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    auto n = number(symbol);
    is_symbolic = is_symbolic || (n && n->is_symbolic());
    return n && !n->is_symbolic() ? std::optional(SymValue::of_int(n->word())) : std::nullopt;
  });
  if (value || !is_symbolic) return value.value_or(false);
  const Expr* condition = express_with(guard.expr, number);
  return condition && expect_true(as_sym_bool(condition));
}

// A condition over the arguments alone.
const Expr* read_condition(const Pt2Program& program, Pt2Expressions& expressions,
                           Pt2Guard& guard) {
  const Expr* expr = expressions.read_guard(guard.text, [&](std::string_view text) -> const Expr* {
    std::optional<Pt2Place> place = place_of(program, text);
    if (!place || !(place->symbol = expressions.symbol(text))) return nullptr;
    guard.places.push_back(*place);
    return place->symbol;
  });
  for (const Expr* symbol : free_symbols(expr))
    require(std::ranges::find(guard.places, symbol, &Pt2Place::symbol) != guard.places.end(),
            "expected a property of an argument, found {}", symbol_text(symbol));
  bool is_number = expr->kind != ExprKind::boolean;  // true where it is not 0
  return is_number ? make_expr(SymOp::ne, {expr, intern_integer(0)}) : expr;
}

// A call that the export excludes would run code that was made for others.
void warn_of_unchecked(const Pt2Program& program) {
  constexpr size_t most_lines = 16;
  size_t n = 0;
  for (const Pt2Guard& guard : program.guards)
    if (!guard.expr && ++n <= most_lines)
      report::log(report::LogLevel::warning, "guards",
                  "{}: the export excludes inputs for which \"{}\" is false; they are not refused "
                  "here, since it cannot be read: {}",
                  program.file, printable(guard.text), guard.problem);
  if (n > most_lines)
    report::log(report::LogLevel::warning, "guards",
                "{}: {} more conditions of the export cannot be read", program.file,
                n - most_lines);
}

}  // namespace

void pt2::read_guards(const JsonView& top, Pt2Expressions& expressions, Pt2Program& program) {
  auto guards = top.optional_field("guards_code");
  if (!guards) return;
  for (const JsonView& view : guards->items()) {
    Pt2Guard& guard = program.guards.emplace_back(Pt2Guard{.text = view.text()});
    try {
      guard.expr = read_condition(program, expressions, guard);
    } catch (const UserError& error) {
      guard.problem = error.what();
    }
  }
  warn_of_unchecked(program);
}

void check_guards(const ImportedModel& model, std::span<const Tensor> leaves) {
  for (const Pt2Guard& guard : model.guards) {
    if (!guard.expr) continue;  // which was told when it was read
    require(holds(guard, leaves),
            "the model was exported for inputs with {}, which does not hold here", guard.text);
  }
}

}  // namespace tenon::formats
