// Plugins by file name and digest.
#include "backend/find/allow_list.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backend/find/admission.h"
#include "core/error.h"
#include "tenon/config.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// SHA-256 of "abc", from the standard.
const std::string of_abc =
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class Allow : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_allow_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    path_ = std::string(name) + "/p.so";
    std::ofstream(path_) << "abc";
  }
  void TearDown() override { fs::remove_all(fs::path(path_).parent_path()); }
  std::string path_;
};

TEST_F(Allow, ComparesTheDigestOfTheFile) {
  EXPECT_EQ(digest_of(path_), of_abc);
  EXPECT_FALSE(AllowList({"p.so=" + of_abc}, true).judge(path_));
  std::string upper = of_abc;
  std::transform(upper.begin() + 7, upper.end(), upper.begin() + 7, ::toupper);
  EXPECT_FALSE(AllowList({"p.so=" + upper}, true).judge(path_));
  std::string other = "sha256:" + std::string(64, '0');
  EXPECT_FALSE(AllowList({"p.so=" + other, "p.so=" + of_abc}, false).judge(path_));
  EXPECT_EQ(to_text(AllowList({"p.so=" + other}, false).judge(path_)),
            "P15 " + path_ + ": plugins.allow expects " + other + ", the file has " + of_abc +
                "; if it was replaced on purpose, write its digest into plugins.allow");
}

TEST_F(Allow, RefusesWhatIsNotNamedOnlyWhenToldSo) {
  EXPECT_FALSE(AllowList().judge(path_));
  EXPECT_FALSE(AllowList({"q.so=" + of_abc}, false).judge(path_));
  EXPECT_EQ(to_text(AllowList({"q.so=" + of_abc}, true).judge(path_)),
            "P15 " + path_ +
                ": plugins.allow does not name it, and plugins.allow_only is set; add the line "
                "`tenon plugin info " +
                path_ + "` prints to plugins.allow");
}

TEST_F(Allow, TellsWhatAnItemShouldLookLike) {
  const std::vector<std::string> wrong{"p.so",
                                       "p.so=",
                                       "=" + of_abc,
                                       "p.so=md5:00",
                                       "d/p.so=" + of_abc,
                                       "p.so=" + of_abc + "0",
                                       "p.so=sha256:" + std::string(64, 'g')};
  for (const std::string& item : wrong) {
    try {
      AllowList(std::vector<std::string>{item}, false);
      ADD_FAILURE() << item;
    } catch (const UserError& e) {
      EXPECT_EQ(e.code(), ErrorCode::config);
      EXPECT_EQ(std::string(e.what()),
                "ConfigError: plugins.allow: expected FILE.so=sha256: and 64 hexadecimal digits, "
                "the file without folders, found '" +
                    item + "'; `tenon plugin info FILE` prints the digest");
    }
  }
}

TEST_F(Allow, IsWrittenAsATableOrAsAList) {
  for (std::string toml : {"[plugins.allow]\n\"p.so\" = \"" + of_abc + "\"\n",
                           "[plugins]\nallow = [\"p.so=" + of_abc + "\"]\n"}) {
    config::load(toml);
    auto items = config::get_as<std::vector<std::string>>("plugins.allow");
    EXPECT_FALSE(AllowList(items, true).judge(path_)) << toml;
    config::unset("plugins.allow");
  }
}

TEST_F(Allow, KnowsWhatIsMappedFromAFile) {
  static const char here[] = "in the file of this program";
  int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_TRUE(is_mapped_from(file, here));
  EXPECT_FALSE(is_mapped_from(file, &file));
  ::close(file);
  file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(is_mapped_from(file, here));
  ::close(file);
  EXPECT_TRUE(is_path_mapped(fs::read_symlink("/proc/self/exe")));
  EXPECT_FALSE(is_path_mapped(path_));
}

}  // namespace
}  // namespace tenon
