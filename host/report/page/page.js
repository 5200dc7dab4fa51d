// Graphs are laid out in layers and drawn when they are first seen; pictures can be zoomed and moved.
'use strict';
{
// The namespace is asked for: its name looks like an address, and the page has none.
const holder = document.createElement('template');
holder.innerHTML = '<svg></svg>';
const SVG = holder.content.firstChild.namespaceURI;
const KINDS = ['other', 'input', 'constant', 'pointwise', 'reduction', 'product', 'view'];

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

// ---- layout: layers by the longest way, order by the mean of neighbours, then places

function boxes_of(rows) {
  return rows.map(([label, detail, kind, inputs, flags, who]) => ({
    label, detail, kind: KINDS[kind] || 'other', inputs, flags, who, users: [], layer: 0,
    width: Math.min(190, Math.max(44, label.length * 7.2 + 20)), x: 0, y: 0,
  }));
}

// A node stands below all that it reads; what nothing is read for stands right above its first user.
function set_layers(boxes) {
  boxes.forEach((box, i) => {
    for (const from of box.inputs) {
      boxes[from].users.push(i);
      box.layer = Math.max(box.layer, boxes[from].layer + 1);
    }
  });
  for (const box of boxes)
    if (!box.inputs.length && box.users.length)
      box.layer = Math.min(...box.users.map(user => boxes[user].layer)) - 1;
}

// Edges over several layers get a narrow box in each, so that they go around the others.
function add_bends(boxes) {
  const edges = [], all = boxes.slice();
  boxes.forEach((box, i) => {
    for (const from of box.inputs) {
      const way = [from];
      for (let layer = boxes[from].layer + 1; layer < box.layer; ++layer) {
        way.push(all.length);
        all.push({ bend: true, layer, width: 10, x: 0, y: 0, inputs: [], users: [] });
      }
      way.push(i);
      edges.push({ from, to: i, way });
    }
  });
  for (const box of all) box.above = [], box.below = [];
  for (const { way } of edges)
    for (let k = 1; k < way.length; ++k) {
      all[way[k]].above.push(all[way[k - 1]]);
      all[way[k - 1]].below.push(all[way[k]]);
    }
  return { all, edges };
}

function layers_of(all) {
  const layers = [];
  for (const box of all) (layers[box.layer] ||= []).push(box);
  for (let i = 0; i < layers.length; ++i) layers[i] ||= [];
  return layers;
}

const mean = list => list.reduce((sum, x) => sum + x, 0) / list.length;

function order_layers(layers) {
  layers.forEach(layer => layer.forEach((box, i) => { box.place = i; }));
  for (let sweep = 0; sweep < 8; ++sweep) {
    const down = sweep % 2 === 0, side = down ? 'above' : 'below';
    for (const layer of down ? layers : layers.slice().reverse()) {
      for (const box of layer)
        box.wish = box[side].length ? mean(box[side].map(other => other.place)) : box.place;
      layer.sort((a, b) => a.wish - b.wish || a.place - b.place);
      layer.forEach((box, i) => { box.place = i; });
    }
  }
}

// Boxes go to the mean of their neighbours, pushed apart where they would overlap: as far to the
// left as the wishes allow, and to the right, and between both.
function place(layers) {
  const gap = 18;
  for (const layer of layers) {
    let x = 0;
    for (const box of layer) { box.x = x + box.width / 2; x += box.width + gap; }
  }
  for (let round = 0; round < 12; ++round) {
    const side = round % 2 === 0 ? 'above' : 'below';
    for (const layer of round % 2 === 0 ? layers : layers.slice().reverse()) {
      const wishes = layer.map(b => b[side].length ? mean(b[side].map(o => o.x)) : b.x);
      const left = [], right = [];
      layer.forEach((box, i) => {
        const least = i ? left[i - 1] + (layer[i - 1].width + box.width) / 2 + gap : -Infinity;
        left[i] = Math.max(wishes[i], least);
      });
      for (let i = layer.length - 1; i >= 0; --i) {
        const next = layer[i + 1];
        const most = next ? right[i + 1] - (next.width + layer[i].width) / 2 - gap : Infinity;
        right[i] = Math.min(wishes[i], most);
      }
      layer.forEach((box, i) => { box.x = (left[i] + right[i]) / 2; });
    }
  }
  const step = 62;
  layers.forEach((layer, i) => layer.forEach(box => { box.y = i * step; }));
}

// ---- drawing

const HEIGHT = 28;

function path_of(way, all) {
  const points = way.map(i => all[i]);
  let [x, y] = [points[0].x, points[0].y + HEIGHT / 2], path = `M${x} ${y}`;
  points.slice(1).forEach((box, k) => {
    const end = k === points.length - 2 ? box.y - HEIGHT / 2 : box.y, middle = (y + end) / 2;
    path += `C${x} ${middle} ${box.x} ${middle} ${box.x} ${end}`;
    [x, y] = [box.x, end];
  });
  return path;
}

function draw_box(box, parent) {
  const flags = (box.flags & 1 ? ' output' : '') + (box.flags & 2 ? ' saved' : '') +
    (box.who ? ' elsewhere' : '');
  const group = element('g', { class: `box k-${box.kind}${flags}` }, parent);
  element('rect', { x: box.x - box.width / 2, y: box.y - HEIGHT / 2, width: box.width,
                    height: HEIGHT }, group);
  const text = element('text', { x: box.x, y: box.y }, group);
  const most = Math.floor((box.width - 14) / 6.6);
  text.textContent = box.label.length > most ? box.label.slice(0, most - 1) + '…' : box.label;
  return group;
}

function draw(figure, rows) {
  const boxes = boxes_of(rows);
  set_layers(boxes);
  const { all, edges } = add_bends(boxes), layers = layers_of(all);
  order_layers(layers);
  place(layers);
  const svg = element('svg', {}), content = element('g', {}, svg);
  for (const edge of edges)
    edge.line = element('path', { class: 'edge', d: path_of(edge.way, all) }, content);
  const caption = figure.querySelector('figcaption'), hint = caption.textContent;
  const groups = boxes.map(box => draw_box(box, content));
  groups.forEach((group, i) => {
    group.addEventListener('click', () => {
      const again = group.classList.contains('chosen');
      groups.forEach((g, k) => g.classList.toggle('chosen', !again && k === i));
      for (const { line, from, to } of edges)
        line.classList.toggle('chosen', !again && (from === i || to === i));
      const who = boxes[i].who ? `  (run by ${boxes[i].who})` : '';
      caption.textContent = again ? hint : boxes[i].detail + who;
    });
  });
  const view = figure.querySelector('.view');
  view.replaceChildren(svg);
  const left = Math.min(...all.map(b => b.x - b.width / 2)) - 12;
  const right = Math.max(...all.map(b => b.x + b.width / 2)) + 12;
  return { svg, box: [left, -26, right - left, (layers.length - 1) * 62 + 52] };
}

// ---- zooming and moving

function make_movable(figure, svg, whole) {
  const view = figure.querySelector('.view');
  let [x, y, width, height] = whole;
  const show = () => svg.setAttribute('viewBox', `${x} ${y} ${width} ${height}`);
  // Of the drawing, under a point of the window; the picture is centred where it does not fill.
  const at = (clientX, clientY) => {
    const r = view.getBoundingClientRect(), scale = Math.max(width / r.width, height / r.height);
    return [x + width / 2 + (clientX - r.left - r.width / 2) * scale,
            y + height / 2 + (clientY - r.top - r.height / 2) * scale, scale];
  };
  const zoom = (factor, clientX, clientY) => {
    const most = 4 * Math.max(whole[2], whole[3]);
    const by = Math.min(Math.max(factor, 24 / width), most / width);
    const [px, py] = at(clientX, clientY);
    x = px - (px - x) * by; y = py - (py - y) * by;
    width *= by; height *= by;
    show();
  };
  const centre = () => {
    const r = view.getBoundingClientRect();
    return [r.left + r.width / 2, r.top + r.height / 2];
  };
  const fit = () => { [x, y, width, height] = whole; show(); };
  // A large drawing begins readable, at its top, rather than whole.
  const begin = () => {
    const r = view.getBoundingClientRect();
    fit();
    const scale = Math.max(width / r.width, height / r.height);
    if (!(scale > 1.6) || figure.classList.contains('small')) return;
    width = r.width * 1.2; height = r.height * 1.2;
    x = whole[0] + (whole[2] - width) / 2; y = whole[1];
    show();
  };
  const fingers = new Map();
  let moved = false;
  view.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(e.deltaY < 0 ? 1 / 1.2 : 1.2, e.clientX, e.clientY);
  }, { passive: false });
  view.addEventListener('pointerdown', e => {
    fingers.set(e.pointerId, [e.clientX, e.clientY]);
    moved = false;
  });
  view.addEventListener('pointermove', e => {
    const before = fingers.get(e.pointerId);
    if (!before) return;
    const other = [...fingers].find(([id]) => id !== e.pointerId)?.[1];
    const far = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]), now = [e.clientX, e.clientY];
    if (!moved && far(before, now) < 4) return;
    if (!moved) view.setPointerCapture(e.pointerId);
    moved = true;
    if (other && far(other, now) > 0) {
      zoom(far(other, before) / far(other, now), other[0], other[1]);
    } else if (!other) {
      const scale = at(0, 0)[2];
      x -= (now[0] - before[0]) * scale; y -= (now[1] - before[1]) * scale;
      show();
    }
    fingers.set(e.pointerId, now);
  });
  for (const end of ['pointerup', 'pointercancel'])
    view.addEventListener(end, e => fingers.delete(e.pointerId));
  view.addEventListener('keydown', e => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[e.key];
    if (step) { x += step[0] * width / 8; y += step[1] * height / 8; show(); }
    else if (e.key === '+' || e.key === '=') zoom(1 / 1.3, ...centre());
    else if (e.key === '-') zoom(1.3, ...centre());
    else if (e.key === '0') fit();
    else return;
    e.preventDefault();
  });
  const tools = document.createElement('div');
  tools.className = 'tools';
  const act = [['+', 'zoom in', () => zoom(1 / 1.4, ...centre())],
               ['−', 'zoom out', () => zoom(1.4, ...centre())], ['⤢', 'show all', fit]];
  for (const [sign, title, action] of act) {
    const button = document.createElement('button');
    Object.assign(button, { textContent: sign, title, type: 'button', onclick: action });
    button.setAttribute('aria-label', title);
    tools.append(button);
  }
  figure.append(tools);
  begin();
}

function show_figure(figure) {
  const data = figure.querySelector('script');
  if (data) {
    const { svg, box } = draw(figure, JSON.parse(data.textContent));
    return make_movable(figure, svg, box);
  }
  const svg = figure.querySelector('svg'), size = svg.getAttribute('viewBox');
  make_movable(figure, svg, size.split(' ').map(Number));
}

const seen = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    show_figure(target);
  }
}, { rootMargin: '200px' });
for (const figure of document.querySelectorAll('figure')) seen.observe(figure);
}
