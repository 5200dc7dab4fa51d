// docs/performance.md and the headlines of README.md, from the list and the results.
#include "figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

namespace figures {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view begin_mark = "<!-- figures: written by ./dev figures -->\n";
constexpr std::string_view end_mark = "<!-- end of figures -->\n";

constexpr std::string_view introduction =
    R"(# Performance

How fast is Tenon, beside what, and how do you measure it yourself?

`./dev figures` runs the benchmark programs and `tenon bench` on this machine, stores the medians in
`bench/results/` (one JSON file per machine and day) and writes this page and the headlines of the
README from all files there. `bench/figures.json` lists what is measured. Comparisons with other
engines need Python and those engines: the scripts in `bench/peers/` store their tables in the same
folder. A test fails when this page and the stored results differ.

Each section is what one machine measured on one day; results that a newer run of the same machine
replaces are left out. Commands run after `./dev build`; slashes separate the figures of one row.
)";

/// Three digits, without an exponent.
std::string digits(double x) {
  int decimals =
      x == 0 ? 0 : std::clamp(2 - static_cast<int>(std::floor(std::log10(std::fabs(x)))), 0, 4);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, x);
  std::string out = text;
  if (decimals == 0) return out;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

struct Scale {
  double least;
  const char* name;
};

std::string scaled(double x, std::initializer_list<Scale> scales) {
  for (const Scale& s : scales)
    if (std::fabs(x) >= s.least * 0.9995) return digits(x / s.least) + " " + s.name;
  const Scale& last = *(scales.end() - 1);
  return digits(x / last.least) + " " + last.name;
}

std::string quantity(const Json& value, const std::string& unit) {
  if (value.is_string()) return value;
  double x = value;
  const std::map<std::string, double> ns{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  if (auto time = ns.find(unit); time != ns.end())
    return scaled(x * time->second, {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}});
  if (unit == "bytes") return scaled(x, {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "bytes"}});
  if (unit == "per second") return scaled(x, {{1e9, "G/s"}, {1e6, "M/s"}, {1e3, "k/s"}, {1, "/s"}});
  if (unit == "count") return std::to_string(static_cast<int64_t>(x));
  return digits(x) + (unit.empty() ? "" : " " + unit);
}

std::string quantities(const Json& values, const std::string& unit) {
  std::string out;
  for (const Json& value : values) out += (out.empty() ? "" : " / ") + quantity(value, unit);
  return out;
}

std::string text_of(const Json& object, const char* key) { return object.at(key); }

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string head(const std::vector<std::string>& cells) {
  std::string out = row(cells) + "|";
  for (size_t i = 0; i < cells.size(); ++i) out += "---|";
  return out + "\n";
}

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string table_of_figures(const Json& list, const Json& figures) {
  std::string out = head({"what", "measured", "command"});
  for (const Json& figure : list.at("figures")) {
    auto values = figures.find(figure.at("name").get<std::string>());
    if (values == figures.end()) continue;
    out += row({figure.at("what"), quantities(*values, figure.value("unit", "ns")),
                code(figure.at("command"))});
  }
  return out;
}

std::string table_of_peers(const Json& table) {
  std::string out = "### " + text_of(table, "title") + "\n\n";
  if (table.contains("note")) out += text_of(table, "note") + "\n\n";
  out += head(table.at("columns"));
  for (const Json& cells : table.at("rows")) {
    std::vector<std::string> texts;
    for (const Json& cell : cells) texts.push_back(cell.is_null() ? "-" : quantity(cell, ""));
    out += row(texts);
  }
  return out + "\n" + code(text_of(table, "command")) + "\n";
}

std::string heading(const Json& result) {
  std::string out = "\n## " + text_of(result, "date") + ", " + text_of(result, "machine") + "\n\n";
  out += "Commit " + text_of(result, "commit") + ", " + text_of(result, "compiler") +
         ", release build.";
  if (result.contains("note")) out += " " + text_of(result, "note");
  return out + "\n";
}

std::string tables(const Json& list, const Json& result) {
  std::string out;
  if (result.contains("figures")) out += "\n" + table_of_figures(list, result["figures"]);
  if (result.contains("tables"))
    for (const Json& table : result["tables"]) out += "\n" + table_of_peers(table);
  return out;
}

/// Leaves of a result what no newer result of its machine has.
void drop_shown(Json& result, std::set<std::string>& shown) {
  for (const char* kind : {"figures", "tables"}) {
    if (!result.contains(kind)) continue;
    Json left = Json::object();
    for (const auto& [name, value] : result[kind].items())
      if (shown.insert(text_of(result, "machine") + " " + name).second) left[name] = value;
    if (left.empty())
      result.erase(kind);
    else
      result[kind] = left;
  }
}

using Cells = std::vector<std::string>;

/// What and command of the headline are its figure's, the numbers a result's. Empty: not there.
Cells cells_of_figure(const Json& headline, const Json& list, const Json& result) {
  const std::string name = headline.at("figure");
  if (!result.contains("figures") || !result["figures"].contains(name)) return {};
  for (const Json& figure : list.at("figures"))
    if (figure.at("name") == name)
      return {headline.at("what"), quantities(result["figures"][name], figure.value("unit", "ns")),
              code(text_of(figure, "command"))};
  throw Error("bench/figures.json: headline " + name + " is not a figure");
}

/// The numbers are cells of one row of a table: those below the named columns.
Cells cells_of_table(const Json& headline, const Json& result) {
  const std::string name = headline.at("table");
  if (!result.contains("tables") || !result["tables"].contains(name)) return {};
  const Json& table = result["tables"][name];
  const Json& columns = table.at("columns");
  Json values = Json::array();
  for (const Json& cells : table.at("rows"))
    for (size_t i = 0; i < cells.size() && cells[0] == headline.at("row"); ++i)
      for (const Json& wanted : headline.at("columns"))
        if (columns.at(i) == wanted) values.push_back(cells[i]);
  return {headline.at("what"), quantities(values, ""), code(text_of(table, "command"))};
}

std::string headlines(const Json& list, const std::vector<Json>& results) {
  std::string out = head({"what", "measured", "command", "on"});
  for (const Json& headline : list.at("headlines")) {
    Cells cells;
    for (const Json& result : results) {  // the newest that has it
      cells = headline.contains("table") ? cells_of_table(headline, result)
                                         : cells_of_figure(headline, list, result);
      if (cells.empty()) continue;
      cells.push_back(text_of(result, "date"));
      break;
    }
    if (cells.empty()) throw Error("bench/results lacks the headline " + text_of(headline, "what"));
    out += row(cells);
  }
  return out;
}

}  // namespace

Json read_json(const fs::path& path) {
  std::ifstream in(path);
  Json out = Json::parse(in, nullptr, false);
  if (out.is_discarded()) throw Error(path.string() + ": is not JSON");
  return out;
}

std::vector<Json> read_results(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Json> out;
  for (const fs::path& path : paths) out.push_back(read_json(path));
  std::stable_sort(out.begin(), out.end(), [](const Json& a, const Json& b) {
    return text_of(a, "date") > text_of(b, "date");
  });
  return out;
}

std::string page(const Json& list, const std::vector<Json>& results) {
  std::string out(introduction), last;
  std::set<std::string> shown;
  for (Json result : results) {
    drop_shown(result, shown);
    if (!result.contains("figures") && !result.contains("tables")) continue;
    if (heading(result) != last) out += last = heading(result);
    out += tables(list, result);
  }
  return out;
}

std::string with_headlines(const std::string& text, const Json& list,
                           const std::vector<Json>& results) {
  size_t begin = text.find(begin_mark), end = text.find(end_mark);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw Error("README.md: expected the two comments that the figures stand between");
  begin += begin_mark.size();
  return text.substr(0, begin) + headlines(list, results) + text.substr(end);
}

}  // namespace figures
