// Text, tables and JSON to stdout, messages to stderr.
#include "cli/output.h"

#include <tenon/error.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace tenon::cli {

namespace {

bool color_on = false;

// Characters of UTF-8 text: its bytes but for the continuations.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& document) {
  print(document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_message(std::string_view text) {
  std::fflush(stdout);
  std::fprintf(stderr, "tenon: %.*s\n", static_cast<int>(text.size()), text.data());
}

void write_output(const std::string& path, std::string_view text) {
  if (path.empty() || path == "-") return print(text);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  require(file.good(), ErrorCode::bad_file, "{}: cannot be written; does its folder exist?", path);
}

void set_color(std::string_view mode) {
  const char* refused = std::getenv("NO_COLOR");
  bool terminal = isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
  color_on = mode == "always" || (mode == "auto" && terminal);
}

std::string bold(std::string_view text) {
  return color_on ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
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
