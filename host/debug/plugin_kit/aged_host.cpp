// Host tables of other ages: as the first minor had them, and as a later one will.
//
// Each table lies at the end of a page that nothing follows, so that reading a field that the host
// does not have ends the process, and the check with it.
#include "core/error.h"
#include "debug/plugin_kit/embedded.h"
#include "debug/plugin_kit/watched_host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tenon::kit {

namespace {

constexpr size_t future_bytes = 64;

// Memory that ends where reading is an error. Kept for the life of the process.
void* before_a_hole(size_t bytes) {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t pages = (bytes + page - 1) / page + 1;
  void* start =
      ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(start != MAP_FAILED, "no memory for a host table");
  auto* hole = static_cast<char*>(start) + (pages - 1) * page;
  ::mprotect(hole, page, PROT_NONE);
  return hole - bytes;
}

// The size that a struct had in 1.0, as plugin-api/abi/v1.layout froze it.
size_t frozen_size(std::string_view name) {
  std::string_view text = abi_layouts()[0].text;
  std::string line = message("struct {} size ", name);
  size_t at = text.find(line);
  ensure(at != std::string_view::npos, "v1.layout lacks a table of the host");
  size_t size = 0;
  std::from_chars(text.data() + at + line.size(), text.data() + text.size(), size);
  return size;
}

template <class T>
const T* cut_to(const T& table, std::string_view name) {
  size_t size = std::min(frozen_size(name), sizeof(T));
  void* at = before_a_hole(size);
  auto size_field = static_cast<uint32_t>(size);
  std::memcpy(at, &table, size);
  std::memcpy(at, &size_field, sizeof size_field);
  return static_cast<const T*>(at);
}

template <class T>
const T* lengthened(const T& table) {
  void* at = before_a_hole(sizeof(T) + future_bytes);
  auto size_field = static_cast<uint32_t>(sizeof(T) + future_bytes);
  std::memcpy(at, &table, sizeof(T));
  std::memcpy(at, &size_field, sizeof size_field);
  std::memset(static_cast<char*>(at) + sizeof(T), 0xA5, future_bytes);
  return static_cast<const T*>(at);
}

}  // namespace

const tn_host* older_host() {
  tn_host host = *watched_host();
  tn_tensor_api tensor = *host.tensor;
  tn_graph_api graph = *host.graph;
  tn_ops_api ops = *host.ops;
  tn_svc_api svc = *host.svc;
  tensor.to_dlpack = nullptr;
  tensor.from_dlpack = nullptr;
  graph.node_meta = nullptr;
  ops.formula = nullptr;
  svc.cache_get = nullptr;
  svc.cache_put = nullptr;
  svc.progress = nullptr;
  svc.trace_on = nullptr;
  svc.trace = nullptr;
  svc.debug_dir = nullptr;
  host.status_at = nullptr;
  host.abi_minor = 0;
  host.tensor = cut_to(tensor, "tn_tensor_api");
  host.graph = cut_to(graph, "tn_graph_api");
  host.sym = cut_to(*host.sym, "tn_sym_api");
  host.ops = cut_to(ops, "tn_ops_api");
  host.run = cut_to(*host.run, "tn_run_api");
  host.opt = cut_to(*host.opt, "tn_opt_api");
  host.svc = cut_to(svc, "tn_svc_api");
  return cut_to(host, "tn_host");
}

std::string missing_in_older_host() {
  return "status_at, tensor->to_dlpack, from_dlpack, graph->node_meta, ops->formula, "
         "svc->cache_get, cache_put, progress, trace_on, trace, debug_dir";
}

const tn_host* newer_host() {
  tn_host host = *watched_host();
  host.abi_minor = TN_ABI_MINOR + 1;
  host.tensor = lengthened(*host.tensor);
  host.graph = lengthened(*host.graph);
  host.sym = lengthened(*host.sym);
  host.ops = lengthened(*host.ops);
  host.run = lengthened(*host.run);
  host.opt = lengthened(*host.opt);
  host.svc = lengthened(*host.svc);
  return lengthened(host);
}

}  // namespace tenon::kit
