// Warnings about the values of flags, each said once until they are forgotten.
#pragma once

#include "config/flag_table.h"

#include <set>
#include <string>
#include <vector>

namespace tenon::config {

class FlagWarnings {
 public:
  /// Of a value that is deprecated or has no effect.
  void look_at(const FlagDef& def, const LayerValue& value);
  /// Of values of which one takes the effect of the other.
  void look_at_combinations(const FlagTable& table);
  void add_unknown(const Reading& reading, const std::string& problem);
  /// Of a value in a project file whose flag does not obey these.
  void add_refused(const FlagDef& def, const Origin& origin);
  /// `about` tells warnings apart.
  void add(const std::string& about, std::string text);
  /// Those that nobody has heard of yet.
  std::vector<std::string>& unsaid() { return unsaid_; }
  void forget() { said_.clear(); }

 private:
  std::vector<std::string> unsaid_;
  std::set<std::string> said_;
};

}  // namespace tenon::config
