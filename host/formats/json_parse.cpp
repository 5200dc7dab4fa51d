// Parsing JSON: nlohmann-json reads the tokens, this file builds the values and keeps the bounds.
#include "formats/json.h"
#include "formats/limits.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::formats {

namespace {

using Source = nlohmann::json;

// Receives the tokens and builds the tree. `open_` are the arrays and objects not yet closed.
class Builder {
 public:
  Builder(std::string_view text, const std::string& subject) : text_(text), subject_(subject) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(int64_t value) { return add(Json(value)); }
  bool number_unsigned(uint64_t value) {
    require(value <= INT64_MAX, ErrorCode::bad_file, "{}: the integer {} does not fit into 64 bits",
            subject_, value);
    return add(Json(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string& spelling) {
    // The tokenizer turns integers that are too long into doubles.
    require(spelling.find_first_of(".eE") != spelling.npos, ErrorCode::bad_file,
            "{}: the integer {} does not fit into 64 bits", subject_, printable(spelling));
    return add(Json(value));
  }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(Source::binary_t&) { return false; }
  bool start_array(size_t) { return open(Json(Json::Array())); }
  bool start_object(size_t) { return open(Json(Json::Object())); }
  bool key(std::string& name) {
    std::get<Json::Object>(open_.back().value()).push_back({std::move(name), Json()});
    return true;
  }
  bool end_array() { return close(); }
  bool end_object() {
    check_names(std::get<Json::Object>(open_.back().value()));
    return close();
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    std::string_view what = error.what();  // "[json.exception...] parse error at line 1, ...: why"
    if (size_t colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
    size_t end = std::min(byte, text_.size());
    auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), '\n');
    fail(ErrorCode::bad_file, "{}: line {}, byte {}: {}", subject_, line, byte, printable(what));
  }

  Json take() { return std::move(root_); }

 private:
  bool open(Json container) {
    require(open_.size() < limits::json_depth, ErrorCode::bad_file,
            "{}: nested deeper than {} levels", subject_, limits::json_depth);
    open_.push_back(std::move(container));
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    return add(std::move(done));
  }
  bool add(Json value) {
    size_t most = limits::json_values + text_.size() / limits::json_bytes_a_value;
    require(++n_values_ <= most, ErrorCode::bad_file, "{}: more than {} values in {} bytes",
            subject_, most, text_.size());
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<Json::Array>(&open_.back().value())) {
      array->push_back(std::move(value));
    } else {
      std::get<Json::Object>(open_.back().value()).back().value = std::move(value);
    }
    return true;
  }
  void check_names(const Json::Object& object) {
    names_.clear();
    for (const JsonMember& member : object) names_.push_back(member.name);
    std::ranges::sort(names_);
    auto twice = std::ranges::adjacent_find(names_);
    require(twice == names_.end(), ErrorCode::bad_file,
            "{}: the name \"{}\" occurs twice in one object", subject_,
            twice == names_.end() ? std::string() : printable(*twice));
  }

  std::string_view text_;
  const std::string& subject_;
  Json root_;
  size_t n_values_ = 0;
  std::vector<Json> open_;
  std::vector<std::string_view> names_;
};

}  // namespace

JsonDocument parse_json(std::string_view text, std::string subject) {
  Builder builder(text, subject);
  Source::sax_parse(text.data(), text.data() + text.size(), &builder);
  return {builder.take(), std::move(subject)};
}

Json json_or_null(std::string_view text) {
  try {
    return parse_json(text, "").root();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace tenon::formats
