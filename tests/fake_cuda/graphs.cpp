// The driver's functions for captures and graphs, and for memory that is mapped to addresses.
#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fake_cuda {

GraphState* Graphs::find(const void* handle) const {
  auto at = std::ranges::find_if(graphs, [&](const auto& g) { return g.get() == handle; });
  return at == graphs.end() ? nullptr : at->get();
}

bool Graphs::erase(const void* handle) {
  return std::erase_if(graphs, [&](const auto& g) { return g.get() == handle; }) != 0;
}

// ---- work

namespace {

/// Where the double may touch one side of a copy when it runs.
void* side(World& w, Address address, size_t bytes) {
  return w.memory.is_device(address) ? w.memory.work(address, bytes)
                                     : reinterpret_cast<void*>(address);
}

Result fill(World& w, const Node& node) {
  auto* target = static_cast<char*>(w.memory.work(node.to, node.count * node.element_bytes));
  if (!target) return illegal_address;
  for (size_t i = 0; i < node.count; ++i)
    std::memcpy(target + i * node.element_bytes, &node.value, node.element_bytes);
  return api::success;
}

Result copy(World& w, const Node& node) {
  void *target = side(w, node.to, node.count), *source = side(w, node.from, node.count);
  if (!target || !source) return illegal_address;
  std::memmove(target, source, node.count);
  return api::success;
}

}  // namespace

Result Node::run(World& w) const {
  if (kind == Kind::copy) return copy(w, *this);
  if (kind == Kind::foreign) return run_foreign(w, *foreign);
  return kind == Kind::set ? fill(w, *this) : run_launch(w, *launch);
}

// A driver would take it into the graph: silently wrong, so here it is the end.
void require_capturer(const StreamState& state) {
  if (state.capturer == std::this_thread::get_id()) return;
  std::fprintf(stderr, "fake_cuda: a thread uses the stream that another one captures\n");
  std::abort();
}

Result enqueue_node(World& w, api::Stream stream, Node node) {
  StreamState* state = state_of(w, stream);
  if (!state) return invalid_handle;
  auto kept = std::make_shared<const Node>(std::move(node));
  if (state->capture) {
    require_capturer(*state);
    GraphState& graph = *state->capture;
    graph.nodes.push_back(std::make_unique<NodePtr>(std::move(kept)));
    Handle handle = graph.nodes.back().get();
    graph.after[handle] = std::exchange(graph.last, {handle});
    return state->is_capture_broken ? api::error_capture_invalidated : api::success;
  }
  return enqueue(w, stream, {{}, [&w, kept] { return kept->run(w); }});
}

Result refused_by_capture(StreamState* state) {
  if (!state || !state->capture) return api::success;
  require_capturer(*state);
  state->is_capture_broken = true;
  return api::error_capture_unsupported;
}

namespace {

// ---- captures

Result begin(api::Stream stream, int32_t) {
  return call("cuStreamBeginCapture", [&](World& w) -> Result {
    StreamState* state = state_of(w, stream);
    if (!state || !stream) return api::error_capture_unsupported;
    if (state->capture) return api::error_invalid_value;
    state->capture = std::make_unique<GraphState>();
    state->is_capture_broken = state->is_joined = false;
    state->capturer = std::this_thread::get_id();
    return api::success;
  });
}
Result end(api::Stream stream, api::Graph* graph) {
  return call("cuStreamEndCapture", [&](World& w) -> Result {
    StreamState* state = state_of(w, stream);
    if (!state || !state->capture) return api::error_invalid_value;
    std::unique_ptr<GraphState> made = std::move(state->capture);
    *graph = nullptr;
    if (state->is_capture_broken) return api::error_capture_invalidated;
    *graph = reinterpret_cast<api::Graph>(made.get());
    w.graphs.graphs.insert(std::move(made));
    return api::success;
  });
}
Result info(api::Stream stream, int32_t* status, uint64_t* id, api::Graph* graph,
            const api::GraphNode** last, const api::OpaqueGraphEdge** edges, size_t* n) {
  return call("cuStreamGetCaptureInfo", [&](World& w) -> Result {
    static std::vector<api::GraphNode> newest;
    StreamState* state = state_of(w, stream);
    if (!state) return invalid_handle;
    bool is_active = state->capture && !state->is_capture_broken;
    *status = is_active ? api::capture_active : state->capture ? 2 : 0;
    *n = 0;
    *edges = nullptr;
    if (!is_active) return api::success;
    *id = 1;
    *graph = reinterpret_cast<api::Graph>(state->capture.get());
    newest.clear();
    for (int copies = state->is_joined ? 2 : 1; copies > 0; --copies)
      for (Handle h : state->capture->last)
        newest.push_back(reinterpret_cast<api::GraphNode>(const_cast<NodePtr*>(h)));
    *last = newest.data();
    *n = newest.size();
    return api::success;
  });
}
Result set_last(api::Stream stream, api::GraphNode* nodes, const api::OpaqueGraphEdge* edges,
                size_t n, unsigned flags) {
  return call("cuStreamUpdateCaptureDependencies", [&](World& w) -> Result {
    StreamState* state = state_of(w, stream);
    if (!state) return invalid_handle;
    if (!state->capture || edges || flags != api::set_dependencies) return api::error_invalid_value;
    require_capturer(*state);
    if (state->is_capture_broken) return api::error_capture_invalidated;
    std::vector<Handle> last;
    for (size_t i = 0; i < n; ++i) {
      last.push_back(reinterpret_cast<Handle>(nodes[i]));
      if (!state->capture->after.contains(last.back())) return api::error_invalid_value;
    }
    state->capture->last = std::move(last);
    return api::success;
  });
}

// ---- graphs

Result nodes(api::Graph graph, api::GraphNode*, size_t* n) {
  return call("cuGraphGetNodes", [&](World&) {
    *n = reinterpret_cast<GraphState*>(graph)->nodes.size();
    return api::success;
  });
}
Result instantiate(api::GraphExec* executable, api::Graph graph, unsigned long long) {
  return call("cuGraphInstantiateWithFlags", [&](World& w) -> Result {
    GraphState* state = w.graphs.find(graph);
    if (!state) return invalid_handle;
    auto made = std::make_unique<ExecutableState>();
    for (const auto& entry : state->nodes) {
      made->by_handle.emplace(entry.get(), made->nodes.size());
      made->nodes.push_back(*entry);
      std::vector<size_t>& after = made->after.emplace_back();
      for (Handle h : state->after.at(entry.get())) after.push_back(made->by_handle.at(h));
    }
    *executable = reinterpret_cast<api::GraphExec>(made.get());
    ExecutableState* key = made.get();
    w.graphs.executables.emplace(key, std::move(made));
    return api::success;
  });
}

ExecutableState* executable_of(World& w, api::GraphExec handle) {
  auto* state = reinterpret_cast<ExecutableState*>(handle);
  return w.graphs.executables.contains(state) ? state : nullptr;
}

/// The nodes in an order drawn among those in which each comes behind what it waits for.
std::vector<NodePtr> drawn_order(World& w, const ExecutableState& state) {
  std::vector<bool> is_done(state.nodes.size(), false);
  std::vector<NodePtr> out;
  while (out.size() < state.nodes.size()) {
    std::vector<size_t> able;
    for (size_t i = 0; i < state.nodes.size(); ++i)
      if (!is_done[i] && std::ranges::all_of(state.after[i], [&](size_t a) { return is_done[a]; }))
        able.push_back(i);
    size_t chosen = able[able.size() > 1 ? w.streams.draw(able.size()) : 0];
    is_done[chosen] = true;
    out.push_back(state.nodes[chosen]);
  }
  return out;
}

// What is changed later does not change a launch that was made.
Result launch(api::GraphExec handle, api::Stream stream) {
  return call("cuGraphLaunch", [&](World& w) -> Result {
    ExecutableState* state = executable_of(w, handle);
    StreamState* on = state_of(w, stream);
    if (!state || !on) return invalid_handle;
    if (Result refused = refused_by_capture(on)) return refused;
    ++w.graph_launches;
    for (const NodePtr& node : drawn_order(w, *state))
      if (Result failed = enqueue(w, stream, {{}, [&w, node] { return node->run(w); }}))
        return failed;
    return api::success;
  });
}

template <class F>
Result change(const char* function, api::GraphExec handle, api::GraphNode node, Node::Kind kind,
              F&& apply) {
  return call(function, [&](World& w) -> Result {
    ExecutableState* state = executable_of(w, handle);
    if (!state) return invalid_handle;
    auto at = state->by_handle.find(reinterpret_cast<const NodePtr*>(node));
    if (at == state->by_handle.end()) return invalid_handle;
    Node changed = *state->nodes[at->second];
    if (changed.kind != kind) return api::error_invalid_value;
    if (Result failed = apply(w, changed)) return failed;
    state->nodes[at->second] = std::make_shared<const Node>(std::move(changed));
    return api::success;
  });
}

Result change_launch(api::GraphExec handle, api::GraphNode node, const api::KernelNode* p) {
  return change("cuGraphExecKernelNodeSetParams", handle, node, Node::Kind::launch,
                [&](World& w, Node& n) -> Result {
                  auto* function = reinterpret_cast<FunctionState*>(p->function);
                  if (!w.code.knows(function)) return invalid_handle;
                  n.launch =
                      made_launch(*function, p->grid, p->block, p->shared_bytes, p->parameters);
                  return api::success;
                });
}
Result change_copy(api::GraphExec handle, api::GraphNode node, const api::CopyNode* p,
                   api::Context context) {
  return change("cuGraphExecMemcpyNodeSetParams", handle, node, Node::Kind::copy,
                [&](World&, Node& n) -> Result {
                  bool is_row = p->height == 1 && p->depth == 1 && context;
                  if (!is_row) return api::error_invalid_value;
                  n.to = p->to.device;
                  n.from = p->from.device;
                  n.count = p->bytes;
                  return api::success;
                });
}
Result change_set(api::GraphExec handle, api::GraphNode node, const api::SetNode* p,
                  api::Context context) {
  return change("cuGraphExecMemsetNodeSetParams", handle, node, Node::Kind::set,
                [&](World&, Node& n) -> Result {
                  bool is_row = p->rows == 1 && context;
                  if (!is_row) return api::error_invalid_value;
                  n.to = p->to;
                  n.value = p->value;
                  n.element_bytes = p->element_bytes;
                  n.count = p->elements;
                  return api::success;
                });
}

Result destroy_executable(api::GraphExec handle) {
  return call("cuGraphExecDestroy", [&](World& w) -> Result {
    bool known = w.graphs.executables.erase(reinterpret_cast<ExecutableState*>(handle)) != 0;
    return known ? api::success : invalid_handle;
  });
}
Result destroy_graph(api::Graph graph) {
  return call("cuGraphDestroy", [&](World& w) -> Result {
    return w.graphs.erase(graph) ? api::success : invalid_handle;
  });
}

// ---- addresses and pages

Result reserve(Address* address, size_t bytes, size_t, Address, unsigned long long) {
  return call("cuMemAddressReserve", [&](World& w) -> Result {
    std::optional<Address> at = w.memory.reserve(bytes);
    if (!at) return api::error_out_of_memory;
    *address = *at;
    return api::success;
  });
}
Result unreserve(Address, size_t) {
  return call("cuMemAddressFree", [](World&) { return api::success; });
}
Result granularity(size_t* bytes, const api::MemoryProperties*, int32_t) {
  return call("cuMemGetAllocationGranularity", [&](World&) {
    *bytes = Memory::page;
    return api::success;
  });
}
Result create(api::MemoryHandle* memory, size_t bytes, const api::MemoryProperties* properties,
              unsigned long long) {
  return call("cuMemCreate", [&](World& w) -> Result {
    if (bytes == 0 || bytes % Memory::page) return api::error_invalid_value;
    if (!w.memory.take_pages(properties->location_id, bytes)) return api::error_out_of_memory;
    *memory = ++w.last_handle;
    w.pages[*memory] = {properties->location_id, bytes};
    return api::success;
  });
}
Result give_back(api::MemoryHandle memory) {
  return call("cuMemRelease", [&](World& w) -> Result {
    auto at = w.pages.find(memory);
    if (at == w.pages.end()) return invalid_handle;
    w.memory.give_pages(at->second.first, at->second.second);
    w.pages.erase(at);
    return api::success;
  });
}
Result map(Address address, size_t bytes, size_t, api::MemoryHandle memory, unsigned long long) {
  return call("cuMemMap", [&](World& w) -> Result {
    bool known = w.pages.contains(memory) && w.pages[memory].second >= bytes;
    return known && w.memory.map(address, bytes) ? api::success : api::error_invalid_value;
  });
}
Result unmap(Address address, size_t bytes) {
  return call("cuMemUnmap", [&](World& w) -> Result {
    return w.memory.unmap(address, bytes) ? api::success : api::error_invalid_value;
  });
}
Result set_access(Address address, size_t bytes, const api::MemoryAccess*, size_t) {
  return call("cuMemSetAccess", [&](World& w) -> Result {
    return w.memory.allow(address, bytes) ? api::success : api::error_invalid_value;
  });
}

}  // namespace

void fill_graphs(api::Driver& d) {
  d.cuStreamBeginCapture = begin;
  d.cuStreamEndCapture = end;
  d.cuStreamGetCaptureInfo = info;
  d.cuStreamUpdateCaptureDependencies = set_last;
  d.cuGraphGetNodes = nodes;
  d.cuGraphInstantiateWithFlags = instantiate;
  d.cuGraphLaunch = launch;
  d.cuGraphExecKernelNodeSetParams = change_launch;
  d.cuGraphExecMemcpyNodeSetParams = change_copy;
  d.cuGraphExecMemsetNodeSetParams = change_set;
  d.cuGraphExecDestroy = destroy_executable;
  d.cuGraphDestroy = destroy_graph;
  d.cuMemAddressReserve = reserve;
  d.cuMemAddressFree = unreserve;
  d.cuMemGetAllocationGranularity = granularity;
  d.cuMemCreate = create;
  d.cuMemRelease = give_back;
  d.cuMemMap = map;
  d.cuMemUnmap = unmap;
  d.cuMemSetAccess = set_access;
}

}  // namespace fake_cuda
