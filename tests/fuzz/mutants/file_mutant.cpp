// Parts and fields of files, and what is done to them.
#include "mutants/file_mutant.h"

#include "formats/zip.h"
#include "harness/fuzz.h"
#include "mutants/graph_text_mutant.h"
#include "mutants/json_mutant.h"
#include "mutants/words.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sstream>

namespace tenon::fuzz {

namespace {

using Parts = std::vector<std::pair<std::string, std::string>>;

Parts parts_of(std::string_view text) {
  Parts out;
  for (const auto& [name, content] : records_of(text)) out.emplace_back(name, std::string(content));
  return out;
}

std::string text_of(const Parts& parts) {
  std::string out;
  for (const auto& [name, content] : parts) {
    if (!out.empty()) out += '\n';
    out += "=== " + name + "\n" + content;
  }
  return out;
}

void mutate_content(std::string& content, Choices& choices) {
  if (content.starts_with('{') || content.starts_with('['))
    content = json_mutant(content, choices);
  else if (content.starts_with("tng"))
    content = graph_text_mutant(content, choices);
  else
    content = choices.below(2) == 0 ? std::to_string(some_number(choices)) : odd_text(choices);
}

// The larger a part, the more there is to change.
std::string& part_by_size(Parts& parts, Choices& choices) {
  size_t all = 0;
  for (const auto& [name, content] : parts) all += content.size() + 20;
  size_t at = choices.below(65536) * all / 65536;
  for (auto& [name, content] : parts) {
    if (at < content.size() + 20) return content;
    at -= content.size() + 20;
  }
  return parts.back().second;
}

void change_parts(Parts& parts, Choices& choices) {
  size_t at = choices.below(static_cast<uint32_t>(parts.size()));
  auto part = parts[at];
  switch (choices.below(4)) {
    case 0:
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(at));
      return;
    case 1:
      parts.push_back(part);
      return;
    case 2:
      parts[at].first = choices.below(2) == 0 ? one_of(choices, parts).first : part.first + "0";
      return;
    default:
      parts[at].second = std::string(one_of(choices, parts).second);
  }
}

/// Where a header of a zip file begins: anything that starts with "PK" and two small bytes.
std::vector<size_t> headers_in(std::string_view archive) {
  std::vector<size_t> out;
  for (size_t at = archive.find("PK"); at != archive.npos; at = archive.find("PK", at + 1))
    if (at + 4 <= archive.size() && archive[at + 2] < 9) out.push_back(at);
  return out;
}

void put_number(std::string& file, size_t at, size_t width, int64_t number) {
  if (at >= file.size()) return;
  std::memcpy(file.data() + at, &number, std::min(width, file.size() - at));
}

void change_bytes(std::string& file, size_t at, Choices& choices) {
  static constexpr size_t widths[] = {1, 2, 2, 4, 4, 8};
  switch (choices.below(8)) {
    case 0:
      file.resize(at);
      return;
    case 1:
      file.erase(at, 1 + choices.below(16));
      return;
    case 2:
      file.insert(at, 1 + choices.below(16), static_cast<char>(choices.below(256)));
      return;
    default:
      put_number(file, at, one_of(choices, widths), some_number(choices));
  }
}

}  // namespace

std::string records_mutant(std::string_view text, Choices& choices) {
  Parts parts = parts_of(text);
  if (parts.empty()) return std::string(text);
  if (choices.one_in(16))
    change_parts(parts, choices);
  else
    mutate_content(part_by_size(parts, choices), choices);
  return text_of(parts);
}

std::string zip_mutant(std::string_view text, Choices& choices) {
  std::ostringstream out;
  formats::ZipWriter zip(out);
  for (const auto& [name, content] : records_of(text))
    zip.add("m/" + name, formats::as_byte_span(content));
  zip.finish();
  std::string archive = out.str();
  for (uint32_t n = 1 + choices.below(3); n > 0 && !archive.empty(); --n) {
    std::vector<size_t> headers = headers_in(archive);
    if (headers.empty()) break;
    size_t at = one_of(choices, headers) + choices.below(56);
    change_bytes(archive, std::min(at, archive.size() - 1), choices);
  }
  return archive;
}

std::string safetensors_mutant(std::string_view file, Choices& choices) {
  uint64_t length = 0;
  if (file.size() < 8 || choices.one_in(12)) return bytes_mutant(file, choices);
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8) return bytes_mutant(file, choices);
  std::string header = json_mutant(file.substr(8, length), choices);
  std::string_view data = file.substr(8 + length);
  length = choices.one_in(12) ? static_cast<uint64_t>(some_number(choices)) : header.size();
  std::string out(reinterpret_cast<const char*>(&length), 8);
  return out.append(header).append(data);
}

std::string bytes_mutant(std::string_view file, Choices& choices) {
  std::string out(file);
  for (uint32_t n = 1 + choices.below(3); n > 0 && !out.empty(); --n)
    change_bytes(out, choices.below(static_cast<uint32_t>(std::min<size_t>(out.size(), 65536))),
                 choices);
  return out;
}

}  // namespace tenon::fuzz
