// Problem: a picture of a graph where no layout program is installed.
// Model: boxes in layers, edges as curves between them.
// Method: a value's layer is one more than that of the deepest value it is computed from. Within a
//   layer boxes stand in the order of the average place of what they read (one sweep of the
//   barycentre method), which removes most crossings of chains and branches.
// Cost: linear in nodes and edges, but for sorting each layer.
// Reference: Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system
//   structures, 1981.
#include "svg.h"

#include <algorithm>
#include <map>

using namespace tenon::plugin;

namespace {

struct Box {
  std::string title, detail;
  std::vector<size_t> reads;  // boxes
  size_t layer = 0;
  double place = 0, x = 0, y = 0;
  const char* fill = "#ffffff";
};

std::string escaped(std::string_view plain) {
  std::string out;
  for (char c : plain) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string sizes_of(const graph& g, const value& v) {
  std::string out = "[";
  for (const tn_dim& d : v.dims()) {
    if (out.size() > 1) out += ", ";
    if (d.expr == TN_EXPR_STATIC)
      out += std::to_string(d.value);
    else
      out += collect([&](const tn_sink* s) { return host->sym->text(g.get(), d.expr, s); });
  }
  return out + "]";
}

class Drawing {
 public:
  Drawing(const graph& g, bool clear_meta) : g_(g), clear_meta_(clear_meta) {
    for (uint32_t id = 0; id < g.values(); ++id)
      if (uint32_t source = g.value_at(id).source; source != TN_SRC_NODE)
        add_value(id, source == TN_SRC_INPUT ? "#d8e8ff" : "#eeeeee");
    for (uint32_t i = 0; i < g.size(); ++i) add_node(g.at(i));
    for (uint32_t id : g.outputs())
      if (id != TN_NO_VALUE) add_output(id);
    place();
  }

  std::string text_of() const {
    std::string body;
    for (const Box& b : boxes_)
      for (size_t from : b.reads) body += edge(boxes_[from], b);
    for (const Box& b : boxes_) body += drawn(b);
    return text(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
        "viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n{}</svg>\n",
        width_, height_, width_, height_, body);
  }

 private:
  std::string detail_of(uint32_t id) const {
    value v = g_.value_at(id);
    return clear_meta_ || !v.is_tensor() ? "" : sizes_of(g_, v);
  }
  void add_value(uint32_t id, const char* fill) {
    box_of_[id] = boxes_.size();
    boxes_.push_back({std::string(sv(g_.value_at(id).name)), detail_of(id), {}, 0, 0, 0, 0, fill});
  }
  void read(Box& to, uint32_t id) {
    auto found = box_of_.find(id);
    if (found == box_of_.end()) return;
    to.reads.push_back(found->second);
    to.layer = std::max(to.layer, boxes_[found->second].layer + 1);
  }
  void add_node(const node& n) {
    Box made{std::string(sv(n.op_name)), "", {}, 1, 0, 0, 0, "#ffffff"};
    if (n.n_results) made.detail = detail_of(n.first_result);
    for (const tn_arg& a : n.arguments()) {
      if (a.kind == TN_ARG_VALUE && a.u.value != TN_NO_VALUE) read(made, a.u.value);
      for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k)
        if (a.u.values[k] != TN_NO_VALUE) read(made, a.u.values[k]);
    }
    for (uint32_t r = 0; r < n.n_results; ++r) box_of_[n.first_result + r] = boxes_.size();
    boxes_.push_back(std::move(made));
  }
  void add_output(uint32_t id) {
    Box made{"output", std::string(sv(g_.value_at(id).name)), {}, 1, 0, 0, 0, "#d8ffd8"};
    read(made, id);
    boxes_.push_back(std::move(made));
  }

  void place() {
    std::map<size_t, std::vector<Box*>> layers;
    for (Box& b : boxes_) layers[b.layer].push_back(&b);
    size_t widest = 0;
    for (auto& [layer, row] : layers) widest = std::max(widest, row.size());
    width_ = static_cast<double>(widest) * column + 2 * margin;
    height_ = static_cast<double>(layers.size()) * line + 2 * margin;
    double y = margin;
    for (auto& [layer, row] : layers) {
      for (Box* b : row) b->place = average_place(*b);
      std::ranges::stable_sort(row, {}, &Box::place);
      double x = (width_ - static_cast<double>(row.size()) * column) / 2;
      for (Box* b : row) {
        b->x = x + (column - box_width) / 2, b->y = y;
        b->place = x;
        x += column;
      }
      y += line;
    }
  }
  double average_place(const Box& b) const {
    double sum = 0;
    for (size_t from : b.reads) sum += boxes_[from].x;
    return b.reads.empty() ? 0 : sum / static_cast<double>(b.reads.size());
  }

  static std::string edge(const Box& from, const Box& to) {
    double x = from.x + box_width / 2, y = from.y + box_height, end = to.x + box_width / 2;
    double middle = (y + to.y) / 2;
    return text("<path d=\"M{} {} C{} {} {} {} {} {}\" fill=\"none\" stroke=\"#888888\"/>\n", x, y,
                x, middle, end, middle, end, to.y);
  }
  static std::string drawn(const Box& b) {
    std::string out = text(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" "
        "stroke=\"#444444\"/>\n",
        b.x, b.y, box_width, box_height, b.fill);
    double middle = b.x + box_width / 2;
    out += text("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", middle, b.y + 16,
                escaped(b.title));
    if (!b.detail.empty())
      out += text("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#666666\">{}</text>\n",
                  middle, b.y + 32, escaped(b.detail));
    return out;
  }

  static constexpr double margin = 20, column = 250, line = 80, box_width = 230, box_height = 40;
  const graph& g_;
  bool clear_meta_;
  std::vector<Box> boxes_;
  std::map<uint32_t, size_t> box_of_;  // by value
  double width_ = 0, height_ = 0;
};

}  // namespace

std::string svg_of(const graph& g, bool clear_meta) { return Drawing(g, clear_meta).text_of(); }
