// JSON values: typed access with readable errors, and writing.
#include "formats/json.h"

#include "core/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tenon::formats {

Json::Json(std::initializer_list<JsonMember> members) : value_(Object(members)) {}

bool Json::boolean(bool fallback) const {
  const bool* value = std::get_if<bool>(&value_);
  return value ? *value : fallback;
}

int64_t Json::integer(int64_t fallback) const {
  const int64_t* value = std::get_if<int64_t>(&value_);
  return value ? *value : fallback;
}

double Json::number(double fallback) const {
  if (holds<int64_t>()) return static_cast<double>(integer());
  const double* value = std::get_if<double>(&value_);
  return value ? *value : fallback;
}

namespace {

template <class T>
const T& value_or_empty(const Json::Value& value) {
  static const T empty;
  const T* found = std::get_if<T>(&value);
  return found ? *found : empty;
}

template <class T>
T& value_or_new(Json::Value& value) {
  if (std::holds_alternative<std::monostate>(value)) value = T();
  return std::get<T>(value);
}

}  // namespace

const std::string& Json::text() const { return value_or_empty<std::string>(value_); }
const Json::Array& Json::items() const { return value_or_empty<Array>(value_); }
const Json::Object& Json::members() const { return value_or_empty<Object>(value_); }
Json::Array& Json::items() { return value_or_new<Array>(value_); }
Json::Object& Json::members() { return value_or_new<Object>(value_); }

const Json* Json::find(std::string_view name) const {
  for (const JsonMember& member : members())
    if (member.name == name) return &member.value;
  return nullptr;
}

const Json& Json::operator[](std::string_view name) const {
  static const Json null;
  const Json* found = find(name);
  return found ? *found : null;
}

Json& Json::operator[](std::string_view name) {
  for (JsonMember& member : members())
    if (member.name == name) return member.value;
  return members().emplace_back(std::string(name), Json()).value;
}

void Json::update(const Json& other) {
  for (const JsonMember& member : other.members()) (*this)[member.name] = member.value;
}

namespace {

constexpr std::string_view kind_names[] = {"null",     "a boolean", "an integer", "a number",
                                           "a string", "a list",    "an object"};

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

// Separators of elements: none, or lines that begin with a blank for each open list or object.
class Layout {
 public:
  explicit Layout(bool has_lines) : has_lines_(has_lines) {}
  void open() { ++depth_; }
  void close() { --depth_; }
  void begin_line(std::string& out) const {
    if (has_lines_) out.append(1, '\n').append(depth_, ' ');
  }
  std::string_view colon() const { return has_lines_ ? ": " : ":"; }

 private:
  bool has_lines_;
  size_t depth_ = 0;
};

void append(const Json& json, std::string& out, Layout& layout);

struct Appender {
  std::string& out;
  Layout& layout;
  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { append_real(value, out); }
  void operator()(const std::string& value) const { append_json_text(value, out); }
  void operator()(const Json::Array& array) const {
    append_parts(array, "[]", [&](const Json& item) { append(item, out, layout); });
  }
  void operator()(const Json::Object& object) const {
    append_parts(object, "{}", [&](const JsonMember& member) {
      append_json_text(member.name, out);
      out += layout.colon();
      append(member.value, out, layout);
    });
  }

  template <class Parts, class F>
  void append_parts(const Parts& parts, std::string_view brackets, F append_part) const {
    if (parts.empty()) return out += brackets, void();
    layout.open();
    char separator = brackets[0];
    for (const auto& part : parts) {
      out += std::exchange(separator, ',');
      layout.begin_line(out);
      append_part(part);
    }
    layout.close();
    layout.begin_line(out);
    out += brackets[1];
  }
};

void append(const Json& json, std::string& out, Layout& layout) {
  std::visit(Appender{out, layout}, json.value());
}

std::string dumped(const Json& json, Layout layout) {
  std::string out;
  append(json, out, layout);
  return out;
}

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

std::string Json::dump() const { return dumped(*this, Layout(false)); }
std::string Json::dump_lines() const { return dumped(*this, Layout(true)); }

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
