// A kind of guards: what it keeps of a recording, and what it says of a later call.
#pragma once

#include "guards/guard_set.h"

namespace tenon {

struct GuardKind {
  /// Keeps what the recording has taken for granted.
  void (*record)(GuardSet& guards, const GuardedCall& call);
  /// Whether that holds for a call.
  bool (*check)(const GuardSet& guards, const detail::Leaves& leaves);
  /// Why it does not, in one line; asked when it does not.
  std::string (*why)(const GuardSet& guards, const detail::Leaves& leaves);
  /// A line for each guard.
  std::string (*text)(const GuardSet& guards);
  bool seen_in_body = false;  ///< the body shows what it does with it
  bool is_basis = false;      ///< where it does not hold, later ones cannot be asked
  /// Everything that does not hold, a line each; null: `why` says all.
  std::string (*every)(const GuardSet& guards, const detail::Leaves& leaves) = nullptr;
  /// What keeps calls from failing it as this one does; null: nothing does.
  std::string_view (*advice)(const GuardSet& guards, const detail::Leaves& leaves) = nullptr;
};

/// What the program says about tensors: few programs do.
struct MarkGuards {
  static void record(GuardSet& guards, const GuardedCall& call);
  static bool check(const GuardSet& guards, const detail::Leaves& leaves) {
    return !any_marks.load(std::memory_order_relaxed) || are_served(guards, leaves);
  }
  static std::string why(const GuardSet& guards, const detail::Leaves& leaves);
  static std::string text(const GuardSet& guards);
  static bool are_served(const GuardSet& guards, const detail::Leaves& leaves);
  static constexpr GuardKind kind = {record, check, why, text};
};

/// Where arguments begin in their memory, of those that the body looks at by place: few bodies do.
struct PlaceGuards {
  static void record(GuardSet& guards, const GuardedCall& call);
  static bool check(const GuardSet& guards, const detail::Leaves& leaves) {
    return guards.places.empty() || begin_there(guards, leaves);
  }
  static std::string why(const GuardSet& guards, const detail::Leaves& leaves);
  static std::string text(const GuardSet& guards);
  static bool begin_there(const GuardSet& guards, const detail::Leaves& leaves);
  static constexpr GuardKind kind = {record, check, why, text};
};

}  // namespace tenon
