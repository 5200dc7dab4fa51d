// What a verb takes: its options, arguments and sub-verbs, as data. parser.cpp hands it to CLI11.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::cli {

/// One option ("--seed", "-o,--output"), flag, or argument by place ("MODEL"). The rules return the
/// option, so that they can be chained; a value against a rule is a usage error.
class Option {
 public:
  using Target =
      std::variant<bool*, int*, uint64_t*, double*, std::string*, std::vector<std::string>*>;

  Option(std::string name, Target target, std::string doc)
      : name(std::move(name)), target(target), doc(std::move(doc)) {}

  Option& required() { return is_required = true, *this; }
  Option& one_of(std::vector<std::string> values) { return choices = std::move(values), *this; }
  /// Of numbers, both ends included.
  Option& within(int low, int high) { return range.emplace(low, high), *this; }
  Option& positive() { return is_positive = true, *this; }
  Option& excludes(const Option& other) { return excluded = other.name, *this; }
  Option& in_group(std::string_view named) { return group = named, *this; }
  Option& hidden() { return in_group(""); }
  bool is_hidden() const { return group.empty(); }
  /// Of lists: one value each time that the option is given.
  Option& one_at_a_time() { return takes_one = true, *this; }

  std::string name;
  Target target;
  std::string doc;
  bool is_flag = false, is_required = false, is_positive = false, takes_one = false;
  std::vector<std::string> choices;
  std::optional<std::pair<int, int>> range;
  std::string excluded, group = "Options";
};

/// What a verb or a sub-verb declares. References to its parts stay valid.
class Options {
 public:
  template <class T>
  Option& add_option(std::string name, T& target, std::string doc) {
    return options.emplace_back(std::move(name), &target, std::move(doc));
  }
  /// Counts where the target is an int.
  template <class T>
  Option& add_flag(std::string name, T& target, std::string doc) {
    Option& flag = add_option(std::move(name), target, std::move(doc));
    flag.is_flag = true;
    return flag;
  }
  /// `on_chosen` runs while the command line is read. A verb with sub-verbs takes one of them.
  Options& add_verb(std::string_view named, std::string_view summarised,
                    std::function<void()> on_chosen) {
    Options& verb = verbs.emplace_back();
    verb.name = named, verb.summary = summarised, verb.on_chosen = std::move(on_chosen);
    return verb;
  }

  std::string name, summary, example;
  std::function<void()> on_chosen;
  std::deque<Option> options;
  std::deque<Options> verbs;
};

}  // namespace tenon::cli
