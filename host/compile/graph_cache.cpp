// Looking graphs up in the cache, and keeping them there.
#include "compile/graph_cache.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/sym_text.h"
#include "graph/hash.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"
#include "saved/saved_artifact.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

namespace {

// Versions of one graph whose conditions on sizes differ.
constexpr size_t n_slots = 4;

const config::FunctorchFlags& flags() { return config::flags().functorch; }

void note(std::string_view what) {
  auto* watch = report::CompileWatch::current();
  if (watch) watch->record().cache = what;
  if (report::Unit* unit = report::current_unit()) unit->note_cache(what);
  if (!report::artifact_enabled("caching")) return;
  report::log_artifact("caching", watch ? message("{}: {}", watch->record().id, what) : what);
}

void count_bypass(const std::string& reason) {
  if (flags().strict_autograd_cache)
    throw BackendError(ErrorCode::backend_compiler_failed, TN_FAILED_PRECONDITION,
                       message("the graph cannot be kept in the cache: {}; "
                               "functorch.strict_autograd_cache makes that an error",
                               reason));
  report::counter("aot.cache_bypass").add();
  report::log(report::LogLevel::debug, "cache", "a graph bypasses the cache: {}", reason);
  note("bypass: " + reason);
}

std::string symbol_name(size_t position) { return "s" + std::to_string(position); }

std::string text_of(const Expr* condition, const Graph& graph) {
  return expr_text(condition, [&](const Expr* symbol) {
    for (size_t i = 0; i < graph.symbols.size(); ++i)
      if (graph.symbols[i].symbol == symbol) return symbol_name(i);
    fail(ErrorCode::unsupported, "a condition is about a symbol that the graph does not bind");
  });
}

std::string why_not_saved(const BackendInfo& backend) {
  return message(
      "backend {} does not say that what it compiles can be saved (serializable = true); "
      "functorch.force_autograd_cache = true keeps its graphs without code",
      backend.name);
}

}  // namespace

// ---- opening

GraphCache::GraphCache(std::shared_ptr<Graph> recorded, const CompileRequest& request, GraphKey key,
                       bool is_forced)
    : recorded_(std::move(recorded)),
      request_(request),
      key_(std::move(key)),
      is_forced_(is_forced) {}

std::shared_ptr<GraphCache> GraphCache::open(std::shared_ptr<Graph> recorded,
                                             const BackendInfo& backend,
                                             const CompileRequest& request) {
  if (!flags().enable_autograd_cache || !artifact_cache()) return nullptr;
  report::PhaseScope phase("cache");
  CacheIdentity identity = cache_identity(backend.name, request, *recorded);
  if (!identity.serializable && !flags().force_autograd_cache) {
    count_bypass(why_not_saved(backend));
    return nullptr;
  }
  GraphKey key = graph_key(*recorded, request, identity);
  if (!key.bypass.empty() && flags().bypass_autograd_cache_key) {
    key.bypass.clear();
    key.digest = random_digest();
  }
  if (!key.bypass.empty()) {
    count_bypass(key.bypass);
    return nullptr;
  }
  return std::shared_ptr<GraphCache>(
      new GraphCache(std::move(recorded), request, std::move(key), !identity.serializable));
}

CacheKey GraphCache::place_of(size_t slot) const {
  KeyBuilder name;
  name.add("key", key_.digest).add("slot", std::to_string(slot));
  return {"aot/" + key_.folder, name.hex()};
}

CacheKey GraphCache::place_of_code(const std::string& digest) const {
  return {"artifacts/" + key_.folder, digest};
}

// ---- looking up

const Expr* GraphCache::condition_of(const std::string& text) const {
  const Expr* condition = parse_expr(text, [&](std::string_view name) -> const Expr* {
    for (size_t i = 0; i < recorded_->symbols.size(); ++i)
      if (name == symbol_name(i)) return recorded_->symbols[i].symbol;
    return nullptr;
  });
  require(condition->kind == ExprKind::boolean, ErrorCode::bad_file, "{} is not a condition", text);
  return condition;
}

// Whether it holds for the sizes that this compile was asked for with, and for the flags that the
// plugin read.
bool GraphCache::serves(const CacheEntry& entry) const {
  auto is_as_then = [](const KeptCode& kept) {
    return !kept.code || changed_flag(*kept.code).empty();
  };
  if (!std::ranges::all_of(entry.codes, is_as_then)) return false;
  return std::ranges::all_of(entry.conditions, [&](const std::string& text) {
    const Expr* condition = condition_of(text);
    if (condition->is_constant()) return condition->is_true();
    auto value = recorded_->shape_env->hint(condition);
    return value && value->integer() != 0;
  });
}

std::optional<CacheEntry> GraphCache::find() {
  for (slot_ = 0; slot_ < n_slots; ++slot_) {
    std::optional<std::string> bytes = artifact_cache()->get(place_of(slot_));
    if (!bytes) return std::nullopt;
    CacheEntry entry = read_entry(*std::move(bytes), *recorded_);
    if (serves(entry)) return entry;
  }
  slot_ = n_slots - 1;  // gives way to the one that comes
  return std::nullopt;
}

std::shared_ptr<Artifact> GraphCache::load(const MakeCode& make) {
  report::PhaseScope phase("cache");
  try {
    if (std::optional<CacheEntry> entry = find()) {
      std::shared_ptr<Artifact> artifact = assemble_found(*std::move(entry), make);
      report::counter("aot.cache_hit").add();
      note("hit");
      return artifact;
    }
  } catch (const std::exception& error) {
    auto* backend = dynamic_cast<const BackendError*>(&error);
    if (flags().strict_autograd_cache && backend && backend->status() == TN_NOT_FOUND) throw;
    report::log(report::LogLevel::debug, "cache", "an entry is not used: {}",
                std::string(error.what()));
  }
  report::counter("aot.cache_miss").add();
  note("miss");
  return nullptr;
}

namespace {

/// What was read has symbols of its own; this thread may be recording with others.
struct OwnSymbols {
  std::optional<ShapeEnvScope> scope;
  explicit OwnSymbols(const Graph& graph) {
    if (graph.shape_env) scope.emplace(*graph.shape_env);
  }
};

}  // namespace

std::shared_ptr<Artifact> GraphCache::assemble_found(CacheEntry entry, const MakeCode& make) {
  auto codes = std::make_shared<std::vector<KeptCode>>(std::move(entry.codes));
  MakeCode load = [self = shared_from_this(), codes, make](const CompileRequest& request) {
    OwnSymbols symbols(*request.graph);
    if (request.is_partial) return make(request);  // which results get gradients is the run's
    auto code = std::ranges::find(*codes, request.stage, &KeptCode::stage);
    require(code != codes->end(), ErrorCode::bad_file, "an entry of the cache lacks code");
    if (request.stage != Stage::backward) return self->code_for(*code, request, make);
    // The forward has run by now, so there is no way back: what cannot be loaded is compiled.
    try {
      return self->code_for(*code, request, make);
    } catch (const std::exception& error) {
      report::log(report::LogLevel::debug, "cache", "a backward is compiled again: {}",
                  std::string(error.what()));
      return make(request);
    }
  };
  std::shared_ptr<const Graph> functional = entry.staged.lowered.graph;
  OwnSymbols symbols(*functional);
  auto artifact = assemble(std::move(entry.staged), recorded_, request_, load);
  artifact->guards = renamed(artifact->guards, *functional);
  for (const std::string& text : entry.conditions) artifact->guards.push_back(condition_of(text));
  return artifact;
}

// A functional graph that was read has symbols of its own, in the order of the recorded ones.
std::vector<const Expr*> GraphCache::renamed(std::span<const Expr* const> conditions,
                                             const Graph& functional) const {
  std::vector<const Expr*> out;
  for (const Expr* condition : conditions)
    out.push_back(substitute(condition, [&](const Expr* symbol) -> const Expr* {
      for (size_t i = 0; i < recorded_->symbols.size() && i < functional.symbols.size(); ++i)
        if (functional.symbols[i].symbol == symbol) return recorded_->symbols[i].symbol;
      fail(ErrorCode::unsupported, "a condition is about a symbol that only an entry has");
    }));
  return out;
}

std::string GraphCache::bytes_of(const std::string& digest) const {
  std::optional<std::string> bytes = artifact_cache()->get(place_of_code(digest));
  if (!bytes)
    throw BackendError(ErrorCode::backend_compiler_failed, TN_NOT_FOUND,
                       "the code of an entry of the cache is not there any more; set "
                       "functorch.bundled_autograd_cache to keep both in one file");
  return *std::move(bytes);
}

std::shared_ptr<Artifact> GraphCache::code_for(const KeptCode& kept, const CompileRequest& request,
                                               const MakeCode& make) const {
  if (!kept.code) return make(request);
  report::PhaseScope phase("load");
  SavedArtifact code = *kept.code;
  if (!kept.digest.empty()) code.bytes = bytes_of(kept.digest);
  CompileRequest known = request;
  known.known_hash = {request.graph.get(), kept.graph_hash};
  return load_code(code, known, "an entry of the cache");
}

// ---- keeping

MakeCode GraphCache::keeping(const StagedGraph& staged, MakeCode make) {
  making_ = CacheEntry{staged, {}, {}};
  return [self = shared_from_this(), make = std::move(make)](const CompileRequest& request) {
    std::shared_ptr<Artifact> code = make(request);
    self->keep_code(request, *code);
    return code;
  };
}

void GraphCache::keep_conditions(std::span<const Expr* const> conditions) {
  if (!making_) return;
  try {
    for (const Expr* c : conditions) making_->conditions.push_back(text_of(c, *recorded_));
  } catch (const UserError& error) {
    return give_up(error.what());
  }
  has_conditions_ = true;
  save_if_whole();
}

KeptCode GraphCache::saved(const CompileRequest& request, const Artifact& code) const {
  KeptCode out{.stage = request.stage, .code = {}, .digest = {}};
  if (is_forced_) return out;
  SavedArtifact artifact = code.save();
  require(artifact.graph == request.graph && artifact.kind != SavedArtifact::Kind::functional,
          ErrorCode::unsupported, "the backend has compiled another graph");
  require(artifact.kind == SavedArtifact::Kind::plugin || !config::flags().dynamo.suppress_errors,
          ErrorCode::unsupported,
          "a graph without code may stand for an error that dynamo.suppress_errors hides");
  if (artifact.parts.empty()) out.code = std::move(artifact);
  out.graph_hash = hash_text(*request.graph);
  return out;
}

void GraphCache::keep_code(const CompileRequest& request, const Artifact& code) {
  if (!making_ || request.is_partial) return;
  try {
    making_->codes.push_back(saved(request, code));
  } catch (const Error& error) {
    return give_up(error.what());
  }
  save_if_whole();
}

void GraphCache::save_if_whole() {
  bool is_training = making_->staged.kind == StagedGraph::Kind::training;
  if (!has_conditions_ || making_->codes.size() < (is_training ? 2u : 1u)) return;
  try {
    save();
  } catch (const UserError& error) {
    return give_up(error.what());
  }
  making_.reset();
}

void GraphCache::save() {
  report::PhaseScope phase("cache");
  ArtifactCache* store = artifact_cache();
  if (!store) return;
  int64_t limit = config::flags().compiler.cache_bytes;
  for (KeptCode& kept : making_->codes) {
    if (!kept.code || kept.code->bytes.empty() || flags().bundled_autograd_cache) continue;
    Digest digest = sha256(kept.code->bytes);
    kept.digest = to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
    if (!store->put(place_of_code(kept.digest), kept.code->bytes, limit)) return;
    kept.code->bytes.clear();
  }
  if (!store->put(place_of(slot_), write_entry(*making_), limit)) return;
  report::counter("aot.cache_saved").add();
  report::log_artifact("caching", "saved");
}

void GraphCache::give_up(const std::string& reason) {
  making_.reset();
  count_bypass(reason);
}

}  // namespace tenon
