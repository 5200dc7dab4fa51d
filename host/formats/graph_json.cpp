// Graphs as JSON: one function to write and one to read each part of a document.
#include "formats/graph_json.h"

#include "core/error.h"
#include "formats/check.h"
#include "formats/json.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::formats {

namespace {

using Kind = Literal::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- writing

Json tagged(const char* tag, Json value) { return Json::Object{{tag, std::move(value)}}; }

Json write_double(double value) {
  return std::isfinite(value) ? Json(value) : tagged("float", double_text(value));
}

Json write_list(const std::vector<Literal>& items);

Json write_literal(const Literal& literal) {
  switch (literal.kind) {
    case Kind::none:
      return {};
    case Kind::value:
      return tagged("value", literal.text);
    case Kind::graph:
      return tagged("graph", literal.text);
    case Kind::integer:
      return literal.integer;
    case Kind::floating:
      return write_double(literal.floating);
    case Kind::boolean:
      return literal.integer != 0;
    case Kind::text:
      return literal.text;
    case Kind::word:
      return tagged("word", literal.text);
    case Kind::expression:
      return tagged("expr", literal.text);
    case Kind::opaque:
      return tagged("opaque", true);
    case Kind::list:
      break;
  }
  return write_list(literal.items);
}

Json write_list(const std::vector<Literal>& items) {
  Json::Array list;
  for (const Literal& item : items) list.push_back(write_literal(item));
  return list;
}

void write_tensor(const ValueDoc& value, Json::Object& out) {
  if (!value.defined) return out.push_back({"undefined", true});
  out.push_back({"dtype", name_of(value.dtype)});
  out.push_back({"sizes", write_list(value.sizes)});
  if (value.strides) out.push_back({"strides", write_list(*value.strides)});
  if (value.offset.kind != Kind::integer || value.offset.integer != 0)
    out.push_back({"offset", write_literal(value.offset)});
  if (!(value.device == kCPU)) out.push_back({"device", to_text(value.device)});
}

Json write_value(const ValueDoc& value) {
  Json::Object out{{"name", value.name}};
  switch (value.kind) {
    case ValueKind::none:
      out.push_back({"none", true});
      break;
    case ValueKind::sym_int:
      out.push_back({"int", write_literal(value.scalar)});
      break;
    case ValueKind::sym_float:
      out.push_back({"float", write_literal(value.scalar)});
      break;
    case ValueKind::sym_bool:
      out.push_back({"bool", write_literal(value.scalar)});
      break;
    case ValueKind::tensor:
      write_tensor(value, out);
      break;
  }
  Json::Array flags;
  for (std::string_view flag : flags_of(value)) flags.emplace_back(flag);
  if (!flags.empty()) out.push_back({"flags", std::move(flags)});
  if (value.alias_group) out.push_back({"alias", int64_t{value.alias_group}});
  return out;
}

constexpr std::string_view symbol_kinds[] = {"bool", "int", "float"};  // by ExprKind

Json write_symbol(const SymbolDoc& symbol) {
  Json::Object out{{"name", symbol.name}, {"kind", symbol_kinds[static_cast<size_t>(symbol.kind)]}};
  if (symbol.size_like) out.push_back({"size_like", true});
  const auto [lo, hi] = symbol.range;
  out.push_back({"lower", lo == Range::no_lower ? Json() : Json(lo)});
  out.push_back({"upper", hi == Range::no_upper ? Json() : Json(hi)});
  if (symbol.hint)
    out.push_back({"hint", symbol.hint->kind == ExprKind::real ? write_double(symbol.hint->real())
                                                               : Json(symbol.hint->integer())});
  if (!symbol.from) return out;
  Json::Object from{{"value", *symbol.from}};
  if (symbol.dim >= 0) from.push_back({symbol.stride ? "stride" : "size", symbol.dim});
  out.push_back({"from", std::move(from)});
  return out;
}

Json write_constant(const StatementDoc& s) {
  Json::Object out{{"constant", write_value(s.results[0])}};
  if (s.content == StatementDoc::Content::elements)
    out.push_back({"elements", write_list(s.elements)});
  else
    out.push_back({s.content == StatementDoc::Content::bytes ? "bytes" : "sha256", s.bytes});
  return out;
}

Json write_args(const StatementDoc& node) {
  const OpEntry& op = entry_of(op_id(node.op));
  Json::Object args;
  size_t position = 0;
  for (const auto& [name, literal] : node.args)
    args.push_back({name.empty() ? std::string(op.schema.args[position++].name) : name,
                    write_literal(literal)});
  return args;
}

Json write_node(const StatementDoc& s) {
  Json::Array results;
  for (const ValueDoc& v : s.results) results.push_back(write_value(v));
  Json::Object out{{"op", s.op}, {"args", write_args(s)}, {"results", std::move(results)}};
  auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) out.push_back({key, value});
  };
  text("name", s.name);
  text("module", s.module_path);
  text("file", s.where.file);
  if (s.where.line) out.push_back({"line", s.where.line});
  text("function", s.where.function);
  if (s.seq_nr >= 0) out.push_back({"seq", s.seq_nr});
  Json::Object facts;
  for (const auto& [key, fact] : s.facts) facts.push_back({key, fact});
  if (!facts.empty()) out.push_back({"facts", std::move(facts)});
  return out;
}

Json write_statement(const StatementDoc& s) {
  if (s.kind == StatementDoc::Kind::input) return tagged("input", write_value(s.results[0]));
  return s.kind == StatementDoc::Kind::constant ? write_constant(s) : write_node(s);
}

Json write_graph(const GraphDoc& doc) {
  Json::Array symbols, assume, graphs, body, outputs;
  for (const SymbolDoc& symbol : doc.symbols) symbols.push_back(write_symbol(symbol));
  for (const auto& [at, condition] : doc.assumptions) assume.emplace_back(condition);
  for (const GraphDoc& sub : doc.graphs) graphs.push_back(write_graph(sub));
  for (const StatementDoc& statement : doc.body) body.push_back(write_statement(statement));
  for (const Literal& item : doc.outputs)
    outputs.push_back(item.kind == Kind::none ? Json() : Json(item.text));
  return Json::Object{{"name", doc.name},
                      {"symbols", std::move(symbols)},
                      {"assume", std::move(assume)},
                      {"graphs", std::move(graphs)},
                      {"body", std::move(body)},
                      {"outputs", std::move(outputs)}};
}

// A line for each entry of the graph's lists, so that two graphs can be compared line by line.
std::string lines_of(const Json& graph) {
  std::string out;
  for (const auto& [key, part] : std::get<Json::Object>(graph.value())) {
    out += (out.empty() ? "{\"" : ",\n \"") + key + "\": ";
    const auto* list = std::get_if<Json::Array>(&part.value());
    if (!list || list->empty() || key == "outputs") {
      out += part.dump();
      continue;
    }
    for (size_t i = 0; i < list->size(); ++i) out += (i ? ",\n  " : "[\n  ") + (*list)[i].dump();
    out += "\n ]";
  }
  return out + "}";
}

// ---- reading

const std::string& short_text(const JsonView& view) {
  check(view.text().size() <= graph_limits::name_bytes, "{}: expected at most {} bytes", view,
        graph_limits::name_bytes);
  return view.text();
}

std::string read_name(const JsonView& view) {
  check(!short_text(view).empty(), "{}: expected a name", view);
  return view.text();
}

template <class T>
T read_int(const JsonView& view, T lowest, T highest) {
  const int64_t value = view.integer();
  check(value >= lowest && value <= highest, "{}: expected an integer from {} to {}, found {}",
        view, lowest, highest, value);
  return static_cast<T>(value);
}

std::vector<JsonView> items_of(const JsonView& view, size_t limit = graph_limits::list_items) {
  check(view.size() <= limit, "{}: expected at most {} entries, found {}", view, limit,
        view.size());
  return view.items();
}

double read_double(const JsonView& view) {
  if (!view.is_object()) return view.real();
  const auto [tag, word] = view.only_member();
  check(tag == "float", "{}: expected \"float\"", view);
  const std::string& text = word.text();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  check(text == "inf" || text == "-inf", "{}: expected \"inf\", \"-inf\" or \"nan\"", word);
  return text == "inf" ? infinity : -infinity;
}

Literal read_reference(const JsonView& view) {
  constexpr std::pair<std::string_view, Kind> tags[] = {{"value", Kind::value},
                                                        {"graph", Kind::graph},
                                                        {"expr", Kind::expression},
                                                        {"word", Kind::word}};
  const auto [tag, value] = view.only_member();
  if (tag == "float") return {.kind = Kind::floating, .floating = read_double(view)};
  if (tag == "opaque") return {.kind = Kind::opaque};
  for (const auto& [known, kind] : tags)
    if (tag == known) return Literal::of_text(kind, short_text(value));
  fail(ErrorCode::bad_file, "{}: expected one of value, graph, expr, word, float, found {}", view,
       printable(tag));
}

std::vector<Literal> read_list(const JsonView& view, size_t limit = graph_limits::list_items);

Literal read_literal(const JsonView& view) {
  if (view.is_null()) return {};
  if (view.is_integer()) return Literal::of_int(view.integer());
  if (view.is_text()) return Literal::of_text(Kind::text, short_text(view));
  if (view.is_array()) return {.kind = Kind::list, .items = read_list(view)};
  if (view.is_object()) return read_reference(view);
  if (std::holds_alternative<bool>(view.json().value()))
    return {.kind = Kind::boolean, .integer = view.boolean()};
  return {.kind = Kind::floating, .floating = view.real()};
}

std::vector<Literal> read_list(const JsonView& view, size_t limit) {
  std::vector<Literal> out;
  for (const JsonView& item : items_of(view, limit)) out.push_back(read_literal(item));
  return out;
}

void read_tensor(const JsonView& view, ValueDoc& value) {
  const JsonView dtype = view.field("dtype");
  auto known = parse_dtype(dtype.text());
  check(known && name_of(*known) == dtype.text(), "{}: there is no dtype {}", dtype,
        printable(dtype.text()));
  value.dtype = *known;
  value.sizes = read_list(view.field("sizes"), graph_limits::dims);
  if (auto strides = view.optional_field("strides"))
    value.strides = read_list(*strides, graph_limits::dims);
  if (auto offset = view.optional_field("offset")) value.offset = read_literal(*offset);
  if (auto text = view.optional_field("device")) {
    auto device = parse_device(text->text());
    check(device.has_value(), "{}: expected a device such as cpu, meta or cuda:0", *text);
    value.device = *device;
  }
}

ValueDoc read_value(const JsonView& view) {
  constexpr std::pair<const char*, ValueKind> scalars[] = {
      {"int", ValueKind::sym_int}, {"float", ValueKind::sym_float}, {"bool", ValueKind::sym_bool}};
  ValueDoc value;
  value.name = read_name(view.field("name"));
  if (view.optional_field("none")) value.kind = ValueKind::none;
  for (const auto& [key, kind] : scalars)
    if (auto scalar = view.optional_field(key)) {
      value.kind = kind;
      value.scalar = read_literal(*scalar);
    }
  if (value.kind == ValueKind::tensor) value.defined = !view.optional_field("undefined");
  if (value.kind == ValueKind::tensor && value.defined) read_tensor(view, value);
  if (auto flags = view.optional_field("flags"))
    for (const JsonView& flag : items_of(*flags))
      check(set_flag(value, flag.text()), "{}: unknown flag {}", flag, printable(flag.text()));
  if (auto group = view.optional_field("alias"))
    value.alias_group = static_cast<uint32_t>(read_int<int32_t>(*group, 1, INT32_MAX));
  return value;
}

SymbolDoc read_symbol(const JsonView& view) {
  SymbolDoc symbol;
  symbol.name = short_text(view.field("name"));
  const JsonView kind = view.field("kind");
  const auto* known = std::ranges::find(symbol_kinds, kind.text());
  check(known != std::end(symbol_kinds), "{}: expected int, float or bool", kind);
  symbol.kind = static_cast<ExprKind>(known - std::begin(symbol_kinds));
  if (auto size_like = view.optional_field("size_like")) symbol.size_like = size_like->boolean();
  if (auto lower = view.optional_field("lower")) symbol.range.lo = lower->integer();
  if (auto upper = view.optional_field("upper")) symbol.range.hi = upper->integer();
  if (auto hint = view.optional_field("hint"))
    symbol.hint = symbol.kind == ExprKind::real      ? SymValue::of_real(read_double(*hint))
                  : symbol.kind == ExprKind::integer ? SymValue::of_int(hint->integer())
                                                     : SymValue::of_bool(hint->integer() != 0);
  auto from = view.optional_field("from");
  if (!from) return symbol;
  symbol.from = short_text(from->field("value"));
  auto size = from->optional_field("size"), stride = from->optional_field("stride");
  symbol.stride = stride.has_value();
  if (size || stride)
    symbol.dim = read_int<int32_t>(stride ? *stride : *size, 0, graph_limits::dims - 1);
  return symbol;
}

StatementDoc read_constant(const JsonView& view) {
  using Content = StatementDoc::Content;
  StatementDoc statement{.kind = StatementDoc::Kind::constant};
  statement.results.push_back(read_value(view.field("constant")));
  if (auto elements = view.optional_field("elements")) {
    statement.elements = read_list(*elements);
    return statement;
  }
  auto bytes = view.optional_field("bytes");
  statement.content = bytes ? Content::bytes : Content::sha256;
  statement.bytes = bytes ? bytes->text() : view.field("sha256").text();
  return statement;
}

void read_attributes(const JsonView& view, StatementDoc& node) {
  auto text = [&](const char* key, std::string& to) {
    if (auto value = view.optional_field(key)) to = short_text(*value);
  };
  text("name", node.name);
  text("module", node.module_path);
  text("file", node.where.file);
  text("function", node.where.function);
  if (auto line = view.optional_field("line"))
    node.where.line = read_int<int32_t>(*line, 0, INT32_MAX);
  if (auto seq = view.optional_field("seq")) node.seq_nr = read_int<int32_t>(*seq, 0, INT32_MAX);
  if (auto facts = view.optional_field("facts"))
    for (const auto& [key, fact] : facts->members())
      node.facts[std::string(key)] = short_text(fact);
}

StatementDoc read_statement(const JsonView& view) {
  if (view.optional_field("constant")) return read_constant(view);
  StatementDoc statement;
  if (auto input = view.optional_field("input")) {
    statement.kind = StatementDoc::Kind::input;
    statement.results.push_back(read_value(*input));
    return statement;
  }
  statement.op = short_text(view.field("op"));
  for (const auto& [key, arg] : view.field("args").members()) {
    check(!key.empty() && key.size() <= graph_limits::name_bytes, "{}: expected a name", arg);
    statement.args.emplace_back(key, read_literal(arg));
  }
  for (const JsonView& result : items_of(view.field("results")))
    statement.results.push_back(read_value(result));
  read_attributes(view, statement);
  return statement;
}

GraphDoc read_graph(const JsonView& view, size_t depth) {
  check(depth <= graph_limits::graph_depth, "{}: graphs are nested more than {} deep", view,
        graph_limits::graph_depth);
  GraphDoc doc;
  doc.name = short_text(view.field("name"));
  for (const JsonView& symbol : items_of(view.field("symbols")))
    doc.symbols.push_back(read_symbol(symbol));
  for (const JsonView& condition : items_of(view.field("assume")))
    doc.assumptions.emplace_back(TextPosition{}, short_text(condition));
  for (const JsonView& sub : items_of(view.field("graphs")))
    doc.graphs.push_back(read_graph(sub, depth + 1));
  for (const JsonView& statement : items_of(view.field("body"), graph_limits::statements))
    doc.body.push_back(read_statement(statement));
  for (const JsonView& output : items_of(view.field("outputs")))
    doc.outputs.push_back(output.is_null() ? Literal{}
                                           : Literal::of_text(Kind::value, short_text(output)));
  return doc;
}

}  // namespace

std::string to_json(const Graph& graph, const PrintOptions& options) {
  std::string body = lines_of(write_graph(describe_graph(graph, options)));
  return "{\"format\": \"tng\", \"version\": 1, \"graph\":\n" + body + "}\n";
}

std::shared_ptr<Graph> parse_graph_json(std::string_view text, const ParseOptions& options) {
  check(text.size() <= graph_limits::text_bytes, "graph: expected at most {} bytes, found {}",
        graph_limits::text_bytes, text.size());
  JsonDocument document = parse_json(text, "graph");
  const JsonView top = document.view();
  check(top.field("format").text() == "tng", "{}: the format is not \"tng\"", top);
  check(top.field("version").integer() == 1, "{}: this program reads version 1 of the graph text",
        top);
  return build_graph(read_graph(top.field("graph"), 1), options);
}

}  // namespace tenon::formats
