// Attention: tiles of queries of each head, on the threads of the host.
#include "library_calls.h"
#include "placed.h"

#include <microkernel/attention.h>
#include <tenon/plugin.hpp>

#include <algorithm>

namespace inductor {

using loopir::Attention;
using loopir::Program;

namespace {

class AttentionCall final : public LibraryCall {
 public:
  AttentionCall(const Program& p, const Attention& a, const Workers& workers)
      : program_(p),
        attention_(a),
        workers_(workers),
        plans_(
            symbols_of(p, {&a.query, &a.key, &a.value, &a.result, a.mask ? &*a.mask : nullptr})) {}

  Memory pack(std::span<void* const>, std::span<const int64_t>) const override { return Memory(); }
  bool is_fast(std::span<const int64_t>) const override { return true; }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void*) const override {
    auto kept = plans_.get(symbols, [&] { return make_plan(symbols); });
    const Plan& plan = *kept;
    const auto& sizes = plan.query.sizes;
    int64_t most = microkernel::attention_queries(), tiles = (sizes[2] + most - 1) / most;
    int64_t heads = sizes[0] * sizes[1];
    if (heads == 0) return;
    workers_.run(heads * tiles, [&](int64_t chunk) {
      int64_t head = chunk / tiles;
      run_tile(plan, chunk % tiles * most, head / sizes[1], head % sizes[1], pointers);
    });
  }

 private:
  struct Plan {
    Placed query, key, value, result;
    std::optional<Placed> mask;
  };

  Plan make_plan(std::span<const int64_t> symbols) const {
    Plan plan{{program_, attention_.query, symbols},
              {program_, attention_.key, symbols},
              {program_, attention_.value, symbols},
              {program_, attention_.result, symbols},
              std::nullopt};
    if (attention_.mask) plan.mask.emplace(program_, *attention_.mask, symbols);
    return plan;
  }

  static float* head_of(const Placed& v, std::span<void* const> pointers, int64_t batch,
                        int64_t head) {
    return v.data(pointers) + batch * v.strides[0] + head * v.strides[1];
  }

  void run_tile(const Plan& plan, int64_t first, int64_t batch, int64_t head,
                std::span<void* const> pointers) const {
    const Placed &q = plan.query, &k = plan.key, &v = plan.value, &r = plan.result;
    microkernel::AttentionTile tile{};
    tile.first_query = first;
    tile.queries = std::min(microkernel::attention_queries(), q.sizes[2] - first);
    tile.is_causal = attention_.is_causal;
    tile.keys = tile.is_causal ? std::min(k.sizes[2], first + tile.queries) : k.sizes[2];
    tile.channels = q.sizes[3], tile.value_channels = v.sizes[3];
    tile.query_row = q.strides[2], tile.key_row = k.strides[2];
    tile.value_row = v.strides[2], tile.result_row = r.strides[2];
    tile.query = head_of(q, pointers, batch, head) + first * q.strides[2];
    tile.key = head_of(k, pointers, batch, head);
    tile.value = head_of(v, pointers, batch, head);
    tile.result = head_of(r, pointers, batch, head) + first * r.strides[2];
    tile.scale = static_cast<float>(attention_.scale);
    if (plan.mask) set_mask(*plan.mask, batch, head, pointers, tile);
    tile.scratch =
        thread_floats(microkernel::attention_scratch(tile.channels, tile.value_channels));
    microkernel::attend(tile);
  }

  void set_mask(const Placed& mask, int64_t batch, int64_t head, std::span<void* const> pointers,
                microkernel::AttentionTile& tile) const {
    int64_t at = mask.offset + batch * mask.strides[0] + head * mask.strides[1] +
                 tile.first_query * mask.strides[2];
    const void* data = pointers[mask.buffer];
    if (attention_.mask_dtype == TN_BOOL)
      tile.allowed = static_cast<const uint8_t*>(data) + at;
    else
      tile.mask = static_cast<const float*>(data) + at;
    tile.mask_row = mask.strides[2], tile.mask_column = mask.strides[3];
  }

  const Program& program_;
  const Attention& attention_;
  Workers workers_;
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Attention& attention,
                                     const Workers& workers) {
  return std::make_unique<AttentionCall>(program, attention, workers);
}

}  // namespace inductor
