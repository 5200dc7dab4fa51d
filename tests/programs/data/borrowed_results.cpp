// Results that show or point to parts of the arguments: those of the caller, not of the body's copies.
// Graphs of shared pointers, in arguments and results.
#include "program.h"

#include <map>
#include <span>
#include <unordered_map>

namespace tenon::programs {
namespace {

// Writes over memory that was freed.
void make_noise() { std::vector<std::string> noise(20, std::string(50, 'Z')); }

TENON_PROGRAM(AViewOfAText, 2) {
  auto f = run.compile([](const std::string& s, const Tensor& x) {
    return std::pair(std::string_view(s).substr(1), x * 2.0);
  });
  for (std::string s : {std::string(50, 'a'), std::string("short"), std::string(40, 'b')}) {
    auto [view, y] = f(s, ones({2}));
    make_noise();
    run.log(view, view.data() == s.data() + 1, y);
  }
}

TENON_PROGRAM(TheWordsOfAText, 1) {
  auto f = run.compile([](const std::string& s) {
    std::vector<std::string_view> words;
    for (size_t begin = 0, end; begin < s.size(); begin = end + 1) {
      end = std::min(s.find(' ', begin), s.size());
      words.push_back(std::string_view(s).substr(begin, end - begin));
    }
    return words;
  });
  for (std::string s : {"a b", "more words than lie inside of the object of a text", ""}) {
    auto words = f(s);
    make_noise();
    run.log(words);
  }
}

TENON_PROGRAM(MapsByViews, 2) {
  auto f = run.compile([](const std::vector<std::string>& names, const Tensor& x) {
    std::map<std::string_view, Tensor> m;
    std::unordered_map<std::string_view, Tensor> u;
    for (const std::string& n : names) m[n] = u[n] = x * double(n.size());
    return std::pair(std::move(m), std::move(u));
  });
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> names{"a", "bb", "a name that is too long to lie in its object"};
    auto [m, u] = f(names, ones({2}));
    make_noise();
    for (const std::string& n : names)
      run.log(m.at(n), u.at(n), m.find(n)->first.data() == n.data());
  }
}

TENON_PROGRAM(APartOfASpan, 2) {
  auto f = run.compile([](std::span<Tensor> s, const Tensor& x) {
    s[1] = s[1] * x;
    return std::tuple(s.subspan(1), s.first<2>(), s.subspan(3));
  });
  std::vector<Tensor> v{ones({2}), row({1, 2}), ones({2})};
  for (int i = 0; i < 3; ++i) {
    auto [rest, two, none] = f(v, row({2, 2}));
    run.log(rest.data() == &v[1], two.data() == &v[0], rest[0], two[1], none.size());
  }
}

TENON_PROGRAM(APartOfAList, 2) {
  auto f = run.compile([](const std::vector<Tensor>& list, std::span<float> s, const Tensor& x) {
    s[1] += 1;
    return std::tuple(std::span(list).subspan(1), s.last(2), &list[2], x * double(s[1]));
  });
  std::vector<Tensor> v{ones({2}), row({1, 2}), ones({2})};
  std::vector<float> numbers{1, 2, 3};
  for (int i = 0; i < 3; ++i) {
    auto [rest, last, one, y] = f(v, numbers, ones({2}));
    run.log(rest.data() == &v[1], rest[0], last.data() == &numbers[1], last[0], one == &v[2], y);
  }
}

struct Model {
  std::vector<std::string> names;
  Tensor w;
};
struct Token {
  std::string_view text;
  int n;
};

TENON_PROGRAM(ViewsInsideOfStructs, 2) {
  auto f = run.compile([](const Model& m, const Tensor& x) {
    return std::pair(Token{m.names[1], 3}, x * m.w);
  });
  for (int i = 0; i < 3; ++i) {
    Model m{{"a", "a name that is too long to lie in its object"}, row({1, float(i)})};
    auto [token, y] = f(m, ones({2}));
    make_noise();
    run.log(token.text, token.n, y);
  }
}

TENON_PROGRAM(PartsOfWhatAPointerPointsTo, 5) {
  auto f = run.compile([](const std::shared_ptr<Model>& m, const Tensor& x) {
    m->names.back() += "x";
    m->names.push_back("a name that is too long to lie in its object");
    m->w = m->w * x;
    return std::tuple(std::string_view(m->names.back()), &m->w, m);
  });
  auto m = std::make_shared<Model>(Model{{"a"}, ones({2})});
  for (int i = 0; i < 4; ++i) {
    auto [view, w, same] = f(m, row({2, 2}));
    make_noise();
    run.log(view, view.data() == m->names.back().data(), w == &m->w, same == m, *w);
  }
}

TENON_PROGRAM(ViewsOfWhatIsCaptured, 2) {
  static const std::string text = "a text of the program that is too long to lie in its object";
  std::vector<Tensor> kept{ones({2}), ones({2})};
  auto f = run.compile([&](const std::string& s, const Tensor& x) {
    kept[0] = kept[0] * x;
    return std::tuple(std::string_view(text).substr(s.size()), std::span(kept), "literal");
  });
  for (int i = 0; i < 3; ++i) {
    auto [view, list, literal] = f("ab", row({2, 2}));
    run.log(view, list.data() == kept.data(), list[0], literal);
  }
}

struct Reader {
  const Tensor& t;
  TENON_TREE(Reader, t)
};

TENON_PROGRAM(WhatCannotBeAimedAtTheCallers, 2) {
  auto f = run.compile([](const Tensor& x) { return Reader{x}; });
  auto g = run.compile([](const std::string& s) { return std::string_view(s); }, {.pure = true});
  if (run.is_plain()) return run.log("UserError"), run.log("UserError");
  run.log_error([&] { f(ones({2})); });
  run.log_error([&] { g(std::string("a")); });
}

struct Node {
  Tensor value;
  std::shared_ptr<Node> left = {}, right = {};
};
using Graph = std::shared_ptr<Node>;

// By paths it has 2^40 nodes.
TENON_PROGRAM(AGraphOfSharedPointers, 3) {
  auto grown = [](Graph g, int n) {
    for (int i = 0; i < n; ++i) g = std::make_shared<Node>(Node{g->value + 0.5, g, g});
    return g;
  };
  auto f = run.compile([&](const Graph& g, const Tensor& x) {
    g->left->value = g->value * x;
    return std::pair(g->right->value + g->left->left->value,
                     grown(std::make_shared<Node>(Node{x}), 20));
  });
  Graph g = grown(std::make_shared<Node>(Node{ones({2}), {}, {}}), 40);
  for (int i = 0; i < 3; ++i) {
    auto [y, made] = f(g, row({2, 2}));
    run.log(y, g->left->value, g->left == g->right, made->left == made->right,
            made->left->left->value);
  }
}

// Which of the nodes are one is a matter of the call.
TENON_PROGRAM(NodesThatAreOneOnSomeCalls, 3) {
  auto f = run.compile([](const Graph& g) {
    g->left->value = g->left->value + 1.0;
    return g->left->value * g->right->value;
  });
  for (int i = 0; i < 6; ++i) {
    auto a = std::make_shared<Node>(Node{ones({2}) * 2.0}),
         b = std::make_shared<Node>(Node{ones({2})});
    run.log(f(std::make_shared<Node>(Node{ones({2}), a, i % 2 ? a : b})), a->value, b->value);
  }
}

TENON_PROGRAM(ANodeThatHoldsItself, 1) {
  auto f = run.compile([](const Graph& g) { return g->left->value * 2.0; });
  auto g = std::make_shared<Node>(Node{ones({2})});
  g->left = g;
  if (run.is_plain())
    run.log("UserError");
  else
    run.log_error([&] { f(g); });
  g->left.reset();
}

TENON_PROGRAM(APointerThatAnUnrecordedFunctionGivesBack, 3) {
  auto same = disable([](std::shared_ptr<Tensor> p) { return std::pair(p, std::vector{p}); });
  auto f = run.compile([&](const Tensor& x) {
    auto p = std::make_shared<Tensor>(x * 2.0);
    auto [q, list] = same(p);
    *q = *q + 1.0;
    return std::tuple(*p, q == p, list[0] == p);
  });
  for (int i = 0; i < 3; ++i) {
    auto [y, is_same, is_listed] = f(row({1, float(i)}));
    run.log(y, is_same, is_listed);
  }
}

}  // namespace
}  // namespace tenon::programs
