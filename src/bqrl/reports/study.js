// Draws the figures of a study's page from the data in it: hover for values, click a name to hide its learner.
"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const log1 = v => Math.sign(v) * Math.log10(1 + Math.abs(v));
  const SCALES = { linear: v => v, log: v => Math.log10(v), log1: log1 };

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function tag(name, kind, parent, text) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function told(v) {
    const size = Math.abs(v);
    const text = size >= 1e5 || (size > 0 && size < 1e-3) ? String(+v.toPrecision(3)).includes("e") ? v.toExponential(2) : String(+v.toPrecision(3)) : String(+v.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 4));
    return text.replace("-", "\u2212");
  }
  function ticks(low, high, kind, count) {
    if (kind === "log") {
      const all = [];
      for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) all.push(10 ** e);
      const step = Math.ceil(all.length / count);
      return all.filter((_, i) => i % step === 0);
    }
    if (kind === "log1") {
      const all = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 1e4, 1e5].filter(v => v <= high);
      return all.length > 2 ? all : ticks(low, high, "linear", count);
    }
    const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find(m => m * unit >= raw) * unit, all = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) all.push(+v.toPrecision(12));
    return all;
  }
  function between(domain, range, kind) {
    const f = SCALES[kind], a = f(domain[0]), b = f(domain[1]);
    return v => range[0] + (range[1] - range[0]) * (f(v) - a) / ((b - a) || 1);
  }

  class Figure {
    constructor(place, spec) {
      this.spec = spec; this.hidden = new Set(); this.log = spec.log === true;
      this.choice = spec.selectors.map(s => s.start || 0);
      this.title = tag("p", "seen", place);
      const bar = tag("div", "bar", place);
      spec.selectors.forEach((selector, i) => {
        const group = tag("span", "choice", bar);
        group.setAttribute("role", "group"); group.setAttribute("aria-label", selector.name);
        selector.options.forEach((option, j) => {
          const button = tag("button", "", group, option);
          button.type = "button";
          button.onclick = () => { this.choice[i] = j; this.draw(); };
        });
      });
      if (spec.log !== null) {
        this.toggle = tag("button", "", tag("span", "choice", bar), "log scale");
        this.toggle.type = "button";
        this.toggle.onclick = () => { this.log = !this.log; this.draw(); };
      }
      this.bar = bar;
      this.legend = tag("div", "legend", place);
      this.frame = tag("div", "frame", place);
      this.tip = tag("div", "tip", this.frame);
      this.note = tag("p", "quiet", place);
      new ResizeObserver(() => { if (this.frame.clientWidth !== this.width) this.draw(); }).observe(this.frame);
    }
    draw() {
      this.width = this.frame.clientWidth;
      if (!this.width) return;
      const view = this.spec.views[this.choice.join("|")];
      this.bar.querySelectorAll(".choice[role]").forEach((group, i) =>
        group.querySelectorAll("button").forEach((b, j) => b.setAttribute("aria-pressed", j === this.choice[i])));
      if (this.toggle) this.toggle.setAttribute("aria-pressed", this.log);
      this.title.textContent = view.title; this.note.textContent = view.note || "";
      this.names(view);
      if (this.svg) this.svg.remove();
      this.tip.style.display = "none";
      this.svg = node("svg", { role: "img", "aria-label": view.title }, this.frame);
      this[view.kind](view);
    }
    names(view) {
      this.legend.replaceChildren();
      const series = view.series || view.rows || [];
      if (series.length < 2) return;
      series.forEach(one => {
        const button = tag("button", "", this.legend);
        button.type = "button"; button.setAttribute("aria-pressed", !this.hidden.has(one.n));
        const swatch = tag("i", one.d ? "dashed" : "", button);
        swatch.style.borderColor = one.c;
        button.append(one.n);
        button.onclick = () => {
          this.hidden.has(one.n) ? this.hidden.delete(one.n) : this.hidden.add(one.n);
          this.draw();
        };
      });
    }
    shown(list) { return list.filter(one => !this.hidden.has(one.n)); }
    size(height, left, bottom) {
      const small = this.width < 520;
      this.svg.setAttribute("width", this.width); this.svg.setAttribute("height", height);
      return { left, right: this.width - 12, top: 10, bottom: height - bottom, small };
    }
    axes(box, x, y, xdomain, ydomain, xkind, ykind, view) {
      for (const v of ticks(xdomain[0], xdomain[1], xkind, box.small ? 4 : 8)) {
        node("line", { x1: x(v), x2: x(v), y1: box.top, y2: box.bottom, class: "grid" }, this.svg);
        node("text", { x: x(v), y: box.bottom + 16, "text-anchor": "middle", class: "tick" }, this.svg, xkind === "log" ? v.toExponential(0).replace("e+", "e").replace("-", "\u2212") : told(v));
      }
      if (ydomain) for (const v of ticks(ydomain[0], ydomain[1], ykind, 6)) {
        node("line", { x1: box.left, x2: box.right, y1: y(v), y2: y(v), class: "grid" }, this.svg);
        node("text", { x: box.left - 6, y: y(v) + 4, "text-anchor": "end", class: "tick" }, this.svg, told(v));
      }
      node("text", { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle", class: "name" }, this.svg, view.xlabel);
      if (view.ylabel) node("text", { transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" }, this.svg, view.ylabel);
    }
    xy(view) {
      const box = this.size(this.width < 520 ? 320 : 400, 58, 42), seen = this.shown(view.series);
      const xs = one => one.x || view.x;
      const ykind = this.log ? "log1" : "linear", xkind = view.xlog ? "log" : "linear";
      let top = view.top, low = view.low || 0;
      if (top === undefined) top = Math.max(1e-9, ...seen.map(one => Math.max(...one.y.map((v, i) => v + (one.b ? one.b[i] : 0)))));
      const xdomain = view.xrange, ydomain = [low, view.top === undefined ? 1.04 * top : top];
      const x = between(xdomain, [box.left, box.right], xkind), y = between(ydomain, [box.bottom, box.top], ykind);
      this.axes(box, x, y, xdomain, ydomain, xkind, ykind, view);
      for (const line of view.lines || []) {
        const at = line.v !== undefined ? { x1: x(line.v), x2: x(line.v), y1: box.top, y2: box.bottom }
          : { x1: box.left, x2: box.right, y1: y(line.h), y2: y(line.h) };
        node("line", { ...at, class: "mark" }, this.svg);
      }
      const clip = v => Math.max(box.top, Math.min(box.bottom, v));
      const points = [];
      for (const one of seen) {
        const X = xs(one);
        if (one.b) {
          const up = X.map((v, i) => `${x(v).toFixed(1)} ${clip(y(one.y[i] + one.b[i])).toFixed(1)}`);
          const down = X.map((v, i) => `${x(v).toFixed(1)} ${clip(y(Math.max(low, one.y[i] - one.b[i]))).toFixed(1)}`).reverse();
          node("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: one.c, opacity: 0.1 }, this.svg);
        }
        if (!one.dots) {
          let path = "";
          X.forEach((v, i) => {
            const px = x(v).toFixed(1), py = clip(y(one.y[i])).toFixed(1);
            path += i === 0 ? `M${px} ${py}` : one.step ? `H${px}V${py}` : `L${px} ${py}`;
          });
          node("path", { d: path, fill: "none", stroke: one.c, "stroke-width": one.w || 1.6, "stroke-dasharray": one.d ? "6 3" : "none", opacity: one.o || 1 }, this.svg);
        }
        if (one.dots || one.knots) X.forEach((v, i) => {
          const star = one.star === i;
          node("circle", { cx: x(v), cy: y(one.y[i]), r: star ? 7 : 4, fill: star ? "none" : one.c, stroke: star ? "#111" : "#fff", "stroke-width": star ? 2 : 0.7 }, this.svg);
          points.push([x(v), y(one.y[i]), one.n, one.c, one.t ? one.t[i] : `${told(v)}: ${told(one.y[i])}`]);
        });
      }
      if (points.length) return this.near(points);
      const cross = node("line", { y1: box.top, y2: box.bottom, class: "cross", visibility: "hidden" }, this.svg);
      this.hover((px, py) => {
        const share = Math.max(0, Math.min(1, (px - box.left) / (box.right - box.left)));
        let at = xdomain[0] + share * (xdomain[1] - xdomain[0]);
        if (view.x) at = view.x.reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a);
        const rows = seen.map(one => {
          const X = xs(one);
          let i = X.length - 1;
          while (i > 0 && X[i] > at + 1e-12) i--;
          const before = one.step && X[0] > at;
          return [before ? 0 : one.y[i], one, i];
        }).sort((a, b) => b[0] - a[0]);
        cross.setAttribute("x1", x(at)); cross.setAttribute("x2", x(at)); cross.setAttribute("visibility", "visible");
        const lines = rows.map(([v, one, i]) => [one.c, `${one.n}: ${told(v)}${one.b ? ` \u00b1 ${told(one.b[i])}` : ""}`]);
        this.show(x(at), py, `${view.xname} ${told(at)}`, lines);
      }, () => cross.setAttribute("visibility", "hidden"));
    }
    strip(view) {
      const rows = this.shown(view.rows), step = 40;
      const box = this.size(rows.length * step + 62, 14, 42), kind = this.log ? "log1" : "linear";
      const all = rows.flatMap(one => [...one.further, ...one.held].map(p => p[1]).concat(one.printed === null ? [] : [one.printed]));
      const domain = [Math.min(0, ...all), 1.05 * Math.max(1, ...all)];
      const x = between(domain, [box.left, box.right], kind), points = [];
      this.axes(box, x, null, domain, null, kind, null, view);
      rows.forEach((one, r) => {
        const middle = box.top + step * (r + 0.66);
        node("text", { x: box.left, y: box.top + step * r + 14, class: "row", fill: one.c }, this.svg, one.n);
        node("line", { x1: box.left, x2: box.right, y1: middle, y2: middle, class: "grid" }, this.svg);
        const put = (p, i, ring) => {
          const cy = middle + (ring ? 0 : 7 * Math.sin(2.4 * i));
          node("circle", { cx: x(p[1]), cy, r: ring ? 5 : 3.4, fill: ring ? "none" : one.c, stroke: one.c, "stroke-width": ring ? 1.4 : 0, opacity: ring ? 1 : 0.6 }, this.svg);
          points.push([x(p[1]), cy, one.n, one.c, `seed ${p[0]}: ${told(p[1])}${ring ? " (held out)" : ""}`]);
        };
        one.further.forEach((p, i) => put(p, i, false));
        one.held.forEach((p, i) => put(p, i, true));
        const m = x(one.mean);
        node("line", { x1: m, x2: m, y1: middle - 11, y2: middle + 11, stroke: one.c, "stroke-width": 3 }, this.svg);
        points.push([m, middle - 11, one.n, one.c, `mean ${told(one.mean)}, sd ${told(one.std)}`]);
        if (one.printed !== null) {
          const p = x(one.printed);
          node("path", { d: `M${p - 5} ${middle - 5}l10 10m0 -10l-10 10`, stroke: "#111", "stroke-width": 2 }, this.svg);
          points.push([p, middle, one.n, one.c, `printed: ${told(one.printed)}`]);
        }
      });
      this.near(points);
    }
    map(view) {
      const many = view.states.length, stages = view.actions[0].length;
      const box = this.size(Math.max(300, 15 * many + 50), 40, 42), wide = Math.min(560, this.width);
      box.right = wide - 12;
      const cw = (box.right - box.left) / stages, ch = (box.bottom - box.top) / many;
      view.actions.forEach((row, s) => row.forEach((go, h) => node("rect", {
        x: box.left + h * cw, y: box.bottom - (s + 1) * ch, width: cw - 1, height: ch - 1, fill: go ? "#004488" : "#d1d1d1" }, this.svg)));
      const every = Math.ceil(many / 25);
      view.states.forEach((name, s) => { if (s % every === 0) node("text", { x: box.left - 5, y: box.bottom - (s + 0.5) * ch + 4, "text-anchor": "end", class: "tick" }, this.svg, name); });
      for (let h = 0; h < stages; h++) node("text", { x: box.left + (h + 0.5) * cw, y: box.bottom + 15, "text-anchor": "middle", class: "tick" }, this.svg, h + 1);
      node("text", { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle", class: "name" }, this.svg, view.xlabel);
      node("text", { transform: `translate(11 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" }, this.svg, view.ylabel);
      this.hover((px, py) => {
        const h = Math.floor((px - box.left) / cw), s = Math.floor((box.bottom - py) / ch);
        if (h < 0 || h >= stages || s < 0 || s >= many) return this.tip.style.display = "none";
        const go = view.actions[s][h];
        this.show(px, py, `stage ${h + 1}, offer ${view.states[s]}`, [[go ? "#004488" : "#999", go ? "Continue" : "Stop"]]);
      });
    }
    near(points) {
      this.hover((px, py) => {
        let best = null, least = 900;
        for (const p of points) {
          const far = (p[0] - px) ** 2 + (p[1] - py) ** 2;
          if (far < least) { least = far; best = p; }
        }
        if (best) this.show(best[0], best[1], best[2], [[best[3], best[4]]]); else this.tip.style.display = "none";
      });
    }
    hover(over, out) {
      const move = event => {
        const at = this.svg.getBoundingClientRect();
        over(event.clientX - at.left, event.clientY - at.top);
      };
      this.svg.addEventListener("pointermove", move);
      this.svg.addEventListener("pointerdown", move);
      this.svg.addEventListener("pointerleave", () => { this.tip.style.display = "none"; if (out) out(); });
    }
    show(px, py, head, lines) {
      this.tip.replaceChildren();
      tag("b", "", this.tip, head);
      for (const [ink, text] of lines) {
        const line = tag("div", "", this.tip);
        tag("i", "", line).style.background = ink;
        line.append(text);
      }
      this.tip.style.display = "block";
      const left = px + 14 + this.tip.offsetWidth > this.width ? px - 14 - this.tip.offsetWidth : px + 14;
      this.tip.style.left = `${Math.max(0, left)}px`;
      this.tip.style.top = `${Math.max(0, Math.min(py - 20, this.svg.clientHeight - this.tip.offsetHeight))}px`;
    }
  }
  for (const place of document.querySelectorAll("[data-figure]")) new Figure(place, data[place.dataset.figure]).draw();
})();
