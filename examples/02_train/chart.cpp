// The bar and the picture.
#include "chart.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

Progress::Progress(int epochs, int64_t batches)
    : epochs_(epochs), batches_(batches), on_terminal_(isatty(STDOUT_FILENO) != 0) {}

void Progress::batch_done(int64_t batches, double mean_loss) {
  if (!on_terminal_) return;
  constexpr int width = 30;
  int done = static_cast<int>(width * batches / batches_);
  std::string bar = std::string(static_cast<size_t>(done), '=') + (done < width ? ">" : "");
  std::printf("\repoch %2d/%d [%-*s] loss %.4f ", epoch_, epochs_, width, bar.c_str(), mean_loss);
  std::fflush(stdout);
}

void Progress::epoch_done(const EpochResult& result) {
  std::printf("%sepoch %2d/%d loss %.6f accuracy %.2f %%\n", on_terminal_ ? "\r\033[K" : "",
              epoch_++, epochs_, result.loss, 100 * result.accuracy);
  std::fflush(stdout);
}

namespace {

constexpr double width = 640, height = 360, margin = 50;

// One value an epoch as a line; `top` is the value at the upper edge, 0 lies at the lower one.
template <class Value>
std::string line_of(const std::vector<EpochResult>& epochs, double top, const char* colour,
                    Value value) {
  std::string points;
  double step = (width - 2 * margin) / std::max<double>(1, static_cast<double>(epochs.size()) - 1);
  for (size_t i = 0; i < epochs.size(); ++i) {
    double x = margin + step * static_cast<double>(i);
    double y = height - margin - (height - 2 * margin) * value(epochs[i]) / top;
    points += std::to_string(x) + "," + std::to_string(y) + " ";
  }
  return std::string("<polyline fill='none' stroke-width='2' stroke='") + colour + "' points='" +
         points + "'/>\n";
}

std::string text_at(double x, double y, const char* colour, const std::string& text) {
  return "<text font-family='sans-serif' font-size='13' x='" + std::to_string(x) + "' y='" +
         std::to_string(y) + "' fill='" + colour + "'>" + text + "</text>\n";
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

}  // namespace

bool write_chart(const std::string& file, const std::vector<EpochResult>& epochs) {
  if (epochs.empty()) return true;
  double top = 0;
  for (const EpochResult& e : epochs) top = std::max(top, e.loss);
  top = std::max(top, 1e-9);
  std::ofstream out(file);
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height
      << "'>\n<rect width='100%' height='100%' fill='white'/>\n<path fill='none' stroke='#888' d='M"
      << margin << ' ' << margin << 'V' << height - margin << 'H' << width - margin << 'V' << margin
      << "'/>\n"
      << line_of(epochs, top, "#c0392b", [](const EpochResult& e) { return e.loss; })
      << line_of(epochs, 1, "#2471a3", [](const EpochResult& e) { return e.accuracy; })
      << text_at(8, margin, "#c0392b", rounded(top))
      << text_at(width - margin + 6, margin, "#2471a3", "100 %")
      << text_at(margin, margin - 16, "#c0392b", "loss " + rounded(epochs.back().loss))
      << text_at(width - 230, margin - 16, "#2471a3",
                 "test accuracy " + rounded(100 * epochs.back().accuracy) + " %")
      << text_at(width / 2 - 40, height - 18, "#444", std::to_string(epochs.size()) + " epochs")
      << "</svg>\n";
  return static_cast<bool>(out.flush());
}
