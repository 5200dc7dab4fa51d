// The curve of memory against recomputation, found by bisection of the budget.
#include "partition/pareto.h"

#include "core/error.h"
#include "report/log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace tenon::partition {
namespace {

bool same_result(const ParetoPoint& a, const ParetoPoint& b) {
  return a.memory == b.memory && a.runtime == b.runtime;
}

std::string file_name(std::string graph) {
  for (char& c : graph)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.')) c = '_';
  return "memory_budget_pareto_" + graph;
}

std::string csv_of(const std::vector<ParetoPoint>& points) {
  std::string text = "budget,memory_ratio,recomputation_runtime\n";
  for (const ParetoPoint& p : points) text += message("{},{},{}\n", p.budget, p.memory, p.runtime);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string svg_of(const std::string& title, const std::vector<ParetoPoint>& points) {
  constexpr double width = 640, height = 400, left = 80, top = 40, right = 20, bottom = 50;
  double most_memory = 1e-12, most_runtime = 1e-12;
  for (const ParetoPoint& p : points) {
    most_memory = std::max(most_memory, p.memory);
    most_runtime = std::max(most_runtime, p.runtime);
  }
  std::string line, dots;
  for (const ParetoPoint& p : points) {
    double x = left + p.memory / most_memory * (width - left - right);
    double y = height - bottom - p.runtime / most_runtime * (height - top - bottom);
    line += message("{},{} ", x, y);
    dots += message(
        "  <circle cx=\"{}\" cy=\"{}\" r=\"3\"><title>budget {}: memory {}, recomputation "
        "{}</title></circle>\n",
        x, y, p.budget, p.memory, p.runtime);
  }
  return message(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n  <text x=\"{}\" y=\"24\">{}</text>\n"
      "  <path d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"black\"/>\n"
      "  <text x=\"{}\" y=\"{}\">memory, at most {} of that of the fastest way</text>\n"
      "  <text transform=\"translate(20 {}) rotate(-90)\">recomputation, at most {}</text>\n"
      "  <polyline points=\"{}\" fill=\"none\" stroke=\"steelblue\"/>\n{}</svg>\n",
      width, height, left, escaped(title), left, top, height - bottom, width - right, left,
      height - 14, most_memory, height - bottom, most_runtime, line, dots);
}

}  // namespace

std::vector<ParetoPoint> pareto_points(const std::function<ParetoPoint(double)>& at) {
  std::vector<ParetoPoint> points{at(0), at(1)};
  std::vector<std::pair<ParetoPoint, ParetoPoint>> open{{points[0], points[1]}};
  while (!open.empty()) {
    auto [low, high] = open.back();
    open.pop_back();
    if (same_result(low, high) || high.budget - low.budget < 1e-3) continue;
    ParetoPoint middle = at((low.budget + high.budget) / 2);
    points.push_back(middle);
    open.emplace_back(low, middle);
    open.emplace_back(middle, high);
  }
  std::sort(points.begin(), points.end(), [](const ParetoPoint& a, const ParetoPoint& b) {
    if (a.memory != b.memory) return a.memory < b.memory;
    return a.runtime != b.runtime ? a.runtime < b.runtime : a.budget < b.budget;
  });
  std::vector<ParetoPoint> best;
  for (const ParetoPoint& p : points)
    if (best.empty() || p.runtime < best.back().runtime) best.push_back(p);
  return best;
}

void draw_pareto(const std::string& graph, const std::string& folder,
                 const std::function<ParetoPoint(double)>& at) {
  std::vector<ParetoPoint> points = pareto_points(at);
  std::filesystem::path place = folder.empty() ? "." : folder;
  std::error_code ignored;  // the streams below notice
  std::filesystem::create_directories(place, ignored);
  std::string stem = (place / file_name(graph)).string();
  std::ofstream svg(stem + ".svg"), csv(stem + ".csv");
  svg << svg_of("Memory and recomputation of " + graph, points) << std::flush;
  csv << csv_of(points) << std::flush;
  if (!svg || !csv)
    report::log(report::LogLevel::warning, "partition",
                "the curve of the memory budget cannot be written to {}.svg and .csv; set "
                "memory_budget_pareto_dir to a folder that can be written to",
                stem);
}

}  // namespace tenon::partition
