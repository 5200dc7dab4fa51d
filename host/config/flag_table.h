// Every flag and every known option of a backend, with the values that its layers give it.
//
// The table knows neither files nor locks; the Store (store.h) fills and guards it. Patches come
// with each question, since they belong to a thread.
#pragma once

#include "config/flag_def.h"
#include "config/reading.h"

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

struct LayerValue {
  Layer layer;
  Value value;
  std::string origin;
};

struct Slot {
  const FlagDef* def;
  std::vector<LayerValue> layers;  // without the default; sorted by layer
};

/// A value of one flag inside a patch or a set of compile options.
struct Assignment {
  size_t slot;
  Value value;
};

struct PatchEntry {
  Layer layer;  // patch or options
  std::vector<Assignment> values;
};

using PatchEntries = std::span<const std::shared_ptr<const PatchEntry>>;

class FlagTable {
 public:
  /// All flags of the .def files, without values.
  FlagTable();

  bool has_all(std::span<const FlagDef> options) const;
  /// Makes the options of a backend known and returns those that were not.
  std::vector<FlagDef> add_options(std::string_view backend, std::span<const FlagDef> options);
  /// Of flags and of backends.
  const std::set<std::string, std::less<>>& modules() const { return modules_; }
  bool has_module_of(std::string_view key) const {
    return modules_.contains(key.substr(0, key.find('.')));
  }
  bool contains(std::string_view key) const { return index_.contains(key); }
  /// The rows of all flags and options.
  std::vector<FlagDef> defs() const;
  /// The rows of a module, of flags or of a backend.
  std::vector<const FlagDef*> defs_of(std::string_view module) const;
  /// The backends that were declared with options, sorted.
  std::vector<std::string> backends() const;
  const FlagDef& def(size_t slot) const { return *slots_[slot].def; }
  /// The slot of a key or an alias; throws for a key that does not exist.
  size_t find(std::string_view key, const Origin& origin) const;
  /// The same for who reads the flag.
  size_t find_read(std::string_view key) const;
  /// What to say of a key that does not exist.
  std::string unknown_key(std::string_view key) const;

  /// The value of a reading as one of the flag's type; throws if it is none.
  Value fitted(size_t slot, const Reading& reading) const;
  /// The value that `text` spells for the flag; throws if it spells none.
  Value parse(std::string_view key, std::string_view text) const;
  /// Throws for the first reading that does not fit.
  void check(std::span<const Reading> readings) const;

  void put(size_t slot, LayerValue value);
  void erase(size_t slot, Layer layer) {
    std::erase_if(slots_[slot].layers, [&](const LayerValue& v) { return v.layer == layer; });
  }
  template <class Predicate>
  void erase_values(Predicate predicate) {
    for (Slot& slot : slots_) std::erase_if(slot.layers, predicate);
  }
  const std::vector<Slot>& slots() const { return slots_; }
  /// Takes back all changes of values since slots() was asked.
  void restore(std::vector<Slot> slots) { slots_ = std::move(slots); }

  /// The value that counts, last, over all that do not.
  std::vector<LayerValue> layers_of(size_t slot, PatchEntries patches) const;
  Value get(std::string_view key, PatchEntries patches) const;
  FlagInfo info(std::string_view key, PatchEntries patches) const;
  std::vector<FlagInfo> list(PatchEntries patches) const;
  std::vector<Source> explain(std::string_view key, PatchEntries patches) const;
  /// A snapshot with `patches` over the values of the process.
  std::unique_ptr<const Flags> make_flags(PatchEntries patches) const;

 private:
  void add(const FlagDef& def);
  LayerValue default_value(size_t slot, PatchEntries patches) const;
  FlagInfo info_of(size_t slot, PatchEntries patches) const;

  std::vector<Slot> slots_;
  std::map<std::string, size_t, std::less<>> index_;  // keys and aliases
  std::set<std::string, std::less<>> modules_;        // with those of backends
};

}  // namespace tenon::config
