// Matching trees with the calling convention of an archive.
#include "model/model_tree.h"

#include "core/error.h"
#include "core/joined.h"
#include "graph/interpret.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon {

using formats::ImportedModel;
using formats::LeafKind;
using formats::ModelLeaf;
using formats::ModelOutput;
using formats::ModelOutputKind;
using formats::Pt2Argument;
using formats::Pt2Kind;
using formats::Pt2Program;
using formats::Pt2Tree;

// ---- Tree

namespace {

const char* kind_text(Tree::Kind kind) {
  switch (kind) {
    case Tree::Kind::none:
      return "none";
    case Tree::Kind::tensor:
      return "a tensor";
    case Tree::Kind::number:
      return "a number";
    case Tree::Kind::text:
      return "a text";
    case Tree::Kind::list:
      return "a list";
    case Tree::Kind::dict:
      return "a dict";
  }
  return "";
}

}  // namespace

Tree Tree::list(std::vector<Tree> items) {
  Tree t;
  t.kind_ = Kind::list;
  t.items_ = std::move(items);
  return t;
}

Tree Tree::dict(std::vector<std::pair<std::string, Tree>> items) {
  Tree t;
  t.kind_ = Kind::dict;
  for (auto& [key, item] : items) {
    t.keys_.push_back(std::move(key));
    t.items_.push_back(std::move(item));
  }
  return t;
}

// Texts of trees are written for messages only: small models take no longer than that.
const Tree& Tree::operator[](size_t index) const {
  if (index >= items_.size())
    fail("element {} was asked for, the value is {}", index, to_text(*this));
  return items_[index];
}

const Tree& Tree::operator[](std::string_view key) const {
  auto at = std::find(keys_.begin(), keys_.end(), key);
  if (at == keys_.end())
    fail("the key {} was asked for, the value is {}{}", key, kind_text(kind_),
         kind_ == Kind::dict ? " with the keys " + joined(keys_) : "");
  return items_[static_cast<size_t>(at - keys_.begin())];
}

const Tensor& Tree::tensor() const {
  if (kind_ != Kind::tensor)
    fail("a tensor was asked for, the value is {}: {}", kind_text(kind_), to_text(*this));
  return tensor_;
}

Number Tree::number() const {
  if (kind_ != Kind::number)
    fail("a number was asked for, the value is {}: {}", kind_text(kind_), to_text(*this));
  return number_;
}

const std::string& Tree::text() const {
  if (kind_ != Kind::text)
    fail("a text was asked for, the value is {}: {}", kind_text(kind_), to_text(*this));
  return text_;
}

void Tree::require_size(size_t expected) const {
  if ((kind_ != Kind::list && kind_ != Kind::dict) || size() != expected)
    fail("{} elements were asked for, the value is {}", expected, to_text(*this));
}

std::vector<Tensor> Tree::tensors() const {
  if (kind_ == Kind::tensor) return {tensor_};
  std::vector<Tensor> out;
  for (const Tree& item : items_)
    for (Tensor& t : item.tensors()) out.push_back(std::move(t));
  return out;
}

std::string Tree::describe() const {
  switch (kind_) {
    case Tree::Kind::none:
      return "none";
    case Tree::Kind::tensor:
      return symbolic_text(tensor_);
    case Tree::Kind::number:
      return symbolic_text(number_);
    case Tree::Kind::text:
      return "\"" + text_ + "\"";
    default:
      break;
  }
  bool is_dict = kind_ == Kind::dict;
  std::string out = is_dict ? "{" : "(";
  for (size_t i = 0; i < size(); ++i)
    out += (i ? ", " : "") + (is_dict ? "\"" + keys_[i] + "\": " : "") + items_[i].describe();
  return out + (is_dict ? "}" : ")");
}

Tensor number_leaf(Number n) {
  Number plain = n.is_integer()    ? Number(n.to_int())
                 : n.is_floating() ? Number(n.to_double())
                                   : Number(n.to_bool());
  PauseRecording aside;  // the body has nothing to do with the tensor
  return number_tensor(plain);
}

// ---- arguments

namespace {

bool is_dict(const Pt2Tree& tree) {
  return tree.kind == Pt2Tree::Kind::dict || tree.kind == Pt2Tree::Kind::ordered_dict ||
         tree.kind == Pt2Tree::Kind::default_dict;
}

/// Writes the leaves of trees one after the other.
class Flattener {
 public:
  explicit Flattener(const ImportedModel& model) : model_(model) {}

  void add(const Pt2Tree& expected, const Tree& given, const std::string& place);
  std::vector<Tensor> take();

 private:
  void add_leaf(const Tree& given, const std::string& place);
  const Tree& child(const Pt2Tree& expected, const Tree& given, size_t i) const;

  const ImportedModel& model_;
  std::vector<Tensor> leaves_;
};

// A number may come as a 0-dim tensor, none as an undefined one.
bool stands_for(const Tree& given, Tree::Kind kind) {
  if (given.kind() != Tree::Kind::tensor) return false;
  const Tensor& t = given.tensor();
  return t.defined() ? kind == Tree::Kind::number && t.dim() == 0 : kind == Tree::Kind::none;
}

// Numbers travel as 0-dim tensors. A constant that is none or a text is fixed by the export.
void Flattener::add_leaf(const Tree& given, const std::string& place) {
  ensure(leaves_.size() < model_.leaves.size(), "an archive with fewer inputs than its tree");
  const ModelLeaf& leaf = model_.leaves[leaves_.size()];
  bool has_items = given.kind() == Tree::Kind::list || given.kind() == Tree::Kind::dict;
  if (has_items)
    fail("{}: expected {}, found {}", place,
         leaf.kind == LeafKind::tensor ? "a tensor" : "one value", to_text(given));
  if (leaf.kind == LeafKind::tensor && given.kind() != Tree::Kind::tensor)
    fail("{}: expected a tensor {}, found {}", place, leaf.dtype, to_text(given));
  if (leaf.kind == LeafKind::constant) {
    Tree fixed = constant_tree(leaf.constant);
    bool fits = fixed.kind() == given.kind() || stands_for(given, fixed.kind());
    require(fits && (fixed.kind() != Tree::Kind::text || fixed.text() == given.text()),
            "{}: the export fixed it to {}, found {}", place, to_text(fixed), to_text(given));
  }
  switch (given.kind()) {
    case Tree::Kind::tensor:
      leaves_.push_back(given.tensor());
      break;
    case Tree::Kind::number: {
      Number n = given.number();
      leaves_.push_back(number_leaf(n));
      break;
    }
    default:
      leaves_.emplace_back();
  }
}

const Tree& Flattener::child(const Pt2Tree& expected, const Tree& given, size_t i) const {
  return given.kind() == Tree::Kind::dict ? given[expected.keys[i]] : given[i];
}

// A dict takes a dict with its keys, or as a list (a C++ struct) its values in order.
void Flattener::add(const Pt2Tree& expected, const Tree& given, const std::string& place) {
  if (expected.kind == Pt2Tree::Kind::leaf) return add_leaf(given, place);
  size_t n = expected.children.size();
  bool by_key = given.kind() == Tree::Kind::dict && expected.keys.size() == n;
  bool same_keys =
      by_key && given.size() == n &&
      std::all_of(expected.keys.begin(), expected.keys.end(), [&](const std::string& key) {
        return std::find(given.keys().begin(), given.keys().end(), key) != given.keys().end();
      });
  bool fits = by_key ? same_keys : given.kind() == Tree::Kind::list && given.size() == n;
  if (!fits)
    fail("{}: expected {}, found {}", place,
         is_dict(expected) ? "a dict with the keys " + joined(expected.keys)
                           : message("a list of {} elements", n),
         to_text(given));
  for (size_t i = 0; i < n; ++i) {
    std::string below =
        expected.keys.size() == n ? place + "." + expected.keys[i] : message("{}[{}]", place, i);
    add(expected.children[i], child(expected, given, i), below);
  }
}

std::vector<Tensor> Flattener::take() { return std::move(leaves_); }

/// One argument of forward.
struct Parameter {
  std::string name;
  const Pt2Tree* tree;
};

// in_tree is the tuple (args, kwargs); without one every leaf is an argument.
std::vector<Parameter> parameters_of(const ImportedModel& model) {
  static const Pt2Tree leaf;
  std::vector<Parameter> out;
  if (!model.in_tree || model.in_tree->children.size() != 2) {
    for (const ModelLeaf& l : model.leaves) out.push_back({l.name, &leaf});
    return out;
  }
  const Pt2Tree &args = model.in_tree->children[0], &kwargs = model.in_tree->children[1];
  for (size_t i = 0; i < args.children.size(); ++i) {
    bool named = i < model.argument_names.size();
    out.push_back({named ? model.argument_names[i] : message("argument {}", i), &args.children[i]});
  }
  for (size_t i = 0; i < kwargs.children.size(); ++i)
    out.push_back({i < kwargs.keys.size() ? kwargs.keys[i] : "", &kwargs.children[i]});
  return out;
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  return names;
}

// Named arguments go to their places; each place is filled once.
std::vector<const Tree*> by_place(const std::vector<Parameter>& parameters,
                                  const std::vector<Tree>& positional,
                                  const Model::Arguments& named) {
  std::vector<std::string> names = names_of(parameters);
  if (positional.size() + named.size() > names.size())
    fail("the model takes {} arguments ({}), found {}", names.size(), joined(names),
         positional.size() + named.size());
  std::vector<const Tree*> given(names.size());
  for (size_t i = 0; i < positional.size(); ++i) given[i] = &positional[i];
  for (const auto& [name, value] : named) {
    auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) fail("the model has no argument {}; it takes {}", name, joined(names));
    const Tree*& place = given[static_cast<size_t>(at - names.begin())];
    require(!place, "argument {} is given twice", name);
    place = &value;
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i]) fail("argument {} is missing; the model takes {}", names[i], joined(names));
  return given;
}

}  // namespace

std::vector<Tensor> flatten_arguments(const ImportedModel& model,
                                      const std::vector<Tree>& positional,
                                      const Model::Arguments& named) {
  std::vector<Parameter> parameters = parameters_of(model);
  std::vector<const Tree*> given = by_place(parameters, positional, named);
  Flattener flattener(model);
  for (size_t i = 0; i < parameters.size(); ++i)
    flattener.add(*parameters[i].tree, *given[i], "input " + parameters[i].name);
  return flattener.take();
}

// ---- results

Tree constant_tree(const Pt2Argument& value) {
  switch (value.kind) {
    case Pt2Kind::integer:
      return value.integer;
    case Pt2Kind::boolean:
      return value.boolean;
    case Pt2Kind::real:
      return value.real;
    case Pt2Kind::string:
      return value.text;
    default:
      return Tree();
  }
}

namespace {

Tree number_tree(const Tensor& t) {
  if (t.dtype() == Dtype::bool_) return t.item<bool>().value();
  if (is_floating(t.dtype())) return t.item<double>().value();
  return t.item<int64_t>().value();
}

Tree result_leaf(const ImportedModel& model, const ModelOutput& plan, const Tensor& result) {
  if (plan.kind == ModelOutputKind::constant) return constant_tree(plan.constant);
  ValueId id = model.graph->outputs()[plan.index];
  bool is_number = id != no_value && model.graph->value(id).kind != ValueKind::tensor;
  return is_number && result.defined() ? number_tree(result) : Tree(result);
}

Tree unflatten(const Pt2Tree& tree, std::vector<Tree>::iterator& next) {
  if (tree.kind == Pt2Tree::Kind::leaf) return std::move(*next++);
  std::vector<Tree> items;
  for (const Pt2Tree& child : tree.children) items.push_back(unflatten(child, next));
  bool has_keys = !items.empty() || is_dict(tree);
  if (tree.keys.size() != items.size() || !has_keys) return Tree::list(std::move(items));
  std::vector<std::pair<std::string, Tree>> named;
  for (size_t i = 0; i < items.size(); ++i) named.emplace_back(tree.keys[i], std::move(items[i]));
  return Tree::dict(std::move(named));
}

}  // namespace

Tree unflatten_results(const ImportedModel& model, const Pt2Program& program,
                       std::span<const Tensor> results) {
  std::vector<Tree> leaves;
  for (const ModelOutput& plan : model.outputs)
    if (plan.kind == ModelOutputKind::result || plan.kind == ModelOutputKind::constant)
      leaves.push_back(result_leaf(model, plan, results[leaves.size()]));
  if (!program.out_tree || program.out_tree->leaf_count() != leaves.size()) {
    if (leaves.size() == 1) return std::move(leaves[0]);
    return Tree::list(std::move(leaves));
  }
  auto next = leaves.begin();
  return unflatten(*program.out_tree, next);
}

}  // namespace tenon
