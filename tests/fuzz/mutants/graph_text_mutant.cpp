// Words and lines of graph texts, and what is done to them.
#include "mutants/graph_text_mutant.h"

#include "mutants/words.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

namespace tenon::fuzz {

namespace {

using Words = std::vector<std::string>;

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' ||
         c == '@';
}

/// Names and numbers, and each other sign by itself: together they are the text again.
Words words_of(std::string_view text) {
  Words out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (is_of_word(text[i]) && end < text.size() && is_of_word(text[end])) ++end;
    out.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return out;
}

bool is_number(const std::string& word) {
  return std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') == word.npos;
}
bool is_real(const std::string& word) {
  return std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != word.npos;
}
bool is_value(const std::string& word) { return word[0] == '%' && word.size() > 1; }
bool is_op(const std::string& word) {
  return std::ranges::count(word, '.') == 2 && !is_value(word);
}
bool is_dtype(const std::string& word) {
  static constexpr std::string_view dtypes[] = {"u8",  "i8",   "i16", "i32", "i64",
                                                "f16", "bf16", "f32", "f64", "bool"};
  return std::ranges::find(dtypes, word) != std::end(dtypes);
}

using Test = bool (*)(const std::string&);

/// Null where no word is of that kind.
std::string* one_where(Words& words, Choices& choices, Test holds) {
  if (words.empty()) return nullptr;
  size_t first = choices.below(static_cast<uint32_t>(words.size()));
  for (size_t i = 0; i < words.size(); ++i)
    if (std::string& word = words[(first + i) % words.size()]; holds(word)) return &word;
  return nullptr;
}

void change_number(Words& words, Choices& choices) {
  if (std::string* word = one_where(words, choices, is_number))
    *word = std::to_string(some_number(choices));
}

void change_everywhere(Words& words, Choices& choices, Test holds, const std::string& other) {
  std::string* word = one_where(words, choices, holds);
  if (word) std::ranges::replace(words, std::string(*word), other);
}

void change_number_everywhere(Words& words, Choices& choices) {
  change_everywhere(words, choices, is_number, std::to_string(some_number(choices)));
}

void change_dtype_everywhere(Words& words, Choices& choices) {
  change_everywhere(words, choices, is_dtype, std::string(some_dtype(choices)));
}

void change_dtype(Words& words, Choices& choices) {
  if (std::string* word = one_where(words, choices, is_dtype)) *word = some_dtype(choices);
}

void change_real(Words& words, Choices& choices) {
  if (std::string* word = one_where(words, choices, is_real))
    *word = std::to_string(some_real(choices));
}

void change_op(Words& words, Choices& choices) {
  if (std::string* word = one_where(words, choices, is_op)) *word = some_op(choices);
}

void change_value(Words& words, Choices& choices) {
  std::string *word = one_where(words, choices, is_value),
              *other = one_where(words, choices, is_value);
  if (word) *word = std::string(*other);
}

void add_property(Words& words, Choices& choices) {
  static const std::string properties[] = {" strides [0, 1]",
                                           " strides [1, 4]",
                                           " strides [-1, 1]",
                                           " offset 1",
                                           " offset -1",
                                           " alias 1",
                                           " alias 2",
                                           " mutated",
                                           " parameter",
                                           " buffer",
                                           " requires_grad",
                                           " static_address",
                                           " internal",
                                           " user_output",
                                           " on cuda:0",
                                           " on meta",
                                           " tangent",
                                           " saved",
                                           " strides [1]",
                                           " wrapped",
                                           " strides [9223372036854775807]",
                                           " offset 4611686018427387904"};
  std::string* word = one_where(words, choices, [](const std::string& w) { return w == "]"; });
  if (word) *word += one_of(choices, properties);
}

void change_list(Words& words, Choices& choices) {
  std::string* word = one_where(words, choices, [](const std::string& w) { return w == ","; });
  std::string* end = one_where(words, choices, [](const std::string& w) { return w == "]"; });
  if (word && choices.below(2) == 0)
    *word += " " + std::to_string(some_number(choices)) + ",";
  else if (end)
    *end = ", " + std::to_string(some_number(choices)) + "]";
}

void change_sign(Words& words, Choices& choices) {
  static const std::string signs[] = {"[",    "]",   "(",  ")",  ",", "=",        ":",
                                      "{",    "}",   "-",  "\n", "*", "//",       "none",
                                      "true", "inf", "[]", "s0", "%", "undefined"};
  if (!words.empty()) one_of(choices, words) = one_of(choices, signs);
}

void change_word(Words& words, Choices& choices) {
  if (words.empty()) return;
  std::string& word = one_of(choices, words);
  word = choices.below(3) == 0 ? odd_text(choices) : std::string(one_of(choices, words));
}

void change_lines(Words& words, Choices& choices) {
  std::vector<Words> lines(1);
  for (std::string& word : words) {
    lines.back().push_back(word);
    if (word == "\n") lines.emplace_back();
  }
  size_t at = choices.below(static_cast<uint32_t>(lines.size()));
  Words line = lines[at];
  switch (choices.below(4)) {
    case 0:
      lines.erase(lines.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<ptrdiff_t>(at), line);
      break;
    default:
      std::swap(lines[at], one_of(choices, lines));
  }
  words.clear();
  for (const Words& part : lines) words.insert(words.end(), part.begin(), part.end());
}

}  // namespace

std::string graph_text_mutant(std::string_view text, Choices& choices) {
  using Change = void (*)(Words&, Choices&);
  static constexpr Change changes[] = {change_number,
                                       change_number,
                                       change_number_everywhere,
                                       change_number_everywhere,
                                       change_dtype,
                                       change_dtype_everywhere,
                                       change_real,
                                       change_op,
                                       change_op,
                                       change_op,
                                       change_value,
                                       change_value,
                                       add_property,
                                       change_list,
                                       change_sign,
                                       change_word,
                                       change_lines,
                                       change_lines};
  static constexpr uint32_t counts[] = {1, 1, 1, 2, 2, 3};
  Words words = words_of(text);
  for (uint32_t n = one_of(choices, counts); n > 0; --n) one_of(choices, changes)(words, choices);
  std::string out;
  for (const std::string& word : words) out += word;
  return out;
}

}  // namespace tenon::fuzz
