// JSON of untrusted files: a strict parser into plain values, and views with readable errors.
//
// Stricter than JSON where files of ours and PyTorch's need it: nesting up to limits::json_depth,
// integers within 64 bits (never read as doubles), no name twice in one object, no trailing text.
//
//   JsonDocument document = parse_json(bytes, "vit.pt2: models/model.json");
//   for (JsonView node : document.view().field("graph").field("nodes").items())
//     use(node.field("name").text());
//   // vit.pt2: models/model.json: graph.nodes[3].name: expected a string, found an integer
#pragma once

#include "formats/byte_reader.h"

#include <tenon/detail/variant.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::formats {

struct JsonMember;

/// A JSON value. Objects keep the order in which members came.
///
/// What is written is built as it reads: Json{{"schema", 1}, {"lines", Json::Array{}}}, with
/// operator[] for further members. Files are read through a JsonView, which names what is wrong;
/// what this program or a plugin wrote just now also by the accessors here, to which a missing member
/// or a value of another kind is null, empty or the fallback.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;
  using Value = detail::Variant<std::monostate, bool, int64_t, double, std::string, Array, Object>;

  // Defined below, where a member is a complete type.
  Json();
  Json(std::nullptr_t) : Json() {}  // NOLINT: implicit, as are all of these
  Json(bool value);                 // NOLINT
  template <std::integral T>
  Json(T value);                 // NOLINT
  Json(double value);            // NOLINT
  Json(const char* value);       // NOLINT
  Json(std::string_view value);  // NOLINT
  Json(std::string value);       // NOLINT
  Json(Array value);             // NOLINT
  Json(Object value);            // NOLINT
  template <class T>
  Json(const std::vector<T>& list);                 // NOLINT: of numbers or texts
  Json(std::initializer_list<JsonMember> members);  // NOLINT

  const Value& value() const { return value_; }
  Value& value() { return value_; }
  bool is_null() const { return holds<std::monostate>(); }
  bool is_integer() const { return holds<int64_t>(); }
  bool is_number() const { return holds<int64_t>() || holds<double>(); }
  bool is_text() const { return holds<std::string>(); }
  bool is_array() const { return holds<Array>(); }
  bool is_object() const { return holds<Object>(); }

  bool boolean(bool fallback = false) const;
  int64_t integer(int64_t fallback = 0) const;
  double number(double fallback = 0.0) const;
  const std::string& text() const;
  const Array& items() const;
  const Object& members() const;
  const Json& operator[](std::string_view name) const;
  /// The member of an object, or nullptr.
  const Json* find(std::string_view name) const;

  // Elements of an array, in a range-for.
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }

  /// Null becomes what it is asked for; throws std::bad_variant_access where it is something else.
  Array& items();
  Object& members();
  /// Added where it is missing.
  Json& operator[](std::string_view name);
  /// The members of another object, in the place of those with the same names.
  void update(const Json& other);

  /// JSON on one line; non-finite doubles as the strings that Python's writers use.
  std::string dump() const;
  /// With a line for each element or member, one blank deeper each.
  std::string dump_lines() const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }

  Value value_;  // null at first
};

struct JsonMember {
  std::string name;
  Json value;
};

/// A list of numbers or texts.
template <class T>
Json json_list(const T& list) {
  Json::Array out;
  for (const auto& item : list) out.emplace_back(item);
  return out;
}

inline Json::Json() = default;
inline Json::Json(bool value) : value_(value) {}
template <std::integral T>
Json::Json(T value) : value_(static_cast<int64_t>(value)) {}
inline Json::Json(double value) : value_(value) {}
inline Json::Json(const char* value) : value_(std::string(value)) {}
inline Json::Json(std::string_view value) : value_(std::string(value)) {}
inline Json::Json(std::string value) : value_(std::move(value)) {}
inline Json::Json(Array value) : value_(std::move(value)) {}
inline Json::Json(Object value) : value_(std::move(value)) {}
template <class T>
Json::Json(const std::vector<T>& list) : Json(json_list(list)) {}

class JsonDocument;

/// A value within a document. Every accessor checks the type and throws UserError(bad_file) with
/// the document's subject and the path to the value. Valid as long as the document.
class JsonView {
 public:
  JsonView(const Json& json, const JsonDocument& document) : json_(&json), document_(&document) {}

  bool is_null() const { return holds<std::monostate>(); }
  bool is_integer() const { return holds<int64_t>(); }
  bool is_text() const { return holds<std::string>(); }
  bool is_array() const { return holds<Json::Array>(); }
  bool is_object() const { return holds<Json::Object>(); }

  bool boolean() const;
  int64_t integer() const;
  /// A double, an integer, or one of the strings "Infinity", "-Infinity", "NaN".
  double real() const;
  const std::string& text() const;
  /// An integer from 0, below `limit`; and a list of such.
  uint32_t number_below(size_t limit) const;
  std::vector<uint32_t> numbers_below(size_t limit) const;

  /// The elements of an array.
  std::vector<JsonView> items() const;
  /// The members of an object, in the order of the file.
  std::vector<std::pair<std::string_view, JsonView>> members() const;
  /// The number of elements or members.
  size_t size() const;

  JsonView field(std::string_view name) const;
  /// Nothing when the member is missing or null.
  std::optional<JsonView> optional_field(std::string_view name) const;
  /// The only member of an object that stands for a union: its tag and value.
  std::pair<std::string_view, JsonView> only_member() const;

  const Json& json() const { return *json_; }
  /// The document's.
  const std::string& subject() const;
  /// "subject: path.to[3].value", for messages; found by a search of the whole document.
  std::string place() const;
  [[noreturn]] void fail_expected(std::string_view expected) const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(json_->value());
  }
  template <class T>
  const T& get(std::string_view expected) const;

  const Json* json_;
  const JsonDocument* document_;
};

/// A parsed text and the name it has in messages.
class JsonDocument {
 public:
  JsonDocument(Json root, std::string subject)
      : root_(std::move(root)), subject_(std::move(subject)) {}
  JsonView view() const { return {root_, *this}; }
  const Json& root() const { return root_; }
  const std::string& subject() const { return subject_; }

 private:
  Json root_;
  std::string subject_;
};

inline const std::string& JsonView::subject() const { return document_->subject(); }

JsonDocument parse_json(std::string_view text, std::string subject);
/// Null where the text is not JSON: for answers of plugins and of other processes.
Json json_or_null(std::string_view text);
inline JsonDocument parse_json(ByteSpan bytes, std::string subject) {
  return parse_json(as_text(bytes), std::move(subject));
}

inline std::string to_text(const JsonView& view) { return view.place(); }

}  // namespace tenon::formats
