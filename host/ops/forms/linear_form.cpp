// The linear forms of rows, read: "self + mat1 * mat2".
#include "ops/forms/linear_form.h"

#include "core/error.h"

#include <tenon/plugin.h>

namespace tenon {

namespace {

bool is_backward(const Schema& schema) {
  return schema.ns == "aten" && !schema.args.empty() && schema.args[0].name.starts_with("grad") &&
         (schema.name.ends_with("_backward") || schema.name.ends_with("_backward_data"));
}

}  // namespace

std::optional<std::vector<std::vector<size_t>>> linear_terms(const OpEntry& op) {
  std::vector<std::vector<size_t>> terms;
  if (!op.def->linear.text) {
    if (!(op.tags & TN_TAG_VIEW) && !is_backward(op.schema)) return std::nullopt;
    terms.push_back({0});
    return terms;
  }
  std::string_view rest = op.def->linear.text;
  if (rest == "0") return terms;
  for (bool is_factor = false; !rest.empty();) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word == "+" || word == "*") {
      is_factor = word == "*";
      continue;
    }
    int arg = op.schema.find_arg(word);
    ensure(arg >= 0, "a linear form names what is not an argument");
    if (!is_factor) terms.emplace_back();
    terms.back().push_back(static_cast<size_t>(arg));
  }
  return terms;
}

}  // namespace tenon
