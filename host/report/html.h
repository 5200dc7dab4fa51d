// Pages that stand alone: one HTML file with its style, scripts and pictures inside.
//
//   HtmlPage page("resnet18");
//   page.heading("Kernels");
//   page.table({"NAME", "US"}, {{"k0", "12.1"}});
//   write(page.text());
//
// All text given is shown as it is: nothing of it is taken for markup but the pictures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::report {

std::string html_escaped(std::string_view text);

class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title);

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// Columns whose cells are all numbers are aligned to the right.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows);
  /// Text of any length behind a line to click on.
  void folded(std::string_view summary, std::string_view text);
  /// A picture that can be zoomed and moved; markup that is trusted.
  void picture(std::string_view svg);
  std::string text() const;

 private:
  std::string title_, body_;
};

/// A named row of a chart, from `begin` to `end`.
struct ChartBar {
  std::string name;
  double begin, end;
};
/// Bars over a common axis: the stages of a compile over time.
std::string bar_chart_svg(const std::vector<ChartBar>& bars, std::string_view unit);

/// A block of memory while it is used: steps across, bytes upwards.
struct MemoryBlock {
  std::string name;
  int64_t offset = 0, bytes = 0, first = 0, last = 0;
};
std::string memory_plan_svg(const std::vector<MemoryBlock>& blocks);

}  // namespace tenon::report
