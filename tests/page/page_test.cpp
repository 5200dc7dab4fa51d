// Opens the reports of a program and of a model in Chromium, as a reader on a desk and one with a
// telephone do.
//
// TENON_WRITE_DOCS=1 also writes the pictures of docs/report.md.
#include "browser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

namespace tenon::page {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Window desk{}, dark_desk{.is_dark = true},
    telephone{.width = 390, .height = 844, .is_phone = true};

/// The reports; made once by the programs that the tests are about.
class Pages : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    browser_ = std::make_unique<Browser>(TENON_CHROMIUM);
    std::filesystem::remove("page_program.html");
    std::filesystem::remove("page_model.html");
    std::filesystem::copy_file(TENON_PAGE_MODEL, "cnn_digits.pt2",
                               std::filesystem::copy_options::overwrite_existing);
    // By a name of its own: the page shows the command.
    ASSERT_EQ(std::system("TENON_REPORT=page_program.html bash -c "
                          "'exec -a ./app \"$0\" cnn_digits.pt2' \"" TENON_PAGE_SAMPLE "\""),
              0);
    ASSERT_EQ(std::system("\"" TENON_PROGRAM "\" report cnn_digits.pt2 -o page_model.html -q >&2"),
              0);
  }
  static void TearDownTestSuite() { browser_.reset(); }

  static void open(const char* page, const Window& window) {
    browser_->open("file://" + std::filesystem::absolute(page).string(), window);
  }
  static Browser::Json value(const std::string& expression) {
    return browser_->evaluate(expression);
  }
  static void show_first_graph() { show_graph("figures[0]"); }
  static void show_largest_graph() {
    show_graph("figures.sort((a, b) => b.textContent.length - a.textContent.length)[0]");
  }
  // Figures are drawn when they are seen; this shows one of those that are drawn by script.
  static void show_graph(const std::string& which) {
    value("window.figures = [...document.querySelectorAll('figure:has(script)')]; 0");
    value("window.figure = " + which + "; 0");
    value(R"((async () => {
      for (let e = figure; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
      figure.scrollIntoView({ block: 'center', behavior: 'instant' });
      while (!figure.querySelector('.box')) await new Promise(requestAnimationFrame);
      window.middle = () => {
        const r = figure.querySelector('.view').getBoundingClientRect();
        return [r.left + r.width / 2, r.top + r.height / 2];
      };
      window.seen = () => figure.querySelector('svg').getAttribute('viewBox').split(' ').map(Number);
    })())");
  }
  static std::unique_ptr<Browser> browser_;
};
std::unique_ptr<Browser> Pages::browser_;

TEST_P(Pages, OpenWithoutAComplaintAndWithoutTheNetwork) {
  for (const Window& window : {desk, telephone}) {
    open(GetParam(), window);
    show_first_graph();
    EXPECT_THAT(browser_->complaints(), IsEmpty());
  }
}

TEST_P(Pages, AreAsWideAsTheWindow) {
  for (const Window& window : {desk, telephone}) {
    open(GetParam(), window);
    value("for (const d of document.querySelectorAll('details')) d.open = true");
    EXPECT_LE(value("document.documentElement.scrollWidth"), window.width) << window.width;
  }
}

TEST_P(Pages, DrawEachNodeOfTheirGraphsAndEachEdge) {
  open(GetParam(), desk);
  int n_figures = value("document.querySelectorAll('figure:has(script)').length");
  ASSERT_GT(n_figures, 0);
  for (int i = 0; i < n_figures; ++i) {
    SCOPED_TRACE(i);
    show_graph("figures[" + std::to_string(i) + "]");
    value("window.rows = JSON.parse(figure.querySelector('script').textContent)");
    EXPECT_GE(value("rows.length"), 3) << "an input, an operation and the output";
    EXPECT_EQ(value("figure.querySelectorAll('.box').length"), value("rows.length"));
    EXPECT_EQ(value("figure.querySelectorAll('.edge').length"),
              value("rows.reduce((sum, row) => sum + row[3].length, 0)"));
  }
}

TEST_P(Pages, DrawBoxesThatDoNotOverlap) {
  open(GetParam(), desk);
  show_first_graph();
  EXPECT_EQ(value(R"((() => {
    const boxes = [...figure.querySelectorAll('.box rect')].map(r => r.getBoundingClientRect());
    let n = 0;
    for (const a of boxes) for (const b of boxes)
      if (a !== b && a.left < b.right - 1 && b.left < a.right - 1 &&
          a.top < b.bottom - 1 && b.top < a.bottom - 1) ++n;
    return n;
  })())"),
            0);
}

TEST_P(Pages, ZoomAndMoveGraphs) {
  for (const Window& window : {desk, telephone}) {
    open(GetParam(), window);
    show_first_graph();
    auto seen = [&] { return value("seen()"); };
    auto at = value("middle()");
    auto before = seen();
    browser_->turn_wheel_with_ctrl(at[0], at[1], -120);
    auto closer = seen();
    EXPECT_LT(closer[2], before[2]) << "the wheel";
    browser_->drag(at[0], at[1], double(at[0]) + 60, double(at[1]) + 40);
    auto moved = seen();
    EXPECT_LT(moved[0], closer[0]) << "dragging";
    EXPECT_LT(moved[1], closer[1]) << "dragging";
    value("figure.querySelectorAll('button')[1].click()");
    EXPECT_GT(seen()[2], moved[2]) << "the button";
    value("figure.querySelectorAll('button')[2].click()");
    EXPECT_EQ(value("[...figure.querySelectorAll('.box rect')].every(r => {"
                    "  const b = r.getBoundingClientRect(),"
                    "        v = figure.querySelector('.view').getBoundingClientRect();"
                    "  return b.left >= v.left && b.right <= v.right && b.top >= v.top &&"
                    "         b.bottom <= v.bottom; })"),
              true)
        << "all is shown";
  }
}

TEST_P(Pages, ShowAChosenNodeWhole) {
  open(GetParam(), desk);
  show_first_graph();
  value("figure.querySelectorAll('button')[2].click()");
  auto at = value(R"((() => {
    const r = figure.querySelectorAll('.box rect')[1].getBoundingClientRect();
    return [r.left + r.width / 2, r.top + r.height / 2];
  })())");
  browser_->drag(at[0], at[1], at[0], at[1]);
  EXPECT_EQ(value("figure.querySelector('figcaption').textContent.trim()"),
            value("JSON.parse(figure.querySelector('script').textContent)[1][1].trim()"));
}

TEST_P(Pages, UnfoldText) {
  for (const Window& window : {desk, telephone}) {
    open(GetParam(), window);
    show_first_graph();
    auto at = value(R"((() => {
      window.fold = [...document.querySelectorAll('details')].find(
          d => d.querySelector(':scope > pre') && d.parentElement.checkVisibility());
      fold.scrollIntoView({ block: 'center', behavior: 'instant' });
      const r = fold.querySelector('summary').getBoundingClientRect();
      return [r.left + 20, r.top + r.height / 2];
    })())");
    ASSERT_EQ(value("fold.open"), false);
    browser_->drag(at[0], at[1], at[0], at[1]);
    EXPECT_EQ(value("fold.open"), true);
    EXPECT_GT(value("fold.querySelector('pre').getBoundingClientRect().height"), 20);
  }
}

TEST_P(Pages, AreDarkWhereTheSystemIs) {
  auto lightness = [&](const Window& window) {
    open(GetParam(), window);
    return value(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
        ".reduce((sum, n) => sum + Number(n), 0)");
  };
  EXPECT_GT(lightness(desk), 600);
  EXPECT_LT(lightness(dark_desk), 150);
}

INSTANTIATE_TEST_SUITE_P(Reports, Pages, ::testing::Values("page_program.html", "page_model.html"));

class ProgramPage : public Pages {};

TEST_F(ProgramPage, ShowsNamesAsTheyAre) {
  open("page_program.html", desk);
  EXPECT_EQ(value("document.title"), "What Tenon did");
  EXPECT_EQ(value("document.querySelectorAll('img').length"), 0);
  std::string text = value("document.body.innerText");
  EXPECT_THAT(text, HasSubstr("<script>document.title = 'taken over'</script>"));
  EXPECT_THAT(text, HasSubstr("</script><img src=x onerror=alert(1)>"));
  EXPECT_THAT(text, HasSubstr("a ? b & \"c\" ?"));
}

TEST_F(ProgramPage, AnswersTheQuestions) {
  open("page_program.html", desk);
  value("for (const d of document.querySelectorAll('details')) d.open = true");
  std::string text = value("document.body.innerText");
  for (const char* answer :
       {"What stands out", "Where the time went",                            // why is it slow
        "size at dimension", "scale rows has reached its limit",             // why again
        "item() at", "sample.cpp:",                                          // what was cut
        "WHAT WAS FUSED INTO IT",                                            // what was fused
        "What is saved for the backward", "Computed again in the backward",  // what was saved
        "Why calls ran as plain code", "recompile_limit",                    // what ran eager
        "compiled backward passes", "forward", "backward"})
    EXPECT_THAT(text, HasSubstr(answer));
}

// ---- pictures for docs/report.md

TEST_F(ProgramPage, PicturesOfTheDocs) {
  if (!std::getenv("TENON_WRITE_DOCS")) GTEST_SKIP() << "TENON_WRITE_DOCS=1 writes them";
  auto write = [&](const std::string& name) {
    std::ofstream(TENON_DOCS_DIR "/" + name, std::ios::binary) << browser_->screenshot();
  };
  open("page_program.html", {.width = 1180, .height = 900});
  write("report-summary.png");
  show_largest_graph();
  write("report-graph.png");
  open("page_program.html", telephone);
  write("report-phone.png");
}

}  // namespace
}  // namespace tenon::page
