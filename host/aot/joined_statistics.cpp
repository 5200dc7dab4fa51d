// Joining what two halves tell of themselves.
#include "aot/joined_statistics.h"

#include "core/error.h"
#include "formats/json.h"

#include <algorithm>

namespace tenon {

using formats::Json;

namespace {

Json::Object members_of(const std::string& text) try {
  Json root = formats::parse_json(text, "statistics of an artifact").root();
  const auto* members = std::get_if<Json::Object>(&root.value());
  return members ? *members : Json::Object();
} catch (const Error&) {
  return {};  // a plugin may write anything
}

// The list of that name, made where there is none.
Json::Array& list_of(Json::Object& object, const std::string& name) {
  auto at = std::ranges::find(object, name, &formats::JsonMember::name);
  if (at == object.end()) at = object.insert(object.end(), {name, Json::Array()});
  if (!std::get_if<Json::Array>(&at->value.value())) at->value = Json::Array();
  return *std::get_if<Json::Array>(&at->value.value());
}

}  // namespace

std::string joined_statistics(std::string forward, std::span<const std::string> backwards) {
  Json::Object all = members_of(forward);
  bool adds = false;
  for (const std::string& backward : backwards)
    for (const formats::JsonMember& m : members_of(backward)) {
      const auto* list = std::get_if<Json::Array>(&m.value.value());
      if (!list || list->empty() || (m.name != "told" && m.name != "recorded")) continue;
      Json::Array& to = list_of(all, m.name);
      to.insert(to.end(), list->begin(), list->end());
      adds = true;
    }
  return adds ? Json(std::move(all)).dump() : forward;
}

}  // namespace tenon
