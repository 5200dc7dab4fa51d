// Documents as text.
#include "graph/text/print.h"

#include "graph/text/lex.h"

#include <tenon/dtype.h>

#include <charconv>
#include <cmath>

namespace tenon {

namespace {

std::string name_text(char mark, const std::string& name) {
  bool plain = !name.empty();
  for (char c : name) plain &= is_name_char(c);
  return mark + (plain ? name : quoted(name));
}

class Printer {
 public:
  std::string take() { return std::move(out_); }
  void graph(const GraphDoc& doc, int depth);
  void statement(const StatementDoc& statement);
  void literal(const Literal& literal);
  void value(const ValueDoc& value);

 private:
  template <class L, class F>
  void separated(const L& list, F print) {
    bool first = true;
    for (const auto& item : list) {
      if (!first) out_ += ", ";
      first = false;
      print(item);
    }
  }
  void list(const std::vector<Literal>& items) {
    out_ += '[';
    separated(items, [&](const Literal& item) { literal(item); });
    out_ += ']';
  }
  void properties(const ValueDoc& value);
  void symbol(const SymbolDoc& symbol);
  void attributes(const StatementDoc& statement);
  void content(const StatementDoc& statement);

  std::string out_;
};

void Printer::literal(const Literal& literal) {
  using Kind = Literal::Kind;
  switch (literal.kind) {
    case Kind::none:
      out_ += "none";
      break;
    case Kind::value:
      out_ += name_text('%', literal.text);
      break;
    case Kind::graph:
      out_ += name_text('@', literal.text);
      break;
    case Kind::integer:
      out_ += std::to_string(literal.integer);
      break;
    case Kind::floating:
      out_ += double_text(literal.floating);
      break;
    case Kind::boolean:
      out_ += literal.integer ? "true" : "false";
      break;
    case Kind::text:
      out_ += quoted(literal.text);
      break;
    case Kind::word:
    case Kind::expression:
      out_ += literal.text;
      break;
    case Kind::opaque:
      out_ += "opaque";
      break;
    case Kind::list:
      list(literal.items);
      break;
  }
}

void Printer::properties(const ValueDoc& value) {
  if (value.strides) {
    out_ += " strides ";
    list(*value.strides);
  }
  if (value.offset.kind != Literal::Kind::integer || value.offset.integer != 0) {
    out_ += " offset ";
    literal(value.offset);
  }
  if (!(value.device == kCPU)) out_ += " on " + to_text(value.device);
  for (std::string_view flag : flags_of(value)) (out_ += ' ') += flag;
  if (value.alias_group) out_ += " alias " + std::to_string(value.alias_group);
}

void Printer::value(const ValueDoc& value) {
  out_ += name_text('%', value.name) + ": ";
  switch (value.kind) {
    case ValueKind::tensor:
      if (!value.defined) {
        out_ += "undefined";
        break;
      }
      out_ += name_of(value.dtype);
      list(value.sizes);
      break;
    case ValueKind::sym_int:
      out_ += "int ";
      literal(value.scalar);
      break;
    case ValueKind::sym_float:
      out_ += "float ";
      literal(value.scalar);
      break;
    case ValueKind::sym_bool:
      out_ += "bool ";
      literal(value.scalar);
      break;
    case ValueKind::none:
      out_ += "none";
      break;
  }
  properties(value);
}

void Printer::symbol(const SymbolDoc& symbol) {
  out_ += "symbol " + symbol.name;
  if (symbol.kind == ExprKind::real) out_ += " float";
  if (symbol.kind == ExprKind::boolean) out_ += " bool";
  if (symbol.size_like) out_ += " size_like";
  if (symbol.range.lo != Range::no_lower || symbol.range.hi != Range::no_upper) {
    auto bound = [](int64_t v) {
      return v == Range::no_lower ? "-inf" : v == Range::no_upper ? "inf" : std::to_string(v);
    };
    out_ += " in [" + bound(symbol.range.lo) + ", " + bound(symbol.range.hi) + "]";
  }
  if (symbol.hint) {
    out_ += " hint ";
    out_ += symbol.hint->kind == ExprKind::real ? double_text(symbol.hint->real())
                                                : std::to_string(symbol.hint->integer());
  }
  if (!symbol.from) return;
  std::string from = name_text('%', *symbol.from);
  if (symbol.dim >= 0)
    from = std::string(symbol.stride ? "stride(" : "size(") + from + ", " +
           std::to_string(symbol.dim) + ")";
  out_ += " from " + from;
}

void Printer::content(const StatementDoc& statement) {
  out_ += " = ";
  if (statement.content == StatementDoc::Content::elements) return list(statement.elements);
  out_ += statement.content == StatementDoc::Content::bytes ? "bytes " : "sha256 ";
  out_ += quoted(statement.bytes);
}

void Printer::attributes(const StatementDoc& s) {
  std::vector<std::string> parts;
  if (!s.name.empty()) parts.push_back("name " + quoted(s.name));
  if (!s.module_path.empty()) parts.push_back("module " + quoted(s.module_path));
  if (!s.where.file.empty() || !s.where.function.empty() || s.where.line) {
    parts.push_back("at " + quoted(s.where.file) + ":" + std::to_string(s.where.line));
    if (!s.where.function.empty()) parts.back() += " in " + quoted(s.where.function);
  }
  if (s.seq_nr >= 0) parts.push_back("seq " + std::to_string(s.seq_nr));
  for (const auto& [key, fact] : s.facts) parts.push_back(quoted(key) + " = " + quoted(fact));
  if (parts.empty()) return;
  out_ += "  {";
  separated(parts, [&](const std::string& part) { out_ += part; });
  out_ += '}';
}

void Printer::statement(const StatementDoc& statement) {
  if (statement.kind == StatementDoc::Kind::input) out_ += "input ";
  if (statement.kind == StatementDoc::Kind::constant) out_ += "constant ";
  separated(statement.results, [&](const ValueDoc& v) { value(v); });
  if (statement.kind == StatementDoc::Kind::constant) content(statement);
  if (statement.kind != StatementDoc::Kind::node) return;
  if (!statement.results.empty()) out_ += " = ";
  out_ += statement.op + "(";
  separated(statement.args, [&](const std::pair<std::string, Literal>& arg) {
    if (!arg.first.empty()) out_ += arg.first + "=";
    literal(arg.second);
  });
  out_ += ')';
  attributes(statement);
}

void Printer::graph(const GraphDoc& doc, int depth) {
  std::string indent(static_cast<size_t>(2 * depth), ' ');
  out_ += indent + "graph " + (doc.name.empty() ? "" : name_text('@', doc.name) + " ") + "{\n";
  auto line = [&](auto print) {
    (out_ += indent) += "  ";
    print();
    out_ += '\n';
  };
  for (const SymbolDoc& s : doc.symbols) line([&] { symbol(s); });
  for (const auto& [at, condition] : doc.assumptions) line([&] { out_ += "assume " + condition; });
  for (const GraphDoc& sub : doc.graphs) graph(sub, depth + 1);
  for (const StatementDoc& s : doc.body) line([&] { statement(s); });
  line([&] {
    out_ += "output";
    if (!doc.outputs.empty()) out_ += ' ';
    separated(doc.outputs, [&](const Literal& item) { literal(item); });
  });
  out_ += indent + "}\n";
}

}  // namespace

std::string double_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (byte < 0x20 || byte == 0x7f)
      ((out += "\\x") += digits[byte >> 4]) += digits[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string print_document(const GraphDoc& doc) {
  Printer printer;
  printer.graph(doc, 0);
  return "tng 1\n" + printer.take();
}

std::string to_text(const Graph& graph, const PrintOptions& options) {
  return print_document(describe_graph(graph, options));
}

std::string statement_text(const StatementDoc& statement) {
  Printer printer;
  printer.statement(statement);
  return printer.take();
}

std::string value_text(const ValueDoc& value) {
  Printer printer;
  printer.value(value);
  return printer.take();
}

std::string literal_text(const Literal& literal) {
  Printer printer;
  printer.literal(literal);
  return printer.take();
}

std::string node_text(const Graph& graph, NodeId node) {
  return statement_text(describe_node(graph, node));
}

std::string canonical_text(const Graph& graph) { return to_text(graph, {.canonical = true}); }

}  // namespace tenon
