// What the dynamic linker would say of a plugin, found out without mapping it.
#include "backend/find/link_diagnosis.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class LinkDiagnosis : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_link_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  /// An empty file below the folder.
  void put(const std::string& file) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << "";
  }
  std::vector<std::string> missing(std::vector<std::string> needed, std::string runpath = "") {
    ElfInfo elf;
    elf.needed = std::move(needed);
    elf.runpath = std::move(runpath);
    return missing_libraries(root_ + "/x.so", elf);
  }
  FoundPlugin plugin(std::vector<std::string> needed = {}) {
    FoundPlugin p;
    p.path = root_ + "/x.so";
    p.elf.needed = std::move(needed);
    p.elf.file.size = 1234;
    return p;
  }
  using Names = std::vector<std::string>;
  std::string root_;
};

TEST_F(LinkDiagnosis, FindsWhatIsMappedOrInTheFoldersOfTheLinker) {
  EXPECT_EQ(missing({"libc.so.6", "libm.so.6", "libtenon_nowhere.so.1"}),
            Names{"libtenon_nowhere.so.1"});
  EXPECT_TRUE(library_is_found("libc.so.6"));
  EXPECT_FALSE(library_is_found("libc.so.6666"));
}

TEST_F(LinkDiagnosis, LooksIntoEachFolderOfTheRunpath) {
  put("lib/liba.so");
  put("other/libb.so");
  EXPECT_EQ(missing({"liba.so", "libb.so", "libc_not.so"}, "$ORIGIN/lib:" + root_ + "/other"),
            Names{"libc_not.so"});
  EXPECT_EQ(missing({"liba.so", "libb.so"}, "/nowhere::${ORIGIN}/lib"), Names{"libb.so"});
  EXPECT_EQ(missing({"liba.so"}), Names{"liba.so"});
}

TEST_F(LinkDiagnosis, TakesNamesWithASlashAsPaths) {
  put("libd.so");
  EXPECT_TRUE(missing({root_ + "/libd.so"}).empty());
  EXPECT_EQ(missing({root_ + "/libe.so"}), Names{root_ + "/libe.so"});
}

TEST_F(LinkDiagnosis, KnowsMissingLibrariesInAnyLanguage) {
  Diagnosis d = diagnose_link_failure(plugin({"libtenon_nowhere.so.1"}),
                                      "libtenon_nowhere.so.1: Datei oder Verzeichnis nicht da");
  EXPECT_EQ(d.fault, PluginFault::missing_library);
  EXPECT_EQ(d.reason,
            "libtenon_nowhere.so.1: Datei oder Verzeichnis nicht da; cannot be found: "
            "libtenon_nowhere.so.1");
}

TEST_F(LinkDiagnosis, TakesOldVersionsOfLibrariesForMissingOnes) {
  FoundPlugin p = plugin({"libc.so.6"});
  std::string text = "x (dlerror system message: " + p.path +
                     ": /lib/libc.so.6: version `GLIBC_9.9' not found (required by x.so)): y";
  Diagnosis d = diagnose_link_failure(p, text);
  EXPECT_EQ(d.fault, PluginFault::missing_library);
  EXPECT_EQ(d.reason, "/lib/libc.so.6: version `GLIBC_9.9' not found (required by x.so)");
}

TEST_F(LinkDiagnosis, NamesUndefinedSymbolsAsTheyStoodInTheSource) {
  Diagnosis mangled = diagnose_link_failure(plugin(), "x.so: undefined symbol: _ZN1a1bEv");
  Diagnosis plain = diagnose_link_failure(plugin(), "x.so: undefined symbol: f, version V_1");
  EXPECT_EQ(mangled.fault, PluginFault::undefined_symbol);
  EXPECT_EQ(mangled.reason,
            "it uses a::b() (_ZN1a1bEv), which neither it nor a library that it links defines");
  EXPECT_EQ(plain.reason, "it uses f, which neither it nor a library that it links defines");
}

TEST_F(LinkDiagnosis, PassesOnWhatItDoesNotKnow) {
  Diagnosis d = diagnose_link_failure(plugin(), "no room for static TLS");
  EXPECT_EQ(d.fault, PluginFault::unreadable);
  EXPECT_EQ(d.reason,
            "expected a shared object of 1234 bytes that can be mapped; the linker says: no room "
            "for static TLS");
}

}  // namespace
}  // namespace tenon
