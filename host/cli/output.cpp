// Text, tables and JSON to stdout, messages to stderr.
#include "cli/output.h"

#include "cli/terminal/progress.h"
#include "core/utf8.h"
#include "formats/byte_reader.h"

#include <tenon/error.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tenon::cli {

namespace {

bool color_on = false;

// Characters of UTF-8 text: its bytes but for the continuations.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

namespace {

constexpr std::string_view bold_on = "\x1b[1m", bold_off = "\x1b[0m";

void write_raw(std::string_view text) {
  clear_progress();
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// Only bold() steers the terminal; what else does came out of a file.
std::string without_steering(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t escape = std::min(text.find('\x1b'), text.size());
    out += shown(text.substr(0, escape));
    text.remove_prefix(escape);
    bool ours = text.starts_with(bold_on) || text.starts_with(bold_off);
    if (ours) out += text.substr(0, bold_on.size());
    if (!ours && !text.empty()) out += '?';
    text.remove_prefix(std::min(ours ? bold_on.size() : 1, text.size()));
  }
  return out;
}

// Of a well-formed sequence of two or three bytes.
unsigned code_point(std::string_view character) {
  unsigned first = static_cast<unsigned char>(character[0]);
  unsigned code = first & (character.size() == 2 ? 0x1Fu : 0x0Fu);
  for (char byte : character.substr(1)) code = code << 6 | (static_cast<unsigned>(byte) & 0x3Fu);
  return code;
}

// JSON escapes controls, but takes those of bidirectional text for letters.
std::string with_escapes(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    size_t length = std::max<size_t>(utf8_sequence(json), 1);
    std::string_view character = json.substr(0, length);
    if (length > 1 && is_steering(character))
      out += message("\\u{:04x}", code_point(character));
    else
      out += character;
    json.remove_prefix(length);
  }
  return out;
}

}  // namespace

void print(std::string_view text) { write_raw(without_steering(text)); }

void print_json(const Json& document) { write_raw(with_escapes(document.dump_lines()) + "\n"); }

// Allocates nothing: the message may be that there is no memory.
void print_message(std::string_view text) {
  clear_progress();
  std::fflush(stdout);
  std::fputs("tenon: ", stderr);
  while (!text.empty()) {
    size_t length = utf8_sequence(text);
    std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    bool hidden = length == 0 || is_steering(character);
    std::fwrite(hidden ? "?" : character.data(), 1, hidden ? 1 : character.size(), stderr);
    text.remove_prefix(character.size());
  }
  std::fputs("\n", stderr);
}

void write_output(const std::string& path, std::string_view text) {
  if (path.empty() || path == "-") return write_raw(text);
  formats::write_file(path, [&](std::ostream& out) {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  });
}

void set_color(std::string_view mode) {
  const char* refused = std::getenv("NO_COLOR");
  bool terminal = isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
  color_on = mode == "always" || (mode == "auto" && terminal);
}

std::string bold(std::string_view text) {
  if (!color_on) return std::string(text);
  return std::string(bold_on).append(text).append(bold_off);
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      if (i > 0) line += "  ";
      line += rows_[r][i];
      if (i + 1 < rows_[r].size()) line.append(widths[i] - width_of(rows_[r][i]), ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += (r == 0 ? bold(line) : line) + "\n";
  }
  return out;
}

}  // namespace tenon::cli
