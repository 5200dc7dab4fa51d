// What the builder of graphs is made of: symbols and expressions of one text, arguments of one
// node.
#pragma once

#include "core/sym/shape_env.h"
#include "graph/text/document.h"
#include "ops/op_table.h"

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon {

// Errors of other rooms get the position of the statement that they arose in.
template <class F>
auto with_position(TextPosition at, F f) {
  try {
    return f();
  } catch (const UserError& error) {
    if (std::string_view(error.what()).starts_with("graph text")) throw;
    fail_at(at, error.what());
  }
}

/// What all graphs of one text share: the symbols, and the ops that nobody knows.
struct GraphNames {
  const ParseOptions& options;
  std::shared_ptr<ShapeEnv> env;
  std::unordered_map<std::string, const Expr*> symbols;
  std::set<std::string> unknown_ops;

  const Expr* lookup(std::string_view name) const {
    auto found = symbols.find(std::string(name));
    return found == symbols.end() ? nullptr : found->second;
  }
  const Expr* expression(TextPosition at, std::string_view text) const;
  SymInt size(const Literal& literal, std::string_view what) const;
  Dims sizes(const std::vector<Literal>& literals, std::string_view what) const;
  Number number(const Literal& literal) const;
};

/// The arguments of nodes, by schema. Pointers in them hold until the next call.
class ArgumentBuilder {
 public:
  /// The id of a named value; throws where there is none.
  using ValueLookup = std::function<ValueId(TextPosition at, const std::string& name)>;

  ArgumentBuilder(const GraphNames& names, ValueLookup value_id)
      : names_(names), value_id_(std::move(value_id)) {}

  std::vector<Value> arguments(const OpEntry& op, const StatementDoc& statement);
  /// Sub-graphs that arguments may name.
  std::unordered_map<std::string, const Graph*> subgraphs;

 private:
  Value argument(const SchemaArg& arg, const Literal& literal);
  Value word(const SchemaArg& arg, const Literal& literal) const;
  Value list(const SchemaArg& arg, const Literal& literal);
  Value values(const SchemaArg& arg, const Literal& list);
  Value reals(const SchemaArg& arg, const Literal& list);
  Value booleans(const SchemaArg& arg, const Literal& list);
  Value strings(const SchemaArg& arg, const Literal& list);
  Value integers(const SchemaArg& arg, const Literal& list);

  const GraphNames& names_;
  ValueLookup value_id_;
  std::deque<std::vector<ValueId>> refs_;
  std::deque<std::vector<SymInt>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<uint8_t>> bools_;
  std::deque<std::vector<std::string_view>> strings_;
};

}  // namespace tenon
