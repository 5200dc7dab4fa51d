// Measures the shape of C++ code and checks it against the style: lengths of functions and files,
// files in a folder, methods of a class and the files that they are spread over.
//
//   code_shape [--longest N] SOURCE_DIR [FOLDER...]       FOLDER: default host plugin-api codegen
//   plugins
//
// Method: a tokenizer without preprocessing, and a stack of braces. What a brace opens is judged by
// the tokens in front of it: a namespace, a class, a function, a lambda that stands outside of
// functions (the cell of an op row), or an initialiser. The length of a function is the number of
// its lines that are not blank, without those of its braces; what is defined inside of it belongs
// to it. Methods are counted where they are defined outside of their class, in .cpp files; classes
// of equal names in different rooms are different.
//
// Exit status: 0 when everything holds, 1 when something does not, 2 for wrong usage.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr size_t most_median = 8, most_p90 = 30, most_file_lines = 500, most_folder_files = 40,
                 most_methods = 25, most_class_files = 3;

struct Token {
  std::string_view text;
  size_t line;
  bool is_word() const {
    return std::isalnum(static_cast<unsigned char>(text[0])) || text[0] == '_';
  }
};
using Tokens = std::vector<Token>;

/// Cuts a source into tokens; comments and preprocessor lines are left out, literals are one token.
class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::optional<Token> next() {
    while (at_ < text_.size()) {
      size_t begin = at_, line = line_;
      char c = text_[at_];
      if (c == '\n' || std::isspace(static_cast<unsigned char>(c))) {
        move_to(at_ + 1);
      } else if (starts("//") || (c == '#' && is_first_of_line(begin))) {
        move_to(end_of_line());
      } else if (starts("/*")) {
        move_to(after("*/", begin + 2));
      } else {
        move_to(end_of_token());
        return Token{text_.substr(begin, at_ - begin), line};
      }
    }
    return std::nullopt;
  }

 private:
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  void move_to(size_t end) {
    line_ +=
        static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                       text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  bool is_first_of_line(size_t at) const {
    size_t last = text_.find_last_not_of(" \t", at ? at - 1 : 0);
    return at == 0 || last == text_.npos || text_[last] == '\n';
  }

  // A backslash continues the line.
  size_t end_of_line() const {
    size_t end = text_.find('\n', at_);
    while (end != text_.npos && text_[end - 1] == '\\') end = text_.find('\n', end + 1);
    return std::min(end, text_.size());
  }

  size_t after(std::string_view mark, size_t from) const {
    size_t found = text_.find(mark, from);
    return found == text_.npos ? text_.size() : found + mark.size();
  }

  size_t end_of_literal(size_t quote) const {
    for (size_t i = quote + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\')
        ++i;
      else if (text_[i] == text_[quote] || text_[i] == '\n')
        return i + 1;
    }
    return text_.size();
  }

  // R"mark( ... )mark"
  size_t end_of_raw(size_t quote) const {
    size_t open = text_.find('(', quote);
    if (open == text_.npos) return text_.size();
    return after(")" + std::string(text_.substr(quote + 1, open - quote - 1)) + "\"", open);
  }

  size_t end_of_token() const {
    size_t end = at_;
    while (end < text_.size() && is_part_of_word(end)) ++end;
    bool is_quote = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
    if (is_quote && text_[end] == '"' && end > at_ && text_[end - 1] == 'R') return end_of_raw(end);
    if (is_quote && end - at_ <= 2) return end_of_literal(end);
    if (end > at_) return end;
    for (std::string_view pair : {"::", "->"})
      if (starts(pair)) return at_ + 2;
    return at_ + 1;
  }

  // Digits may be separated by quotes: 1'000.
  bool is_part_of_word(size_t at) const {
    auto word = [&](size_t i) {
      return i < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[i])) || text_[i] == '_');
    };
    bool in_number = at > at_ && std::isdigit(static_cast<unsigned char>(text_[at_]));
    return word(at) || (in_number && text_[at] == '\'' && word(at + 1));
  }

  std::string_view text_;
  size_t at_ = 0, line_ = 1;
};

enum class Opens { scope, function, initialiser };

/// What stands in front of a brace, and the function that it may open.
struct Head {
  Tokens tokens;

  Opens opens() const;
  std::string name() const;
  size_t line() const { return tokens.empty() ? 0 : tokens.front().line; }

 private:
  bool is_lambda() const;
  std::optional<size_t> parameters() const;
  size_t after_template() const;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

size_t Head::after_template() const {
  size_t i = 0;
  while (i < tokens.size() && tokens[i].text == "template") {
    int depth = 0;
    for (++i; i < tokens.size(); ++i) {
      depth += tokens[i].text == "<" ? 1 : tokens[i].text == ">" ? -1 : 0;
      if (depth == 0) break;
    }
    ++i;
  }
  return std::min(i, tokens.size());
}

// [..] {   [..](..) .. {   [..](..) -> T {
bool Head::is_lambda() const {
  int depth = 0;
  for (size_t i = tokens.size(); i-- > 0;) {
    std::string_view text = tokens[i].text;
    if (is_one_of(text, {")", "]"})) ++depth;
    if (is_one_of(text, {"(", "["}) && --depth < 0) return false;
    if (text == "[" && depth == 0 && tokens[i + 1].text == "[") return false;  // an attribute
    if (text == "[" && depth == 0)
      return i == 0 || is_one_of(tokens[i - 1].text, {"=", "(", ",", "return", "{", "["});
    if (depth == 0 && is_one_of(text, {";", "=", ","})) return false;
  }
  return false;
}

// Where the parameters of a function open: a name or an operator in front, no `=` before.
std::optional<size_t> Head::parameters() const {
  int depth = 0;
  for (size_t i = after_template(); i < tokens.size(); ++i) {
    std::string_view text = tokens[i].text;
    if (depth == 0 && text == "=" && (i == 0 || tokens[i - 1].text != "operator"))
      return std::nullopt;
    if (depth == 0 && text == "(" && i > 0) {
      std::string_view before = tokens[i - 1].text;
      bool names = tokens[i - 1].is_word() || before == ">" ||
                   (i > 1 && tokens[i - 2].text == "operator") ||
                   (i > 2 && tokens[i - 3].text == "operator");
      if (names &&
          !is_one_of(before, {"alignas", "decltype", "__attribute__", "explicit", "requires"}))
        return i;
    }
    depth += is_one_of(text, {"(", "["}) ? 1 : is_one_of(text, {")", "]"}) ? -1 : 0;
  }
  return std::nullopt;
}

Opens Head::opens() const {
  size_t first = after_template();
  if (first == tokens.size()) return Opens::initialiser;
  if (is_lambda()) return Opens::function;
  std::string_view word = tokens[first].text;
  bool is_namespace = word == "namespace" || (word == "inline" && tokens.size() > first + 1 &&
                                              tokens[first + 1].text == "namespace");
  if (is_namespace || (word == "extern" && tokens.size() == first + 2)) return Opens::scope;
  std::optional<size_t> open = parameters();
  for (size_t i = first; i < tokens.size() && (!open || i < *open); ++i)
    if (is_one_of(tokens[i].text, {"class", "struct", "union", "enum"}) && !open)
      return Opens::scope;
  if (!open) return Opens::initialiser;
  // Behind the parameters: a member initialiser's brace follows a name.
  int depth = 0;
  bool has_initialisers = false;
  for (size_t i = *open; i < tokens.size(); ++i) {
    depth += tokens[i].text == "(" ? 1 : tokens[i].text == ")" ? -1 : 0;
    has_initialisers |= depth == 0 && tokens[i].text == ":";
  }
  bool closed = is_one_of(tokens.back().text, {")", "}"});
  return depth != 0 || (has_initialisers && !closed) ? Opens::initialiser : Opens::function;
}

std::string Head::name() const {
  if (is_lambda()) return "[lambda]";
  std::optional<size_t> open = parameters();
  size_t i = *open - 1;
  std::string out(tokens[i].text);
  while (i > 0 && (is_one_of(tokens[i - 1].text, {"::", "~", "operator"}) ||
                   (tokens[i].text == "::" && tokens[i - 1].is_word())))
    out = std::string(tokens[--i].text) + out;
  return out;
}

struct Function {
  std::string file, name;
  size_t line, length;
};

struct File {
  std::string path;
  size_t lines = 0;
  std::vector<Function> functions;
};

/// The lines of a file that are not blank, up to each line.
std::vector<size_t> filled_lines(std::string_view text) {
  std::vector<size_t> sums{0};
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    bool filled = text.substr(at, end - at).find_first_not_of(" \t\r") != text.npos;
    sums.push_back(sums.back() + filled);
    at = end + 1;
  }
  return sums;
}

size_t length_between(const std::vector<size_t>& filled, size_t open, size_t close) {
  return open == close ? 1 : filled[close - 1] - filled[open];
}

/// Takes the tokens of one file and leaves its functions.
class Measure {
 public:
  Measure(std::string path, std::string_view text)
      : text_(text), filled_(filled_lines(text)), file_{std::move(path), filled_.size() - 1, {}} {}

  File run() {
    Tokenizer tokenizer(text_);
    while (std::optional<Token> token = tokenizer.next()) {
      if (token->text == "{")
        open(*token);
      else if (token->text == "}")
        close(*token);
      else if (!in_function_)
        add(*token);
    }
    return std::move(file_);
  }

 private:
  struct Brace {
    Opens opens;
    Head head;
    size_t line;
  };

  void open(const Token& token) {
    Opens opens = in_function_ ? Opens::function : head_.opens();
    if (opens == Opens::function) ++in_function_;
    braces_.push_back({opens, std::exchange(head_, {}), token.line});
  }

  void close(const Token& token) {
    head_ = {};
    if (braces_.empty()) return;
    Brace closed = std::move(braces_.back());
    braces_.pop_back();
    bool is_lambda = false;
    if (closed.opens == Opens::function) {
      if (--in_function_) return;
      size_t length = length_between(filled_, closed.line, token.line);
      file_.functions.push_back({file_.path, closed.head.name(), closed.head.line(), length});
      is_lambda = file_.functions.back().name == "[lambda]";
    }
    // An initialiser, and a lambda in one, are part of what stands around them.
    if (closed.opens != Opens::initialiser && !is_lambda) return;
    head_ = std::move(closed.head);
    head_.tokens.push_back(token);
  }

  void add(const Token& token) {
    bool is_access = token.text == ":" && head_.tokens.size() == 1 &&
                     is_one_of(head_.tokens[0].text, {"public", "private", "protected"});
    if (token.text == ";" || is_access)
      head_ = {};
    else
      head_.tokens.push_back(token);
  }

  std::string_view text_;
  std::vector<size_t> filled_;
  File file_;
  std::vector<Brace> braces_;
  size_t in_function_ = 0;  // braces open inside of one, its own included
  Head head_;
};

File measure(const fs::path& root, const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::string content = text.str();
  return Measure(path.lexically_relative(root).generic_string(), content).run();
}

size_t quantile(std::vector<size_t> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  size_t at = static_cast<size_t>(part * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

/// "host/core" of "host/core/sym/a.cpp": where classes of one name are one class.
std::string room_of(const std::string& path) {
  size_t second = path.find('/', path.find('/') + 1);
  return path.substr(0, second);
}

struct Class {
  size_t methods = 0;
  std::set<std::string> files;
};

/// All files, and what of them breaks a rule.
struct Shape {
  std::vector<File> files;
  int problems = 0;

  void report(size_t n_longest);

 private:
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++problems;
    std::printf("%s\n", what.c_str());
  }
  std::vector<Function> functions() const;
  void check_functions(size_t n_longest);
  void check_files();
  void check_folders();
  void check_classes();
};

std::string at_most(const std::string& subject, size_t found, const char* unit, size_t most) {
  return subject + " has " + std::to_string(found) + " " + unit + ", expected at most " +
         std::to_string(most);
}

std::vector<Function> Shape::functions() const {
  std::vector<Function> all;
  for (const File& file : files)
    for (const Function& function : file.functions)
      if (function.length) all.push_back(function);
  return all;
}

void Shape::check_functions(size_t n_longest) {
  std::vector<Function> all = functions();
  std::vector<size_t> lengths;
  for (const Function& function : all) lengths.push_back(function.length);
  size_t median = quantile(lengths, 0.5), p90 = quantile(lengths, 0.9);
  std::printf("%zu functions: median %zu, p90 %zu, p99 %zu, longest %zu lines\n", all.size(),
              median, p90, quantile(lengths, 0.99), quantile(lengths, 1));
  expect(median <= most_median,
         at_most("the median of the functions", median, "lines", most_median));
  expect(p90 <= most_p90, at_most("p90 of the functions", p90, "lines", most_p90));
  std::stable_sort(all.begin(), all.end(),
                   [](const Function& a, const Function& b) { return a.length > b.length; });
  for (size_t i = 0; i < std::min(n_longest, all.size()); ++i)
    std::printf("%5zu  %s:%zu %s\n", all[i].length, all[i].file.c_str(), all[i].line,
                all[i].name.c_str());
}

void Shape::check_files() {
  size_t lines = 0, longest = 0;
  for (const File& file : files) {
    lines += file.lines;
    longest = std::max(longest, file.lines);
    expect(file.lines <= most_file_lines, at_most(file.path, file.lines, "lines", most_file_lines));
  }
  std::printf("%zu files: %zu lines, longest %zu\n", files.size(), lines, longest);
}

void Shape::check_folders() {
  std::map<std::string, size_t> folders;
  size_t fullest = 0;
  for (const File& file : files) ++folders[fs::path(file.path).parent_path().generic_string()];
  for (const auto& [folder, n] : folders) {
    fullest = std::max(fullest, n);
    expect(n <= most_folder_files, at_most(folder, n, "files", most_folder_files));
  }
  std::printf("%zu folders: fullest %zu files\n", folders.size(), fullest);
}

void Shape::check_classes() {
  std::map<std::string, Class> classes;
  for (const Function& function : functions()) {
    size_t colons = function.name.rfind("::");
    if (colons == std::string::npos || !function.file.ends_with(".cpp")) continue;
    Class& owner = classes[room_of(function.file) + " " + function.name.substr(0, colons)];
    ++owner.methods;
    owner.files.insert(function.file);
  }
  size_t largest = 0;
  for (const auto& [name, found] : classes) {
    largest = std::max(largest, found.methods);
    expect(found.methods <= most_methods, at_most(name, found.methods, "methods", most_methods));
    expect(found.files.size() <= most_class_files,
           at_most(name, found.files.size(), "files", most_class_files));
  }
  std::printf("%zu classes with methods in .cpp files: largest %zu methods\n", classes.size(),
              largest);
}

void Shape::report(size_t n_longest) {
  check_functions(n_longest);
  check_files();
  check_folders();
  check_classes();
  std::printf("%d rules broken\n", problems);
}

bool is_source(const fs::path& path) {
  std::string extension = path.extension().string();
  return is_one_of(extension, {".h", ".hpp", ".cpp", ".c", ".inc", ".def"});
}

std::vector<File> files_below(const fs::path& root, const std::vector<std::string>& folders) {
  std::vector<File> files;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && is_source(entry.path()))
        files.push_back(measure(root, entry.path()));
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  size_t n_longest = 0;
  if (arguments.size() >= 2 && arguments[0] == "--longest") {
    n_longest = std::strtoul(arguments[1].c_str(), nullptr, 10);
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  if (arguments.empty() || !fs::is_directory(arguments[0])) {
    std::fprintf(stderr, "usage: code_shape [--longest N] SOURCE_DIR [FOLDER...]\n");
    return 2;
  }
  fs::path root = fs::canonical(arguments[0]);
  arguments.erase(arguments.begin());
  if (arguments.empty()) arguments = {"host", "plugin-api", "codegen", "plugins"};
  Shape shape{files_below(root, arguments)};
  if (shape.files.empty()) {
    std::fprintf(stderr, "code_shape: there are no C++ files in %s\n", root.c_str());
    return 2;
  }
  shape.report(n_longest);
  return shape.problems == 0 ? 0 : 1;
}
