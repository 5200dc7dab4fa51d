// The data: 1500 handwritten digits of 8 x 8 pixels to learn from and 297 to be tested with.
#pragma once

#include <tenon/tenon.h>

#include <cstdint>
#include <string>
#include <tuple>

/// Images [n, 1, 8, 8] with values from 0 to 1 and their labels [n].
struct Digits {
  tenon::Tensor images, labels;
  int64_t size() const { return labels.size(0).guard_int(); }
};

/// Reads "train" or "test"; of the images at most `limit`.
Digits load_digits(const std::string& file, const std::string& part, int64_t limit);

/// Digits as a data set whose images are turned, scaled and moved a little, otherwise in each
/// epoch: few images then do for a network with many parameters.
struct AugmentedDigits {
  Digits digits;
  int64_t size() const { return digits.size(); }
  std::tuple<tenon::Tensor, tenon::Tensor> get(int64_t i, uint64_t seed) const;
};
