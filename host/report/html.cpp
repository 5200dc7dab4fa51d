// HTML and SVG as text.
#include "report/html.h"

#include "core/error.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace tenon::report {

namespace {

constexpr std::string_view style = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: #1c1e21; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid #ccc }
table { border-collapse: collapse } th, td { padding: .15rem .7rem; text-align: left; vertical-align: top }
th { border-bottom: 1px solid #888 } tr:nth-child(even) td { background: #f4f5f7 }
td.n { text-align: right; font-variant-numeric: tabular-nums }
pre { background: #f4f5f7; padding: .7rem; overflow: auto; max-height: 40rem }
.picture { border: 1px solid #ccc; overflow: auto; max-height: 45rem }
.picture svg { transform-origin: 0 0 }
)";

// Ctrl and the wheel zoom a picture; without script it is shown as it is.
constexpr std::string_view script = R"(
for (const box of document.querySelectorAll('.picture')) {
  let scale = 1;
  box.addEventListener('wheel', e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    scale = Math.min(8, Math.max(.1, scale * (e.deltaY < 0 ? 1.15 : 1 / 1.15)));
    box.firstElementChild.style.transform = `scale(${scale})`;
  }, { passive: false });
}
)";

bool is_number(std::string_view text) {
  double value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
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
  for (char c : text) {
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

HtmlPage::HtmlPage(std::string_view title) : title_(html_escaped(title)) {}

void HtmlPage::heading(std::string_view text) { body_ += "<h2>" + html_escaped(text) + "</h2>\n"; }
void HtmlPage::paragraph(std::string_view text) { body_ += "<p>" + html_escaped(text) + "</p>\n"; }

void HtmlPage::table(const std::vector<std::string>& header,
                     const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numbers(header.size(), true);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size() && i < header.size(); ++i)
      numbers[i] = numbers[i] && (row[i].empty() || is_number(row[i]));
  body_ += "<table><tr>";
  for (const std::string& name : header) body_ += "<th>" + html_escaped(name) + "</th>";
  body_ += "</tr>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      body_ += (i < header.size() && numbers[i] ? "<td class=\"n\">" : "<td>") +
               html_escaped(row[i]) + "</td>";
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

void HtmlPage::folded(std::string_view summary, std::string_view text) {
  body_ += "<details><summary>" + html_escaped(summary) + "</summary><pre>" + html_escaped(text) +
           "</pre></details>\n";
}

void HtmlPage::picture(std::string_view svg) {
  body_ += "<div class=\"picture\">";
  // What Graphviz writes before the picture is for files of its own.
  body_ += svg.substr(std::min(svg.find("<svg"), svg.size()));
  body_ += "</div>\n";
}

std::string HtmlPage::text() const {
  return message(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>"
      "<style>{}</style></head>\n<body><h1>{}</h1>\n{}<script>{}</script></body></html>\n",
      title_, style, title_, body_, script);
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
