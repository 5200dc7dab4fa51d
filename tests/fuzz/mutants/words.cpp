// Numbers, ops and texts of mutants.
#include "mutants/words.h"

#include "ops/op_table.h"

#include <limits>

namespace tenon::fuzz {

int64_t some_number(Choices& choices) {
  static constexpr int64_t small[] = {0, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, -2, -3, -4};
  static constexpr int64_t limits[] = {64,
                                       255,
                                       1024,
                                       65537,
                                       (int64_t{1} << 31) - 1,
                                       int64_t{1} << 31,
                                       -(int64_t{1} << 31),
                                       int64_t{1} << 32,
                                       3037000500,  // its square is above 2^63
                                       int64_t{1} << 40,
                                       int64_t{1} << 61,
                                       int64_t{1} << 62,
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::max() - 1,
                                       std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::min() + 1,
                                       -5};
  return choices.below(4) > 0 ? one_of(choices, small) : one_of(choices, limits);
}

double some_real(Choices& choices) {
  static constexpr double reals[] = {0.0,
                                     -0.0,
                                     -1.0,
                                     0.5,
                                     2.5,
                                     1e-320,
                                     1e30,
                                     1e308,
                                     -1e308,
                                     1e-5,
                                     16777217.0,
                                     9007199254740993.0,
                                     std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()};
  return one_of(choices, reals);
}

std::string some_op(Choices& choices) {
  static const auto& all = *new std::vector<std::string>(all_op_names());
  static const auto& plain = *new std::vector<std::string>([] {
    std::vector<std::string> names;
    for (const std::string& name : all) {
      const Schema& schema = find_op(name)->schema;
      bool takes_one = !schema.args.empty() && schema.args[0].type.base == BaseType::tensor;
      if (takes_one && schema.returns.size() == 1) names.push_back(name);
    }
    return names;
  }());
  return choices.below(2) == 0 ? one_of(choices, all) : one_of(choices, plain);
}

std::string_view some_dtype(Choices& choices) {
  static constexpr std::string_view dtypes[] = {"u8",  "i8",   "i16",  "i32",    "i64",
                                                "f16", "bf16", "f32",  "f64",    "bool",
                                                "c32", "c64",  "c128", "f8e5m2", "f8e4m3fn"};
  return one_of(choices, dtypes);
}

std::string odd_text(Choices& choices) {
  static const std::string texts[] = {"",
                                      std::string(1, '\0'),
                                      "\x1b[31m",
                                      "\xff\xfe",
                                      "../../x",
                                      "%",
                                      "a.b.c.d",
                                      "s0",
                                      "-1",
                                      "9223372036854775808",
                                      std::string(2000, 'a'),
                                      std::string(600, '('),
                                      std::string(300, '-') + "1",
                                      "s0*s0*s0*s0*s0*s0*s0*s0*s0*s0",
                                      "\xc3\xa4\xe2\x82\xac",
                                      "x\ny"};
  return one_of(choices, texts);
}

}  // namespace tenon::fuzz
