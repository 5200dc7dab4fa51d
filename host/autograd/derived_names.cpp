// Ops that are derived from formulas, by their names: files name them before this process has
// differentiated anything.
//
// Problem: tenon.vjp_<namespace>_<op>[_<overload>][_<formula>].<argument> exists once a call of the
// op was differentiated. A graph of a backward half names it, and is read by another process.
// Method: the name of each row with a formula is compared; what it says about the formula tells
// which arguments are there. The derivative of a derivative is named after an op that may have to
// be made first. Cost: a walk over the op table, for names that begin so and are unknown.
#include "autograd/vjp_plan.h"

#include <charconv>

namespace tenon {

namespace {

constexpr std::string_view beginning = "tenon.vjp_";
constexpr int most_orders = 8;  // of derivatives of derivatives

std::string flat_name(const Schema& schema) {
  std::string out = schema.ns + "_" + schema.name;
  return schema.overload.empty() ? out : out + "_" + schema.overload;
}

// The number of the formula that `rest` tells, nothing where it is none.
std::optional<int> formula_of(std::string_view rest, const Formula& formula) {
  if (rest.empty()) return 0;
  int number = 0;
  auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
  bool is_number = rest[0] == '_' && rest.size() > 1 && rest[1] != '0' && error == std::errc() &&
                   end == rest.data() + rest.size();
  return is_number && number < formula.n_entries ? std::optional(number) : std::nullopt;
}

// The arguments that are inputs of a formula, in order: as a call that chooses it gives them.
std::vector<uint8_t> inputs_of(const OpEntry& op, int entry) {
  const Formula& formula = op.def->formula;
  bool by_presence = formula.choice == Formula::Choice::by_presence;
  unsigned n_optional = 0;
  std::vector<uint8_t> out;
  for (uint32_t i = 0; i < op.n_args; ++i) {
    const SchemaType& type = op.schema.args[i].type;
    bool is_there =
        !by_presence || !type.optional || (formula.entries[entry].present >> n_optional & 1) != 0;
    n_optional += type.optional;
    if (is_there && type.base <= BaseType::boolean) out.push_back(static_cast<uint8_t>(i));
  }
  return out;
}

bool derive(std::string_view name, int orders);

// "tenon_vjp_aten_sin_self" may be the name of the first derivative: each '_' may be its dot.
void derive_inner(std::string_view flat, int orders) {
  if (!flat.starts_with("tenon_vjp_") || orders == 0) return;
  std::string inner = "tenon." + std::string(flat.substr(6));
  for (size_t at = inner.rfind('_'); at > beginning.size(); at = inner.rfind('_', at - 1)) {
    std::string candidate = inner.substr(0, at) + "." + inner.substr(at + 1);
    if (find_added_op(candidate) || derive(candidate, orders - 1)) return;
  }
}

bool derive(std::string_view name, int orders) {
  size_t dot = name.rfind('.');
  if (!name.starts_with(beginning) || dot <= beginning.size()) return false;
  std::string_view flat = name.substr(beginning.size(), dot - beginning.size());
  derive_inner(flat, orders);
  for (size_t i = 0, n = op_count(); i < n; ++i) {
    const OpEntry& op = entry_of(static_cast<OpId>(i));
    if (!op.def->formula || op.functional) continue;
    std::string row = flat_name(op.schema);
    if (!flat.starts_with(row)) continue;
    std::optional<int> entry = formula_of(flat.substr(row.size()), op.def->formula);
    if (!entry) continue;
    derive_ops({op.name, *entry, inputs_of(op, *entry)});
    if (find_added_op(name)) return true;
  }
  return false;
}

}  // namespace

bool derive_op_named(std::string_view name) { return derive(name, most_orders); }

}  // namespace tenon
