// The C++ wrapper of the plugin ABI against a host of a few functions, all made here.
#include "backend/abi/status.h"

#include <gtest/gtest.h>
#include <tenon/plugin.hpp>

#include <thread>

namespace tenon::plugin {
namespace {

int live_statuses = 0;
int live_tensors = 0;
std::string logged;
int32_t log_level = TN_LOG_INFO;

const tn_tensor_api tensor_api = {.struct_size = sizeof(tn_tensor_api),
                                  .retain = [](tn_tensor*) { ++live_tensors; },
                                  .release = [](tn_tensor*) { --live_tensors; }};

const tn_ops_api ops_api = {.struct_size = sizeof(tn_ops_api), .find = [](tn_str name) {
                              static uint32_t calls = 0;
                              return sv(name) == "aten.add.Tensor" ? ++calls : TN_NO_VALUE;
                            }};

const tn_svc_api svc_api = {
    .struct_size = sizeof(tn_svc_api),
    .log = [](int32_t, const char*, const char* text, size_t n) { logged.assign(text, n); },
    .log_level = [](const char*) { return log_level; },
    .parallel_for = [](int64_t begin, int64_t end, int64_t grain,
                       tn_status* (*body)(void*, int64_t, int64_t), void* user) -> tn_status* {
      for (int64_t i = begin; i < end; i += grain) {
        tn_status* status = nullptr;
        std::thread([&] { status = body(user, i, std::min(end, i + grain)); }).join();
        if (status) return status;
      }
      return nullptr;
    },
    .parallel_chunks = [](int64_t n, tn_status* (*body)(void*, int64_t, int32_t),
                          void* user) -> tn_status* {
      for (int64_t i = 0; i < n; ++i)
        if (tn_status* status = body(user, i, 0)) return status;
      return nullptr;
    }};

const tn_host fake_host = {.struct_size = sizeof(tn_host),
                           .status_new =
                               [](int32_t code, const char* text, size_t n) {
                                 ++live_statuses;
                                 return new tn_status{code, std::string(text, n)};
                               },
                           .status_at =
                               [](tn_status* s, const tn_graph*, uint32_t node) {
                                 s->text += " at node " + std::to_string(node);
                                 return s;
                               },
                           .status_code = [](const tn_status* s) { return s->code; },
                           .status_message = [](const tn_status* s) { return str(s->text); },
                           .status_free =
                               [](tn_status* s) {
                                 --live_statuses;
                                 delete s;
                               },
                           .tensor = &tensor_api,
                           .ops = &ops_api,
                           .svc = &svc_api};

/// Code and text of a status, which is freed.
std::pair<int32_t, std::string> taken(tn_status* s) {
  if (!s) return {TN_OK, ""};
  std::pair<int32_t, std::string> out{s->code, s->text};
  host->status_free(s);
  return out;
}
using Told = std::pair<int32_t, std::string>;

class PluginWrapper : public testing::Test {
 protected:
  void SetUp() override { host = &fake_host; }
  void TearDown() override {
    EXPECT_EQ(live_statuses, 0);
    EXPECT_EQ(live_tensors, 0);
  }
};

TEST_F(PluginWrapper, MakesStatusesOfExceptions) {
  EXPECT_EQ(barrier([] {}), nullptr);
  EXPECT_EQ(taken(barrier([] { throw declined("no"); })), Told(TN_DECLINED, "no"));
  EXPECT_EQ(taken(barrier([] { throw std::bad_alloc(); })).first, TN_OUT_OF_MEMORY);
  EXPECT_EQ(taken(barrier([] { throw std::runtime_error("x"); })), Told(TN_INTERNAL, "x"));
  EXPECT_EQ(taken(barrier([] { throw 3; })).first, TN_UNKNOWN);
  auto* g = reinterpret_cast<const tn_graph*>(1);
  EXPECT_EQ(taken(barrier([&] { graph(g).fail_at(7, TN_UNIMPLEMENTED, "sort"); })),
            Told(TN_UNIMPLEMENTED, "sort at node 7"));
}

TEST_F(PluginWrapper, KeepsCodeAndTextThroughCheckAndBarrier) {
  EXPECT_EQ(taken(barrier([] { check(host->status_new(TN_DATA_LOSS, "bad", 3)); })),
            Told(TN_DATA_LOSS, "bad"));
}

TEST_F(PluginWrapper, CarriesExceptionsOfWorkersToTheCaller) {
  struct Own {
    int64_t at;
  };
  try {
    parallel_for(0, 10, 2, [](int64_t lo, int64_t) {
      if (lo == 4) throw Own{lo};
    });
    FAIL() << "nothing was thrown";
  } catch (const Own& e) {
    EXPECT_EQ(e.at, 4);
  }
  EXPECT_THROW(parallel_chunks(3,
                               [](int64_t c, int32_t) {
                                 if (c == 2) throw declined();
                               }),
               declined);
  int64_t sum = 0;
  parallel_chunks(4, [&](int64_t c, int32_t) { sum += c; });
  EXPECT_EQ(sum, 6);
}

TEST_F(PluginWrapper, FormatsOnlyWhatTheLevelLetsThrough) {
  struct Counted {
    int* n;
  };
  log(TN_LOG_INFO, "x", "{} of {}", 3, "four");
  EXPECT_EQ(logged, "3 of four");
  log_level = TN_LOG_ERROR;
  log(TN_LOG_WARN, "x", "quiet");
  EXPECT_EQ(logged, "3 of four");
  log_level = TN_LOG_INFO;
}

TEST_F(PluginWrapper, AsksForAnOpOnce) {
  uint32_t id = op("aten.add.Tensor");
  EXPECT_EQ(op("aten.add.Tensor"), id);
  EXPECT_EQ(op("aten.nothing.default"), TN_NO_VALUE);
}

TEST_F(PluginWrapper, DoesNotUseWhatAnOlderHostLacks) {
  tn_host old = fake_host;
  old.struct_size = offsetof(tn_host, status_at);
  host = &old;
  EXPECT_EQ(taken(barrier([] { throw error(TN_ABORTED, "x", reinterpret_cast<tn_graph*>(1), 1); })),
            Told(TN_ABORTED, "x"));
  EXPECT_FALSE(formula_of(1).has_value());
}

TEST_F(PluginWrapper, CopiesNodesSoThatTheyOutliveTheCompile) {
  std::vector<int64_t> ints = {4, 5};
  std::string word = "tanh", a = "first", b = "second";
  std::vector<tn_str> words = {str(a), str(b)};
  tn_arg args[3] = {};
  args[0].kind = TN_ARG_INTS, args[0].count = 2, args[0].u.ints = ints.data();
  args[1].kind = TN_ARG_STRING, args[1].u.str = str(word);
  args[2].kind = TN_ARG_STRINGS, args[2].count = 2, args[2].u.strings = words.data();
  node n{};
  n.args = args, n.n_args = 3;
  owned_node kept(n);
  owned_node moved = std::move(kept);
  ints = {0, 0}, word = "none", a = "-----", words.clear();
  EXPECT_EQ(moved.args()[0].u.ints[1], 5);
  EXPECT_EQ(sv(moved.args()[1].u.str), "tanh");
  EXPECT_EQ(sv(moved.args()[2].u.strings[0]), "first");
}

TEST_F(PluginWrapper, RefusesToKeepSubGraphs) {
  tn_arg arg{};
  arg.kind = TN_ARG_GRAPH;
  node n{};
  n.args = &arg, n.n_args = 1;
  EXPECT_THROW(owned_node{n}, declined);
}

tn_tensor some_tensor{};

struct HalfDone {
  static constexpr uint32_t flags = TN_AF_SERIAL_ONLY;
  int* destroyed;
  explicit HalfDone(int* d) : destroyed(d) {}
  ~HalfDone() { ++*destroyed; }
  void call(tn_call& c) {
    c.outputs[0] = tensor::share(&some_tensor).release();
    throw error(TN_UNAVAILABLE, "the device is lost");
  }
  std::string describe(int32_t what) { return "text " + std::to_string(what); }
};

TEST_F(PluginWrapper, ReleasesTheOutputsOfAFailedCall) {
  int destroyed = 0;
  {
    artifact a(make_artifact(std::make_unique<HalfDone>(&destroyed)));
    EXPECT_EQ(a.get()->api->flags, uint32_t{TN_AF_SERIAL_ONLY});
    EXPECT_EQ(a.get()->api->serialize, nullptr);
    tn_tensor* outputs[2] = {reinterpret_cast<tn_tensor*>(8), reinterpret_cast<tn_tensor*>(8)};
    tn_call c{};
    c.n_outputs = 2, c.outputs = outputs;
    EXPECT_EQ(taken(a.get()->api->call(a.get(), &c)).first, TN_UNAVAILABLE);
    EXPECT_EQ(outputs[0], nullptr);
    EXPECT_EQ(outputs[1], nullptr);
    EXPECT_EQ(collect([&](const tn_sink* s) { return a.get()->api->describe(a.get(), 2, s); }),
              "text 2");
  }
  EXPECT_EQ(destroyed, 1);
}

struct Named : Backend {
  static inline int alive = 0;
  std::string name;
  explicit Named(std::string_view n) : name(n) { ++alive; }
  ~Named() { --alive; }
  artifact compile(const tn_compile_request&) { throw declined(name); }
};
struct Plain {
  std::unique_ptr<HalfDone> compile(const tn_compile_request&) {
    throw std::runtime_error("plain");
  }
  std::string fingerprint() { return "v1"; }
};
bool take_first(const kernel_call& c) { return c.args.empty(); }
constexpr kernel_row rows[] = {{"aten.mm.default", take_first}, {"aten.bmm.default", take_first}};

void describe(builder& p) {
  p.backend<Named>("one").backend<Named>("two").backend<Plain>("plain");
  p.kernels(TN_DEV_CPU, rows);
}

TEST_F(PluginWrapper, GivesEveryEntryATableOfItsOwnAlsoForEqualTypes) {
  const tn_plugin* p = nullptr;
  ASSERT_EQ(detail::enter(&fake_host, &p, &describe), nullptr);
  ASSERT_EQ(p->n_backends, 3u);
  EXPECT_EQ(Named::alive, 2);
  for (uint32_t i : {0u, 1u}) {
    const tn_backend* b = p->backends[i];
    tn_artifact* out = nullptr;
    tn_compile_request request{};
    EXPECT_EQ(sv(b->name), i == 0 ? "one" : "two");
    EXPECT_EQ(taken(b->compile(b->self, &request, &out)),
              Told(TN_DECLINED, std::string(sv(b->name))));
    EXPECT_EQ(b->fingerprint, nullptr);
  }
  const tn_backend* plain = p->backends[2];
  EXPECT_EQ(collect([&](const tn_sink* s) { return plain->fingerprint(plain->self, s); }), "v1");

  ASSERT_EQ(p->n_kernels, 1u);
  const tn_kernels* k = p->kernels[0];
  EXPECT_EQ(k->n_ops, 2u);
  EXPECT_EQ(sv(k->ops[1]), "aten.bmm.default");
  tn_arg arg{};
  EXPECT_EQ(k->run(k->self, 0, nullptr, 0, nullptr, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(taken(k->run(k->self, 1, &arg, 1, nullptr, nullptr, nullptr, 0)).first, TN_DECLINED);

  EXPECT_EQ(p->shutdown(), nullptr);
  EXPECT_EQ(Named::alive, 0);
}

TEST_F(PluginWrapper, ReportsAnEntryThatThrows) {
  const tn_plugin* p = nullptr;
  tn_status* s =
      detail::enter(&fake_host, &p, [](builder&) { throw std::runtime_error("no cpu"); });
  EXPECT_EQ(taken(s), Told(TN_INTERNAL, "no cpu"));
  EXPECT_EQ(p, nullptr);
}

}  // namespace
}  // namespace tenon::plugin
