// The checks of one call, and the values of its symbols.
#include "formats/pt2/pt2_call.h"

#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_guards.h"
#include "ops/shapes.h"

#include <tenon/tree.h>

#include <cmath>

namespace tenon::formats {

namespace {

/// Plain numbers, or in a body that is recorded those that may be symbolic.
template <class Int>
using Numbers = std::map<const Expr*, Int>;

int64_t number_of(const ModelLeaf& leaf, const Tensor& given) {
  require(given.defined() && given.dim() == 0, "input {} is a number: expected a 0-dim tensor",
          leaf.name);
  if (given.dtype() == Dtype::bool_) return given.item<bool>().value();
  if (given.dtype() == Dtype::i64 || given.dtype() == Dtype::i32)
    return given.item<int64_t>().value();
  fail("input {} is an integer, found {}", leaf.name, symbolic_text(given));
}

// What the place of a symbol holds in a call.
template <class Int>
Int found_at(const Pt2SymbolSource& source, const ModelLeaf& leaf, const Tensor& given) {
  switch (source.kind) {
    case Pt2SourceKind::size:
      return given.size(source.dim);
    case Pt2SourceKind::stride:
      return given.stride(source.dim);
    case Pt2SourceKind::offset:
      return given.storage_offset();
    case Pt2SourceKind::value:
      break;
  }
  return number_of(leaf, given);
}

size_t leaf_of(const ImportedModel& model, uint32_t program_input) {
  for (size_t i = 0; i < model.leaves.size(); ++i)
    if (model.leaves[i].program_input == program_input) return i;
  fail_internal("a symbol is bound to an input that is not a leaf");
}

std::string sizes_text(const std::vector<Pt2Sym>& sizes) {
  std::string out = "[";
  for (size_t d = 0; d < sizes.size(); ++d) {
    out += d ? ", " : "";
    out += to_text(sizes[d]);
  }
  return out + "]";
}

// Texts of sizes are written for messages only: small models take no longer than that.
void check_shape(const ModelLeaf& leaf, const Tensor& given, bool any_precision) {
  if (!given.defined())
    fail("input {} is missing: expected {}{}", leaf.name, leaf.dtype, sizes_text(leaf.sizes));
  bool other_precision = any_precision && is_floating(leaf.dtype) && is_floating(given.dtype());
  require(given.dtype() == leaf.dtype || other_precision,
          "input {}: expected dtype {}, found {}; convert it with to()", leaf.name, leaf.dtype,
          given.dtype());
  if (static_cast<size_t>(given.dim()) != leaf.sizes.size())
    fail("input {}: expected {} dimensions {}, found {}", leaf.name, leaf.sizes.size(),
         sizes_text(leaf.sizes), symbolic_text(given));
}

template <class Int>
void check_sizes(const ModelLeaf& leaf, const Tensor& given, const Numbers<Int>& values) {
  for (size_t d = 0; d < leaf.sizes.size(); ++d) {
    const Pt2Sym& size = leaf.sizes[d];
    if (!size.expr) continue;
    std::optional<Int> expected = evaluate_with(size.expr, values);
    require(expected.has_value(), "input {}: dimension {} must be {}, which has no value here",
            leaf.name, d, size);
    Int found = given.size(static_cast<int64_t>(d));
    if (expect_true(found == *expected)) continue;
    std::string how = size.is_symbolic() ? message(" ({})", size) : std::string();
    fail("input {}: dimension {} must be {}{}, found {}", leaf.name, d, int64_t(*expected), how,
         int64_t(found));
  }
}

// "dimension 1 of input ids", where a symbol's value comes from.
std::string place_of(const ImportedModel& model, const Pt2Range& range) {
  for (const Pt2SymbolSource& s : model.symbols) {
    if (range.expr != s.symbol) continue;
    const ModelLeaf& leaf = model.leaves[leaf_of(model, s.input)];
    if (s.kind == Pt2SourceKind::value) return message("input {}", leaf.name);
    return message("{} of input {}", place_text(s), leaf.name);
  }
  return message("{}", range.text);
}

template <class Int>
void check_ranges(const ImportedModel& model, const Numbers<Int>& values) {
  for (const Pt2Range& range : model.ranges) {
    std::optional<Int> found = evaluate_with(range.expr, values);
    if (!found) continue;
    bool inside = (!range.min || expect_true(*found >= *range.min)) &&
                  (!range.max || expect_true(*found <= *range.max));
    if (!inside)
      fail("{} is {}, but the model was exported for {} from {} to {}", place_of(model, range),
           int64_t(*found), range.text, range.min ? std::to_string(*range.min) : "-inf",
           range.max ? std::to_string(*range.max) : "inf");
  }
}

std::optional<Number> number_at_export(const Pt2Argument& constant) {
  if (constant.kind == Pt2Kind::integer) return Number(constant.integer);
  if (constant.kind == Pt2Kind::boolean) return Number(constant.boolean);
  if (constant.kind == Pt2Kind::real) return Number(constant.real);
  return std::nullopt;
}

Number plain_number(const Tensor& given) {
  if (given.dtype() == Dtype::bool_) return Number(given.item<bool>().value());
  if (is_floating(given.dtype())) return Number(given.item<double>().value());
  return Number(given.item<int64_t>().value());
}

// As == of Python, but that nan is nan.
bool is_same_number(Number a, Number b) {
  if (!a.is_floating() && !b.is_floating()) return a.to_int() == b.to_int();
  double x = a.to_double(), y = b.to_double();
  return x == y || (std::isnan(x) && std::isnan(y));
}

void check_constant(const ModelLeaf& leaf, const Tensor& given) {
  if (!given.defined()) return;
  std::optional<Number> fixed = number_at_export(leaf.constant);
  if (!fixed || given.dim() != 0)
    fail("input {} was fixed by the export, found the tensor {}; export the model again to use one",
         leaf.name, symbolic_text(given));
  Number found = plain_number(given);
  if (!is_same_number(*fixed, found))
    fail("input {} was the constant {} at export, found {}; export the model again to use another",
         leaf.name, to_text(*fixed), to_text(found));
}

template <class Int>
Numbers<Int> numbers_of(const ImportedModel& model, std::span<const Tensor> leaves) {
  Numbers<Int> values;
  for (const Pt2SymbolSource& s : model.symbols) {
    size_t at = leaf_of(model, s.input);
    Int found = found_at<Int>(s, model.leaves[at], leaves[at]);
    try {
      values[s.symbol] = solve_symbol(s, found, values);
    } catch (const UserError& error) {
      fail("input {}: {}: {}", model.leaves[at].name, place_text(s), error.what());
    }
  }
  return values;
}

void check_leaves(const ImportedModel& model, std::span<const Tensor> leaves, bool any_precision) {
  if (leaves.size() != model.leaves.size())
    fail("the model takes {} inputs ({}), found {}", model.leaves.size(), describe_leaves(model),
         leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (model.leaves[i].kind == LeafKind::tensor)
      check_shape(model.leaves[i], leaves[i], any_precision);
    if (model.leaves[i].kind == LeafKind::constant) check_constant(model.leaves[i], leaves[i]);
  }
}

template <class Int>
Numbers<Int> checked_numbers(const ImportedModel& model, std::span<const Tensor> leaves,
                             bool any_precision) {
  check_leaves(model, leaves, any_precision);
  Numbers<Int> values = numbers_of<Int>(model, leaves);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (model.leaves[i].kind == LeafKind::tensor) check_sizes(model.leaves[i], leaves[i], values);
  check_ranges(model, values);
  check_guards(model, leaves);
  return values;
}

// The program has a handle to each weight, and may have changed more than its elements.
void check_weight(const ModelInput& input, const TensorMeta& exported, bool any_precision) {
  const Tensor& found = input.tensor;
  auto is = [](SymInt size, SymInt wanted) {
    return wanted.is_symbolic() || size.is_symbolic() || size.word() == wanted.word();
  };
  bool has_dtype = found.dtype() == exported.dtype ||
                   (any_precision && is_floating(found.dtype()) && is_floating(exported.dtype));
  if (has_dtype && std::ranges::equal(found.sizes(), exported.sizes, is)) return;
  fail(
      "weight {}: the model was exported with {}{}, found {}; copy_() values of this dtype and "
      "shape into it",
      input.names.empty() ? input.name : input.names.front(), exported.dtype,
      list_of(exported.sizes), symbolic_text(found));
}

std::vector<detail::TensorHead*> inputs_of(const ImportedModel& model,
                                           std::span<const Tensor> leaves, bool any_precision) {
  std::vector<detail::TensorHead*> inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelInput& input = model.inputs[i];
    const Tensor* tensor = &input.tensor;
    if (input.kind == ModelInputKind::user)
      tensor = &leaves[input.leaf];
    else if (tensor->defined())
      check_weight(input, model.graph->value(model.graph->inputs()[i]).meta, any_precision);
    bool is_number =
        input.kind == ModelInputKind::symbol ||
        (input.kind == ModelInputKind::user && model.leaves[input.leaf].kind == LeafKind::number);
    inputs.push_back(is_number ? nullptr : tensor->head());
  }
  return inputs;
}

template <class Int>
std::vector<Int> in_order(const ImportedModel& model, const Numbers<Int>& values) {
  std::vector<Int> symbols(model.graph->symbols.size());
  for (size_t s = 0; s < model.symbols.size(); ++s) symbols[s] = values.at(model.symbols[s].symbol);
  return symbols;
}

BoundCall bind(const ImportedModel& model, std::span<const Tensor> leaves, bool any_precision) {
  BoundCall call;
  call.values = checked_numbers<int64_t>(model, leaves, any_precision);
  call.inputs = inputs_of(model, leaves, any_precision);
  call.symbols = in_order(model, call.values);
  return call;
}

}  // namespace

Pt2SymbolValues read_symbols(const ImportedModel& model, std::span<const Tensor> leaves) {
  return numbers_of<int64_t>(model, leaves);
}

BoundCallInBody bind_call_in_body(const ImportedModel& model, std::span<const Tensor> leaves) {
  auto values = checked_numbers<SymInt>(model, leaves, false);
  return {inputs_of(model, leaves, false), in_order(model, values)};
}

BoundCall bind_call(const ImportedModel& model, std::span<const Tensor> leaves) {
  return bind(model, leaves, false);
}

BoundCall bind_call_any_precision(const ImportedModel& model, std::span<const Tensor> leaves) {
  return bind(model, leaves, true);
}

std::string describe_leaves(const ImportedModel& model) {
  std::string out;
  for (const ModelLeaf& leaf : model.leaves) {
    out += (out.empty() ? "" : ", ") + leaf.name;
    if (leaf.kind == LeafKind::tensor)
      out += message(": {}{}", leaf.dtype, sizes_text(leaf.sizes));
    else
      out += leaf.kind == LeafKind::number ? ": number" : ": constant";
  }
  return out;
}

std::vector<int64_t> sizes_of(const ModelLeaf& leaf, const Pt2SymbolValues& values) {
  std::vector<int64_t> sizes;
  for (const Pt2Sym& size : leaf.sizes)
    sizes.push_back(evaluate_with(size.expr, values).value_or(0));
  return sizes;
}

}  // namespace tenon::formats
