// Items that run together: each chunk of rows goes through all of them.
//
// Problem: after each item every thread waits for the others, and what an item wrote is read by the
// next when it may have left the cache, or lies in another core's.
//
// Method: in a row of items (kernels and products with constant weights) that all compute row r of
// their results from row r of the results before them, nobody needs another row. So a chunk of rows
// goes through the items on one thread, with no barrier between them: a linear layer, its
// activation, the next layer, the residual and the norm behind it are one region.
//
// An item may join if every buffer that the region writes is accessed row by row, with the same
// number of elements a row, by all of it. Memory that is used within a region is not used again
// for something else in it, since its chunks are at different places at the same time.
#pragma once

#include "kernel_interface.h"

#include <loopir/kernel.h>

#include <optional>

namespace inductor {

/// Items [first, last] over `rows` rows.
struct Region {
  size_t first, last;
  loopir::Id rows;
  int64_t granule = 1;         // chunks begin at multiples of so many rows
  std::vector<int64_t> units;  // by item from `first` on: a kernel's units of a row times granule
};

/// What find_regions() asks about items; nests and interfaces stand by item.
struct RegionRequest {
  loopir::Program& program;
  const std::vector<loopir::Item>& items;
  const std::vector<loopir::Nest>& nests;
  const std::vector<KernelInterface>& kernels;
  const std::vector<bool>& is_prepacked;
  std::function<bool(size_t item)> product_runs_by_rows;
};

/// Regions of at least two items and one product, in order. Cost: linear in the items.
std::vector<Region> find_regions(const RegionRequest& request);

/// The step of each of `n` items: those of a region are one.
std::vector<size_t> numbers_of_steps(size_t n, const std::vector<Region>& regions);
/// The reads and writes of each step of a call.
std::vector<loopir::Access> steps_of(const std::vector<loopir::Access>& items,
                                     const std::vector<Region>& regions);

}  // namespace inductor
