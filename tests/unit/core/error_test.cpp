// Messages of errors: what they show, and names that are suggested.
#include "core/error.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(ErrorMessage, NamesOutOfFilesCannotSteerATerminal) {
  UserError error(ErrorCode::bad_file,
                  "name \x1b[2J\r and \x7f\b, caf\xc3\xa9, \xff\xc3, next\n\tline");
  EXPECT_STREQ(error.what(), "name ?[2J? and ??, caf\xc3\xa9, ??, next\n\tline");
}

TEST(ErrorMessage, ANulDoesNotCutIt) {
  UserError error(ErrorCode::config, std::string("a\0b", 3));
  EXPECT_STREQ(error.what(), "ConfigError: a?b");
}

TEST(NearestNames, AreFoundForANameThatIsMuchTooLong) {
  EXPECT_EQ(nearest_names("relu" + std::string(1 << 20, 'x'), {"relu", "gelu"}, 1), "relu");
}

}  // namespace
}  // namespace tenon
