// Reading and changing digits.
#include "digits.h"

#include <array>
#include <cmath>
#include <random>

using tenon::Tensor;

namespace {

constexpr int side = 8;

float pixel(const float* image, int x, int y) {
  return x >= 0 && x < side && y >= 0 && y < side ? image[y * side + x] : 0;
}

// Between four pixels, weighted by how near they are.
float sample(const float* image, float x, float y) {
  float left = std::floor(x), top = std::floor(y), right_part = x - left, low_part = y - top;
  int ix = static_cast<int>(left), iy = static_cast<int>(top);
  float upper = pixel(image, ix, iy) * (1 - right_part) + pixel(image, ix + 1, iy) * right_part;
  float lower =
      pixel(image, ix, iy + 1) * (1 - right_part) + pixel(image, ix + 1, iy + 1) * right_part;
  return upper * (1 - low_part) + lower * low_part;
}

// A number in [-range, range). The distributions of <random> differ between libraries.
float random_number(std::mt19937_64& bits, float range) {
  return range * (2 * static_cast<float>(bits() >> 40) * 0x1p-24F - 1);
}

}  // namespace

Digits load_digits(const std::string& file, const std::string& part, int64_t limit) {
  tenon::StateDict all = tenon::load_tensors(file);
  tenon::require(all.contains(part + ".images") && all.contains(part + ".labels"),
                 "{}: expected tensors {}.images and {}.labels; is this the file of digits?", file,
                 part, part);
  Tensor images = all[part + ".images"].to(tenon::Dtype::f32).div(16).unsqueeze(1);
  Tensor labels = all[part + ".labels"].to(tenon::Dtype::i64);
  return {images.slice(0, 0, limit), labels.slice(0, 0, limit)};
}

std::tuple<Tensor, Tensor> AugmentedDigits::get(int64_t i, uint64_t seed) const {
  std::mt19937_64 bits(seed);
  float angle = random_number(bits, 0.2F), scale = 1 + random_number(bits, 0.1F);
  float dx = random_number(bits, 0.7F), dy = random_number(bits, 0.7F);
  float cosine = std::cos(angle) / scale, sine = std::sin(angle) / scale;
  constexpr float centre = (side - 1) / 2.0F;

  const float* from = digits.images.data_ptr<float>() + i * side * side;
  Tensor image = tenon::empty({1, side, side});
  float* to = image.data_ptr<float>();
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      float fx = static_cast<float>(x) - centre, fy = static_cast<float>(y) - centre;
      *to++ = sample(from, cosine * fx - sine * fy + centre + dx,
                     sine * fx + cosine * fy + centre + dy);
    }
  return {image, digits.labels.select(0, i)};
}
