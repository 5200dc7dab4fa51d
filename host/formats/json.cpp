// JSON values: typed access with readable errors, and writing.
#include "formats/json.h"

#include "core/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tenon::formats {

const Json* Json::find(std::string_view name) const {
  const auto* object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  for (const JsonMember& member : *object)
    if (member.name == name) return &member.value;
  return nullptr;
}

namespace {

constexpr std::string_view kind_names[] = {"null",     "a boolean", "an integer", "a number",
                                           "a string", "a list",    "an object"};

// Bytes that are no UTF-8 become U+FFFD.
void append_escaped(std::string_view text, std::string& out) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (text[0] == '"' || text[0] == '\\') {
      out += '\\';
      out += text[0];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else if (length == 0) {
      out += "\uFFFD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

void append_real(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    char buffer[32];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    std::string_view text(buffer, static_cast<size_t>(end - buffer));
    out += text;
    // An integral double stays a double when it is read again.
    if (text.find_first_of(".e") == text.npos) out += ".0";
  }
}

void append(const Json& json, std::string& out);

struct Appender {
  std::string& out;
  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { append_real(value, out); }
  void operator()(const std::string& value) const { append_escaped(value, out); }
  void operator()(const Json::Array& array) const {
    std::string_view separator = "[";
    for (const Json& item : array) {
      out += std::exchange(separator, ",");
      append(item, out);
    }
    out += array.empty() ? "[]" : "]";
  }
  void operator()(const Json::Object& object) const {
    std::string_view separator = "{";
    for (const JsonMember& member : object) {
      out += std::exchange(separator, ",");
      append_escaped(member.name, out);
      out += ':';
      append(member.value, out);
    }
    out += object.empty() ? "{}" : "}";
  }
};

void append(const Json& json, std::string& out) { std::visit(Appender{out}, json.value()); }

// Appends the path from `from` to `to`, found by address, and tells whether it is there. Only
// messages need a path, so the search costs nothing until something fails.
bool append_path(const Json& from, const Json& to, std::string& path) {
  if (&from == &to) return true;
  const size_t length = path.size();
  if (const auto* array = std::get_if<Json::Array>(&from.value())) {
    for (size_t i = 0; i < array->size(); ++i) {
      path += "[" + std::to_string(i) + "]";
      if (append_path((*array)[i], to, path)) return true;
      path.resize(length);
    }
  } else if (const auto* object = std::get_if<Json::Object>(&from.value())) {
    for (const JsonMember& member : *object) {
      path += (path.empty() ? "" : ".") + printable(member.name);
      if (append_path(member.value, to, path)) return true;
      path.resize(length);
    }
  }
  return false;
}

}  // namespace

std::string Json::dump() const {
  std::string out;
  append(*this, out);
  return out;
}

std::string JsonView::place() const {
  std::string path;
  append_path(document_->root(), *json_, path);
  return path.empty() ? document_->subject() : document_->subject() + ": " + path;
}

void JsonView::fail_expected(std::string_view expected) const {
  std::string found(kind_names[json_->value().index()]);
  if (is_integer() || is_text()) found += " " + printable(json_->dump());
  fail(ErrorCode::bad_file, "{}: expected {}, found {}", place(), expected, found);
}

template <class T>
const T& JsonView::get(std::string_view expected) const {
  const T* value = std::get_if<T>(&json_->value());
  if (!value) fail_expected(expected);
  return *value;
}

bool JsonView::boolean() const { return get<bool>("a boolean"); }
int64_t JsonView::integer() const { return get<int64_t>("an integer"); }
const std::string& JsonView::text() const { return get<std::string>("a string"); }

double JsonView::real() const {
  if (is_integer()) return static_cast<double>(integer());
  if (is_text()) {
    if (text() == "Infinity") return std::numeric_limits<double>::infinity();
    if (text() == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text() == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return get<double>("a number");
}

uint32_t JsonView::number_below(size_t limit) const {
  const int64_t n = integer();
  require(n >= 0 && static_cast<size_t>(n) < limit && n <= UINT32_MAX, ErrorCode::bad_file,
          "{}: expected a number below {}, found {}", *this, limit, n);
  return static_cast<uint32_t>(n);
}

std::vector<uint32_t> JsonView::numbers_below(size_t limit) const {
  std::vector<uint32_t> numbers;
  for (const JsonView& item : items()) numbers.push_back(item.number_below(limit));
  return numbers;
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> views;
  const auto& array = get<Json::Array>("a list");
  views.reserve(array.size());
  for (const Json& item : array) views.emplace_back(item, *document_);
  return views;
}

std::vector<std::pair<std::string_view, JsonView>> JsonView::members() const {
  std::vector<std::pair<std::string_view, JsonView>> views;
  const auto& object = get<Json::Object>("an object");
  views.reserve(object.size());
  for (const JsonMember& member : object)
    views.emplace_back(member.name, JsonView(member.value, *document_));
  return views;
}

size_t JsonView::size() const {
  if (is_array()) return std::get<Json::Array>(json_->value()).size();
  return get<Json::Object>("a list or an object").size();
}

JsonView JsonView::field(std::string_view name) const {
  get<Json::Object>("an object");
  const Json* found = json_->find(name);
  require(found != nullptr, ErrorCode::bad_file, "{}: the member \"{}\" is missing", *this, name);
  return {*found, *document_};
}

std::optional<JsonView> JsonView::optional_field(std::string_view name) const {
  get<Json::Object>("an object");
  const Json* found = json_->find(name);
  if (!found || std::holds_alternative<std::monostate>(found->value())) return std::nullopt;
  return JsonView(*found, *document_);
}

std::pair<std::string_view, JsonView> JsonView::only_member() const {
  const auto& object = get<Json::Object>("an object with one member");
  require(object.size() == 1, ErrorCode::bad_file, "{}: expected exactly one member, found {}",
          *this, object.size());
  return {object[0].name, JsonView(object[0].value, *document_)};
}

}  // namespace tenon::formats
