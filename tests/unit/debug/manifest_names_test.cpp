// Names in manifests that can never take effect: the kit tells of them.
#include "debug/plugin_kit/manifest_names.h"

#include "debug/plugin_kit/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::kit {
namespace {

using testing::HasSubstr;

// "failed: ...", "warned: ..." or "fine".
std::string verdict_on(const std::string& tables) {
  ManifestResult read = parse_manifest(
      "manifest = 1\n[plugin]\nname = 'mine'\nversion = '0.1.0'\nabi = '1.0'\n" + tables, "p.so");
  if (read.diagnosis) return "refused: " + read.diagnosis.reason;
  try {
    check_manifest_names(read.manifest);
  } catch (const CheckFailed& e) {
    return "failed: " + e.why;
  } catch (const CheckWarned& e) {
    return "warned: " + e.why;
  }
  return "fine";
}

TEST(ManifestNames, OfFlagsAreTaken) {
  EXPECT_THAT(verdict_on("[[backend]]\nname = 'guards'\n"),
              HasSubstr("failed: backend guards is named like the flags [guards]"));
  EXPECT_THAT(
      verdict_on("[[backend]]\nname = 'mine'\n[[backend.option]]\nname = 'top'\n"
                 "type = 'int'\ndefault = 1\nenv = 'TENON_DYNAMO_THING'\n"),
      HasSubstr("failed: option mine.top: variables TENON_DYNAMO_... are those of the flags"));
  EXPECT_EQ(verdict_on("[[backend]]\nname = 'mine'\n[[backend.option]]\nname = 'top'\n"
                       "type = 'int'\ndefault = 1\nenv = 'TENON_MINE_THING'\n"),
            "fine");
}

TEST(ManifestNames, OfNothingGetNoGraph) {
  EXPECT_THAT(verdict_on("[[backend]]\nname = 'mine'\ndevices = []\n"),
              HasSubstr("has no devices"));
  EXPECT_THAT(verdict_on("[[backend]]\nname = 'mine'\nstages = []\n"), HasSubstr("has no stages"));
}

TEST(ManifestNames, ThatThisHostDoesNotKnowAreTold) {
  EXPECT_EQ(verdict_on("[[backend]]\nname = 'mine'\ndevices = ['cpu', 'toaster']\n[backend.aot]\n"
                       "keep = ['aten.relu.default', 'aten.rellu.default']\n"),
            "warned: backend mine: devices names toaster; backend mine: keep names "
            "aten.rellu.default; this host knows nothing of these names");
  EXPECT_EQ(
      verdict_on("[[kernels]]\ndevice = 'cpu'\nops = ['aten.mm.default', 'aten.mmm.default']\n"),
      "warned: [[kernels]] ops names aten.mmm.default; this host knows nothing of these names");
  EXPECT_EQ(
      verdict_on("[[op]]\nname = 'mine.a.default'\n[[device]]\ntype = 'toaster'\n[[kernels]]\n"
                 "device = 'toaster'\nops = ['mine.a.default']\n"),
      "fine");
}

TEST(ManifestNames, PrioritiesAreOf32Bits) {
  EXPECT_THAT(verdict_on("[[kernels]]\ndevice = 'cpu'\nops = []\npriority = 999999999999\n"),
              HasSubstr("refused: manifest line 9, column 1: priority is 999999999999"));
}

}  // namespace
}  // namespace tenon::kit
