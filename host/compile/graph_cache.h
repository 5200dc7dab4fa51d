// The cache of compiled graphs on disk (functorch.enable_autograd_cache): what was lowered,
// differentiated, cut and compiled once serves again, in this process or another one.
//
// Problem: a program compiles the same graphs each time it starts. Model: an entry holds all that
// stands between a recorded graph and its artifact, as data: the functional or joint graph, the
// cut, the wrapper and the code that the plugin saved. Its key is all that decides these
// (graph_cache_key.h); what was asked about symbolic sizes meanwhile stands in the entry, so a key
// has a few entries, of which the first whose conditions hold for the example sizes serves. Method:
// entries are files of the store of artifact_cache.h, which makes damage a miss. Code lies beside
// its entry by digest, or in it (functorch.bundled_autograd_cache). An entry of a training graph is
// written once its backward is compiled. Source: the cache of PyTorch's AOT autograd. Cost of a
// hit: the text of the recorded graph, reading that of the functional one, and linking.
//
// Counters: aot.cache_hit, aot.cache_miss, aot.cache_bypass, aot.cache_saved.
#pragma once

#include "compile/graph_cache_entry.h"
#include "compile/graph_cache_key.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tenon {

/// The cache as one compile sees it. Threads: one at a time.
class GraphCache : public std::enable_shared_from_this<GraphCache> {
 public:
  /// Null where the cache is switched off or the graph bypasses it; the latter is counted, and
  /// under functorch.strict_autograd_cache throws BackendError with the reason.
  static std::shared_ptr<GraphCache> open(std::shared_ptr<Graph> recorded,
                                          const BackendInfo& backend,
                                          const CompileRequest& request);

  /// The artifact of the recorded graph, or null: a miss. `make` compiles what an entry does not
  /// hold, or what cannot be loaded.
  std::shared_ptr<Artifact> load(const MakeCode& make);

  /// Keeps the stages, and the code that `make` gives.
  MakeCode keeping(const StagedGraph& staged, MakeCode make);
  /// The conditions of the whole artifact, once it stands.
  void keep_conditions(std::span<const Expr* const> conditions);

 private:
  GraphCache(std::shared_ptr<Graph> recorded, const CompileRequest& request, GraphKey key,
             bool is_forced);

  CacheKey place_of(size_t slot) const;
  CacheKey place_of_code(const std::string& digest) const;
  std::optional<CacheEntry> find();
  bool serves(const CacheEntry& entry) const;
  const Expr* condition_of(const std::string& text) const;
  std::shared_ptr<Artifact> assemble_found(CacheEntry entry, const MakeCode& make);
  std::shared_ptr<Artifact> code_for(const KeptCode& kept, const CompileRequest& request,
                                     const MakeCode& make) const;
  std::string bytes_of(const std::string& digest) const;
  std::vector<const Expr*> renamed(std::span<const Expr* const> conditions,
                                   const Graph& functional) const;

  void keep_code(const CompileRequest& request, const Artifact& code);
  KeptCode saved(const CompileRequest& request, const Artifact& code) const;
  void save_if_whole();
  void save();
  void give_up(const std::string& reason);

  std::shared_ptr<Graph> recorded_;
  CompileRequest request_;
  GraphKey key_;
  bool is_forced_;  ///< the backend saves nothing; only its graphs are kept
  size_t slot_ = 0;
  std::optional<CacheEntry> making_;
  bool has_conditions_ = false;
};

}  // namespace tenon
