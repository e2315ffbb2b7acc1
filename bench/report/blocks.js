// Draws the blocks of a work over time.
//
//   entries   0    1    2    3      of[e]: the block that is born or ends there
//   columns   |  x  |  x + 1  |     a column of pixels shows the moment in it at which most lived
//
// A picture is one sweep: the live blocks are a linked list by age, and each column walks it from the
// bottom. So it costs the entries before the right edge and, a column, the blocks that live there.
'use strict';

const NOBODY = -1, OTHER = -2, GIB = 2 ** 30, MIB = 2 ** 20;
const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
const $ = id => document.getElementById(id);
const count = n => Math.round(n).toLocaleString('en-US');
const sized = n => n >= GIB ? (n / GIB).toFixed(2) + ' GiB' : n >= MIB ? (n / MIB).toFixed(1) + ' MiB' :
  n >= 1024 ? (n / 1024).toFixed(1) + ' KiB' : n + ' B';

function unpack(column) {
  if (!column) { return null; }
  const text = atob(column.of);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) { bytes[i] = text.charCodeAt(i); }
  return new KINDS[column.type](bytes.buffer);
}

// Bytes of the blocks that are drawn as one.
const otherOf = (w, e) => w.other ? w.other[e] * w.unit : 0;

// A work with what drawing needs: birth and end of each block, what lives after each entry.
function open(held) {
  const w = { ...held };
  for (const key of ['bytes', 'steps', 'other', 'of', 'stream', 'stack', 'node', 'site', 'frame', 'caller']) {
    w[key] = unpack(held[key]);
  }
  const n = w.bytes.length, m = w.of.length;
  w.rounded = Float64Array.from(w.bytes, bytes => Math.ceil(bytes / w.unit) * w.unit);
  w.at = w.steps && Float64Array.from(w.steps);
  for (let e = 1; w.at && e < m; e++) { w.at[e] += w.at[e - 1]; }
  w.born = new Int32Array(n).fill(-1);
  w.end = new Int32Array(n).fill(m);
  w.live = new Float64Array(m);
  w.peak = 0;
  let live = 0;
  for (let e = 0; e < m; e++) {
    const b = w.of[e];
    if (w.born[b] < 0) {
      w.born[b] = e;
      live += w.rounded[b];
    } else {
      w.end[b] = e;
      live -= w.rounded[b];
    }
    w.live[e] = live + otherOf(w, e);
    if (w.live[e] > w.live[w.peak]) { w.peak = e; }
  }
  return w;
}

const eventOf = (w, e) => e >= w.of.length ? w.n_events : w.at ? w.at[e] : e;

// The first entry at or after that event.
function entryAt(w, event) {
  if (!w.at) { return Math.max(0, Math.min(w.of.length, Math.ceil(event))); }
  let low = 0, high = w.of.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (w.at[middle] < event) { low = middle + 1; } else { high = middle; }
  }
  return low;
}

// ---- the picture -----------------------------------------------------------------------------

const works = JSON.parse($('held').textContent);
const opened = [];
const view = { t0: 0, t1: 1, b0: 0, b1: 1 };
let work, ids, nowHovered = NOBODY, pinned = NOBODY, size = { w: 0, h: 0, scale: 1 };
const LEFT = 58, BELOW = 20; // CSS pixels for the axes

// Which entry each column shows: that with the most live bytes among those in the column and the one
// in force at its left edge.
function choose(w, columns) {
  const shown = new Int32Array(columns);
  const step = (view.t1 - view.t0) / columns;
  let from = entryAt(w, view.t0);
  for (let x = 0; x < columns; x++) {
    const to = entryAt(w, view.t0 + (x + 1) * step);
    let best = eventOf(w, from) > view.t0 + x * step || from >= w.of.length ? from - 1 : from;
    for (let e = from; e < to; e++) {
      if (best < 0 || w.live[e] > w.live[best]) { best = e; }
    }
    shown[x] = view.t0 + x * step >= w.n_events ? -1 : best;
    from = to;
  }
  return shown;
}

// Fills ids[y * columns + x], y from the top.
function sweep(w, columns, rows) {
  const n = w.bytes.length, none = n;
  const next = new Int32Array(n + 1), before = new Int32Array(n + 1);
  next[none] = before[none] = none;
  const shown = choose(w, columns);
  const scale = rows / (view.b1 - view.b0);
  ids.fill(NOBODY);
  let done = 0;
  for (let x = 0; x < columns; x++) {
    const upTo = shown[x];
    if (x > 0 && upTo === shown[x - 1]) {
      for (let at = x; at < columns * rows; at += columns) { ids[at] = ids[at - 1]; }
      continue;
    }
    for (; done <= upTo; done++) {
      const b = w.of[done];
      if (w.born[b] === done) {
        before[b] = before[none];
        next[b] = none;
        next[before[none]] = b;
        before[none] = b;
      } else {
        next[before[b]] = next[b];
        before[next[b]] = before[b];
      }
    }
    if (upTo >= 0) { column(w, x, columns, rows, scale, next, otherOf(w, upTo)); }
  }
}

function column(w, x, columns, rows, scale, next, other) {
  const none = w.bytes.length;
  let bottom = 0, row = 0;
  const fill = (id, bytes) => {
    bottom += bytes;
    const end = Math.min(rows, Math.ceil((bottom - view.b0) * scale - 0.5));
    for (; row < end; row++) { ids[(rows - 1 - row) * columns + x] = id; }
  };
  fill(OTHER, other);
  for (let b = next[none]; b !== none && row < rows; b = next[b]) { fill(b, w.rounded[b]); }
}

// ---- colours ---------------------------------------------------------------------------------

const isDark = matchMedia('(prefers-color-scheme: dark)');

function rgb(hue, saturation, light) {
  const part = n => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - saturation * Math.min(light, 1 - light) *
      Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

const word = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;

// Colours of all blocks, and of their edges: by call site, or by size where no stack was recorded. The
// golden angle keeps neighbours apart.
function colours(w) {
  const light = isDark.matches ? 0.46 : 0.56, known = new Map();
  w.colour = new Uint32Array(w.bytes.length);
  w.edge = new Uint32Array(w.bytes.length);
  for (let b = 0; b < w.bytes.length; b++) {
    const site = w.site[w.stack[b]];
    const key = site > 0 ? site - 1 : w.bytes[b] % 1009, at = site > 0 ? site : -1 - key;
    if (!known.has(at)) {
      const plain = rgb(key * 137.508 % 360, site > 0 ? 0.5 : 0.3, light + 0.1 * (key % 3 - 1));
      known.set(at, [word(plain), word(plain.map(part => part * 0.72))]);
    }
    [w.colour[b], w.edge[b]] = known.get(at);
  }
}

function paint(context) {
  const { columns, rows } = size;
  const picture = context.createImageData(columns, rows);
  const out = new Uint32Array(picture.data.buffer);
  const grey = word(isDark.matches ? [90, 90, 90] : [190, 190, 190]);
  const lit = word(isDark.matches ? [255, 255, 255] : [0, 0, 0]);
  const chosen = pinned !== NOBODY ? pinned : nowHovered;
  for (let y = 0, at = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++, at++) {
      const id = ids[at];
      if (id === NOBODY) { continue; }
      if (id === OTHER) { out[at] = grey; continue; }
      if (id === chosen) { out[at] = lit; continue; }
      const isTop = y > 0 && ids[at - columns] !== id && y + 1 < rows && ids[at + columns] === id;
      const isSide = x > 0 && ids[at - 1] !== id && x + 1 < columns && ids[at + 1] === id;
      out[at] = isTop || isSide ? work.edge[id] : work.colour[id];
    }
  }
  context.putImageData(picture, Math.round(LEFT * size.scale), 0);
}

// ---- axes and strip --------------------------------------------------------------------------

// Round steps for about n ticks.
function ticks(from, to, n, unit) {
  const rough = (to - from) / n / unit;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = unit * power * [1, 2, 5, 10].find(s => s * power >= rough);
  const out = [];
  for (let v = Math.ceil(from / step) * step; v <= to; v += step) { out.push(v); }
  return { at: out, step };
}

const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axes(context) {
  const s = size.scale, right = LEFT * s + size.columns, bottom = size.rows;
  context.font = `${11 * s}px system-ui, "DejaVu Sans", sans-serif`;
  context.fillStyle = context.strokeStyle = ink('--soft');
  const unit = view.b1 >= GIB ? GIB : MIB;
  const bytes = ticks(view.b0, view.b1, Math.max(2, size.rows / s / 60), unit);
  const digits = Math.max(0, -Math.floor(Math.log10(bytes.step / unit) + 1e-9));
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const v of bytes.at) {
    const y = bottom - (v - view.b0) / (view.b1 - view.b0) * bottom;
    if (y < 9 * s) { continue; }
    context.fillText((v / unit).toFixed(digits), (LEFT - 6) * s, Math.min(y, bottom - 5 * s));
    context.fillRect((LEFT - 4) * s, y, 4 * s, 1);
  }
  context.textAlign = 'left';
  context.fillText(unit === GIB ? 'GiB' : 'MiB', 0, 8 * s);
  context.textAlign = 'center';
  const step = Math.max(2, size.columns / s / 110);
  for (const v of ticks(view.t0, view.t1, step, 1).at) {
    const x = LEFT * s + (v - view.t0) / (view.t1 - view.t0) * size.columns;
    if (x < right - 24 * s && v === Math.round(v)) {
      context.fillRect(x, bottom, 1, 4 * s);
      context.fillText(count(v), x, bottom + 12 * s);
    }
  }
  context.textAlign = 'right';
  context.fillText('event', right, bottom + 12 * s);
  peak(context);
}

// A dashed line at the most that lived.
function peak(context) {
  const s = size.scale, top = work.live[work.peak];
  const y = size.rows - (top - view.b0) / (view.b1 - view.b0) * size.rows;
  if (y < 0 || y > size.rows) { return; }
  context.save();
  context.strokeStyle = context.fillStyle = ink('--ink');
  context.setLineDash([4 * s, 4 * s]);
  context.beginPath();
  context.moveTo(LEFT * s, y + 0.5);
  context.lineTo(LEFT * s + size.columns, y + 0.5);
  context.stroke();
  context.textAlign = 'right';
  context.fillText(`peak ${sized(top)}`, LEFT * s + size.columns - 4 * s, y + (y > 16 * s ? -8 : 9) * s);
  context.restore();
}

// The whole run, small, with a frame around what is shown.
function strip() {
  const canvas = $('strip'), s = size.scale, columns = size.columns, rows = Math.round(36 * s);
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext('2d');
  const top = work.live[work.peak], most = new Float64Array(columns);
  for (let e = 0; e < work.of.length; e++) {
    const x = Math.min(columns - 1, Math.floor(eventOf(work, e) / work.n_events * columns));
    most[x] = Math.max(most[x], work.live[e]);
  }
  context.fillStyle = ink('--line');
  for (let x = 0, last = 0; x < columns; x++) {
    last = most[x] || last;
    const height = last / top * (rows - 2);
    context.fillRect(x, rows - height, 1, height);
  }
  context.strokeStyle = ink('--ink');
  context.lineWidth = s;
  const x0 = view.t0 / work.n_events * columns, x1 = view.t1 / work.n_events * columns;
  context.strokeRect(x0 + s / 2, s / 2, Math.max(x1 - x0 - s, s), rows - s);
}

let isAsked = false, isMoved = true;

function draw() {
  isAsked = false;
  const canvas = $('map'), box = canvas.getBoundingClientRect();
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const columns = Math.max(1, Math.round((box.width - LEFT) * scale));
  const rows = Math.max(1, Math.round((box.height - BELOW) * scale));
  if (columns !== size.columns || rows !== size.rows) {
    size = { columns, rows, scale };
    ids = new Int32Array(columns * rows);
    isMoved = true;
  }
  if (isMoved) { sweep(work, columns, rows); }
  canvas.width = Math.round(LEFT * scale) + columns;
  canvas.height = rows + Math.round(BELOW * scale);
  const context = canvas.getContext('2d');
  paint(context);
  axes(context);
  if (isMoved) { strip(); }
  isMoved = false;
}

function ask(hasMoved) {
  isMoved = isMoved || hasMoved;
  if (!isAsked) {
    isAsked = true;
    requestAnimationFrame(draw);
  }
}

// ---- what a block is -------------------------------------------------------------------------

function stackOf(w, b) {
  const frames = [];
  for (let node = w.node[w.stack[b]]; node > 0; node = w.caller[node]) { frames.push(w.frames[w.frame[node]]); }
  return frames.join('\n');
}

function tell(b) {
  const story = $('story');
  story.textContent = '';
  const add = (tag, text) => story.appendChild(Object.assign(document.createElement(tag), { textContent: text }));
  if (b === NOBODY) {
    add('p', 'Point at a block.').className = 'soft';
    return;
  }
  if (b === OTHER) {
    add('p', `${count(work.n_other)} smaller blocks, drawn as one.`);
    return;
  }
  const site = work.site[work.stack[b]], from = eventOf(work, work.born[b]);
  const isFreed = work.end[b] < work.of.length;
  const head = add('p', '');
  head.append(Object.assign(document.createElement('b'), { textContent: sized(work.bytes[b]) }),
    ` on stream ${work.stream[b]}, from event ${count(from + 1)} ` +
    (isFreed ? `to ${count(eventOf(work, work.end[b]) + 1)}` : 'to the end'));
  if (site > 0) { add('p', '').appendChild(document.createElement('code')).textContent = work.sites[site - 1]; }
  add('pre', stackOf(work, b) || 'no stack was recorded');
}

// ---- moving about ----------------------------------------------------------------------------

function everything() {
  Object.assign(view, { t0: 0, t1: work.n_events, b0: 0, b1: work.live[work.peak] * 1.06 });
  ask(true);
}

function clamp() {
  const most = work.live[work.peak] * 1.06;
  const width = Math.max(8, Math.min(view.t1 - view.t0, work.n_events));
  const height = Math.max(4 * work.unit, Math.min(view.b1 - view.b0, most));
  view.t0 = Math.max(0, Math.min(view.t0, work.n_events - width));
  view.b0 = Math.max(0, Math.min(view.b0, most - height));
  view.t1 = view.t0 + width;
  view.b1 = view.b0 + height;
}

// Around a place in the picture, from 0 to 1 in each direction.
function zoom(factor, x, y, isTimeOnly) {
  const t = view.t0 + x * (view.t1 - view.t0), b = view.b0 + y * (view.b1 - view.b0);
  view.t0 = t - (t - view.t0) * factor;
  view.t1 = t + (view.t1 - t) * factor;
  if (!isTimeOnly) {
    view.b0 = b - (b - view.b0) * factor;
    view.b1 = b + (view.b1 - b) * factor;
  }
  clamp();
  ask(true);
}

function move(x, y) {
  const t = x * (view.t1 - view.t0), b = y * (view.b1 - view.b0);
  view.t0 += t;
  view.t1 += t;
  view.b0 += b;
  view.b1 += b;
  clamp();
  ask(true);
}

function placeOf(event) {
  const box = $('map').getBoundingClientRect();
  return { x: (event.clientX - box.left - LEFT) / (box.width - LEFT),
           y: 1 - (event.clientY - box.top) / (box.height - BELOW) };
}

function blockAt(place) {
  const x = Math.floor(place.x * size.columns), y = Math.floor((1 - place.y) * size.rows);
  return x >= 0 && y >= 0 && x < size.columns && y < size.rows ? ids[y * size.columns + x] : NOBODY;
}

const pointers = new Map();
let wasDragged = false;

function pointerMoved(event) {
  const place = placeOf(event);
  const last = pointers.get(event.pointerId);
  if (!last) {
    if (event.pointerType === 'mouse') { hover(blockAt(place)); }
    return;
  }
  const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
  if (others.length > 0) {
    const far = p => Math.hypot(p.x - others[0].x, p.y - others[0].y) || 1e-3;
    zoom(far(last) / far(place), others[0].x, others[0].y, false);
  } else {
    move(last.x - place.x, last.y - place.y);
  }
  wasDragged = wasDragged || Math.hypot(last.clientX - event.clientX, last.clientY - event.clientY) > 1;
  pointers.set(event.pointerId, { ...place, clientX: event.clientX, clientY: event.clientY });
}

function hover(b) {
  if (b === nowHovered) { return; }
  nowHovered = b;
  if (pinned === NOBODY) {
    tell(b);
    ask(false);
  }
}

function listen() {
  const map = $('map');
  map.addEventListener('wheel', event => {
    event.preventDefault();
    const place = placeOf(event);
    const turned = event.deltaY || event.deltaX; // Shift makes it sideways in some browsers
    zoom(1.0015 ** turned, place.x, Math.max(0, place.y), event.shiftKey);
  }, { passive: false });
  map.addEventListener('pointerdown', event => {
    map.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { ...placeOf(event), clientX: event.clientX, clientY: event.clientY });
    wasDragged = pointers.size > 1;
  });
  map.addEventListener('pointermove', pointerMoved);
  map.addEventListener('pointerleave', () => hover(NOBODY));
  for (const name of ['pointerup', 'pointercancel']) {
    map.addEventListener(name, event => {
      if (name === 'pointerup' && !wasDragged) {
        const b = blockAt(placeOf(event));
        pinned = b === pinned ? NOBODY : b;
        tell(pinned !== NOBODY ? pinned : b);
        ask(false);
      }
      pointers.delete(event.pointerId);
    });
  }
  const keys = { '+': () => zoom(0.7, 0.5, 0.5), '=': () => zoom(0.7, 0.5, 0.5), '-': () => zoom(1 / 0.7, 0.5, 0.5),
                 0: everything, ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0),
                 ArrowUp: () => move(0, 0.1), ArrowDown: () => move(0, -0.1) };
  map.addEventListener('keydown', event => {
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  $('in').onclick = keys['+'];
  $('out').onclick = keys['-'];
  $('all').onclick = everything;
  $('strip').addEventListener('pointerdown', event => {
    const box = $('strip').getBoundingClientRect(), width = view.t1 - view.t0;
    view.t0 = (event.clientX - box.left) / box.width * work.n_events - width / 2;
    view.t1 = view.t0 + width;
    clamp();
    ask(true);
  });
  if ($('work')) { $('work').onchange = event => show(Number(event.target.value)); }
  window.addEventListener('resize', () => ask(true));
  isDark.addEventListener('change', () => {
    opened.forEach(colours);
    ask(true);
  });
}

function show(index) {
  if (!opened[index]) {
    opened[index] = open(works[index]);
    colours(opened[index]);
  }
  work = opened[index];
  nowHovered = pinned = NOBODY;
  $('head').textContent = `${count(work.n_blocks + work.n_other)} blocks, ${count(work.n_events)} events, ` +
    `most live ${sized(work.live[work.peak])} at event ${count(eventOf(work, work.peak) + 1)}`;
  $('recorded').textContent = [work.needs && `Needs ${work.needs}.`, work.recorded && `Recorded: ${work.recorded}.`]
    .filter(Boolean).join(' ');
  $('rest').textContent = work.n_other ? ` The ${count(work.n_other)} smallest blocks are drawn as one, grey.` : '';
  tell(NOBODY);
  everything();
}

listen();
show(0);
draw();
// For the test that opens the page: what was drawn, and when.
Object.assign(document.documentElement.dataset, {
  blocks: work.bytes.length, peak: work.live[work.peak], peakEvent: eventOf(work, work.peak),
  lit: ids.reduce((n, id) => n + (id !== NOBODY), 0), pixels: ids.length, drawn: Math.round(performance.now()),
});
