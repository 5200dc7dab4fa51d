// Level 3, what stays: stored artifacts, memory after many compiles, leaks at shutdown.
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "core/tensor/allocator.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/robust_checks.h"
#include "debug/plugin_kit/watched_host.h"
#include "formats/tensors.h"

#include <malloc.h>

#include <fstream>
#include <functional>
#include <sstream>

namespace tenon::kit {

// ---- stored artifacts

namespace {

std::string stored_path(const Bench& bench, const std::string& backend, const GraphCase& c,
                        const char* what) {
  return message("{}/{}.{}.{}", bench.settings().work_folder, backend, c.graph->name, what);
}

// The bytes of an artifact; skips where the backend has none.
std::string serialized(const DirectBackend& direct, tn_artifact* artifact) {
  const tn_artifact_api& api = *artifact->api;
  bool offered = api.struct_size > offsetof(tn_artifact_api, serialize) && api.serialize;
  bool claimed = direct.manifest().serializable;
  expect(offered || !claimed, "the manifest says serializable = true, artifacts lack serialize");
  expect(direct.table().load || !claimed, "the manifest says serializable = true, load is missing");
  if (!claimed) skip_check("the manifest says serializable = false");
  TextSink sink;
  if (tn_status* status = api.serialize(artifact, sink.get()))
    fail_check("serialize failed: {}", text_and_free(status));
  std::string bytes = sink.take();
  expect(!bytes.empty(), "serialize wrote nothing");
  return bytes;
}

/// What `load` makes of bytes.
struct Loaded {
  tn_status* status = nullptr;
  ArtifactHandle artifact;
};

Loaded load_bytes(Bench& bench, const DirectBackend& direct, const GraphCase& c,
                  const std::string& bytes) {
  CompileRequest request = direct.request(c);
  AbiRequest rq(direct.manifest(), bench.found().manifest.name, request);
  tn_artifact* made = nullptr;
  tn_status* status = direct.table().load(direct.table().self, &rq.abi, str_of(bytes), &made);
  return {status, ArtifactHandle(made)};
}

std::string contents_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

void check_serialize(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    std::string bytes = serialized(direct, artifact.get());
    DirectResult result = call_directly(artifact.get(), c, c.inputs);
    expect(!result.status, "the call failed: {}", result.text());
    std::ofstream(stored_path(bench, backend, c, "bytes"), std::ios::binary) << bytes;
    formats::NamedTensors outputs;
    for (size_t i = 0; i < result.outputs.size(); ++i)
      if (result.outputs[i].defined()) outputs.tensors[message("{}", i)] = result.outputs[i];
    formats::write_tensors(stored_path(bench, backend, c, "safetensors"), outputs);
  });
}

void check_load_elsewhere(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  if (!direct.manifest().serializable) skip_check("the manifest says serializable = false");
  direct.for_each_work(bench, [&](const GraphCase& c) {
    std::string bytes = contents_of(stored_path(bench, backend, c, "bytes"));
    if (bytes.empty()) skip_check("no artifact was stored by robust.serialize");
    Loaded loaded = load_bytes(bench, direct, c, bytes);
    if (loaded.status) fail_check("load failed: {}", text_and_free(loaded.status));
    expect(loaded.artifact.get() != nullptr, "load reported success without an artifact");
    DirectResult result = call_directly(loaded.artifact.get(), c, c.inputs);
    expect(!result.status, "the call failed: {}", result.text());
    formats::NamedTensors stored =
        formats::read_tensors(stored_path(bench, backend, c, "safetensors"));
    for (const auto& [name, expected] : stored.tensors) {
      const Tensor& found = result.outputs[static_cast<size_t>(std::stoul(name))];
      expect(same_bits(found, expected), "out.{} has other bits than before it was stored", name);
    }
  });
}

namespace {

void expect_data_loss(Bench& bench, const DirectBackend& direct, const GraphCase& c,
                      const std::string& damaged, const std::string& how) {
  bench.note(message("graph {}, {}", c.graph->name, how));
  Loaded loaded = load_bytes(bench, direct, c, damaged);
  int32_t code = loaded.status ? loaded.status->code : int32_t{TN_OK};
  std::string text = text_and_free(loaded.status);
  expect(code == TN_DATA_LOSS, "{}: load ended with status {} ({}), expected TN_DATA_LOSS", how,
         code, text);
}

}  // namespace

void check_damaged_artifact(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, bench.settings().quick ? 2 : 8, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    std::string bytes = serialized(direct, artifact.get());
    expect_data_loss(bench, direct, c, "", "no bytes");
    expect_data_loss(bench, direct, c, bytes.substr(0, bytes.size() / 2), "half of the bytes");
    expect_data_loss(bench, direct, c, bytes + "x", "one byte more");
    size_t step = std::max<size_t>(bytes.size() / 64, 1);
    for (size_t at = 0; at < bytes.size(); at += step) {
      std::string damaged = bytes;
      damaged[at] ^= 0x04;
      expect_data_loss(bench, direct, c, damaged,
                       message("one bit of byte {} of {} is wrong", at, bytes.size()));
    }
  });
}

// ---- memory

namespace {

int64_t bytes_in_use() {
  trim_allocator();
  struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd) + allocator_stats().current_bytes;
}

}  // namespace

int64_t growth_of_rounds(int64_t allowed_bytes, const std::function<void()>& work) {
  constexpr int rounds = 8;
  int64_t grown = INT64_MAX;
  for (int round = 0; round < rounds && grown > allowed_bytes; ++round) {
    int64_t before = bytes_in_use();
    work();
    grown = bytes_in_use() - before;
  }
  return grown;
}

// Caches may fill at first, LLVM's tables for some hundred compiles; after that, a compile that is
// over leaves nothing. What leaks grows in every round.
void check_memory_growth(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  std::vector<GraphCase> cases = direct.work_cases(bench, bench.settings().quick ? 2 : 8);
  int64_t warm = bench.settings().quick ? 50 : 200, n = bench.settings().quick ? 100 : 1000;
  constexpr int64_t allowed_bytes = 16;  // a compile
  auto compile_often = [&](int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      const GraphCase& c = cases[static_cast<size_t>(i) % cases.size()];
      ArtifactHandle artifact = compile_directly(direct, direct.request(c));
      if (i % 16 < 2) call_directly(artifact.get(), c, c.inputs);
    }
  };
  compile_often(warm);
  int64_t grown = growth_of_rounds(n * allowed_bytes, [&] { compile_often(n); });
  expect(grown <= n * allowed_bytes, "P22 {} compiles left {} bytes behind", n, grown);
}

namespace {

// A call that is over leaves nothing either: neither a tensor nor a block.
void expect_calls_leave_nothing(tn_artifact* artifact, const GraphCase& c, int64_t n) {
  constexpr int64_t allowed_bytes = 16;  // a call; a tensor takes more
  auto call_often = [&] {
    for (int64_t i = 0; i < n; ++i) {
      DirectResult result = call_directly(artifact, c, c.inputs);
      expect(!result.status, "the call failed: {}", result.text());
    }
  };
  call_often();
  int64_t grown = growth_of_rounds(n * allowed_bytes, call_often);
  expect(grown <= n * allowed_bytes, "P22 {} calls left {} bytes of tensors or other memory behind",
         n, grown);
}

void expect_none_left(const HostCounts& before, const HostCounts& after) {
  auto expect_none = [](int64_t n, const char* what) {
    expect(n <= 0, "P22 {} {} left at shutdown", n, what);
  };
  expect_none(after.live_artifacts - before.live_artifacts, "artifacts of the host");
  expect_none(after.live_blocks - before.live_blocks, "blocks of svc->alloc");
  expect_none(after.live_blobs - before.live_blobs, "blobs");
  expect_none(after.live_statuses - before.live_statuses, "statuses");
}

}  // namespace

void check_leaks(Bench& bench, const std::string& backend) {
  HostCounts before = host_counts();
  std::vector<Tensor> inputs;
  int64_t calls = bench.settings().quick ? 32 : 128;
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& given) {
    GraphCase c{given.graph, given.copy_of_inputs(), given.symbols};
    inputs.insert(inputs.end(), c.inputs.begin(), c.inputs.end());
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    for (int i = 0; i < 3; ++i) {
      DirectResult result = call_directly(artifact.get(), c, c.inputs);
      expect(!result.status, "the call failed: {}", result.text());
    }
    // What is counted one by one is told one by one.
    HostCounts now = host_counts();
    bool counted = now.live_blocks > before.live_blocks || now.live_statuses > before.live_statuses;
    if (!counted) expect_calls_leave_nothing(artifact.get(), c, calls);
  });
  bench.shut_down();
  expect_none_left(before, host_counts());
  for (size_t i = 0; i < inputs.size(); ++i)
    expect(impl_of(inputs[i])->references == 1, "P22 {} references of an input left at shutdown",
           impl_of(inputs[i])->references - 1);
}

}  // namespace tenon::kit
