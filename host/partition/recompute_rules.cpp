// The rules of what is not recomputed.
//
// Problem: a cut of least size alone would recompute a matrix product to save a few bytes. Rules
// ban calls from recomputation; the cut then chooses among the rest.
// Model: a banned call is tied to the forward side of the cut, so either it or something computed
// from it is saved.
// Method: first one rule after the other for each node, the first that applies gives the reason:
//   the user marked it; it is not in the allowlist (or is in the denylist); it draws random
//   numbers; the backward writes it to memory anyway; it is far away; its result is much smaller
//   than what it reads. Then two rules on paths of the forward:
//   - a value that is used near and far: between them lies a call that cannot be fused, so both
//     uses cannot share one recomputation; the far users are banned;
//   - a chain of fusible calls longer than 100: one of them is banned, since recomputation of it
//     would begin at the inputs of the model.
//   Both take nodes from a heap by their rank in the forward.
// Cost: O(E log E) for the chains; the far uses add, for each value, the nodes between its uses.
// Source: the rules and their order are those of PyTorch's min_cut_rematerialization_partition.
#include "partition/recompute_rules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace tenon::partition {

BanRules BanRules::of(const PartitionOptions& options) {
  bool all = !options.aggressive_recomputation;
  return {.not_in_allowlist = all && options.ban_recompute_not_in_allowlist,
          .materialized_backward = all && options.ban_recompute_materialized_backward,
          .reductions = options.ban_recompute_reductions,
          .used_far_apart = all && options.ban_recompute_used_far_apart,
          .long_fusible_chains = all && options.ban_recompute_long_fusible_chains};
}

std::string_view text_of(BanReason reason) {
  switch (reason) {
    case BanReason::primal_input:
      return "primal input";
    case BanReason::marked_must_save:
      return "marked MUST_SAVE";
    case BanReason::not_in_allowlist:
      return "not in recomputable allowlist";
    case BanReason::random_op:
      return "random op";
    case BanReason::compute_intensive:
      return "compute intensive op";
    case BanReason::user_op:
      return "user op";
    case BanReason::materialized_in_backward:
      return "materialized in backward";
    case BanReason::too_far_from_backward:
      return "too far from backward";
    case BanReason::reduction:
      return "reduction op";
    case BanReason::used_far_apart:
      return "used far apart";
    case BanReason::long_fusible_chain:
      return "long fusible chain";
  }
  return "";
}

namespace {

using Recompute = JointNode::Recompute;

class Bans {
 public:
  Bans(const WorkGraph& graph, const CutFacts& facts, const PartitionOptions& options,
       const BanRules& rules, const std::vector<char>& may_recompute)
      : graph_(graph),
        facts_(facts),
        options_(options),
        rules_(rules),
        may_recompute_(may_recompute),
        banned_(graph.size(), 0) {}

  std::vector<Ban> find() {
    for (JointId id : graph_.order()) {
      if (facts_.follows_tangents[id] || graph_.must_recompute(id)) continue;
      if (graph_.is_forward_input(id)) ban(id, BanReason::primal_input);
      // Only what the forward computes anyway is computed again, or what it alone may compute.
      bool judged = facts_.in_forward(id) || graph_.runs_once(id);
      if (!judged || graph_.is_input(id)) continue;
      if (std::optional<BanReason> reason = reason_against(id)) ban(id, *reason);
    }
    if (rules_.used_far_apart) ban_far_uses();
    if (rules_.long_fusible_chains) ban_long_chains();
    return std::move(bans_);
  }

 private:
  void ban(JointId id, BanReason reason) {
    if (banned_[id] || graph_.must_recompute(id)) return;
    bool exempt = graph_.is_view(id) || graph_.node(id).type == JointNode::Type::sym_float ||
                  (!may_recompute_.empty() && may_recompute_[id]);
    if (exempt && !graph_.runs_once(id)) return;
    banned_[id] = 1;
    bans_.push_back({id, reason});
  }

  std::optional<BanReason> reason_against(JointId id) const {
    uint16_t classes = graph_.classes(id);
    if (classes & class_getitem) return std::nullopt;
    if (graph_.recompute(id) == Recompute::must_save) return BanReason::marked_must_save;
    bool free = (options_.recompute_views && graph_.is_view(id)) || (classes & class_lift);
    if (free && !graph_.runs_once(id)) return std::nullopt;
    if (rules_.not_in_allowlist) {
      if (!(classes & class_recomputable)) return BanReason::not_in_allowlist;
    } else {
      if (classes & class_random) return BanReason::random_op;
      if (classes & class_compute) return BanReason::compute_intensive;
      if (options_.is_non_builtin_to_include && !graph_.node(id).builtin) return BanReason::user_op;
    }
    if (classes & class_seeded) return BanReason::random_op;
    if (rules_.materialized_backward && is_materialized_in_backward(id))
      return BanReason::materialized_in_backward;
    // Beyond 1000 the distance says no more than that it is far.
    int64_t distance = facts_.nodes[id].distance;
    if (distance < 1000 && distance > options_.max_dist_from_bw)
      return BanReason::too_far_from_backward;
    if (rules_.reductions && is_reduction(id)) return BanReason::reduction;
    return std::nullopt;
  }

  // Whether the backward reads the value, or a view of it, where it cannot be fused.
  bool is_materialized_in_backward(JointId id) const {
    if (graph_.is_view(id)) return false;
    std::vector<JointId> open{id};
    while (!open.empty()) {
      JointId at = open.back();
      open.pop_back();
      if (graph_.is_output(at)) return true;
      for (JointId user : graph_.users(at)) {
        if (!facts_.in_forward(user) && !is_fusible(graph_, at, user)) return true;
        if (graph_.is_view(user)) open.push_back(user);
      }
    }
    return false;
  }

  bool is_reduction(JointId id) const {
    double read = 0;  // a sum of sizes beyond 2^63 must not overflow
    for (JointId input : graph_.inputs(id).first(graph_.node(id).n_direct))
      read += static_cast<double>(graph_.node(input).bytes);
    return static_cast<double>(graph_.node(id).bytes) * 4 < read;
  }

  uint32_t rank(JointId id) const { return facts_.nodes[id].forward_order; }

  // The rank of the first node behind the users of a value that cannot be fused with what it reads,
  // or the farthest user's.
  uint32_t first_unfusible(const std::vector<JointId>& users, uint32_t farthest) {
    // Ordered by (rank, fusible): at one rank, the unfusible way in counts.
    using Entry = std::pair<std::pair<uint32_t, bool>, JointId>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    ++round_;
    auto push = [&](JointId id, bool fusible) {
      uint32_t& mark = seen_[id][fusible];
      if (std::exchange(mark, round_) != round_) open.push({{rank(id), fusible}, id});
    };
    for (JointId user : users) push(user, true);
    while (!open.empty()) {
      auto [key, id] = open.top();
      open.pop();
      if (!key.second) return key.first;
      for (JointId user : graph_.users(id))
        if (facts_.in_forward(user) && rank(user) <= farthest)
          push(user, is_fusible(graph_, id, user));
    }
    return farthest;
  }

  void ban_far_uses() {
    seen_.assign(graph_.size(), {0, 0});
    std::vector<JointId> users;
    for (JointId id : graph_.order()) {
      if (!facts_.in_forward(id)) continue;
      users.clear();
      for (JointId user : graph_.users(id))
        if (facts_.in_forward(user)) users.push_back(user);
      // One use is not far from itself.
      if (users.size() < 2) continue;
      uint32_t near = first_unfusible(users, rank(users.back()));
      for (JointId user : users)
        if (rank(user) > near && is_fusible(graph_, id, user)) ban(user, BanReason::used_far_apart);
    }
  }

  void ban_long_chains() {
    std::vector<char> visited(graph_.size(), 0);
    using Entry = std::pair<uint32_t, JointId>;
    for (JointId start : graph_.order()) {
      if (!facts_.in_forward(start)) continue;
      std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
      open.push({rank(start), start});
      while (!open.empty()) {
        auto [order, id] = open.top();
        open.pop();
        if (std::exchange(visited[id], 1)) continue;
        if (order > rank(start) + 100 && open.empty()) {
          ban(id, BanReason::long_fusible_chain);
          break;
        }
        for (JointId user : graph_.users(id))
          if (facts_.in_forward(user) && is_fusible(graph_, id, user) && !banned_[user])
            open.push({rank(user), user});
      }
    }
  }

  const WorkGraph& graph_;
  const CutFacts& facts_;
  const PartitionOptions& options_;
  const BanRules& rules_;
  const std::vector<char>& may_recompute_;
  std::vector<char> banned_;
  std::vector<Ban> bans_;
  std::vector<std::array<uint32_t, 2>> seen_;  // by id and fusibility: the round that pushed it
  uint32_t round_ = 0;
};

}  // namespace

std::vector<Ban> find_bans(const WorkGraph& graph, const CutFacts& facts,
                           const PartitionOptions& options, const BanRules& rules,
                           const std::vector<char>& may_recompute) {
  return Bans(graph, facts, options, rules, may_recompute).find();
}

}  // namespace tenon::partition
