// HTML and SVG as text.
#include "report/html.h"

#include "core/error.h"
#include "core/utf8.h"
#include "report/events.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace tenon::report {

namespace {

std::string_view page_file(std::string_view name) {
  for (const EmbeddedFile& file : page_files())
    if (file.path == name) return file.text;
  return "";
}

// "12.5", "12.5 ms", "-", and nothing.
bool is_number(std::string_view text) {
  if (text.empty() || text == "-") return true;
  double value;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  std::string_view rest(end, static_cast<size_t>(last - end));
  return error == std::errc() && (rest.empty() || (rest[0] == ' ' && rest.size() <= 4));
}

const char* const colors[] = {"#7aa6da", "#e0a458", "#8fbf7f", "#c58fc5",
                              "#d97b7b", "#7fc0c0", "#b3a57a", "#9a9ad9"};

std::string fixed(double value, int digits = 2) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string rectangle(double x, double y, double width, double height, size_t color,
                      std::string_view title) {
  return message(
      R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="#fff" stroke-width=".5"><title>{}</title></rect>)",
      fixed(x), fixed(y), fixed(std::max(width, 0.5)), fixed(std::max(height, 0.5)),
      colors[color % std::size(colors)], html_escaped(title));
}

std::string label(double x, double y, std::string_view text) {
  return message(R"(<text x="{}" y="{}" font-size="11" font-family="sans-serif">{}</text>)",
                 fixed(x), fixed(y), html_escaped(text));
}

std::string svg(double width, double height, const std::string& inside) {
  return message(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" viewBox="0 0 {} {}">{}</svg>)",
      fixed(width, 0), fixed(height, 0), fixed(width, 0), fixed(height, 0), inside);
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (char c : shown(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string_view title, std::string_view below)
    : title_(html_escaped(title)), below_(html_escaped(below)) {}

size_t HtmlPage::heading(std::string_view text) {
  navigation_ += message("<a href=\"#s{}\">{}</a>", n_sections_ + 1, html_escaped(text));
  return unlisted_heading(text);
}

size_t HtmlPage::unlisted_heading(std::string_view text) {
  body_ += message("<h2 id=\"s{}\">{}</h2>\n", ++n_sections_, html_escaped(text));
  return n_sections_;
}

void HtmlPage::subheading(std::string_view text) {
  body_ += "<h3>" + html_escaped(text) + "</h3>\n";
}
void HtmlPage::paragraph(std::string_view text) { body_ += "<p>" + html_escaped(text) + "</p>\n"; }

void HtmlPage::note(std::string_view text, bool warns) {
  body_ += message("<p class=\"note{}\">{}</p>\n", warns ? " warn" : "", html_escaped(text));
}

void HtmlPage::table(const std::vector<std::string>& header,
                     const std::vector<std::vector<std::string>>& rows,
                     std::span<const size_t> links) {
  std::vector<bool> numbers(header.size(), true);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size() && i < header.size(); ++i)
      numbers[i] = numbers[i] && is_number(row[i]);
  auto cell = [&](size_t column, std::string_view tag, const std::string& inside) {
    bool is_numeric = column < numbers.size() && numbers[column];
    return message("<{}{}>{}</{}>", tag, is_numeric ? " class=\"n\"" : "", inside, tag);
  };
  body_ += "<div class=\"scroll\"><table><tr>";
  for (size_t i = 0; i < header.size(); ++i) body_ += cell(i, "th", html_escaped(header[i]));
  body_ += "</tr>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    body_ += "<tr>";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      std::string inside = html_escaped(rows[r][i]);
      if (i == 0 && r < links.size()) inside = message("<a href=\"#s{}\">{}</a>", links[r], inside);
      body_ += cell(i, "td", inside);
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void HtmlPage::folded(std::string_view summary, std::string_view text) {
  begin_folded(summary);
  body_ += "<pre>" + html_escaped(text) + "</pre>";
  end_folded();
}

void HtmlPage::begin_folded(std::string_view summary, bool open) {
  body_ += message("<details{}><summary>{}</summary>", open ? " open" : "", html_escaped(summary));
}

void HtmlPage::end_folded() { body_ += "</details>\n"; }

void HtmlPage::picture(std::string_view svg) {
  body_ += "<figure class=\"small\"><div class=\"view\" tabindex=\"0\">";
  // What Graphviz writes before the picture is for files of its own.
  body_ += svg.substr(std::min(svg.find("<svg"), svg.size()));
  body_ += "</div></figure>\n";
}

namespace {

// What the colours and frames of a graph mean.
std::string graph_legend() {
  std::string out = "<ul class=\"legend\">";
  for (const char* kind :
       {"input", "constant", "product", "reduction", "pointwise", "view", "other"})
    out += message("<li><i style=\"background:var(--k-{})\"></i>{}</li>", kind, kind);
  for (const auto& [frame, meaning] :
       {std::pair("output", "output"), std::pair("saved", "saved for the backward"),
        std::pair("elsewhere", "not run by the backend")})
    out += message("<li><i class=\"{}\"></i>{}</li>", frame, meaning);
  return out + "</ul>";
}

}  // namespace

void HtmlPage::graph(const PageGraph& graph) {
  if (!graph.nodes.empty())
    body_ += message(
        "<figure><div class=\"view\" tabindex=\"0\"></div><figcaption>Click a node to see it "
        "whole; drag to move, Ctrl and wheel or two fingers to zoom.</figcaption>{}"
        "<script type=\"application/json\">{}</script></figure>\n",
        graph_legend(), to_json(graph));
  if (graph.nodes.empty() && graph.n_nodes > 0)
    paragraph(message("{} nodes are too many for a picture.", graph.n_nodes));
  folded(message("The graph as text: {} nodes", graph.n_nodes), graph.text);
}

void HtmlPage::shares(const std::vector<Share>& parts, std::string_view unit) {
  double sum = 0;
  for (const Share& part : parts) sum += part.value;
  std::string bar, legend;
  for (const Share& part : parts) {
    if (!(part.value > 0)) continue;
    double percent = 100 * part.value / sum;
    std::string color = message("background:var(--w-{})", html_escaped(part.kind));
    std::string name = html_escaped(part.name), value = fixed(part.value, part.value < 10 ? 2 : 1);
    bar += message("<i style=\"width:{}%;{}\" title=\"{}: {} {}\"></i>", fixed(percent), color,
                   name, value, unit);
    legend +=
        message("<li><i style=\"{}\"></i>{} <b>{} {}</b> <span class=\"dim\">{} %</span></li>",
                color, name, value, unit, fixed(percent, 1));
  }
  body_ += message("<div class=\"shares\">{}</div><ul class=\"legend\">{}</ul>\n", bar, legend);
}

std::string HtmlPage::text() const {
  constexpr std::string_view policy =
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
  std::string navigation =
      navigation_.empty() ? "" : message("<nav><div>{}</div></nav>\n", navigation_);
  std::string below = below_.empty() ? "" : message("<p class=\"dim\">{}</p>", below_);
  return message(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"><title>{}</title>"
      "<style>{}</style></head>\n<body><header><h1>{}</h1>{}</header>\n{}<main>\n{}</main>\n"
      "<script>{}</script></body></html>\n",
      policy, title_, page_file("page.css"), title_, below, navigation, body_,
      page_file("page.js"));
}

// ---- graphs

std::string to_json(const PageGraph& graph) {
  std::string out = "[";
  for (const PageNode& node : graph.nodes) {
    std::string inputs;
    for (uint32_t input : node.inputs) inputs += message("{}{}", inputs.empty() ? "" : ",", input);
    out += message("{}[{},{},{},[{}],{},{}]", out.size() > 1 ? ",\n" : "", json_text(node.label),
                   json_text(node.detail), static_cast<int>(node.kind), inputs,
                   int{node.is_output} + 2 * int{node.is_saved}, json_text(node.run_by));
  }
  // What ends a script element, or begins a comment in it, must not stand in one.
  std::string safe;
  for (char c : shown(out + "]")) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

// ---- charts

std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return message("{} {}", fixed(value, unit == 0 || value >= 100 ? 0 : 1), units[unit]);
}

std::string bar_chart_svg(const std::vector<ChartBar>& bars, std::string_view unit) {
  constexpr double row = 20, names = 140, width = 640;
  double end = 0;
  for (const ChartBar& b : bars) end = std::max(end, b.end);
  std::string out;
  for (size_t i = 0; i < bars.size(); ++i) {
    const ChartBar& b = bars[i];
    double scale = end > 0 ? width / end : 0, y = row * static_cast<double>(i);
    std::string length = message("{} {}", fixed(b.end - b.begin, 3), unit);
    out += label(2, y + 14, b.name) + rectangle(names + b.begin * scale, y + 3,
                                                (b.end - b.begin) * scale, row - 6, i,
                                                b.name + ": " + length);
    out += label(names + b.end * scale + 4, y + 14, length);
  }
  return svg(names + width + 120, row * static_cast<double>(bars.size()), out);
}

std::string memory_plan_svg(const std::vector<MemoryBlock>& blocks) {
  constexpr double width = 900, height = 420, top = 16;
  int64_t steps = 0, bytes = 0;
  for (const MemoryBlock& b : blocks) {
    steps = std::max(steps, b.last + 1);
    bytes = std::max(bytes, b.offset + b.bytes);
  }
  double across = steps ? width / static_cast<double>(steps) : 0;
  double upwards = bytes ? height / static_cast<double>(bytes) : 0;
  std::string out;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const MemoryBlock& b = blocks[i];
    double x = across * static_cast<double>(b.first), tall = upwards * static_cast<double>(b.bytes);
    double y = top + height - upwards * static_cast<double>(b.offset) - tall;
    out += rectangle(
        x, y, across * static_cast<double>(b.last - b.first + 1), tall, i,
        message("{}: {} bytes at {}, steps {} to {}", b.name, b.bytes, b.offset, b.first, b.last));
  }
  out += label(2, 11, message("{} bytes", bytes)) +
         label(2, top + height + 14, message("steps 0 to {}", std::max<int64_t>(steps - 1, 0)));
  return svg(width, height + top + 20, out);
}

}  // namespace tenon::report
