// Pairing statements of two graphs and telling where they differ.
#include "graph/text/diff.h"

#include "core/error.h"
#include "graph/text/print.h"

#include <algorithm>
#include <map>
#include <span>

namespace tenon {

namespace {

using Names = std::map<std::string, std::string>;
constexpr size_t no_partner = SIZE_MAX;

// ---- names

bool is_word_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The words of an expression that are in `names`, replaced.
std::string renamed(const std::string& text, const Names& names) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word_char(text[end])) ++end;
    std::string word = text.substr(at, end - at);
    auto found = names.find(word);
    out += found == names.end() ? word : found->second;
    if (end < text.size()) out += text[end++];
    at = end;
  }
  return out;
}

struct Renames {
  Names values, symbols;

  void apply(Literal& literal) const {
    if (literal.kind == Literal::Kind::expression) literal.text = renamed(literal.text, symbols);
    if (literal.kind == Literal::Kind::value)
      if (auto found = values.find(literal.text); found != values.end())
        literal.text = found->second;
    for (Literal& item : literal.items) apply(item);
  }
  void apply(ValueDoc& value) const {
    if (auto found = values.find(value.name); found != values.end()) value.name = found->second;
    for (Literal& size : value.sizes) apply(size);
    if (value.strides)
      for (Literal& stride : *value.strides) apply(stride);
    apply(value.offset);
    apply(value.scalar);
  }
  void apply(StatementDoc& statement) const {
    for (ValueDoc& result : statement.results) apply(result);
    for (auto& [name, argument] : statement.args) apply(argument);
  }
};

// ---- pairing

void leave_out_values(Literal& literal) {
  if (literal.kind == Literal::Kind::value) literal.text.clear();
  for (Literal& item : literal.items) leave_out_values(item);
}

// What a statement is, whatever its values are called.
std::string fingerprint_of(StatementDoc statement) {
  for (ValueDoc& result : statement.results) result.name.clear();
  for (auto& [name, argument] : statement.args) leave_out_values(argument);
  return statement_text(statement);
}

std::string op_of(const StatementDoc& statement) {
  if (statement.kind == StatementDoc::Kind::input) return "input";
  return statement.kind == StatementDoc::Kind::constant ? "constant" : statement.op;
}

using Numbers = std::span<const uint32_t>;

// Lengths of longest common subsequences of `a` and every beginning of `b`; from behind where
// `backwards`.
std::vector<uint32_t> lengths(Numbers a, Numbers b, bool backwards) {
  auto at = [backwards](Numbers list, size_t i) {
    return list[backwards ? list.size() - 1 - i : i];
  };
  std::vector<uint32_t> row(b.size() + 1), next(b.size() + 1);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j)
      next[j + 1] = at(a, i) == at(b, j) ? row[j] + 1 : std::max(next[j], row[j + 1]);
    std::swap(row, next);
  }
  return row;
}

// Partners of the statements of `a` in `b`; both begin at the given offsets.
void pair_up(Numbers a, Numbers b, size_t a_begin, size_t b_begin, std::vector<size_t>& partners) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    partners[a_begin++] = b_begin++;
    a = a.subspan(1), b = b.subspan(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    partners[a_begin + a.size() - 1] = b_begin + b.size() - 1;
    a = a.first(a.size() - 1), b = b.first(b.size() - 1);
  }
  if (a.empty() || b.empty()) return;
  if (a.size() == 1) {
    auto found = std::ranges::find(b, a[0]);
    if (found != b.end()) partners[a_begin] = b_begin + static_cast<size_t>(found - b.begin());
    return;
  }
  size_t half = a.size() / 2, best = 0;
  std::vector<uint32_t> before = lengths(a.first(half), b, false);
  std::vector<uint32_t> behind = lengths(a.subspan(half), b, true);
  for (size_t j = 0; j <= b.size(); ++j)
    if (before[j] + behind[b.size() - j] > before[best] + behind[b.size() - best]) best = j;
  pair_up(a.first(half), b.first(best), a_begin, b_begin, partners);
  pair_up(a.subspan(half), b.subspan(best), a_begin + half, b_begin + best, partners);
}

// ---- two documents

class Comparison {
 public:
  Comparison(const GraphDoc& a, const GraphDoc& b, Names symbols) : a_(a), b_(b) {
    renames_.symbols = std::move(symbols);
    for (size_t i = 0; i < std::min(a.symbols.size(), b.symbols.size()); ++i)
      renames_.symbols[b.symbols[i].name] = a.symbols[i].name;
  }

  std::vector<DiffLine> run();

 private:
  void pair_statements();
  void name_alike();
  void compare_statements();
  void compare_outputs();
  void compare_bodies();
  void add(DiffLine::Kind kind, std::string text) { lines_.push_back({kind, std::move(text)}); }
  std::string text_of(StatementDoc statement) const {
    renames_.apply(statement);
    return statement_text(statement);
  }

  const GraphDoc &a_, &b_;
  Renames renames_;  // of b
  std::vector<size_t> partners_;
  std::vector<DiffLine> lines_;
};

// Equal statements first; between these, statements with the same op.
void Comparison::pair_statements() {
  std::map<std::string, uint32_t> known;
  auto number = [&](const std::string& text) {
    return known.emplace(text, static_cast<uint32_t>(known.size())).first->second;
  };
  std::vector<uint32_t> a, b, a_ops, b_ops;
  for (const StatementDoc& statement : a_.body) {
    a.push_back(number(fingerprint_of(statement)));
    a_ops.push_back(number(op_of(statement)));
  }
  for (StatementDoc statement : b_.body) {
    renames_.apply(statement);
    b.push_back(number(fingerprint_of(statement)));
    b_ops.push_back(number(op_of(statement)));
  }
  partners_.assign(a.size(), no_partner);
  pair_up(a, b, 0, 0, partners_);
  std::vector<size_t> equal = partners_;
  equal.push_back(b.size());
  for (size_t i = 0, begin = 0, b_begin = 0; i < equal.size(); ++i) {
    if (equal[i] == no_partner) continue;
    pair_up(Numbers(a_ops).subspan(begin, i - begin),
            Numbers(b_ops).subspan(b_begin, equal[i] - b_begin), begin, b_begin, partners_);
    begin = i + 1;
    b_begin = equal[i] + 1;
  }
}

// Values of pairs get the names of the first graph; others keep theirs, unless it has these, too.
void Comparison::name_alike() {
  std::map<std::string, bool> taken;
  for (const StatementDoc& statement : a_.body)
    for (const ValueDoc& result : statement.results) taken[result.name] = true;
  for (size_t i = 0; i < partners_.size(); ++i) {
    if (partners_[i] == no_partner) continue;
    const auto &ours = a_.body[i].results, &theirs = b_.body[partners_[i]].results;
    for (size_t r = 0; r < std::min(ours.size(), theirs.size()); ++r)
      renames_.values[theirs[r].name] = ours[r].name;
  }
  for (const StatementDoc& statement : b_.body)
    for (const ValueDoc& result : statement.results) {
      if (renames_.values.contains(result.name)) continue;
      std::string name = result.name;
      while (taken.contains(name)) name += "_new";
      taken[name] = true;
      renames_.values[result.name] = name;
    }
}

void Comparison::compare_statements() {
  size_t next = 0;
  auto add_up_to = [&](size_t end) {
    for (; next < end; ++next) add(DiffLine::Kind::added, text_of(b_.body[next]));
  };
  for (size_t i = 0; i < a_.body.size(); ++i) {
    std::string ours = statement_text(a_.body[i]);
    if (partners_[i] == no_partner) {
      add(DiffLine::Kind::removed, std::move(ours));
      continue;
    }
    add_up_to(partners_[i]);
    std::string theirs = text_of(b_.body[next++]);
    bool same = ours == theirs;
    add(same ? DiffLine::Kind::in_both : DiffLine::Kind::removed, std::move(ours));
    if (!same) add(DiffLine::Kind::added, std::move(theirs));
  }
  add_up_to(b_.body.size());
}

void Comparison::compare_outputs() {
  auto text = [](std::vector<Literal> outputs, const Renames& renames) {
    std::string out = "output";
    for (size_t i = 0; i < outputs.size(); ++i) {
      renames.apply(outputs[i]);
      out += (i ? ", " : " ") + literal_text(outputs[i]);
    }
    return out;
  };
  std::string ours = text(a_.outputs, {}), theirs = text(b_.outputs, renames_);
  bool same = ours == theirs;
  add(same ? DiffLine::Kind::in_both : DiffLine::Kind::removed, std::move(ours));
  if (!same) add(DiffLine::Kind::added, std::move(theirs));
}

void Comparison::compare_bodies() {
  size_t n = std::min(a_.graphs.size(), b_.graphs.size());
  auto title = [](const GraphDoc& doc) { return message("graph @{}", doc.name); };
  for (size_t i = 0; i < n; ++i) {
    std::vector<DiffLine> inside = Comparison(a_.graphs[i], b_.graphs[i], renames_.symbols).run();
    add(DiffLine::Kind::in_both, title(a_.graphs[i]));
    for (DiffLine& line : inside) add(line.kind, "  " + line.text);
  }
  for (size_t i = n; i < a_.graphs.size(); ++i) add(DiffLine::Kind::removed, title(a_.graphs[i]));
  for (size_t i = n; i < b_.graphs.size(); ++i) add(DiffLine::Kind::added, title(b_.graphs[i]));
}

std::vector<DiffLine> Comparison::run() {
  pair_statements();
  name_alike();
  compare_bodies();
  compare_statements();
  compare_outputs();
  return std::move(lines_);
}

// Leaves out what both have, but for `context` lines around each difference.
std::vector<DiffLine> around_differences(const std::vector<DiffLine>& lines, size_t context) {
  std::vector<bool> shown(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].kind == DiffLine::Kind::in_both) continue;
    size_t end = std::min(i + context + 1, lines.size());
    for (size_t j = i - std::min(i, context); j < end; ++j) shown[j] = true;
  }
  std::vector<DiffLine> out;
  for (size_t i = 0; i < lines.size();) {
    if (shown[i]) {
      out.push_back(lines[i++]);
      continue;
    }
    size_t begin = i;
    while (i < lines.size() && !shown[i]) ++i;
    out.push_back(
        {DiffLine::Kind::left_out,
         message("{} that both have", i - begin == 1 ? "1 line" : message("{} lines", i - begin))});
  }
  return out;
}

// Bodies are named by their places, so that their names do not count.
void name_bodies(GraphDoc& doc) {
  Names names;
  for (size_t i = 0; i < doc.graphs.size(); ++i) {
    names[doc.graphs[i].name] = message("body{}", i);
    doc.graphs[i].name = message("body{}", i);
    name_bodies(doc.graphs[i]);
  }
  for (StatementDoc& statement : doc.body)
    for (auto& [name, argument] : statement.args)
      if (argument.kind == Literal::Kind::graph) argument.text = names[argument.text];
}

}  // namespace

std::vector<DiffLine> difference(const Graph& a, const Graph& b, size_t context) {
  GraphDoc first = describe_graph(a, {.locations = false});
  GraphDoc second = describe_graph(b, {.locations = false});
  name_bodies(first);
  name_bodies(second);
  std::vector<DiffLine> lines = Comparison(first, second, {}).run();
  bool same = std::ranges::all_of(
      lines, [](const DiffLine& line) { return line.kind == DiffLine::Kind::in_both; });
  return same ? std::vector<DiffLine>() : around_differences(lines, context);
}

std::string to_text(const std::vector<DiffLine>& lines) {
  constexpr std::string_view marks[] = {"  ", "- ", "+ ", "... "};
  std::string out;
  for (const DiffLine& line : lines)
    out += std::string(marks[static_cast<size_t>(line.kind)]) + line.text + "\n";
  return out;
}

}  // namespace tenon
