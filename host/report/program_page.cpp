// The page of a program, section by section.
#include "core/error.h"
#include "core/version.h"
#include "report/findings.h"

#include <algorithm>
#include <numeric>

namespace tenon::report {

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// What the page calls each kind of work; "rest" is what is left of the time of the process.
constexpr std::string_view work_titles[n_works] = {"guards, bodies, wrappers",
                                                   "compiled code",
                                                   "compiled backward code",
                                                   "plain code",
                                                   "recording",
                                                   "making guards",
                                                   "differentiating",
                                                   "partitioning",
                                                   "lowering",
                                                   "disk cache",
                                                   "loading code",
                                                   "backends",
                                                   "other compiling"};

std::string number(int64_t n) { return std::to_string(n); }

std::string seconds_text(double seconds) { return time_text(static_cast<int64_t>(seconds * 1e9)); }

std::string_view text_of(UnitKind kind) {
  constexpr std::string_view names[] = {"callable", "model", "backward passes"};
  return names[static_cast<size_t>(kind)];
}

std::vector<Share> shares_of(const std::vector<WorkTime>& times) {
  std::vector<Share> out;
  for (size_t i = 0; i < n_works; ++i)
    out.push_back({std::string(work_titles[i]), std::string(name_of(static_cast<Work>(i))),
                   static_cast<double>(times[i].ns) / 1e6});
  return out;
}

// ---- the whole program

void add_time(HtmlPage& page, const ProgramFacts& facts) {
  page.heading("Where the time went");
  std::vector<WorkTime> sums(n_works);
  int64_t all = 0;
  for (const UnitFacts& unit : facts.units) {
    for (size_t i = 0; i < n_works; ++i) sums[i].ns += unit.times[i].ns;
    all += total_ns(unit);
  }
  std::vector<Share> parts = shares_of(sums);
  double rest = facts.wall_s * 1e3 - static_cast<double>(all) / 1e6;
  parts.push_back({"the rest of the program", "rest", std::max(rest, 0.0)});
  page.shares(parts, "ms");
}

// The costliest unit first.
std::vector<size_t> by_time(const std::vector<UnitFacts>& units) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return total_ns(units[i]); });
  return order;
}

void add_units_table(HtmlPage& page, const ProgramFacts& facts, const std::vector<size_t>& order) {
  int64_t all = 0;
  for (const UnitFacts& unit : facts.units) all += total_ns(unit);
  Rows rows;
  std::vector<size_t> links;
  for (size_t place = 0; place < order.size(); ++place) {
    const UnitFacts& u = facts.units[order[place]];
    int64_t n = time_of(u, Work::call).n, total = total_ns(u);
    rows.push_back({u.name, std::string(text_of(u.kind)), time_text(total),
                    message("{} %", all > 0 ? 100 * total / all : 0), time_text(compile_ns(u)),
                    time_text(code_ns(u)), number(n), number(u.figures.compiles),
                    number(u.recompiles.n), number(u.breaks.total()),
                    number(u.figures.eager_calls)});
    links.push_back(4 + place);  // behind the three sections of the program
  }
  page.heading("Callables and models");
  if (rows.empty()) return page.paragraph("Nothing was compiled.");
  page.table({"NAME", "KIND", "TIME", "SHARE", "COMPILING", "CODE", "CALLS", "COMPILES",
              "RECOMPILES", "BREAKS", "PLAIN"},
             rows, links);
}

void add_process(HtmlPage& page, const ProgramFacts& facts) {
  page.heading("The process");
  page.table({"", ""}, {{"command", facts.command},
                        {"tenon", std::string(version)},
                        {"time since the first callable", seconds_text(facts.wall_s)},
                        {"processor time", seconds_text(facts.cpu_s)},
                        {"most memory", bytes_text(facts.peak_bytes)}});
  page.subheading("Changed flags");
  if (facts.flags.empty())
    page.paragraph("None.");
  else
    page.table({"FLAG", "VALUE", "LAYER", "FROM"}, facts.flags);
  Rows rows;
  for (const auto& [name, n] : facts.counters) rows.push_back({name, number(n)});
  page.begin_folded(message("All {} counters", rows.size()));
  page.table({"COUNTER", "VALUE"}, rows);
  page.end_folded();
}

// ---- one unit

void add_figures(HtmlPage& page, const UnitFacts& u) {
  const UnitFigures& f = u.figures;
  const WorkTime& call = time_of(u, Work::call);
  std::string text(text_of(u.kind));
  if (u.n_joined > 1) text += message(" ({} of that name)", u.n_joined);
  text += message(": {} in {}", time_text(total_ns(u)), plural(call.n, "call"));
  if (call.n > 0) {
    int64_t served = total_ns(u) - compile_ns(u);
    text += message(", {} each without compiling", time_text(served / call.n));
  }
  text += "; " + plural(f.compiles, "compile");
  if (f.eager_calls > 0) text += message(", {} ran as plain code", plural(f.eager_calls, "call"));
  for (const auto& [said, n] : u.cache.counts()) text += message("; disk cache: {} × {}", n, said);
  page.paragraph(text + ".");
  page.shares(shares_of(u.times), "ms");
}

// Counts of texts as a table, with what was left out.
void add_texts(HtmlPage& page, std::string_view title, std::string_view column,
               const CountedTexts& texts) {
  if (texts.counts().empty()) return;
  page.subheading(title);
  Rows rows;
  for (const auto& [text, n] : texts.counts()) rows.push_back({text, number(n)});
  if (texts.n_others() > 0) rows.push_back({"others", number(texts.n_others())});
  page.table({std::string(column), "TIMES"}, rows);
}

void add_recompiles(HtmlPage& page, const UnitFacts& u) {
  if (u.recompiles.n == 0) return;
  page.subheading("Why it was compiled again");
  if (u.recompiles.n > static_cast<int64_t>(u.recompiles.items.size()))
    page.paragraph(
        message("{} times; these are the last {}.", u.recompiles.n, u.recompiles.items.size()));
  Rows rows;
  for (const RecompileFacts& r : u.recompiles.items)
    rows.push_back({seconds_text(r.at_s), r.why.empty() ? "reasons are off: "
                                                          "dynamo.report_guard_failures"
                                                        : r.why});
  page.table({"AT", "WHY NO VERSION SERVED THE CALL"}, rows);
}

void add_versions(HtmlPage& page, const UnitFacts& u) {
  if (u.versions.items.empty()) return;
  page.subheading("Versions and their guards");
  if (u.versions.n > static_cast<int64_t>(u.versions.items.size()))
    page.paragraph(
        message("{} were made; these are the last {}.", u.versions.n, u.versions.items.size()));
  for (const VersionFacts& v : u.versions.items)
    page.folded(message("{}, made at {}: {} nodes{}{}", v.id, seconds_text(v.at_s), v.n_nodes,
                        v.regime.empty() ? "" : "; ", v.regime),
                v.guards.empty() ? "no conditions" : v.guards);
}

void add_cut(HtmlPage& page, const SavedFacts& s) {
  std::string recomputed;
  for (const auto& [op, n] : s.recomputed)
    recomputed += message("{}{} × {}", recomputed.empty() ? "" : ", ", n, op);
  page.begin_folded(
      message("{}: {} in {} values for {} forward and {} backward nodes", s.id, bytes_text(s.bytes),
              s.values.size() + s.n_more, s.n_forward, s.n_backward),
      true);
  Rows rows;
  for (const SavedValue& v : s.values)
    rows.push_back({v.name, v.type, v.op.empty() ? "input" : v.op, bytes_text(v.bytes), v.why});
  page.table({"VALUE", "TYPE", "MADE BY", "BYTES", "WHY IT IS KEPT"}, rows);
  if (s.n_more > 0) page.paragraph(message("{} smaller ones are left out.", s.n_more));
  page.paragraph("Computed again in the backward: " +
                 (recomputed.empty() ? "nothing." : recomputed + "."));
  page.end_folded();
}

void add_saved(HtmlPage& page, const UnitFacts& u) {
  if (u.saved.items.empty()) return;
  page.subheading("What is saved for the backward");
  page.paragraph("Bytes count what is kept besides inputs.");
  for (const SavedFacts& s : u.saved.items) add_cut(page, s);
}

// ---- one compiled graph

std::string summary_of(const GraphFacts& g, int64_t all_ns) {
  std::string text = message("{} {}, {}: {}", g.id, g.stage, g.backend,
                             plural(static_cast<int64_t>(g.graph.n_nodes), "node"));
  if (g.n_kernels > 0) text += message(", {} kernels and calls", g.n_kernels);
  text += message("; compiled in {}", time_text(static_cast<int64_t>(g.compile_ms * 1e6)));
  if (g.calls == 0) return text + "; never called";
  return text + message("; {} of {}, {} % of the code's time", plural(g.calls, "call"),
                        time_text(g.ns / g.calls), all_ns > 0 ? 100 * g.ns / all_ns : 0);
}

void add_kernels(HtmlPage& page, const GraphFacts& g) {
  if (g.kernels.empty()) return;
  Rows rows;
  for (const KernelFacts& k : g.kernels)
    rows.push_back({k.kind, k.name, bytes_text(k.bytes), number(k.flops)});
  page.table({"KIND", "WHAT WAS FUSED INTO IT", "BYTES", "FLOPS"}, rows);
  if (g.n_kernels > g.kernels.size())
    page.paragraph(message("{} more are left out.", g.n_kernels - g.kernels.size()));
}

void add_elsewhere(HtmlPage& page, const GraphFacts& g) {
  if (g.elsewhere.empty()) return;
  Rows rows;
  for (const ElsewhereFacts& e : g.elsewhere)
    rows.push_back({e.op.empty() ? "the whole graph" : e.op,
                    number(static_cast<int64_t>(e.n_nodes)), e.run_by, e.why});
  page.table({"NOT COMPILED", "NODES", "RUN BY", "WHY"}, rows);
}

void add_compiled_graph(HtmlPage& page, const GraphFacts& g, int64_t all_ns, bool open) {
  page.begin_folded(summary_of(g, all_ns), open);
  page.graph(g.graph);
  for (const std::string& line : g.told) page.paragraph(line);
  add_elsewhere(page, g);
  add_kernels(page, g);
  for (const auto& [title, text] : g.texts) page.folded(title, text);
  if (!g.buffers.empty()) {
    page.begin_folded("Memory plan as a picture");
    page.picture(memory_plan_svg(g.buffers));
    page.end_folded();
  }
  if (!g.statistics.empty()) {
    Rows rows;
    for (const auto& [name, value] : g.statistics) rows.push_back({name, value});
    page.begin_folded("What the backend counts");
    page.table({"STATISTIC", "VALUE"}, rows);
    page.end_folded();
  }
  page.end_folded();
}

void add_graphs(HtmlPage& page, const UnitFacts& u) {
  if (u.graphs.empty()) return;
  page.subheading("Compiled graphs");
  if (u.n_graphs > static_cast<int64_t>(u.graphs.size()))
    page.paragraph(
        message("{} were compiled; these are {} of them, those whose code took most time "
                "and the last ones.",
                u.n_graphs, u.graphs.size()));
  std::vector<const GraphFacts*> graphs;
  for (const GraphFacts& g : u.graphs) graphs.push_back(&g);
  std::ranges::stable_sort(graphs, std::greater(), &GraphFacts::ns);
  for (const GraphFacts* g : graphs) add_compiled_graph(page, *g, code_ns(u), g == graphs.front());
}

void add_unit(HtmlPage& page, const UnitFacts& u) {
  page.unlisted_heading(u.name);
  add_figures(page, u);
  add_recompiles(page, u);
  add_texts(page, "Where its graph breaks", "BREAK", u.breaks);
  add_texts(page, "Why calls ran as plain code", "REASON", u.eager);
  add_saved(page, u);
  add_graphs(page, u);
  add_versions(page, u);
}

}  // namespace

std::string program_page(const ProgramFacts& facts) {
  HtmlPage page("What Tenon did", facts.command);
  page.heading("What stands out");
  for (const Finding& f : findings(facts)) page.note(f.text, f.warns);
  add_time(page, facts);
  std::vector<size_t> order = by_time(facts.units);
  add_units_table(page, facts, order);
  for (size_t i : order) add_unit(page, facts.units[i]);
  add_process(page, facts);
  return page.text();
}

}  // namespace tenon::report
