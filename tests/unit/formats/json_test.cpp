// The JSON reader: values, bounds and the places that its errors name.
#include "formats/json.h"

#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

std::string refusal(std::string_view text) {
  auto refused = refusal_of([&] { parse_json(text, "doc"); });
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  return refused.message;
}

TEST(Json, ReadsValuesOfEveryKind) {
  JsonDocument doc = parse_json(
      R"({"i": 9223372036854775807, "d": 2.0, "b": true, "n": null, "s": "a\u00e9", "l": [1, -2],
          "inf": "-Infinity"})",
      "doc");
  JsonView v = doc.view();
  EXPECT_EQ(v.field("i").integer(), INT64_MAX);
  EXPECT_EQ(v.field("d").real(), 2.0);
  EXPECT_FALSE(v.field("d").is_integer());
  EXPECT_TRUE(v.field("b").boolean());
  EXPECT_TRUE(v.field("n").is_null());
  EXPECT_FALSE(v.optional_field("n").has_value());
  EXPECT_FALSE(v.optional_field("missing").has_value());
  EXPECT_EQ(v.field("s").text(), "a\xC3\xA9");
  EXPECT_EQ(v.field("l").items()[1].integer(), -2);
  EXPECT_EQ(v.field("inf").real(), -std::numeric_limits<double>::infinity());
}

TEST(Json, KeepsTheOrderOfMembers) {
  JsonDocument doc = parse_json(R"({"z": 1, "a": 2})", "doc");
  EXPECT_EQ(doc.view().members()[0].first, "z");
}

TEST(Json, WritesWhatItReads) {
  const std::string text = R"({"a":[1,2.0,"q\"\\\n\u0009",null,true,{}],"b":[],"c":1e+300})";
  EXPECT_EQ(parse_json(text, "doc").root().dump(), text);
}

TEST(Json, IsBuiltAsItReads) {
  Json document{{"schema", 1}, {"names", std::vector<std::string>{"a", "b"}}, {"none", Json()}};
  document["parts"].items().push_back({{"bytes", size_t{7}}, {"ok", true}});
  document["schema"] = 2;
  document.update(Json{{"none", "some"}, {"more", 0.5}});
  EXPECT_EQ(
      document.dump(),
      R"({"schema":2,"names":["a","b"],"none":"some","parts":[{"bytes":7,"ok":true}],"more":0.5})");
}

TEST(Json, HasALineForEachElementWhereAsked) {
  Json document{{"list", Json::Array{1, 2}}, {"empty", Json::Object{}}};
  EXPECT_EQ(document.dump_lines(), "{\n \"list\": [\n  1,\n  2\n ],\n \"empty\": {}\n}");
}

TEST(Json, GivesTheFallbackForWhatIsMissingOrOfAnotherKind) {
  const Json document{{"n", 3}, {"t", "x"}};
  EXPECT_EQ(document["n"].number(), 3.0);
  EXPECT_EQ(document["n"].text(), "");
  EXPECT_EQ(document["t"].integer(5), 5);
  EXPECT_TRUE(document["missing"].is_null());
  EXPECT_TRUE(document["missing"]["deeper"].items().empty());
  EXPECT_TRUE(json_or_null("{").is_null());
}

TEST(Json, NamesThePlaceOfAWrongType) {
  JsonDocument doc = parse_json(R"({"graph": {"nodes": [{"name": 1}, {"name": 7}]}})", "f: m.json");
  auto refused =
      refusal_of([&] { doc.view().field("graph").field("nodes").items()[1].field("name").text(); });
  EXPECT_EQ(refused.message,
            "f: m.json: graph.nodes[1].name: expected a string, found an integer 7");
}

TEST(Json, NamesAMissingMember) {
  JsonDocument doc = parse_json(R"({"graph": {}})", "doc");
  auto refused = refusal_of([&] { doc.view().field("graph").field("nodes"); });
  EXPECT_EQ(refused.message, "doc: graph: the member \"nodes\" is missing");
}

TEST(Json, RefusesUnionsWithoutExactlyOneMember) {
  JsonDocument doc = parse_json(R"([{}, {"a": 1, "b": 2}, {"a": 1}])", "doc");
  EXPECT_THAT(refusal_of([&] { doc.view().items()[0].only_member(); }).message,
              HasSubstr("exactly one member, found 0"));
  EXPECT_THAT(refusal_of([&] { doc.view().items()[1].only_member(); }).message,
              HasSubstr("found 2"));
  EXPECT_EQ(doc.view().items()[2].only_member().first, "a");
}

TEST(Json, NamesLineAndByteOfASyntaxError) {
  EXPECT_THAT(refusal("{\"a\": 1,\n \"b\": }"), HasSubstr("line 2, byte 16"));
  EXPECT_THAT(refusal(""), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{} x"), HasSubstr("doc"));
}

TEST(Json, RefusesIntegersBeyond64Bits) {
  EXPECT_THAT(refusal("[9223372036854775808]"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("[123456789012345678901234567890]"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("[-9223372036854775809]"), HasSubstr("64 bits"));
  EXPECT_EQ(parse_json("[-9223372036854775808]", "doc").view().items()[0].integer(), INT64_MIN);
}

TEST(Json, RefusesNestingBeyondTheLimit) {
  std::string fine = std::string(512, '[') + std::string(512, ']');
  EXPECT_EQ(parse_json(fine, "doc").view().size(), 1u);
  EXPECT_THAT(refusal("[" + fine + "]"), HasSubstr("deeper than 512"));
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("deeper than 512"));
}

TEST(Json, RefusesMoreValuesThanAFileOfItsSizeHasUseFor) {
  std::string zeros = "[0";
  for (int i = 0; i < 3'000'000; ++i) zeros += ",0";
  EXPECT_THAT(refusal(zeros + "]"), HasSubstr("more than 1750000 values in 6000003 bytes"));
}

TEST(Json, RefusesANameTwiceInOneObject) {
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 3})"), HasSubstr("\"a\" occurs twice"));
}

TEST(Json, RefusesInvalidUtf8) { EXPECT_THAT(refusal("[\"\xFF\"]"), HasSubstr("UTF-8")); }

}  // namespace
}  // namespace tenon::formats
