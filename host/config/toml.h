// TOML texts as plain trees, with the line and column of each value.
#pragma once

#include "core/error.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::config {

/// An error inside a TOML file: UserError ConfigError that knows the place. The program ends with
/// exit status 3 for it, with 2 for every other ConfigError.
class FileError : public UserError {
 public:
  FileError(std::string_view file, uint32_t line, uint32_t column, std::string_view what);
  const std::string& file() const { return file_; }
  uint32_t line() const { return line_; }
  uint32_t column() const { return column_; }

 private:
  std::string file_;
  uint32_t line_;
  uint32_t column_;
};

struct TomlMember;

struct TomlNode {
  enum class Kind : uint8_t { boolean, integer, floating, text, date, array, table };

  Kind kind = Kind::table;
  bool boolean = false;
  int64_t integer = 0;
  double floating = 0;
  std::string text;
  std::vector<TomlNode> items;      ///< of an array
  std::vector<TomlMember> members;  ///< of a table, sorted by name
  uint32_t line = 0;
  uint32_t column = 0;

  /// The member of that name, or null.
  const TomlNode* find(std::string_view name) const;
};

struct TomlMember {
  std::string name;
  TomlNode node;
};

/// The table at the top of `text`. `source` names it in messages. Throws FileError.
TomlNode parse_toml(std::string_view text, std::string_view source);

/// The text of a file of at most 1 MiB; throws FileError if it cannot be read or is larger.
std::string read_toml_file(const std::string& path);

}  // namespace tenon::config
