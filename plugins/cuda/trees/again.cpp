// Draws, and writes, that the host has to know of.
#include "again.h"

#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

namespace tenon::cuda::trees {

using plugin::check;
using plugin::host;

namespace {

std::vector<Draw>& drawn_before() { return ThreadObject<std::vector<Draw>>::get(); }

}  // namespace

DrawAgain::DrawAgain(std::vector<Draw> draws)
    : outer_(std::exchange(drawn_before(), std::move(draws))) {}

DrawAgain::~DrawAgain() { drawn_before() = std::move(outer_); }

std::vector<Draw> DrawAgain::left() { return drawn_before(); }

Draw reserve_random(Gpu& gpu, const tn_stream* stream, uint64_t blocks) {
  Draw draw{blocks, 0, 0};
  std::vector<Draw>& before = drawn_before();
  if (!before.empty() && before.front().blocks == blocks) {
    draw = before.front();
    before.erase(before.begin());
  } else {
    before.clear();
    check(host->svc->rng_reserve(TN_DEV_CUDA, gpu.index(), blocks, &draw.seed, &draw.offset));
  }
  if (Recording::is_under_way(stream)) Recording::current()->note_draw(draw);
  return draw;
}

// The host counts what its copies write, also where that is no element.
void note_write(tn_tensor* t) {
  plugin::detail::quietly("cuda", [&] {
    int64_t none = 0, one = 1;
    tn_tensor* empty = nullptr;
    check(host->tensor->as_strided(t, &none, &one, 1, t->storage_offset, &empty));
    plugin::tensor owned(empty);
    check(host->tensor->copy(empty, empty, nullptr));
  });
}

}  // namespace tenon::cuda::trees
