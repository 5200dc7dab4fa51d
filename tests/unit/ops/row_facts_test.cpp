// Facts that rows like a row have: a view its inverse, a linear op its form. An op that lacks one
// is named here, instead of being lowered worse or slower.
#include "ops/forms/linear_form.h"
#include "ops/op_table.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace tenon {
namespace {

// The rows of the sources: no derived forms, no ops that other tests have added.
std::vector<const OpEntry*> rows() {
  std::vector<const OpEntry*> out;
  for (size_t i = 0; i < op_count(); ++i) {
    const OpEntry& op = entry_of(static_cast<OpId>(i));
    if (!op.functional && !op.def->custom && op.schema.ns == "aten") out.push_back(&op);
  }
  return out;
}

std::set<std::string> words_of(const char* list) {
  std::set<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    word.erase(0, word.find_first_not_of(' '));
    words.insert(word.substr(0, word.find_first_of(" ?")));
  }
  return words;
}

TEST(RowFacts, EachViewHasAnInverseOrSaysWhyNot) {
  for (const OpEntry* op : rows()) {
    bool says = op->def->inverse.call || op->def->inverse.reason;
    EXPECT_TRUE(says || !op->def->view)
        << op->name << " is a view: give its row `.inverse`, or Without{\"why\"}";
  }
}

// The gradient of an argument reads neither that argument nor a result: the op is linear in it, but
// for what it adds.
bool has_constant_derivative(const VjpRule& rule) {
  std::set<std::string> wrt = words_of(rule.wrt), uses = words_of(rule.uses);
  bool reads_a_result =
      std::ranges::any_of(uses, [](const std::string& use) { return use.starts_with("result"); });
  return !reads_a_result &&
         std::ranges::any_of(wrt, [&](const std::string& x) { return !uses.contains(x); });
}

TEST(RowFacts, EachLinearOpSaysSo) {
  for (const OpEntry* op : rows()) {
    const OpDef& row = *op->def;
    if (row.formula || row.linear.reason || op->mutated_args || linear_terms(*op)) continue;
    for (uint8_t r = 0; r < row.vjp.n_rules; ++r)
      EXPECT_FALSE(has_constant_derivative(row.vjp.rules[r]))
          << op->name << ": the gradient of " << row.vjp.rules[r].wrt
          << " does not depend on it: give its row `.linear`, or Without{\"why\"}";
  }
}

TEST(RowFacts, LinearFormsNameTensorsAndNumbers) {
  for (const OpEntry* op : rows()) {
    auto terms = linear_terms(*op);
    if (!terms) continue;
    for (const std::vector<size_t>& factors : *terms)
      for (size_t arg : factors)
        EXPECT_TRUE(op->schema.args[arg].type.base <= BaseType::scalar) << op->name;
  }
}

TEST(RowFacts, LinearFormsAreSumsOfProducts) {
  auto terms = linear_terms(*find_op("aten.addmm.default"));
  ASSERT_TRUE(terms.has_value());
  EXPECT_EQ(*terms, (std::vector<std::vector<size_t>>{{0}, {1, 2}}));
  EXPECT_TRUE(linear_terms(*find_op("aten.zeros.default"))->empty());
  EXPECT_FALSE(linear_terms(*find_op("aten.amax.default")).has_value());
}

TEST(RowFacts, CommutativeOpsMayChangeTheirArguments) {
  Tensor a = arange(6, Dtype::i64), b = full({6}, 3).to(Dtype::i64);
  size_t count = 0;
  for (const OpEntry* op : rows()) {
    if (!(op->def->tags & OpTags::commutative)) continue;
    ++count;
    auto call = [&](const Tensor& x, const Tensor& y) {
      std::vector<Value> args{Value::of(x), Value::of(y)};
      for (size_t i = 2; i < op->n_args; ++i) args.push_back(default_of(*op, i));
      Value result;
      dispatch(*op, args.data(), op->n_args, &result, 1);
      return take<Tensor>(result).to(Dtype::f64).to_vector<double>();
    };
    EXPECT_EQ(call(a, b), call(b, a)) << op->name;
  }
  EXPECT_GT(count, 0u);
}

TEST(RowFacts, PluginsDoNotSeeTheHostsOwnTags) {
  for (const OpEntry* op : rows()) EXPECT_EQ(op->tags >> 24, 0u) << op->name;
}

}  // namespace
}  // namespace tenon
