// SPDX-License-Identifier: BSD-3-Clause
// Draws the page of --report FILE.html from the report's JSON (docs/report.md). Plain JavaScript without libraries. All text
// comes in as text, never as HTML.
'use strict';
const PLACES = ['local', 'cache', 'remote', 'shared'];
const PLACE_NAMES = {local: 'own partitions', cache: "node's cache", remote: 'another node', shared: 'shared storage',
  output: 'outputs', all: 'any place'};
const FIRST = 8;    // nodes that are drawn at once; the others unfold
const FILES = 12;   // slow files in the table; the JSON has more
const MATRIX = 24;  // nodes that the matrix is drawn for

const at = id => document.getElementById(id);
const sum = list => list.reduce((a, b) => a + b, 0);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  for (const child of children.flat()) if (child !== null) node.append(child);
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

function digits(x) { return x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2); }
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (; bytes >= 1023.5 && i < units.length - 1; i++) bytes /= 1024;
  return (i === 0 ? bytes.toFixed(0) : bytes >= 9.95 ? bytes.toFixed(0) : bytes.toFixed(1)) + ' ' + units[i];
}
function time(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 1e-6) return (seconds * 1e9).toFixed(0) + ' ns';
  if (seconds < 1e-3) return digits(seconds * 1e6) + ' µs';
  if (seconds < 1) return digits(seconds * 1e3) + ' ms';
  if (seconds < 120) return digits(seconds) + ' s';
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? Math.floor(seconds / 60) + ' min' + (seconds % 60 >= 1 ? ' ' + Math.floor(seconds % 60) + ' s' : '')
                       : Math.floor(minutes / 60) + ' h ' + minutes % 60 + ' min';
}
const count = n => Math.round(n).toLocaleString('en');
const many = (n, what) => count(n) + ' ' + what + (n === 1 ? '' : 's');
const percent = x => x === null || !isFinite(x) ? '–' : (100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0) + ' %';
// Several threads of a process can wait at once: the part of its time is 1 at most.
const ofTime = (waited, lived) => lived > 0 ? Math.min(waited / lived, 1) : null;
const nodeName = n => 'node ' + n.rank + (n.host ? ' (' + n.host + ')' : '');
const places = o => PLACES.map(p => o['bytes_' + p] || 0);

function table(where, heads, rows, left = 1) {
  const cell = (tag, text, i) => h(tag, i < left ? {class: 't'} : {}, text);
  fill(where, {}, [h('thead', {}, h('tr', {}, heads.map((x, i) => cell('th', x, i)))),
    h('tbody', {}, rows.map(row => h('tr', {}, row.map((x, i) =>
      x instanceof Element && x.tagName === 'TD' ? x : cell('td', x, i)))))]);
}
function hide(section) { at(section).hidden = true; }

// A picture is drawn for the width that it has, and again if that changes. In print it is scaled.
const pictures = [];
function picture(where, draw) {
  const p = {where, draw, width: 0};
  pictures.push(p);
  return p;
}
function redrawForPrint() {
  for (const p of pictures) p.where.replaceChildren(p.draw(p.where.closest('.many') ? 340 : 700));
}
function redraw() {
  for (const p of pictures) {
    const width = Math.floor(p.where.clientWidth);
    if (width < 50 || width === p.width) continue;
    p.width = width;
    p.where.replaceChildren(p.draw(width));
  }
}

// Round numbers at and below `most`, about `n` of them.
function ticks(most, n, base = 10) {
  if (!(most > 0)) return [0];
  let step = base === 1024 ? 1024 ** Math.floor(Math.log(most / n) / Math.log(1024)) : 1;
  const raw = most / n / step, power = 10 ** Math.floor(Math.log10(raw));
  step *= power * ([1, 2, 5, 10].find(m => m * power >= raw * 0.999) || 10);
  const list = [];
  for (let x = 0; x <= most * 1.0001; x += step) list.push(x);
  return list;
}
function timeTicks(most, n) {
  const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800]
    .find(x => most / x <= n) || Math.ceil(most / n / 604800) * 604800;
  const list = [];
  for (let x = 0; x <= most; x += step) list.push(x);
  return list;
}
function clock(x, most) {
  if (most < 180) return x + ' s';
  if (most < 7200) return Math.floor(x / 60) + ':' + String(x % 60).padStart(2, '0');
  return Math.floor(x / 3600) + ':' + String(Math.floor(x % 3600 / 60)).padStart(2, '0') + ' h';
}

// ---- over time ----

// Rates of one node, or of all: for each interval, bytes a second by place, and seconds waited a second.
function rates(seconds, nodes) {
  const length = seconds.map((t, i) => Math.max(t - (i > 0 ? seconds[i - 1] : 0), 1e-3));
  const rate = (key, i) => sum(nodes.map(n => n[key][i])) / length[i];
  return {seconds, bytes: PLACES.map(p => seconds.map((_, i) => rate('bytes_' + p, i))),
    wait: seconds.map((_, i) => rate('wait_ms', i) / 1000), files: seconds.map((_, i) => rate('files', i))};
}
function most(r) {
  return {bytes: Math.max(1, ...r.seconds.map((_, i) => sum(r.bytes.map(b => b[i])))), wait: Math.max(0.05, ...r.wait)};
}
// Stacked steps: the bytes of an interval have one height over all of it.
function timeChart(r, top, width, height, labelled) {
  const left = 62, right = 46, bottom = 20, up = 8, w = width - left - right, end = r.seconds[r.seconds.length - 1];
  const x = t => left + w * t / end, y = b => up + (height - up - bottom) * (1 - b / top.bytes);
  const yw = v => up + (height - up - bottom) * (1 - v / top.wait), base = r.seconds.map(() => 0);
  const svg = s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'bytes a second over time'});
  for (const v of ticks(top.bytes, labelled ? 5 : 3, 1024))
    svg.append(s('line', {class: 'grid', x1: left, x2: left + w, y1: y(v), y2: y(v)}),
      s('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, v > 0 ? size(v) + '/s' : '0'));
  for (const v of ticks(top.wait, labelled ? 5 : 3)) if (v > 0)
    svg.append(s('text', {x: left + w + 6, y: yw(v) + 4}, +v.toPrecision(2) + ' s/s'));
  for (const t of timeTicks(end, w / 75)) if (x(t) < left + w - 12 || t === 0)
    svg.append(s('text', {x: x(t), y: height - 4, 'text-anchor': t === 0 ? 'start' : 'middle'}, clock(t, end)));
  PLACES.forEach((place, k) => {
    if (sum(r.bytes[k]) === 0) return;
    const over = [], under = [];
    r.seconds.forEach((t, i) => {
      const from = x(i > 0 ? r.seconds[i - 1] : 0).toFixed(1), to = x(t).toFixed(1), low = y(base[i]).toFixed(1);
      base[i] += r.bytes[k][i];
      const high = y(base[i]).toFixed(1);
      over.push(from + ',' + high, to + ',' + high);
      under.push(from + ',' + low, to + ',' + low);
    });
    svg.append(s('polygon', {class: place, points: over.concat(under.reverse()).join(' ')}));
  });
  const line = r.wait.map((v, i) => x((r.seconds[i] + (i > 0 ? r.seconds[i - 1] : 0)) / 2).toFixed(1) + ',' + yw(v).toFixed(1));
  if (sum(r.wait) > 0) svg.append(s('polyline', {class: 'waitline', points: line.join(' ')}));
  svg.at = px => r.seconds.findIndex(t => x(t) >= px);
  return svg;
}
function tell(r, i) {
  const by = PLACES.map((p, k) => r.bytes[k][i] > 0 ? PLACE_NAMES[p] + ' ' + size(r.bytes[k][i]) + '/s' : null);
  return clock(+(i > 0 ? r.seconds[i - 1] : 0).toFixed(1), 1e4 * (r.seconds[i] > 180)) + ': ' + count(r.files[i]) + ' files/s; ' +
    (by.filter(Boolean).join(', ') || 'nothing read') + '; waited ' + r.wait[i].toFixed(2) + ' s/s';
}
function drawTimeline(d) {
  const t = d.timeline, one = t && t.nodes.length === 1;
  if (!t || t.seconds.length === 0 || t.nodes.length === 0) return hide('s-timeline');
  at('places').append(...PLACES.map(p => h('span', {}, h('i', {class: p}), PLACE_NAMES[p])),
    h('span', {}, h('i', {class: 'wait'}), 'waiting (right axis)'));
  const all = rates(t.seconds, t.nodes), top = most(all);
  at('all-nodes').hidden = one;
  picture(at('timeline'), width => {
    const svg = timeChart(all, top, width, 210, true);
    svg.addEventListener('mousemove', e => {
      const i = svg.at((e.clientX - svg.getBoundingClientRect().left) * width / svg.getBoundingClientRect().width);
      at('readout').textContent = i >= 0 ? tell(all, i) : '';
    });
    return svg;
  });
  const each = t.nodes.map(n => ({n, r: rates(t.seconds, [n])}));
  const common = {bytes: Math.max(...each.map(e => most(e.r).bytes)), wait: Math.max(...each.map(e => most(e.r).wait))};
  each.forEach(({n, r}, i) => {
    if (one) return;
    const figure = h('figure', {});
    const node = d.nodes.find(x => x.rank === n.rank) || n, busy = n.host_busy && n.host_busy.filter(b => b !== null);
    (i < FIRST ? at('per-node') : at('more-nodes').lastElementChild).append(h('div', {}, h('h3', {}, nodeName(node),
      h('span', {class: 'muted', style: 'font-weight:400'}, busy && busy.length ? ' – processors ' +
        percent(sum(busy) / busy.length / 100) + ' busy' : '')), figure));
    picture(figure, width => timeChart(r, common, width, 110, false));
  });
  at('more-nodes').hidden = each.length <= FIRST;
  at('more-nodes').firstElementChild.textContent = 'The other ' + (each.length - FIRST) + ' nodes';
  at('more-nodes').addEventListener('toggle', redraw);
}

// ---- epochs ----

function stack(values) {
  const all = sum(values);
  return h('div', {class: 'bar'}, all > 0 ? values.map((v, k) =>
    h('span', {class: PLACES[k], style: 'width:' + 100 * v / all + '%', title: PLACE_NAMES[PLACES[k]] + ' ' + size(v)})) : null);
}
function drawEpochs(d) {
  if (!d.epochs || d.epochs.length === 0) return hide('s-epochs');
  table(at('epochs'), ['Epoch', 'From', 'Took', 'Read', 'By place', 'Hit ratio', 'Programs waited'], d.epochs.map((e, i) => [
    String(i + 1) + (e.complete ? '' : ' (not whole)'), clock(+e.start_s.toFixed(0), d.seconds), time(e.end_s - e.start_s),
    size(sum(places(e))), h('td', {}, stack(places(e))), percent(e.hit_ratio), time(e.wait_s)]));
}

// ---- latency ----

// The histograms of all nodes as one for each call and place.
function merged(d) {
  const all = new Map();
  for (const l of d.latency || []) {
    const key = l.op + ' ' + l.place;
    if (!all.has(key)) all.set(key, {op: l.op, place: l.place, n: 0, max_us: 0, buckets: new Map()});
    const m = all.get(key);
    m.n += l.n;
    m.max_us = Math.max(m.max_us, l.max_us);
    for (const [low, n] of l.buckets) m.buckets.set(low, (m.buckets.get(low) || 0) + n);
  }
  const list = [...all.values()].filter(m => m.n > 0);
  for (const m of list) m.buckets = [...m.buckets].sort((a, b) => a[0] - b[0]);
  const order = ['read', 'open', 'stat', 'serve'], rank = m => order.indexOf(m.op) * 8 + PLACES.concat('output').indexOf(m.place);
  return list.sort((a, b) => rank(a) - rank(b));
}
// The middle of the bucket that the p-th part of the calls reaches, in seconds.
function quantile(buckets, p) {
  const all = sum(buckets.map(b => b[1]));
  let seen = 0;
  for (const [low, n] of buckets) if ((seen += n) >= p * all) return low * 1.06e-9;
  return 0;
}
function latencyChart(m, width) {
  const height = 96, left = 8, right = 8, bottom = 18, up = 26, w = width - left - right, low = Math.log2(100e-9), high = Math.log2(10);
  const x = v => left + w * Math.min(1, Math.max(0, (Math.log2(v) - low) / (high - low))), floor = height - bottom;
  const svg = s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'how long calls took'});
  const bars = new Map(), columns = 53;  // two for each doubling
  for (const [ns, n] of m.buckets) {
    const c = Math.round(Math.min(columns - 1, Math.max(0, 2 * (Math.log2(ns * 1.06e-9) - low) - 0.5)));
    bars.set(c, (bars.get(c) || 0) + n);
  }
  const top = Math.max(...bars.values());
  for (const v of [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])
    svg.append(s('line', {class: 'grid', x1: x(v), x2: x(v), y1: up, y2: floor}),
      s('text', {x: x(v), y: height - 4, 'text-anchor': 'middle'}, v < 1e-3 ? v * 1e6 + ' µs' : v < 1 ? v * 1e3 + ' ms' : '1 s'));
  for (const [c, n] of bars) {
    const from = left + w * c / columns, tall = Math.max(0.7, (floor - up) * n / top);
    svg.append(s('rect', {class: PLACE_NAMES[m.place] ? m.place : 'all', x: from.toFixed(1), width: (w / columns - 1).toFixed(1),
      y: (floor - tall).toFixed(1), height: tall.toFixed(1)}, s('title', {}, many(n, 'call'))));
  }
  const marks = [['p50 ', quantile(m.buckets, 0.5)], ['p99 ', quantile(m.buckets, 0.99)]], wide = 82;
  let next = left;  // where the next label may begin
  marks.forEach(([name, v], i) => {
    const begin = Math.min(Math.max(x(v) - (i === 0 ? wide - 4 : 4), next), left + w - wide * (2 - i));
    next = begin + wide;
    svg.append(s('line', {x1: x(v), x2: x(v), y1: 14, y2: floor, stroke: 'var(--fg)', 'stroke-width': 1.2, 'stroke-dasharray': i > 0 ? '3 3' : 'none'}),
      s('text', {class: 'strong', x: begin, y: 9}, name + time(v)));
  });
  return svg;
}
function drawLatency(d) {
  const list = merged(d), titles = {read: 'Reads', open: 'Opens', stat: 'Stats', serve: 'Served to other nodes'};
  if (list.length === 0) return hide('s-latency');
  for (const m of list) {
    const figure = h('figure', {}), where = m.op === 'serve' ? '' : ': ' + (PLACE_NAMES[m.place] || m.place);
    at('latency').append(h('div', {}, h('h3', {}, (titles[m.op] || m.op) + where,
      h('span', {class: 'muted', style: 'font-weight:400'}, ' – ' + many(m.n, 'call') + ', at most ' + time(m.max_us / 1e6))), figure));
    picture(figure, width => latencyChart(m, width));
  }
  const rows = d.latency.filter(l => l.op === 'read' && l.n > 0);
  table(at('latency-nodes').querySelector('table'), ['Node', 'Place', 'Reads', 'p50', 'p90', 'p99', 'Most'], rows.map(l => [
    String(l.rank), PLACE_NAMES[l.place] || l.place, count(l.n), ...['p50_us', 'p90_us', 'p99_us', 'max_us'].map(k => time(l[k] / 1e6))]), 2);
  at('latency-nodes').hidden = rows.length === 0 || d.nodes.length < 2;
}

// ---- who served whom ----

function drawMatrix(d) {
  const n = d.nodes.length, served = d.nodes.map(x => x.served_bytes || 0);
  if (n < 2 || sum(served) === 0) return hide('s-matrix');
  if (!d.matrix || n > MATRIX) {
    at('matrix-about').textContent = d.matrix ? 'Bytes that each node sent to others and received. The JSON has them by pair.' :
      'Bytes that each node sent to others and received.';
    at('matrix').classList.remove('matrix');
    return table(at('matrix'), ['Node', 'Sent', 'Received'], d.nodes.map(x => [nodeName(x), size(x.served_bytes || 0), size(x.fetched_bytes || 0)]));
  }
  at('matrix-about').textContent = 'Bytes as stored, from the node of the row to the node of the column.';
  const top = Math.max(1, ...d.matrix.flat());
  fill(at('matrix'), {}, [h('tr', {}, h('th', {}), d.nodes.map(x => h('th', {}, 'to ' + x.rank)), h('th', {}, 'sent')),
    d.matrix.map((row, i) => h('tr', {}, h('th', {class: 't'}, nodeName(d.nodes[i])), row.map((v, k) => h('td', {style: v > 0 ?
      `background:color-mix(in srgb, var(--local) ${(55 * v / top).toFixed(0)}%, var(--panel))` : 'background:var(--panel)'},
      i === k ? '' : v > 0 ? size(v) : '0')), h('th', {}, size(sum(row))))),
    h('tr', {}, h('th', {class: 't'}, 'received'), d.nodes.map((_, k) => h('th', {}, size(sum(d.matrix.map(row => row[k]))))), h('th', {}))]);
}

// ---- tables ----

function drawSlow(d) {
  const over = (l, seconds) => sum(l.buckets.filter(b => b[0] >= seconds * 1e9).map(b => b[1]));
  const rows = (d.latency || []).filter(l => l.op === 'read' && over(l, 0.01) > 0)
    .sort((a, b) => over(b, 0.1) - over(a, 0.1) || over(b, 0.01) - over(a, 0.01));
  const files = d.slow_files || [];
  if (rows.length === 0 && files.length === 0) return hide('s-slow');
  const name = l => nodeName(d.nodes.find(n => n.rank === l.rank) || {rank: l.rank});
  at('slow-about').hidden = rows.length === 0;
  if (rows.length > 0) table(at('slow'), ['Node', 'Place', 'Reads', '≥ 10 ms', '≥ 100 ms', '≥ 1 s', 'Most'], rows.slice(0, 40).map(l =>
    [name(l), PLACE_NAMES[l.place] || l.place, count(l.n), ...[0.01, 0.1, 1].map(x => count(over(l, x))), time(l.max_us / 1e6)]), 2);
  at('slow-files-about').hidden = files.length === 0;
  if (files.length > 0) table(at('slow-files'), ['File', 'Longest', 'Reads', 'Together', 'Place', 'Node'], files.slice(0, FILES).map(f =>
    [h('td', {class: 'name'}, f.path), time(f.longest_ms / 1e3), count(f.reads), time(f.total_ms / 1e3), PLACE_NAMES[f.place] || f.place,
      String(f.rank)]).concat(files.length > FILES ? [['and ' + (files.length - FILES) + ' more in the JSON', '', '', '', '', '']] : []));
}
function drawOutputs(d) {
  const o = d.outputs, parts = [];
  if (!o || o.files + o.directories + o.symlinks + o.gone === 0) return hide('s-outputs');
  parts.push(many(o.files, 'file') + ' of ' + size(o.bytes) + ' below the mounts.');
  if (o.staged > 0) parts.push(many(o.staged, 'file') + ' copied' + (o.to ? ' to ' + o.to : '') + '.');
  if (o.kept) parts.push('Kept on the nodes, in ' + o.kept + '.');
  if (!o.kept && o.staged === 0) parts.push('They were not kept.');
  if (o.failed > 0) parts.push(count(o.failed) + ' could not be copied or kept (' + count(o.lost) + ' lost).');
  if (o.gone > 0) parts.push(count(o.gone) + ' lost with their nodes.');
  at('outputs-about').textContent = parts.join(' ');
  const shown = [...o.names].sort((a, b) => b.size - a.size || (a.name < b.name ? -1 : 1)).slice(0, 50), rest = o.names.length - shown.length;
  if (shown.length > 0) table(at('outputs'), ['Name', 'Node', 'Size'],
    shown.map(f => [h('td', {class: 'name'}, f.name), String(f.node), size(f.size)])
      .concat(rest > 0 ? [['and ' + count(rest) + ' more', '', '']] : []));
}
function drawWaiting(d) {
  if (!d.waiting || sum(d.waiting.map(w => w.wait_s)) === 0) return hide('s-waiting');
  const name = w => nodeName(d.nodes.find(n => n.rank === w.rank) || w), part = w => ofTime(w.wait_s, w.process_s);
  const all = {wait_s: sum(d.waiting.map(w => w.wait_s)), process_s: sum(d.waiting.map(w => w.process_s))};
  const p = d.processes || {processes: 0}, spread = w => w.processes > 0 ?
    [count(w.processes), time(w.median_s), time(w.worst_s) + ' (pid ' + w.worst_pid + ')'] : ['0', '–', '–'];
  const row = (label, w, s) => [label, time(w.wait_s), time(w.process_s), percent(part(w)), ...spread(s)];
  table(at('waiting'), ['Node', 'Waited', 'Processes lived', 'Part', 'Processes', 'Half waited at most', 'The worst'],
    d.waiting.map(w => row(name(w), w, w)).concat(d.waiting.length > 1 ? [row('all', all, p)] : []));
}
function drawCards(d) {
  const by = places(d.total), read = sum(by), waited = sum((d.waiting || []).map(w => w.wait_s));
  const lived = sum((d.waiting || []).map(w => w.process_s)), card = (value, text) => at('cards').append(h('div', {class: 'card'}, h('b', {}, value), h('span', {}, text)));
  card(time(d.seconds), 'COMMAND ran, on ' + many(d.nodes.length, 'node'));
  card(size(read), 'of datasets read, ' + size(read / Math.max(d.seconds, 1e-3)) + '/s');
  card(count(d.total.opens || 0), 'files opened');
  if (read > 0) card(percent((by[0] + by[1]) / read), "from the nodes' own partitions and caches");
  if (read > 0) card(percent(by[3] / read), 'from shared storage');
  if (lived > 0) card(percent(ofTime(waited, lived)), "of the processes' time was waiting in reads");
  const c = d.compression;
  if (c && c.decodes > 0) card(size(c.saved_bytes), 'of reads saved by compression, for ' + time(c.decode_s) + ' of decoding');
  if (d.outputs && d.outputs.files > 0) card(count(d.outputs.files), 'outputs, ' + size(d.outputs.bytes));
  if (d.total.errors > 0) card(count(d.total.errors), 'reads failed');
}
function list(where, texts) { at(where).append(...texts.map(t => h('li', {}, t))); }
const quoted = words => words.map(w => /^[\w@%+=:,.\/-]+$/.test(w) ? w : "'" + w.replace(/'/g, "'\\''") + "'").join(' ');

function draw(d) {
  at('job').textContent = 'FanStore job ' + d.job;
  at('headline').textContent = d.headline;
  at('about').textContent = 'Started ' + d.started.replace('T', ' ').replace('Z', ' UTC') + '; ended with status ' + d.status + '.';
  list('findings', d.findings || []);
  at('page').hidden = false;
  drawCards(d);
  drawTimeline(d);
  drawEpochs(d);
  drawLatency(d);
  drawMatrix(d);
  drawSlow(d);
  drawOutputs(d);
  drawWaiting(d);
  if (d.warnings.length === 0) hide('s-warnings');
  list('warnings', d.warnings);
  at('command').textContent = quoted(d.command);
  at('options').textContent = quoted(d.options) || '(none)';
  table(at('datasets'), ['Dataset', 'Mount', 'Partitions', 'Files', 'Bytes'], d.datasets.map(x =>
    [x.path, x.mount, count(x.partitions), count(x.files || 0), size(x.bytes || 0)]), 2);
  at('version').textContent = 'FanStore ' + d.fanstore + '. The same data as JSON is in this file; docs/report.md explains it.';
  redraw();
  new ResizeObserver(redraw).observe(at('page'));
  addEventListener('beforeprint', () => {
    document.querySelectorAll('details').forEach(x => { x.open = true; });
    redrawForPrint();
  });
  addEventListener('afterprint', () => {
    for (const p of pictures) p.width = 0;
    redraw();
  });
}
