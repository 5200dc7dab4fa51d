// The only file that sees the TOML library: copies its trees into ours.
#include "config/toml.h"

#include "config/toml_nesting.h"

// Some of the library's assertions fail for bad input, such as "[[[", about which it throws a few
// lines further down: in debug builds too, a bad file is to be an error and no abort.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tenon::config {

FileError::FileError(std::string_view file, uint32_t line, uint32_t column, std::string_view what)
    : UserError(ErrorCode::config, line ? message("{}:{}:{}: {}", file, line, column, what)
                                        : message("{}: {}", file, what)),
      file_(file),
      line_(line),
      column_(column) {}

const TomlNode* TomlNode::find(std::string_view name) const {
  for (const auto& [key, node] : members) {
    if (key == name) return &node;
  }
  return nullptr;
}

namespace {

TomlNode copy(const toml::node& node) {
  TomlNode out;
  out.line = node.source().begin.line;
  out.column = node.source().begin.column;
  if (const auto* table = node.as_table()) {
    out.kind = TomlNode::Kind::table;
    for (const auto& [key, member] : *table) {
      TomlNode child = copy(member);
      // The place of the key is what a reader looks for.
      child.line = key.source().begin.line;
      child.column = key.source().begin.column;
      out.members.push_back({std::string(key.str()), std::move(child)});
    }
  } else if (const auto* array = node.as_array()) {
    out.kind = TomlNode::Kind::array;
    for (const auto& item : *array) out.items.push_back(copy(item));
  } else if (const auto* flag = node.as_boolean()) {
    out.kind = TomlNode::Kind::boolean;
    out.boolean = flag->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = TomlNode::Kind::integer;
    out.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.kind = TomlNode::Kind::floating;
    out.floating = number->get();
  } else if (const auto* text = node.as_string()) {
    out.kind = TomlNode::Kind::text;
    out.text = text->get();
  } else {
    out.kind = TomlNode::Kind::date;
  }
  return out;
}

}  // namespace

TomlNode parse_toml(std::string_view text, std::string_view source) {
  check_toml_nesting(text, source);
  try {
    return copy(toml::parse(text, source));
  } catch (const toml::parse_error& error) {
    toml::source_position at = error.source().begin;
    throw FileError(source, at.line, at.column,
                    message("this is not TOML: {}", error.description()));
  }
}

std::string read_toml_file(const std::string& path) {
  constexpr size_t limit = 1 << 20;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                       &std::fclose);
  if (!file) throw FileError(path, 0, 0, message("cannot be opened: {}", std::strerror(errno)));
  std::string text(limit + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()))
    throw FileError(path, 0, 0, message("cannot be read: {}", std::strerror(errno)));
  if (text.size() > limit)
    throw FileError(path, 0, 0, "is larger than 1 MiB, which no configuration file needs to be");
  return text;
}

}  // namespace tenon::config
