"use strict";
// The page of a trace: draws the timeline and the flame graph of the data in #data.
const data = JSON.parse(document.getElementById("data").textContent);
const { threads, calls, marks, names } = data;
const get = (id) => document.getElementById(id);
const LINE = 16, GAP = 10, HEAD = 22, LABEL = 150, TEXT = "11px system-ui, sans-serif";

const colour = (v) => getComputedStyle(document.documentElement).getPropertyValue(v).trim();
let style;
function readStyle() {
  style = {};
  for (const v of ["back", "front", "soft", "rule", "band", "hue", "light", "ink", "mark"]) {
    style[v] = colour("--" + v);
  }
}
const hues = new Map();
function fill(name) {
  let hue = hues.get(name);
  if (hue === undefined) {
    let h = 7;
    for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
    hues.set(name, (hue = h % 360));
  }
  return `hsl(${hue} ${style.hue} ${style.light})`;
}
function span(ns) {
  if (ns === 0) return "0";
  if (ns >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (ns >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(ns < 1e4 ? 3 : 1) + " µs";
}

// The rows: for each thread its marks, and the depths of its calls.
const rows = threads.map((t) => ({ name: `${t[0]} ${t[1]}`, calls: [], marks: [], depth: 0, most: 1 }));
let end = 1;
for (const c of calls) {
  rows[c[0]].calls.push(c);
  rows[c[0]].depth = Math.max(rows[c[0]].depth, c[3] + 1);
  end = Math.max(end, c[1] + c[2]);
}
for (const m of marks) {
  rows[m[0]].marks.push(m);
  end = Math.max(end, m[1]);
}
let y = HEAD;
for (const row of rows) {
  row.calls.sort((a, b) => a[1] - b[1]);
  row.marks.sort((a, b) => a[1] - b[1]);
  for (const c of row.calls) row.most = Math.max(row.most, c[2]);
  row.y = y;
  row.top = y + (row.marks.length ? LINE + 2 : 0);
  y = row.top + row.depth * LINE + GAP;
}
const height = Math.max(y, HEAD + 20);
let from = 0, to = end * 1.01, found = "", picked = null;

function prepare(canvas, tall) {
  const ratio = devicePixelRatio || 1, wide = canvas.parentElement.clientWidth;
  canvas.style.height = tall + "px";
  canvas.width = wide * ratio;
  canvas.height = tall * ratio;
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = TEXT;
  g.textBaseline = "middle";
  g.fillStyle = style.back;
  g.fillRect(0, 0, wide, tall);
  return [g, wide];
}
function label(g, text, x, y, room) {
  if (room < 20) return;
  const most = Math.floor(room / 5.5);
  g.fillText(text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text, x, y, room);
}
// The first of a sorted list that starts at `at` or later.
function first(list, at) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][1] < at) low = middle + 1; else high = middle;
  }
  return low;
}
const isFound = (name) => found && name.toLowerCase().includes(found);

function drawTime() {
  const canvas = get("time"), [g, wide] = prepare(canvas, height);
  const scale = (wide - LABEL) / (to - from), x = (t) => LABEL + (t - from) * scale;
  rows.forEach((row, i) => {
    if (i % 2) return;
    g.fillStyle = style.band;
    g.fillRect(0, row.y - GAP / 2, wide, row.top - row.y + row.depth * LINE + GAP);
  });
  // The scale: steps of 1, 2 or 5 times a power of ten.
  const wish = (to - from) / Math.max(2, (wide - LABEL) / 110);
  const power = 10 ** Math.floor(Math.log10(wish));
  const step = power * ([1, 2, 5].find((n) => n * power >= wish) || 10);
  for (let t = Math.ceil(from / step) * step; t < to; t += step) {
    g.fillStyle = style.rule;
    g.fillRect(x(t), HEAD - 6, 1, height);
    g.fillStyle = style.soft;
    g.fillText(span(t), x(t) + 3, HEAD / 2);
  }
  g.save();
  g.beginPath();
  g.rect(LABEL, 0, wide - LABEL, height);
  g.clip();
  for (const row of rows) {
    // What is narrower than a pixel is drawn once for each pixel and depth.
    const last = [];
    for (let i = first(row.calls, from - row.most); i < row.calls.length; i++) {
      const c = row.calls[i];
      if (c[1] > to) break;
      const left = x(c[1]), room = Math.max(1, c[2] * scale), name = names[c[4]];
      const px = Math.floor(left + room), hit = isFound(name);
      if (left + room < LABEL || (room <= 1 && last[c[3]] === px && !hit)) continue;
      last[c[3]] = px;
      const top = row.top + c[3] * LINE;
      g.globalAlpha = found && !hit ? 0.25 : 1;
      g.fillStyle = fill(name);
      g.fillRect(left, top, room > 3 ? room - 0.5 : room, LINE - 1);
      if (c === picked) { g.strokeStyle = style.mark; g.strokeRect(left, top, room, LINE - 1); }
      g.fillStyle = style.ink;
      const seen = Math.max(left, LABEL);
      label(g, name, seen + 3, top + LINE / 2, left + room - seen - 5);
    }
    let previous = -1;
    for (let i = first(row.marks, from); i < row.marks.length; i++) {
      const m = row.marks[i], left = x(m[1]), name = names[m[2]], hit = isFound(name);
      if (m[1] > to) break;
      if (left - previous < 0.7 && !hit && m !== picked) continue;
      previous = left;
      g.globalAlpha = found && !hit ? 0.25 : 1;
      const next = i + 1 < row.marks.length ? x(row.marks[i + 1][1]) : wide;
      const room = next - left;
      g.fillStyle = fill(name);
      g.fillRect(left, row.y, m === picked ? 4 : Math.max(1.5, Math.min(3, room - 1)), LINE);
      g.fillStyle = m === picked ? style.mark : style.front;
      label(g, name, left + 5, row.y + LINE / 2, Math.min(room - 8, 260));
    }
    g.globalAlpha = 1;
  }
  g.restore();
  for (const row of rows) {
    g.fillStyle = style.front;
    label(g, row.name, 6, row.y + LINE / 2, LABEL - 12);
  }
  if (!calls.length && !marks.length) {
    g.fillStyle = style.soft;
    g.fillText("nothing was recorded", LABEL, HEAD + 8);
  }
}

// What is at a place of the timeline.
function at(event) {
  const box = get("time").getBoundingClientRect();
  const px = event.clientX - box.left, py = event.clientY - box.top;
  const scale = (box.width - LABEL) / (to - from), t = from + (px - LABEL) / scale;
  if (px < LABEL) return null;
  const row = rows.find((r) => py >= r.y && py < r.top + r.depth * LINE);
  if (!row) return null;
  const near = 4 / scale;
  if (py < row.top) {
    let best = null;
    for (let i = first(row.marks, t - near); i < row.marks.length && row.marks[i][1] <= t + near; i++) {
      const m = row.marks[i];
      if (!best || Math.abs(m[1] - t) < Math.abs(best[1] - t)) best = m;
    }
    return best;
  }
  const depth = Math.floor((py - row.top) / LINE);
  for (let i = first(row.calls, t + near) - 1; i >= 0 && row.calls[i][1] >= t - row.most - near; i--) {
    const c = row.calls[i];
    if (c[3] === depth && c[1] - near <= t && t <= c[1] + c[2] + near) return c;
  }
  return null;
}
function tell(thing) {
  if (thing.length === 7) {
    const open = thing[6] ? ", had not returned" : "";
    const who = rows[thing[0]].name;
    return `${names[thing[4]]}  ${span(thing[2])}${open}  at ${span(thing[1])}  ${who}  CPU ${thing[5]}`;
  }
  const detail = names[thing[3]], from = thing[5] ? detail : "called from " + detail;
  return `${names[thing[2]]}  at ${span(thing[1])}  ${rows[thing[0]].name}  CPU ${thing[4]}  ${from}`;
}
function tip(event, text) {
  const box = get("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8) + "px";
}

const time = get("time");
time.addEventListener("wheel", (event) => {
  if (event.shiftKey) return;
  event.preventDefault();
  const box = time.getBoundingClientRect();
  const share = Math.max(0, (event.clientX - box.left - LABEL) / (box.width - LABEL));
  const here = from + share * (to - from), factor = Math.exp(event.deltaY / 300);
  const wide = Math.min(end * 1.01, Math.max(100, (to - from) * factor));
  from = Math.max(0, here - share * wide);
  to = from + wide;
  drawTime();
}, { passive: false });
let drag = null;
time.addEventListener("mousedown", (e) => { drag = { x: e.clientX, from, to, moved: false }; });
addEventListener("mouseup", (e) => {
  if (drag && !drag.moved && e.target === time) {
    picked = at(e);
    get("detail").textContent = picked ? tell(picked) : "\u00a0";
    drawTime();
  }
  drag = null;
});
addEventListener("mousemove", (e) => {
  if (drag) {
    const by = ((e.clientX - drag.x) * (drag.to - drag.from)) / (time.clientWidth - LABEL);
    if (Math.abs(e.clientX - drag.x) > 3) drag.moved = true;
    if (!drag.moved) return;
    from = Math.max(0, drag.from - by);
    to = from + (drag.to - drag.from);
    tip(e, "");
    drawTime();
  } else if (e.target === time) {
    const thing = at(e);
    tip(e, thing ? tell(thing) : "");
  } else if (e.target !== flame) {
    tip(e, "");
  }
});

// The flame graph: a frame is [name, weight, count, frames within]; the root is the lowest bar.
const flame = get("flame");
const byTime = calls.length > 0;
const weight = (w) => (byTime ? span(w) : String(w));
get("flame-title").textContent = "Flame graph of " + (byTime ? "time" : "numbers of calls and events");
let path = [data.flame], bars = [];
const deep = (f) => 1 + f[3].reduce((most, g) => Math.max(most, deep(g)), 0);
function drawFlame() {
  const root = path[path.length - 1], levels = path.length - 1 + deep(root);
  const [g, wide] = prepare(flame, levels * LINE + 4);
  bars = [];
  const bottom = levels * LINE + 2 - LINE;
  const bar = (frame, left, room, level, dim) => {
    const top = bottom - level * LINE, hit = isFound(frame[0]);
    g.globalAlpha = dim || (found && !hit) ? 0.4 : 1;
    g.fillStyle = fill(frame[0]);
    g.fillRect(left, top, Math.max(0.5, room - 0.5), LINE - 1);
    g.fillStyle = style.ink;
    label(g, frame[0], left + 3, top + LINE / 2, room - 5);
    g.globalAlpha = 1;
    bars.push({ frame, left, room, top, level });
  };
  path.slice(0, -1).forEach((frame, level) => bar(frame, 0, wide, level, true));
  const draw = (frame, left, room, level) => {
    bar(frame, left, room, level, false);
    const all = Math.max(frame[1], frame[3].reduce((sum, f) => sum + f[1], 0), 1);
    let x = left;
    for (const inner of [...frame[3]].sort((a, b) => b[1] - a[1])) {
      const part = (room * inner[1]) / all;
      if (part < 0.4) continue;
      draw(inner, x, part, level + 1);
      x += part;
    }
  };
  draw(root, 0, wide, path.length - 1);
}
function barAt(e) {
  const box = flame.getBoundingClientRect(), px = e.clientX - box.left, py = e.clientY - box.top;
  return bars.find((b) => px >= b.left && px < b.left + b.room && py >= b.top && py < b.top + LINE);
}
flame.addEventListener("mousemove", (e) => {
  const bar = barAt(e);
  if (!bar) return tip(e, "");
  const [name, w, count] = bar.frame, share = ((100 * w) / Math.max(1, data.flame[1])).toFixed(1);
  tip(e, `${name}  ${weight(w)} (${share} %)` + (byTime && count ? `  ${count} calls` : ""));
});
flame.addEventListener("click", (e) => {
  const bar = barAt(e);
  if (!bar) return;
  const way = path.indexOf(bar.frame);
  if (way >= 0) {
    path = path.slice(0, way + 1);
  } else {
    // The frames between the present root and the one that was clicked.
    const search = (frame, trail) => {
      if (frame === bar.frame) return trail;
      for (const inner of frame[3]) {
        const found = search(inner, [...trail, inner]);
        if (found) return found;
      }
      return null;
    };
    path = search(path[path.length - 1], path) || path;
  }
  drawFlame();
});

function draw() {
  readStyle();
  drawTime();
  drawFlame();
}
get("find").addEventListener("input", (e) => { found = e.target.value.toLowerCase(); draw(); });
get("whole").addEventListener("click", () => { from = 0; to = end * 1.01; drawTime(); });
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const of = (n, one, many) => `${n} ${n === 1 ? one : many}`;
get("about").textContent = `${span(end)}, ${of(threads.length, "thread", "threads")}, ` +
  (calls.length ? `${of(calls.length, "call", "calls")}, ` : "") +
  `${of(marks.length, "mark", "marks")}`;
draw();
