// Places in a JSON tree, and what is done to them.
#include "mutants/json_mutant.h"

#include "mutants/words.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace tenon::fuzz {

namespace {

using formats::Json;
using formats::JsonMember;

/// A value, and the name of the member that it is or is an element of.
struct Place {
  Json* value;
  std::string_view name;
};

using Places = std::vector<Place>;

void collect(Json& value, std::string_view name, Places& out) {
  out.push_back({&value, name});
  if (value.is_array())
    for (Json& item : value.items()) collect(item, name, out);
  else if (value.is_object())
    for (JsonMember& member : value.members()) collect(member.value, member.name, out);
}

Places places_in(Json& tree) {
  Places out;
  collect(tree, "", out);
  return out;
}

/// Null where there is none.
const Place* one_where(const Places& places, Choices& choices,
                       const std::function<bool(const Place&)>& holds) {
  // From a random one on: as good as a choice among those that fit, and quicker.
  size_t n = places.size(),
         first = choices.below(static_cast<uint32_t>(std::min<size_t>(n, 65536)));
  for (size_t i = 0; i < n; ++i)
    if (const Place& place = places[(first + i) % n]; holds(place)) return &place;
  return nullptr;
}

bool is_real(const Json& value) { return value.is_number() && !value.is_integer(); }
bool is_boolean(const Json& value) { return std::holds_alternative<bool>(value.value()); }

void change_number(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  auto is_whole = [](const Place& p) { return p.value->is_integer(); };
  const Place* place = one_where(places, choices, is_whole);
  if (!place) return;
  int64_t old = place->value->integer();
  switch (choices.below(5)) {
    case 0:
      *place->value = static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
      return;
    case 1:
      *place->value = one_where(places, choices, is_whole)->value->integer();
      return;
    default:
      *place->value = some_number(choices);
  }
}

// Often a model of another size: it is accepted and runs.
void change_number_everywhere(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place =
      one_where(places, choices, [](const Place& p) { return p.value->is_integer(); });
  if (!place) return;
  int64_t old = place->value->integer(), other = some_number(choices);
  std::string_view name = place->name;
  bool all_names = choices.below(2) == 0;
  for (const Place& p : places)
    if (p.value->is_integer() && p.value->integer() == old && (all_names || p.name == name))
      *p.value = other;
}

void change_real_or_bit(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place = one_where(
      places, choices, [](const Place& p) { return is_real(*p.value) || is_boolean(*p.value); });
  if (!place) return;
  if (is_boolean(*place->value))
    *place->value = !place->value->boolean();
  else
    *place->value = some_real(choices);
}

// Names of values in other places make aliases, cycles and uses before definitions.
void change_text(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place =
      one_where(places, choices, [](const Place& p) { return p.value->is_text(); });
  if (!place) return;
  const std::string& text = place->value->text();
  if (text.starts_with("torch.ops.")) {
    *place->value = "torch.ops." + some_op(choices);
    return;
  }
  if (text.starts_with('{')) {  // a document as a text
    *place->value = json_mutant(std::string(text), choices);
    return;
  }
  std::string_view name = choices.below(4) == 0 ? std::string_view() : place->name;
  const Place* other = one_where(places, choices, [&](const Place& p) {
    return p.value->is_text() && (name.empty() || p.name == name);
  });
  if (choices.one_in(6))
    *place->value = odd_text(choices);
  else if (other)
    *place->value = std::string(other->value->text());
}

void change_target(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place = one_where(places, choices, [](const Place& p) {
    return p.value->is_text() && p.value->text().starts_with("torch.ops.");
  });
  if (place) *place->value = "torch.ops." + some_op(choices);
}

void change_list(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place =
      one_where(places, choices, [](const Place& p) { return p.value->is_array(); });
  if (!place) return;
  Json::Array& items = place->value->items();
  if (items.empty()) {
    items.emplace_back(some_number(choices));
    return;
  }
  size_t at = choices.below(static_cast<uint32_t>(items.size()));
  Json copy = items[at];
  switch (choices.below(6)) {
    case 0:
    case 1:
      items.erase(items.begin() + static_cast<ptrdiff_t>(at));
      return;
    case 2:
      items.insert(items.begin() + static_cast<ptrdiff_t>(at), std::move(copy));
      return;
    case 3:
      std::swap(items[at], items.front());
      return;
    case 4:
      items.push_back(std::move(copy));
      return;
    default:
      for (uint32_t n = choices.one_in(8) ? 200 : 5; n > 0; --n) items.push_back(copy);
  }
}

/// Values of the same name elsewhere fit best.
Json value_from_elsewhere(const Places& places, std::string_view name, Choices& choices) {
  const Place* other = one_where(places, choices, [&](const Place& p) { return p.name == name; });
  return other ? *other->value : Json();
}

Json odd_value(Choices& choices) {
  switch (choices.below(8)) {
    case 0:
      return {};
    case 1:
      return Json::Array{};
    case 2:
      return Json::Object{};
    case 3:
      return odd_text(choices);
    case 4:
      return some_real(choices);
    case 5:
      return choices.below(2) == 0;
    default:
      return some_number(choices);
  }
}

void change_member(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place* place = one_where(places, choices, [](const Place& p) {
    return p.value->is_object() && !p.value->members().empty();
  });
  if (!place) return;
  Json::Object& members = place->value->members();
  JsonMember& member = one_of(choices, members);
  switch (choices.below(6)) {
    case 0:
      members.erase(members.begin() + (&member - members.data()));
      return;
    case 1: {
      const Place* other =
          one_where(places, choices, [](const Place& p) { return !p.name.empty(); });
      if (other) member.name = std::string(other->name);
      return;
    }
    case 2:
      member.value = odd_value(choices);
      return;
    case 3:
      members.push_back({std::string(one_of(choices, places).name), odd_value(choices)});
      return;
    default:
      member.value = value_from_elsewhere(places, std::string(member.name), choices);
  }
}

// A tree below itself: graphs in graphs, arguments that hold themselves, depth.
void nest(Json& tree, Choices& choices) {
  Places places = places_in(tree);
  const Place *above =
                  one_where(places, choices, [](const Place&p) { return p.value->is_object(); }),
              *place = &one_of(choices, places);
  if (!above) return;
  Json copy = *above->value;
  *place->value = std::move(copy);
}

}  // namespace

void mutate(Json& tree, Choices& choices) {
  using Change = void (*)(Json&, Choices&);
  static constexpr Change changes[] = {change_number,
                                       change_number,
                                       change_number,
                                       change_number_everywhere,
                                       change_number_everywhere,
                                       change_real_or_bit,
                                       change_text,
                                       change_text,
                                       change_target,
                                       change_list,
                                       change_list,
                                       change_member,
                                       change_member,
                                       nest};
  static constexpr uint32_t counts[] = {1, 1, 1, 2, 2, 3};
  for (uint32_t n = one_of(choices, counts); n > 0; --n) one_of(choices, changes)(tree, choices);
}

std::string json_mutant(std::string_view text, Choices& choices) {
  try {
    Json tree = formats::parse_json(text, "a seed").root();
    mutate(tree, choices);
    return tree.dump();
  } catch (const UserError&) {
    return std::string(text);
  }
}

}  // namespace tenon::fuzz
