// What plugins keep on disk: the services, whose is what, and the flags.
#include "backend/compile/plugin_cache.h"

#include <gmock/gmock.h>

#include "backend/abi/bridge.h"
#include "backend/abi/compile_context.h"
#include "backend/abi/status.h"
#include "backend/compile/call_backend.h"
#include "cache/artifact_cache.h"
#include "report/events.h"
#include "unit/config/config_fixture.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// ---- services

class PluginCache : public config::Config {
 protected:
  void SetUp() override {
    Config::SetUp();
    if (const char* before = std::getenv("TENON_CACHE_DIR")) before_ = before;
    variable("TENON_CACHE_DIR", (root_ / "cache").string());
    ctx_.cache = &scope_;
    report::reset_counters();
  }
  void TearDown() override {
    Config::TearDown();
    if (!before_.empty()) ::setenv("TENON_CACHE_DIR", before_.c_str(), 1);
  }

  void put(tn_ctx& ctx, const std::string& key, const std::string& bytes) {
    EXPECT_EQ(svc_.cache_put(&ctx, str_of(key), bytes.data(), bytes.size()), nullptr);
  }
  std::string get(tn_ctx& ctx, const std::string& key) {
    tn_blob* blob = nullptr;
    if (tn_status* miss = svc_.cache_get(&ctx, str_of(key), &blob)) {
      EXPECT_EQ(miss->code, TN_NOT_FOUND);
      EXPECT_EQ(blob, nullptr);
      free_status(miss);
      return "a miss";
    }
    std::string out(view_of(svc_.blob_bytes(blob)));
    svc_.blob_release(blob);
    return out;
  }
  size_t n_files() const {
    size_t n = 0;
    std::error_code none;
    for (auto& entry : fs::recursive_directory_iterator(root_ / "cache", none))
      n += entry.is_regular_file();
    return n;
  }

  const tn_svc_api& svc_ = *own_host_table().svc;
  CacheScope scope_{"llvm 19", "kernels/mine-1.0.0/0123456789abcdef"};
  tn_ctx ctx_;
  std::string before_;
};

TEST_F(PluginCache, IsKeptFromOneCompileToTheNext) {
  EXPECT_EQ(get(ctx_, "key"), "a miss");
  std::string bytes("a\0b", 3);
  put(ctx_, "key", bytes);
  tn_ctx next;
  next.cache = &scope_;
  EXPECT_EQ(get(next, "key"), bytes);
  EXPECT_EQ(get(next, "other key"), "a miss");
  auto counters = report::counters();
  EXPECT_EQ(counters["cache.hit"], 1);
  EXPECT_EQ(counters["cache.miss"], 2);
  EXPECT_EQ(counters["cache.writes"], 1);
  EXPECT_TRUE(fs::exists(root_ / "cache" / scope_.folder));
}

TEST_F(PluginCache, IsEachScopesOwn) {
  put(ctx_, "key", "mine");
  CacheScope other{"llvm 20", "kernels/mine-1.0.0/fedcba9876543210"};
  tn_ctx stranger;
  stranger.cache = &other;
  EXPECT_EQ(get(stranger, "key"), "a miss");
}

TEST_F(PluginCache, WithoutAScopeNothingIsKept) {
  tn_ctx none;
  put(none, "key", "text");
  EXPECT_EQ(get(none, "key"), "a miss");
  EXPECT_EQ(svc_.cache_put(nullptr, str_of("key"), "text", 4), nullptr);
  svc_.blob_release(nullptr);
  EXPECT_EQ(n_files(), 0u);
}

TEST_F(PluginCache, WithoutAFolderNothingIsKept) {
  variable("TENON_CACHE_DIR", (root_ / "file").string());
  file("file", "in the way");
  put(ctx_, "key", "text");
  EXPECT_EQ(get(ctx_, "key"), "a miss");
}

TEST_F(PluginCache, BlobsAreCountedWithWhoHoldsThem) {
  put(ctx_, "key", "text");
  prepare_gate();
  PluginLife life("holder");
  bool before = detail::counting_held.exchange(true);
  tn_blob* blob = nullptr;
  {
    InPlugin in(life);
    EXPECT_EQ(svc_.cache_get(&ctx_, str_of("key"), &blob), nullptr);
  }
  EXPECT_EQ(life.held_text(), "1 blob");
  svc_.blob_release(blob);
  EXPECT_EQ(life.held_text(), "");
  detail::counting_held = before;
}

// ---- flags

TEST_F(PluginCache, ForceDisableCachesNeitherReadsNorWrites) {
  put(ctx_, "before", "text");
  {
    auto off = config::patch({{"compiler.force_disable_caches", true}});
    EXPECT_EQ(get(ctx_, "before"), "a miss");
    put(ctx_, "during", "text");
  }
  EXPECT_EQ(get(ctx_, "before"), "text");
  EXPECT_EQ(get(ctx_, "during"), "a miss");
}

TEST_F(PluginCache, CacheKeyTagKeepsEntriesApart) {
  put(ctx_, "key", "untagged");
  {
    auto tagged = config::patch({{"compiler.cache_key_tag", "nightly"}});
    EXPECT_EQ(get(ctx_, "key"), "a miss");
    put(ctx_, "key", "tagged");
    EXPECT_EQ(get(ctx_, "key"), "tagged");
  }
  EXPECT_EQ(get(ctx_, "key"), "untagged");
}

TEST_F(PluginCache, CacheBytesLimitsTheStore) {
  config::set("compiler.cache_bytes", 10000);
  for (int i = 0; i < 50; ++i) put(ctx_, std::to_string(i), std::string(1000, 'x'));
  EXPECT_LT(n_files(), 10u);
  EXPECT_GT(n_files(), 5u);
  EXPECT_NE(get(ctx_, "49"), "a miss");
  config::set("compiler.cache_bytes", 0);
  put(ctx_, "none", "");
  EXPECT_EQ(get(ctx_, "none"), "a miss");
}

// ---- scopes

/// A plugin that is not there; what it has lives as long as the process, as of any plugin.
struct Pretended {
  std::string fingerprint = "llvm 19";
  int asked = 0;
  bool fails = false;
  tn_backend table{};
  BackendManifest manifest;
  std::shared_ptr<FoundPlugin> found = std::make_shared<FoundPlugin>();

  Pretended() {
    manifest.name = "pretended";
    found->path = "/nowhere/tenon_pretended.so";
    found->manifest.name = "pretended";
    found->manifest.version = {1, 2, 3, ""};
    table.self = this;
    table.fingerprint = [](void* self, const tn_sink* sink) -> tn_status* {
      auto& me = *static_cast<Pretended*>(self);
      ++me.asked;
      if (me.fails) return make_status(TN_INTERNAL, "no fingerprint today");
      sink->write(sink->ctx, me.fingerprint.data(), me.fingerprint.size());
      return nullptr;
    };
  }
  PluginBackend backend() {
    prepare_gate();
    return {*new LoadedPlugin(found), manifest, table};
  }
  std::string folder() { return cache_scope_of(backend())->folder; }
};
Pretended& pretended() { return *new Pretended; }

TEST(CacheScopes, AreAskedForOnce) {
  Pretended& p = pretended();
  PluginBackend backend = p.backend();
  const CacheScope* scope = cache_scope_of(backend);
  EXPECT_EQ(cache_scope_of(backend), scope);
  EXPECT_EQ(p.asked, 1);
  EXPECT_THAT(scope->fingerprint, ::testing::StartsWith("llvm 19\n"));
  EXPECT_THAT(scope->folder, ::testing::MatchesRegex("kernels/pretended-1.2.3/[0-9a-f]{16}"));
}

TEST(CacheScopes, DifferByVersionFingerprintAndFile) {
  std::string folder = pretended().folder();
  EXPECT_EQ(pretended().folder(), folder) << "as in another process";
  Pretended &newer = pretended(), &other = pretended(), &rebuilt = pretended(),
            &contains = pretended();
  newer.found->manifest.version = {1, 2, 4, ""};
  other.fingerprint = "llvm 20";
  rebuilt.found->elf.file.mtime_ns = 1;
  contains.found->elf.build_id = "another";
  for (Pretended* p : {&newer, &other, &rebuilt, &contains}) EXPECT_NE(p->folder(), folder);
}

TEST(CacheScopes, AreNotThereWhereTheFingerprintFails) {
  Pretended& p = pretended();
  p.fails = true;
  PluginBackend backend = p.backend();
  EXPECT_EQ(cache_scope_of(backend), nullptr);
  EXPECT_EQ(cache_scope_of(backend), nullptr);
  EXPECT_EQ(p.asked, 1);
}

TEST(CacheScopes, NeedNoFingerprint) {
  Pretended& p = pretended();
  p.table.fingerprint = nullptr;
  EXPECT_THAT(p.folder(), ::testing::StartsWith("kernels/pretended-1.2.3/"));
}

}  // namespace
}  // namespace tenon
