// Guards of .pt2 archives: conditions of the export over sizes and numbers of a call.
#include "formats/pt2/pt2_call.h"
#include "formats/pt2/pt2_import.h"
#include "report/log.h"
#include "small_archive.h"

#include <tenon/ops.h>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::replaced;
using testing::SmallArchive;

SmallArchive archive_with_guard(std::string guard) {
  for (size_t at; (at = guard.find('S')) != guard.npos;) guard.replace(at, 1, "L['x'].size()[0]");
  return SmallArchive().change_model("what?", guard);
}

/// Which numbers of rows from 2 to 12, but for 5, a model takes that was exported under the guard.
std::vector<int64_t> taken_rows(const SmallArchive& archive) {
  ImportedModel model = import_pt2(archive.read());
  std::vector<int64_t> taken;
  for (int64_t rows : {2, 3, 4, 6, 7, 8, 9, 10, 11, 12}) {
    Tensor x = zeros({rows, 3});
    try {
      bind_call(model, {&x, 1});
      taken.push_back(rows);
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the model was exported for inputs with"));
    }
  }
  return taken;
}

using Rows = std::vector<int64_t>;

// As PyTorch 2.15 writes them, with what it takes.
TEST(Pt2Guards, HoldAsInPython) {
  const std::pair<const char*, Rows> cases[] = {
      {"0.3*torch.sym_float(S) < 2.0", {2, 3, 4, 6}},
      {"0.2 + 0.1*torch.sym_float(S) < 0.8", {2, 3, 4}},
      {"math.trunc(0.5*torch.sym_float(S)) == 3", {6, 7}},
      {"math.floor(0.5*torch.sym_float(S)) == 2", {4}},
      {"math.ceil(0.5*torch.sym_float(S)) == 3", {6}},
      {"math.trunc(1.5*torch.sym_float(S)) == 10", {7}},
      {"torch.sym_float(math.floor(((0.5 + torch.sym_float(S)) / 1.0))) == 7.0", {7}},
      {"round(S / 2) == 4", {7, 8, 9}},  // half to even
      {"round(0.7*torch.sym_float(S)) == 4", {6}},
      {"(S / 2) > 4.4", {9, 10, 11, 12}},
      {"torch.sym_float(S) ** 0.5 < 2.5", {2, 3, 4, 6}},
      {"torch._sym_sqrt(torch.sym_float(S)) < 2.5", {2, 3, 4, 6}},
      {"torch.sym_max(4, S) == 4", {2, 3, 4}},
      {"torch.sym_min(7, torch.sym_min(S, 9)) == 7", {7, 8, 9, 10, 11, 12}},
      {"abs((-9) + S) > 4", {2, 3, 4}},
      {"2 ** S < 40", {2, 3, 4}},
      {"(S // 2) == 3", {6, 7}},
      {"(((-1)*S) // 2) == (-4)", {7, 8}},
      {"(S % (-4)) == (-3)", {9}},
      {"(S if S > 6 else 5 + S) < 9", {2, 3, 7, 8}},
      {"not (S == 6) and (S < 4 or S > 11)", {2, 3, 12}},
      {"torch.sym_float(S) < math.inf", {2, 3, 4, 6, 7, 8, 9, 10, 11, 12}},
      {"S - 4", {2, 3, 6, 7, 8, 9, 10, 11, 12}},
  };
  for (const auto& [guard, rows] : cases)
    EXPECT_EQ(taken_rows(archive_with_guard(guard)), rows) << guard;
}

TEST(Pt2Guards, BitsBindBetweenSumsAndComparisons) {
  const std::pair<const char*, Rows> cases[] = {
      {"(S & 1) == 1", {3, 7, 9, 11}},        {"S & 6 == 4", {4, 12}},
      {"S | 10 > 11", {4, 6, 7, 12}},         {"(S | 1) == 7", {6, 7}},
      {"S ^ 12 < 10", {4, 8, 9, 10, 11, 12}}, {"(S ^ 1) == 8", {9}},
      {"(S & -4) == 8", {8, 9, 10, 11}},      {"1 | S ^ 2 & 3 == 9", {10, 11}},
  };
  for (const auto& [guard, rows] : cases)
    EXPECT_EQ(taken_rows(archive_with_guard(guard)), rows) << guard;
}

// Strict exports count the leaves.
TEST(Pt2Guards, NameArgumentsInSeveralWays) {
  for (const char* guard : {"L['flat_args'][0].size()[0] % 2 == 0", "L['x'].shape[-2] % 2 == 0"})
    EXPECT_EQ(taken_rows(archive_with_guard(guard)), (Rows{2, 4, 6, 8, 10, 12})) << guard;
  SmallArchive gathered = archive_with_guard("L['xs'][0].size()[0] > 8");
  gathered.change_model(R"("forward_arg_names": ["x"])", R"("forward_arg_names": ["xs_0"])")
      .change_model("L['x'].size()[0] != 5", "L['xs_0'].size()[0] != 5");
  EXPECT_EQ(taken_rows(gathered), (Rows{9, 10, 11, 12}));
}

// They are passed over.
TEST(Pt2Guards, WhatCannotBeReadIsToldWhenTheArchiveIsRead) {
  for (const char* guard :
       {"math.sin(torch.sym_float(S)) < 0.0", "round(0.25*torch.sym_float(S), 1) < 1.35",
        "L['flat_args'][1].size()[0] == 3", "L['y'].size()[0] == 3", "s7 == 3", "(S & S) == 3"}) {
    SmallArchive archive = archive_with_guard(guard);
    report::LogCapture log;
    EXPECT_EQ(taken_rows(archive).size(), 10u) << guard;
    EXPECT_EQ(log.count("warning: [guards] small.pt2: the export excludes inputs for which"), 1u)
        << guard;
  }
}

TEST(Pt2Guards, ManyUnreadableOnesAreCounted) {
  std::string guards = "what?";
  for (int i = 0; i < 40; ++i) guards += "\", \"what?";
  SmallArchive archive = SmallArchive().change_model("what?", guards);
  report::LogCapture log;
  EXPECT_EQ(archive.read().guards.size(), 42u);
  EXPECT_EQ(log.count("the export excludes inputs"), 16u);
  EXPECT_EQ(log.count("25 more conditions of the export cannot be read"), 1u);
}

}  // namespace
}  // namespace tenon::formats
