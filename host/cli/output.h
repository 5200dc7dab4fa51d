// What verbs write: text, tables and JSON to stdout, messages to stderr.
#pragma once

#include "formats/json.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::cli {

using formats::Json;

/// Writes to stdout as it is.
void print(std::string_view text);
/// One document and a newline; bytes that are not UTF-8 are replaced.
void print_json(const Json& document);
/// "tenon: text" on stderr.
void print_message(std::string_view text);
/// Writes `text` to a file, or to stdout where `path` is empty or "-". Throws UserError bad_file.
void write_output(const std::string& path, std::string_view text);

/// Whether stdout takes colours: --color, NO_COLOR and whether it is a terminal decide.
void set_color(std::string_view mode);
/// `text` in bold where colours are on.
std::string bold(std::string_view text);

/// Columns as wide as their widest cell; the last one is free.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  size_t size() const { return rows_.size() - 1; }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tenon::cli
