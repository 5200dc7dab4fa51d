// Setting a flag in a text.
//
// Problem. People write these files: with comments, several lines to a list, tables as headers or
// as dots in the keys. A tree that is written anew loses all of that, and lines alone do not show
// what is a key and what stands inside a string.
//
// Method. The parser has accepted the text, so one pass over its statements finds the places:
// headers, keys and values; names are left to the parser, which is given one key at a time. The
// text is then changed in one place, and the parser has the last word.
#include "config/setting_text.h"

#include "config/flag_def.h"
#include "config/toml.h"
#include "config/toml_strings.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tenon::config {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::string_view blanks = " \t\r";

using Path = std::vector<std::string>;

// The names in a key such as `a."b.c"`, by the parser.
Path path_of(std::string_view key) {
  TomlNode root = parse_toml(std::string(key) + " = 0", "a key");
  Path path;
  for (const TomlNode* at = &root; !at->members.empty(); at = &at->members.front().node)
    path.push_back(at->members.front().name);
  return path;
}

struct SettingPlace {
  std::string name;
  size_t begin, end;  // of the value
};

/// Where a flag of the module is, or can be put.
struct Places {
  std::vector<SettingPlace> settings;    // of the module
  std::optional<size_t> behind_comment;  // of the flag, in its table
  std::optional<size_t> in_table;        // the end of what is written in [module]
  std::optional<size_t> behind_dotted;   // the end of the last line `module.x = ...`
  std::optional<size_t> in_braces;       // behind the { of `module = {...}`
};

class PlaceScanner {
 public:
  PlaceScanner(std::string_view text, const std::string& module, const std::string& name)
      : text_(text), module_(module), name_(name) {
    if (text_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  Places run() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) {
      if (text_[at_] == '#')
        read_comment();
      else if (text_[at_] == '[')
        read_header();
      else
        read_statement();
    }
    return std::move(places_);
  }

 private:
  enum class Where : uint8_t { root, in_module, elsewhere };

  char here() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_blank() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  // Behind the line break, or the end of the text.
  size_t end_of_line() const { return std::min(text_.find('\n', at_), text_.size() - 1) + 1; }
  void end_line() {
    at_ = end_of_line();
    if (where_ == Where::in_module) places_.in_table = at_;
  }
  bool is_quote() const { return here() == '"' || here() == '\''; }
  void step() { at_ = is_quote() ? end_of_toml_string(text_, at_) : at_ + 1; }

  // "# name = 8", as `config write` writes it.
  void read_comment() {
    std::string line(text_.substr(at_, end_of_line() - at_));
    std::erase_if(line, [](char c) { return blanks.find(c) != blanks.npos; });
    bool tells = where_ == Where::in_module && line.starts_with("#" + name_ + "=");
    end_line();
    if (tells) places_.behind_comment = at_;
  }

  void read_header() {
    bool is_array = text_.substr(at_).starts_with("[[");
    at_ += is_array ? 2 : 1;
    size_t begin = at_;
    while (here() != ']') step();
    bool ours = !is_array && path_of(text_.substr(begin, at_ - begin)) == Path{module_};
    where_ = ours ? Where::in_module : Where::elsewhere;
    end_line();
  }

  Path read_key() {
    size_t begin = at_;
    while (here() != '=') step();
    Path path = path_of(text_.substr(begin, at_ - begin));
    ++at_;
    return path;
  }

  // The value, without the blanks around it; a comma ends it inside of braces.
  SettingPlace read_value(const std::string& name, bool in_braces) {
    at_ = text_.find_first_not_of(" \t", at_);
    size_t begin = at_, end = at_;
    for (int depth = 0; at_ < text_.size();) {
      char c = here();
      if (depth == 0 && (c == '#' || c == '\n' || c == '}' || (in_braces && c == ','))) break;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      if (c == '#')
        at_ = end_of_line();
      else
        step();
      if (blanks.find(c) == blanks.npos) end = at_;
    }
    return {name, begin, end};
  }

  void read_statement() {
    Path path = read_key();
    if (where_ == Where::root && path == Path{module_}) return read_braces();
    bool dotted = where_ == Where::root && path.size() == 2 && path[0] == module_;
    bool ours = dotted || (where_ == Where::in_module && path.size() == 1);
    SettingPlace setting = read_value(path.back(), false);
    if (ours) places_.settings.push_back(std::move(setting));
    end_line();
    if (dotted) places_.behind_dotted = at_;
  }

  void read_braces() {
    at_ = text_.find_first_not_of(" \t", at_);
    if (here() != '{') return static_cast<void>(read_value(module_, false)), end_line();
    places_.in_braces = ++at_;
    for (skip_blank(); here() != '}'; skip_blank()) {
      Path path = read_key();
      SettingPlace setting = read_value(path.back(), true);
      if (path.size() == 1) places_.settings.push_back(std::move(setting));
      if (here() == ',') ++at_;
    }
    end_line();
  }

  std::string_view text_;
  const std::string &module_, &name_;
  size_t at_ = 0;
  Where where_ = Where::root;
  Places places_;
};

bool is_same_flag(const std::string& module, const std::string& name, const std::string& other) {
  return other == name || target_of(module + "." + other) == module + "." + name;
}

// A line of its own at `at`, which is behind a line break or at the end of a text that lacks it.
void insert_line(std::string& text, size_t at, const std::string& line) {
  std::string_view line_end = text.find("\r\n") == text.npos ? "\n" : "\r\n";
  std::string inserted = line + std::string(line_end);
  bool breaks = at == 0 || text[at - 1] == '\n' || text == byte_order_mark;
  text.insert(at, breaks ? inserted : std::string(line_end) + inserted);
}

std::string changed(std::string text, const Places& places, const std::string& module,
                    const std::string& name, const std::string& value) {
  auto known = std::ranges::find_if(
      places.settings, [&](const SettingPlace& s) { return is_same_flag(module, name, s.name); });
  std::string line = name + " = " + value;
  if (known != places.settings.end()) {
    text.replace(known->begin, known->end - known->begin, value);
  } else if (places.behind_comment) {
    insert_line(text, *places.behind_comment, line);
  } else if (places.in_table) {
    insert_line(text, *places.in_table, line);
  } else if (places.behind_dotted) {
    insert_line(text, *places.behind_dotted, module + "." + line);
  } else if (places.in_braces) {
    text.insert(*places.in_braces, " " + line + (places.settings.empty() ? " " : ","));
  } else {
    insert_line(text, text.size(), "[" + module + "]");
    insert_line(text, text.size(), line);
  }
  return text;
}

[[noreturn]] void refuse(const std::string& source, const std::string& key, std::string_view why) {
  throw FileError(source, 0, 0,
                  message("{} cannot be set: the file {}; change it by hand", key, why));
}

TomlNode parse_changed(const std::string& text, const std::string& source, const std::string& key) {
  try {
    return parse_toml(text, source);
  } catch (const FileError&) {  // which names lines that the file does not have
    refuse(source, key, "has a form that is not changed here");
  }
}

// A flag that is set twice under two names makes the file unreadable.
void require_set_once(const TomlNode& root, const std::string& source, const std::string& module,
                      const std::string& name) {
  const TomlNode* table = root.find(module);
  std::vector<std::string> names;
  for (size_t i = 0; table && i < table->members.size(); ++i)
    if (is_same_flag(module, name, table->members[i].name)) names.push_back(table->members[i].name);
  if (names.size() > 1)
    refuse(source, module + "." + name,
           message("sets it under two names, {} and {}", names[0], names[1]));
  if (names.empty()) refuse(source, module + "." + name, "has a form that is not changed here");
}

}  // namespace

std::string with_setting(const std::string& text, const std::string& source,
                         const std::string& module, const std::string& name,
                         const std::string& value) {
  static_cast<void>(parse_toml(text, source));
  std::string after = changed(text, PlaceScanner(text, module, name).run(), module, name, value);
  TomlNode root = parse_changed(after, source, module + "." + name);
  require_set_once(root, source, module, name);
  return after;
}

}  // namespace tenon::config
