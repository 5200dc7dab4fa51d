// Guards of .pt2 programs: finding the leaf that `L['x'][0]` means, and evaluating.
#include "formats/pt2/pt2_guards.h"

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

std::optional<Subtree> child_named(Subtree at, const std::string& key) {
  for (size_t i = 0; i < at.tree->keys.size(); ++i)
    if (at.tree->keys[i] == key) return child_at(at, i);
  return std::nullopt;
}

// in_tree is the tuple (args, kwargs).
std::optional<Subtree> argument(const ImportedModel& model, const std::string& name) {
  if (!model.in_tree) return std::nullopt;
  Subtree root{&*model.in_tree, 0};
  auto positional = child_at(root, 0), keywords = child_at(root, 1);
  if (!positional) return std::nullopt;
  for (size_t i = 0; i < model.argument_names.size(); ++i) {
    if (model.argument_names[i] != name) continue;
    if (auto found = child_at(*positional, i)) return found;
  }
  return keywords ? child_named(*keywords, name) : std::nullopt;
}

std::optional<SymNumber> read(const Tensor& leaf, const SymAccess& access) {
  int64_t rank = leaf.dim();
  bool inside = access.index >= -rank && access.index < rank;
  switch (access.kind) {
    case SymAccess::Kind::size:
      if (!inside) return std::nullopt;
      return SymNumber(leaf.size(access.index).guard_int());
    case SymAccess::Kind::stride:
      if (!inside) return std::nullopt;
      return SymNumber(leaf.stride(access.index).guard_int());
    case SymAccess::Kind::storage_offset:
      return SymNumber(leaf.storage_offset());
    case SymAccess::Kind::dim:
      return SymNumber(rank);
    default:
      return std::nullopt;
  }
}

std::optional<SymNumber> value_of(const ImportedModel& model, std::span<const Tensor> leaves,
                                  const SymExprAst& input) {
  std::optional<Subtree> at = argument(model, input.name);
  for (const SymAccess& access : input.path) {
    if (!at) return std::nullopt;
    if (access.kind == SymAccess::Kind::index) {
      at = child_at(*at, static_cast<size_t>(access.index));
    } else if (access.kind == SymAccess::Kind::key || access.kind == SymAccess::Kind::attribute) {
      at = child_named(*at, access.key);
    } else {
      bool known = at->first < leaves.size() && leaves[at->first].defined();
      return known ? read(leaves[at->first], access) : std::nullopt;
    }
  }
  return std::nullopt;
}

bool all_known(const SymExprAst& expr, const SymLookup& lookup) {
  if (expr.op == SymOp::input || expr.op == SymOp::symbol) return lookup(expr).has_value();
  for (const SymExprPtr& child : expr.children)
    if (!all_known(*child, lookup)) return false;
  return true;
}

}  // namespace

void check_guards(const ImportedModel& model, std::span<const Tensor> leaves) {
  SymLookup lookup = [&](const SymExprAst& leaf) -> std::optional<SymNumber> {
    if (leaf.op != SymOp::input) return std::nullopt;
    return value_of(model, leaves, leaf);
  };
  for (const Pt2Guard& guard : model.guards) {
    if (!guard.expr || !all_known(*guard.expr, lookup)) continue;
    SymNumber value = evaluate(*guard.expr, lookup);
    const bool* holds = std::get_if<bool>(&value);
    require(!holds || *holds, "the model was exported for inputs with {}, which does not hold here",
            guard.text);
  }
}

}  // namespace tenon::formats
