// Draws the plots in the page's JSON as interactive charts, with BokehJS. Until then the page shows static SVGs.
"use strict";
(() => {
  const INK = "#222", QUIET = "#6b6b6b", LINE_WIDTH = 1.8, LETTER_PX = 8, DIGITS = 4, MOST_TEXTS = 4,
    NARROW = 560;
  const plots = JSON.parse(document.getElementById("charts").textContent);
  const touch = matchMedia("(pointer: coarse)").matches;
  const sheet = new Bokeh.Document();
  const targets = [];
  const shared = new Map();

  // The horizontal range of a plot, and the vertical line at the pointer. Tied plots share both.
  function horizontal(plot) {
    const key = plot.tied ? "tied" : plot.name;
    if (!shared.has(key)) {
      const alike = plot.tied ? plots.filter(({ tied }) => tied) : [plot];
      const begin = Math.min(...alike.map(({ x }) => x.begin)), end = Math.max(...alike.map(({ x }) => x.end));
      const range = new Bokeh.Range1d({ start: begin, end, bounds: [begin, end] });
      const overlay = new Bokeh.Span({ dimension: "height", location: NaN, line_color: QUIET,
        line_dash: [3, 3] });
      shared.set(key, { begin, end, range, overlay });
    }
    return shared.get(key);
  }

  function toolsOf(plot) {
    if (plot.x.names.length) return {}; // categories are not zoomed
    return {
      zoom: new Bokeh.BoxZoomTool({ dimensions: "width" }),
      move: new Bokeh.PanTool({ dimensions: "width" }),
      wheel: new Bokeh.WheelZoomTool({ dimensions: "width", modifiers: { ctrl: true } }),
      pointer: new Bokeh.CrosshairTool({ overlay: horizontal(plot).overlay }),
    };
  }

  // Positions and names of the tick labels of an axis of categories.
  function namesOf(axis) {
    return axis.places.map((place, index) => [place, axis.names[index]]).filter((_, index) => index % axis.every === 0);
  }

  // Breaks a name into two lines if it has at least `most` letters.
  function inLines(name, most) {
    const words = name.split(" "), half = Math.ceil(words.length / 2);
    return name.length < most ? name : [words.slice(0, half).join(" "), words.slice(half).join(" ")].join("\n");
  }

  // Each row of a vertical axis of categories has room for its name, which has two lines on a narrow screen.
  function heightOf({ y }, narrow) {
    const rows = y.names.length ? y.end - y.begin : 0;
    return Math.max(260, 80 + (narrow ? 34 : 22) * rows);
  }

  function figureOf(plot, axes, tools, target) {
    const narrow = target.clientWidth < NARROW;
    const figure = Bokeh.Plotting.figure({
      name: plot.name, sizing_mode: "stretch_width", height: heightOf(plot, narrow), min_border_left: 64, min_border_right: 10,
      x_range: horizontal(plot).range, y_range: new Bokeh.Range1d({ start: plot.y.begin, end: plot.y.end }),
      x_axis_label: plot.x.label || null, y_axis_label: plot.y.label, outline_line_color: null,
      title: axes.title || null, toolbar_location: null, tools: Object.values(tools), active_drag: null,
    });
    const text = { axis_label_text_font_style: "normal", axis_label_text_font_size: "13px",
      axis_label_text_color: INK, major_label_text_font_size: "12px", major_label_text_color: INK };
    for (const axis of [...figure.xaxes, ...figure.yaxes]) {
      axis.setv({ ...text, axis_line_color: QUIET, major_tick_line_color: QUIET, minor_tick_line_color: null });
    }
    for (const grid of figure.grids) grid.grid_line_color = "#e3e3e3";
    if ("last_tick" in plot.x) figure.xaxes[0].bounds = [plot.x.begin, plot.x.last_tick];
    figure.yaxes[0].formatter = new Bokeh.BasicTickFormatter({ use_scientific: false });
    const across = namesOf(plot.x), most = target.clientWidth / across.length / LETTER_PX;
    const named = [[figure.xaxes[0], figure.xgrids[0], across.map(([place, name]) => [place, inLines(name, most)])],
      [figure.yaxes[0], figure.ygrids[0], namesOf(plot.y).map(([place, name]) => [place, narrow ? name.replace(/(, |: )/, "$1\n") : name])]];
    for (const [axis, grid, places] of named.filter(([, , places]) => places.length)) {
      axis.setv({ ticker: new Bokeh.FixedTicker({ ticks: places.map(([place]) => place) }),
        major_label_overrides: new Map(places), major_tick_line_color: null });
      grid.visible = axis === figure.xaxes[0] && plot.x.log;
    }
    if (axes.title) figure.title.setv({ text_font_style: "normal", text_font_size: "13px", text_color: INK });
    if (axes.note) {
      figure.add_layout(new Bokeh.Title({ text: axes.note, align: "right", text_font_style: "normal",
        text_font_size: "12px", text_color: QUIET }), "above");
    }
    return figure;
  }

  function drawCells(figure, mark) {
    const texts = mark.texts.length ? mark.texts : mark.x.map(() => "");
    const data = { x: mark.x, y: mark.y, colour: mark.colours, text: texts, ink: mark.inks };
    const source = new Bokeh.ColumnDataSource({ data });
    const [x, y, colour, text, ink] = Object.keys(data).map((field) => ({ field }));
    return { range: [], thing: [
      figure.rect({ x, y, width: 1, height: 1, source, fill_color: colour, line_color: "#fff" }),
      figure.text({ x, y, text, source, text_color: ink, text_align: "center", text_baseline: "middle",
        text_font_size: "12px" }),
    ] };
  }

  function drawBoxes(figure, { x, end, low, high, colour, opacity }) {
    const source = new Bokeh.ColumnDataSource({ data: { x, end, low, high } });
    const [left, right, bottom, top] = ["x", "end", "low", "high"].map((field) => ({ field }));
    return { range: [], thing: [figure.quad({ left, right, bottom, top, source, fill_color: colour,
      fill_alpha: opacity, line_color: null })] };
  }

  function drawIntervals(figure, { x, y, low, high, colour, marker, hollow }) {
    const ends = (values) => values.map((value, index) => value ?? x[index]);
    const source = new Bokeh.ColumnDataSource({ data: { x, y, low: ends(low), high: ends(high) } });
    const [at, row, left, right] = ["x", "y", "low", "high"].map((field) => ({ field }));
    return { range: [], thing: [
      figure.segment({ x0: left, x1: right, y0: row, y1: row, source, line_color: colour, line_width: 1.6 }),
      figure.scatter({ x: at, y: row, source, marker, size: 8, line_color: colour,
        fill_color: hollow ? "#fff" : colour }),
    ] };
  }

  // Draws a mark; returns the renderers of the mark itself and of the range around it.
  function draw(figure, mark) {
    if (mark.kind === "cells") return drawCells(figure, mark);
    if (mark.kind === "boxes") return drawBoxes(figure, mark);
    if (mark.kind === "intervals") return drawIntervals(figure, mark);
    // JSON has no NaN, and Bokeh draws null at 0.
    const gaps = (values) => values.map((value) => value ?? NaN);
    const source = new Bokeh.ColumnDataSource({ data: { x: mark.x, y: gaps(mark.y),
      low: gaps(mark.low ?? mark.y), high: gaps(mark.high ?? mark.y) } });
    const [x, y, low, high] = ["x", "y", "low", "high"].map((field) => ({ field }));
    const colour = mark.colour;
    if (mark.kind === "line") {
      const style = { source, line_color: colour, line_width: LINE_WIDTH,
        line_dash: mark.dash.map((length) => length * LINE_WIDTH) };
      const range = mark.range
        ? [figure.varea({ x, y1: low, y2: high, source, fill_color: colour, fill_alpha: 0.2 })] : [];
      return { range, thing: [mark.steps ? figure.step({ x, y, mode: "after", ...style })
        : figure.line({ x, y, ...style })] };
    }
    const whiskers = { x0: x, x1: x, y0: low, y1: high, source };
    const thing = mark.kind === "dots"
      ? [figure.segment({ ...whiskers, line_color: colour, line_width: 1.2 }),
        figure.scatter({ x, y, source, marker: mark.marker, size: 8 * mark.size, line_color: colour,
          fill_color: mark.hollow ? "#fff" : colour })]
      : [figure.vbar({ x, top: y, bottom: 0, width: mark.width, source, fill_color: colour,
        fill_alpha: mark.opacity, line_color: null }),
        figure.segment({ ...whiskers, line_color: INK })];
    return { thing, range: [] };
  }

  function short(value) {
    return Number(value.toPrecision(DIGITS)).toString().replace("-", "−");
  }

  // Index of a mark's value at x: the nearest point, or the last change of steps; -1 if there is no value.
  function indexAt(plot, mark, x) {
    let best = -1;
    mark.x.forEach((at, index) => {
      const distance = mark.steps ? x - at : Math.abs(x - at);
      if (distance >= 0 && (best < 0 || distance < Math.abs(x - mark.x[best]))) best = index;
    });
    const { start, end } = horizontal(plot).range;
    const reach = plot.x.names.length && !plot.x.log ? 0.5 : (end - start) / 40;
    return best >= 0 && mark.y[best] !== null && (mark.steps || Math.abs(x - mark.x[best]) <= reach) ? best : -1;
  }

  // The category of an axis that is nearest to the pointer.
  function nearest(axis, at) {
    return axis.places.reduce((best, place) => Math.abs(place - at) < Math.abs(best - at) ? place : best,
      axis.places[0]);
  }

  // Text for the pointer's position on an axis.
  function placeOn(axis, at) {
    const name = axis.log ? short(10 ** at) : axis.names[axis.places.indexOf(nearest(axis, at))] ?? short(at);
    return `${axis.label.replace(/ \(.*/, "")} ${name} ${axis.unit}`.trimEnd();
  }

  function valueOf(mark, value, index, unit) {
    const known = mark.low && mark.low[index] !== null && mark.low[index] !== mark.high[index];
    const ends = known ? ` (${short(mark.low[index])} to ${short(mark.high[index])})` : "";
    return [`${mark.label}: ${short(value)} ${unit}${ends}`, mark.colour];
  }

  // What the boxes at x say: their texts, or their heights. The third value of a line is the colour of its edge.
  function boxesAt(mark, x, unit) {
    const found = mark.x.flatMap((begin, index) => begin <= x && x < mark.end[index] ? [index] : []);
    const says = (index) => mark.texts[index] ?? `${mark.label}: ${short(mark.high[index] - mark.low[index])} ${unit}`;
    return found.slice(0, MOST_TEXTS).map((index) => [says(index), INK, mark.colour]);
  }

  // What the intervals in the row at the pointer say, below the name of the row.
  function rowAt(plot, marks, y) {
    const row = nearest(plot.y, y), name = plot.y.names[plot.y.places.indexOf(row)];
    const said = marks.flatMap((mark) => mark.y.flatMap((at, index) =>
      nearest(plot.y, at) === row ? [[mark.texts[index], mark.colour]] : []));
    return [[name, INK], ...said];
  }

  // Lines of the box at the pointer: its position, and the value of every visible curve.
  function valuesAt(plot, axes, off, x, y) {
    const intervals = axes.marks.filter((mark) => mark.kind === "intervals" && !off.has(mark.label));
    if (intervals.length) return rowAt(plot, intervals, y);
    const lines = [[placeOn(plot.x, x), INK]];
    for (const mark of axes.marks.filter((one) => !off.has(one.label))) {
      if (mark.kind === "cells") {
        const [column, row] = [nearest(plot.x, x), nearest(plot.y, y)];
        const index = mark.x.findIndex((at, cell) => at === column && mark.y[cell] === row);
        if (index >= 0) lines.push([placeOn(plot.y, y), INK], valueOf(mark, mark.values[index], index, mark.unit));
        continue;
      }
      if (mark.kind === "boxes") {
        lines.push(...boxesAt(mark, x, plot.y.unit));
        continue;
      }
      const index = indexAt(plot, mark, plot.x.names.length && !plot.x.log ? nearest(plot.x, x) + offset(plot, mark) : x);
      if (index >= 0) lines.push(valueOf(mark, mark.y[index], index, plot.y.unit));
    }
    return lines;
  }

  // Distance of a mark from the centre of its category, where several marks are side by side.
  function offset(plot, mark) {
    return mark.x.length ? mark.x[0] - nearest(plot.x, mark.x[0]) : 0;
  }

  function showValues(plot, axes, figure, target, off) {
    const box = document.createElement("div");
    box.className = "values";
    box.hidden = true;
    target.append(box);
    function show({ x, y, sx }) {
      const lines = valuesAt(plot, axes, off, x, y);
      box.replaceChildren(...lines.map(([text, colour, edge]) => {
        const line = document.createElement("div");
        line.textContent = text;
        line.style.color = colour;
        if (edge) Object.assign(line.style, { borderLeft: `.6rem solid ${edge}`, paddingLeft: ".4rem" });
        return line;
      }));
      const { start, end } = figure.x_range;
      box.hidden = lines.length < 2 || x < start || x > end;
      const beside = sx < target.clientWidth / 2 ? sx + 16 : sx - 16 - box.offsetWidth;
      box.style.left = `${Math.max(0, Math.min(beside, target.clientWidth - box.offsetWidth))}px`;
    }
    figure.on_event("mousemove", show);
    figure.on_event("tap", show);
    figure.on_event("mouseleave", () => { box.hidden = true; });
  }

  // A click on a legend entry hides or shows its curves, in all axes of the plot.
  function connectLegend(element, drawn, off) {
    for (const button of element.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const label = button.dataset.label;
        if (!off.delete(label)) off.add(label);
        button.setAttribute("aria-pressed", String(!off.has(label)));
        for (const { mark, thing, range } of drawn) {
          for (const one of thing) one.visible = !off.has(mark.label);
          for (const one of range) one.visible = !off.has(mark.label) && !off.has(mark.range);
        }
      });
    }
  }

  function connectTools(element, plot, tools) {
    const { begin, end, range } = horizontal(plot);
    element.querySelector(".tools").hidden = false;
    element.querySelector(".reset").addEventListener("click", () => range.setv({ start: begin, end }));
    const drags = [...element.querySelectorAll("[data-drag]")];
    function choose(chosen) {
      for (const button of drags) {
        button.setAttribute("aria-pressed", String(button === chosen));
        for (const one of tools) one[button.dataset.drag].active = button === chosen;
      }
    }
    for (const button of drags) button.addEventListener("click", () => choose(button));
    // On a touch screen, dragging scrolls the page until the user chooses a tool.
    choose(touch ? null : drags[0]);
  }

  function drawPlot(element, plot) {
    const off = new Set(), drawn = [], tools = [];
    element.classList.add("drawn"); // the style sheet then hides the static SVGs
    for (const [index, axes] of plot.axes.entries()) {
      const target = element.querySelectorAll(".chart")[index];
      tools.push(toolsOf(plot));
      const figure = figureOf(plot, axes, tools.at(-1), target);
      drawn.push(...axes.marks.map((mark) => ({ mark, ...draw(figure, mark) })));
      showValues(plot, axes, figure, target, off);
      targets.push(target);
      sheet.add_root(figure);
    }
    connectLegend(element, drawn, off);
    if (tools[0].zoom) connectTools(element, plot, tools);
  }

  // Adding a root draws it into the target with the same index. Plots are drawn when they come near the
  // window, because drawing dozens at once would keep a phone busy for seconds.
  Bokeh.embed.add_document_standalone(sheet, document.body, targets).then(() => {
    const near = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        drawPlot(target, plots.find((plot) => plot.name === target.id));
      }
    }, { rootMargin: "50%" });
    for (const plot of plots) near.observe(document.getElementById(plot.name));
  });
})();
