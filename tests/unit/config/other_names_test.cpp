// Aliases of flags, and files and tables whose names miss ours by a letter or two.
#include "config/config.h"

#include "unit/config/config_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::config {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int64_t limit() { return flags().dynamo.recompile_limit; }

TEST_F(Config, AnAliasWorksInTheEnvironment) {
  variable("TENON_DYNAMO_CACHE_SIZE_LIMIT", "3");
  variable("TENON_COMPILER_VERBOSE", "1");
  reload();
  EXPECT_EQ(limit(), 3);
  EXPECT_TRUE(flags().dynamo.verbose);
  EXPECT_EQ(info("dynamo.recompile_limit").source.origin, "TENON_DYNAMO_CACHE_SIZE_LIMIT");
  variable("TENON_FORCE_COMPILER_RECOMPILE_LIMIT", "5");
  reload();
  EXPECT_EQ(limit(), 5);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(Config, TheFlagsOwnVariableCountsOverThatOfAnAlias) {
  variable("TENON_DYNAMO_CACHE_SIZE_LIMIT", "3");
  variable("TENON_DYNAMO_RECOMPILE_LIMIT", "4");
  reload();
  EXPECT_EQ(limit(), 4);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("TENON_DYNAMO_RECOMPILE_LIMIT=4 counts")));
}

TEST_F(Config, AMisspeltVariableOfAnAliasIsAnError) {
  variable("TENON_DYNAMO_CACHE_SISE_LIMIT", "3");
  EXPECT_THAT(error_of([] { reload(); }), HasSubstr("did you mean TENON_DYNAMO_CACHE_SIZE_LIMIT"));
}

TEST_F(Config, AFlagAndItsAliasInOneFileAreAnError) {
  std::string path =
      file("project/dynamo.toml", "[dynamo]\ncache_size_limit = 3\nrecompile_limit = 4\n");
  EXPECT_THAT(error_of([] { reload(); }),
              HasSubstr(path + ":3:1: dynamo.recompile_limit and dynamo.cache_size_limit, which "
                               "line 2 sets, are one flag; leave out one"));
  file("project/dynamo.toml", "[dynamo]\nrecompile_limit = 4\n");
  std::string other = file("any.toml",
                           "[compiler]\nrecompile_limit = 5\n[dynamo]\n"
                           "recompile_limit = 6\n");
  EXPECT_THAT(error_of([&] { use_file(other); }), HasSubstr("are one flag"));
  EXPECT_THAT(error_of([] { load("[dynamo]\ncache_size_limit = 1\nrecompile_limit = 1\n"); }),
              HasSubstr("are one flag"));
}

TEST_F(Config, AFlagAndItsAliasMayStandInTwoFiles) {
  file("user/tenon/dynamo.toml", "[dynamo]\ncache_size_limit = 3\n");
  file("project/dynamo.toml", "[dynamo]\nrecompile_limit = 4\n");
  reload();
  EXPECT_EQ(limit(), 4);
}

TEST_F(Config, AFileOrTableThatMissesOursByALetterOrTwoIsAWarning) {
  file("project/dynmo.toml", "[dynamo]\nrecompile_limit = 3\n");
  file("project/functorch.toml", "[functroch]\ncse = false\n");
  file("project/ruff.toml", "line-length = 100\n");
  reload();
  EXPECT_EQ(limit(), 8);
  EXPECT_EQ(warnings().size(), 2u);
  EXPECT_THAT(warnings(), Contains(HasSubstr("dynmo.toml is not read: there is no module dynmo; "
                                             "is dynamo.toml meant?")));
  EXPECT_THAT(warnings(), Contains(HasSubstr("[functroch]")));
  EXPECT_THAT(warnings(), Contains(HasSubstr("is [functorch] meant?")));
}

TEST_F(Config, AFileIsCheckedAsTheFolderReadsItInWhichItLies) {
  std::string named = file("elsewhere/logging.toml", "[logging]\nout = \"x\"\n");
  EXPECT_NO_THROW(check_file(named)) << "--config may name it";
  std::string project = file("project/logging.toml", "[logging]\nout = \"x\"\n");
  EXPECT_THAT(error_of([&] { check_file(project); }),
              HasSubstr("logging.toml:2:1: logging.out is not obeyed in project files"));
  EXPECT_THAT(error_of([&] { check_file(file("other/configs/dynamo.toml", "[capture]\n")); }),
              HasSubstr("lacks the table [dynamo]"));
  EXPECT_THAT(error_of([&] { check_file(file("other/.tenon/dynmo.toml", "[dynamo]\n")); }),
              HasSubstr("there is no module and no backend dynmo; the nearest are dynamo"));
  EXPECT_THAT(error_of([&] { check_file(file("user/tenon/dynamo.toml", "[dynmo]\n")); }),
              HasSubstr("is [dynamo] meant?"));
  EXPECT_NO_THROW(check_file(file("user/tenon/logging.toml", "[logging]\nout = \"x\"\n")));
}

}  // namespace
}  // namespace tenon::config
