// Pages that stand alone: one HTML file with its style, script and pictures inside.
//
//   HtmlPage page("resnet18");
//   page.heading("Kernels");
//   page.table({"NAME", "US"}, {{"k0", "12.1"}});
//   write(page.text());
//
// All text given is shown as it is: nothing of it is taken for markup but the pictures, and what
// would steer the direction of reading becomes '?'. Equal calls give equal pages.
#pragma once

#include "core/embedded_file.h"
#include "report/page_graph.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::report {

/// page.css and page.js of host/report/page.
std::span<const EmbeddedFile> page_files();

std::string html_escaped(std::string_view text);

/// A part of a whole; `kind` chooses its colour: --w-KIND of page.css.
struct Share {
  std::string name, kind;
  double value;
};

class HtmlPage {
 public:
  /// `below`: a line under the title.
  explicit HtmlPage(std::string_view title, std::string_view below = {});

  /// Of a section, which the bar at the top of the page leads to; its number, for links.
  size_t heading(std::string_view text);
  /// A section that only links lead to.
  size_t unlisted_heading(std::string_view text);
  void subheading(std::string_view text);
  void paragraph(std::string_view text);
  /// A paragraph that stands out; more so where it warns.
  void note(std::string_view text, bool warns = false);
  /// Columns whose cells are all numbers, with or without a unit, are aligned to the right. `links`:
  /// by row, the number of the section that its first cell leads to.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows, std::span<const size_t> links = {});
  /// Text of any length behind a line to click on.
  void folded(std::string_view summary, std::string_view text);
  /// What is added until the end is behind a line to click on.
  void begin_folded(std::string_view summary, bool open = false);
  void end_folded();
  /// A picture that can be zoomed and moved; markup that is trusted.
  void picture(std::string_view svg);
  /// Drawn by the page's script, to be zoomed and moved; with its text behind a line to click on.
  void graph(const PageGraph& graph);
  /// A bar in the colours of its parts, and what each of them is; those of zero are left out.
  void shares(const std::vector<Share>& parts, std::string_view unit);
  std::string text() const;

 private:
  std::string title_, below_, navigation_, body_;
  size_t n_sections_ = 0;
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

/// "1.5 KB".
std::string bytes_text(int64_t bytes);

}  // namespace tenon::report
