// Pages and pictures: what is given is shown as it is, and pictures have the sizes of what they
// draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/html.h"

namespace tenon::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlPage, ShowsTextAsItIs) {
  HtmlPage page("a < b & \"c\"");
  page.heading("<script>alert(1)</script>");
  page.table({"NAME"}, {{"<b>"}});
  page.folded("more", "</pre><i>");
  EXPECT_THAT(page.text(),
              AllOf(HasSubstr("a &lt; b &amp; &quot;c&quot;"), Not(HasSubstr("<script>alert")),
                    Not(HasSubstr("<b>")), Not(HasSubstr("</pre><i>"))));
}

TEST(HtmlPage, StandsAlone) {
  HtmlPage page("x");
  EXPECT_THAT(page.text(), AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")),
                                 Not(HasSubstr(" src=")), Not(HasSubstr("<link"))));
}

TEST(HtmlPage, ColumnsOfNumbersAreAligned) {
  HtmlPage page("x");
  page.table({"NAME", "US"}, {{"k0", "12.5 us"}, {"k1", "3"}});
  EXPECT_THAT(page.text(), AllOf(HasSubstr("<td>k0</td><td class=\"n\">12.5 us</td>"),
                                 HasSubstr("<td>k1</td><td class=\"n\">3</td>")));
}

TEST(HtmlPage, PicturesBeginWithTheirMarkup) {
  HtmlPage page("x");
  page.picture("<?xml version=\"1.0\"?>\n<svg width=\"5\"></svg>");
  EXPECT_THAT(page.text(),
              AllOf(HasSubstr("tabindex=\"0\"><svg width=\"5\">"), Not(HasSubstr("<?xml"))));
}

TEST(HtmlPage, WhatSteersTheDirectionOfReadingIsNotShown) {
  HtmlPage page("a\u202eb\xff");
  EXPECT_THAT(page.text(), AllOf(HasSubstr("a?b?"), Not(HasSubstr("\u202e"))));
}

TEST(HtmlPage, SectionsHaveLinksAtTheTopAndFromTables) {
  HtmlPage page("x");
  page.heading("First");
  size_t second = page.unlisted_heading("Second");
  page.table({"NAME"}, {{"a"}}, std::span(&second, 1));
  EXPECT_THAT(page.text(), AllOf(HasSubstr("<nav><div><a href=\"#s1\">First</a></div></nav>"),
                                 HasSubstr("<h2 id=\"s2\">Second</h2>"),
                                 HasSubstr("<td><a href=\"#s2\">a</a></td>")));
}

TEST(HtmlPage, SharesAreAsWideAsTheirValues) {
  HtmlPage page("x");
  page.shares({{"a", "call", 1}, {"none", "eager", 0}, {"b", "forward", 3}}, "ms");
  EXPECT_THAT(page.text(), AllOf(HasSubstr("width:25.00%;background:var(--w-call)"),
                                 HasSubstr("width:75.00%;background:var(--w-forward)"),
                                 Not(HasSubstr("none: "))));
}

TEST(PageGraph, IsJsonThatCannotEndItsElement) {
  PageGraph graph{
      .nodes = {{.label = "</script><!--", .detail = "x"}, {.label = "b", .inputs = {0}}}};
  graph.nodes[1].is_saved = true;
  EXPECT_EQ(to_json(graph),
            "[[\"\\u003c/script>\\u003c!--\",\"x\",0,[],0,\"\"],\n[\"b\",\"\",0,[0],2,\"\"]]");
}

TEST(BytesText, CountsInThousands) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 KB");
  EXPECT_EQ(bytes_text(250'000'000), "250 MB");
}

TEST(MemoryPicture, BlocksLieWhereAndWhenTheyAreUsed) {
  std::string svg = memory_plan_svg({{"a<b", 0, 100, 0, 1}, {"c", 100, 300, 1, 3}});
  // 900 across for four steps, 420 upwards for 400 bytes.
  EXPECT_THAT(svg, HasSubstr(R"(x="0.00" y="331.00" width="450.00" height="105.00")"));
  EXPECT_THAT(svg, HasSubstr(R"(x="225.00" y="16.00" width="675.00" height="315.00")"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b: 100 bytes at 0, steps 0 to 1"));
}

TEST(MemoryPicture, OfNothingIsEmpty) {
  EXPECT_THAT(memory_plan_svg({}), AllOf(HasSubstr("0 bytes"), Not(HasSubstr("<rect"))));
}

TEST(BarChart, BarsAreAsLongAsTheyTake) {
  std::string svg = bar_chart_svg({{"read", 0, 1}, {"compile", 1, 4}}, "ms");
  EXPECT_THAT(svg, HasSubstr(R"(x="140.00" y="3.00" width="160.00")"));
  EXPECT_THAT(svg, HasSubstr(R"(x="300.00" y="23.00" width="480.00")"));
  EXPECT_THAT(svg, HasSubstr("3.000 ms"));
}

}  // namespace
}  // namespace tenon::report
