// Draws the plots in the page's JSON as interactive charts, with BokehJS. Until then the page shows static SVGs.
"use strict";
(() => {
  const INK = "#222", QUIET = "#6b6b6b", LINE_WIDTH = 1.8, LETTER_PX = 8, DIGITS = 4, MOST_TEXTS = 4,
    NARROW = 560, LOW_PX = 45;
  const plots = JSON.parse(document.getElementById("chart-data").textContent);
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

  // The largest value of the form 1, 2 or 5 times a power of ten that is not above another one.
  function roundBelow(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [5, 2, 1].find((factor) => factor * power <= value);
  }

  // Makes a figure a row of a timeline: few ticks, and times below the last row only.
  function compact(figure, plot) {
    figure.yaxes[0].ticker = plot.height < LOW_PX ? new Bokeh.FixedTicker({ ticks: [0, roundBelow(plot.y.end)] })
      : new Bokeh.BasicTicker({ desired_num_ticks: 2, num_minor_ticks: 0 });
    figure.ygrids[0].ticker = figure.yaxes[0].ticker;
    figure.xaxes[0].visible = plot.x.label !== "";
  }

  function markEvents(figure, plot) {
    for (const [location] of plot.events) {
      figure.add_layout(new Bokeh.Span({ location, dimension: "height", line_color: QUIET, line_dash: [2, 3] }));
    }
  }

  // Each row of a vertical axis of categories has room for its name, which has two lines on a narrow screen.
  function heightOf({ x, y, height, compact: row }, narrow) {
    if (row) return height + (x.label ? 34 : 0);
    const rows = y.names.length ? y.end - y.begin : 0;
    return Math.max(height, 80 + (narrow ? 34 : 22) * rows);
  }

  function figureOf(plot, axes, tools, target) {
    const narrow = target.clientWidth < NARROW;
    const figure = Bokeh.Plotting.figure({
      name: plot.name, sizing_mode: "stretch_width", height: heightOf(plot, narrow),
      min_border_left: 64, min_border_right: 10, min_border_top: plot.compact ? 3 : 0, min_border_bottom: plot.compact ? 7 : 40,
      x_range: horizontal(plot).range, y_range: new Bokeh.Range1d({ start: plot.y.begin, end: plot.y.end }),
      x_axis_label: plot.x.label || null, y_axis_label: plot.compact ? null : plot.y.label, outline_line_color: null,
      background_fill_color: null, border_fill_color: null,
      title: plot.compact ? null : axes.title || null, toolbar_location: null, tools: Object.values(tools), active_drag: null,
    });
    if (plot.compact) compact(figure, plot);
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
    if (figure.title) figure.title.setv({ text_font_style: "normal", text_font_size: "13px", text_color: INK, standoff: 10 });
    markEvents(figure, plot);
    if (axes.note && !plot.compact) {
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

  function drawBoxes(figure, { x, end, low, high, colour, opacity, labels, ink }) {
    const source = new Bokeh.ColumnDataSource({ data: { x, end, low, high } });
    const [left, right, bottom, top] = ["x", "end", "low", "high"].map((field) => ({ field }));
    const boxes = figure.quad({ left, right, bottom, top, source, fill_color: colour, fill_alpha: opacity,
      line_color: null });
    if (!labels) return { range: [], thing: [boxes] };
    const middles = { x: x.map((begin, index) => (begin + end[index]) / 2), text: labels,
      y: low.map((under, index) => (under + high[index]) / 2) };
    const texts = figure.text({ x: { field: "x" }, y: { field: "y" }, text: { field: "text" },
      source: new Bokeh.ColumnDataSource({ data: middles }), text_color: ink, text_align: "center",
      text_baseline: "middle", text_font_size: "10px" });
    return { range: [], thing: [boxes, texts] };
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
      const range = !mark.range ? [] : mark.whiskers
        ? [figure.segment({ x0: x, x1: x, y0: low, y1: high, source, line_color: colour, line_width: 1.2 }),
          figure.scatter({ x, y, source, marker: mark.marker, size: 8, line_color: colour, fill_color: colour })]
        : [figure.varea({ x, y1: low, y2: high, source, fill_color: colour, fill_alpha: 0.2 })];
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
      const near = (figure.x_range.end - figure.x_range.start) / 100;
      lines.push(...plot.events.filter(([at]) => Math.abs(at - x) < near).map(([, what]) => [what, INK]));
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

  function showOrHide({ mark, thing, range }, off) {
    for (const one of thing) one.visible = !off.has(mark.label);
    for (const one of range) one.visible = !off.has(mark.label) && !off.has(mark.range);
  }

  // A click on a legend entry hides or shows its curves, in all axes of the figure.
  function connectLegend(element, state) {
    for (const button of element.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const label = button.dataset.label;
        if (!state.off.delete(label)) state.off.add(label);
        button.setAttribute("aria-pressed", String(!state.off.has(label)));
        for (const one of state.drawn) showOrHide(one, state.off);
      });
    }
  }

  // The state of a figure: what its legend hides, what is drawn, and the tools of its charts.
  function stateOf(element) {
    const state = { off: new Set(), drawn: [], tools: [], drag: null };
    connectLegend(element, state);
    return state;
  }

  function connectTools(element, plot, state) {
    const { begin, end, range } = horizontal(plot);
    element.querySelector(".tools").hidden = false;
    element.querySelector(".reset").addEventListener("click", () => range.setv({ start: begin, end }));
    const drags = [...element.querySelectorAll("[data-drag]")];
    function choose(chosen) {
      state.drag = chosen;
      for (const button of drags) button.setAttribute("aria-pressed", String(button === chosen));
      for (const one of state.tools) useDrag(one, chosen);
    }
    for (const button of drags) button.addEventListener("click", () => choose(button));
    // On a touch screen, dragging scrolls the page until the user chooses a tool.
    choose(touch ? null : drags[0]);
  }

  function useDrag(tools, chosen) {
    for (const name of ["zoom", "move"]) if (tools[name]) tools[name].active = chosen?.dataset.drag === name;
  }

  // Draws a pair of axes of a plot into its place, which has its name and number.
  function drawAxes(plot, target, state) {
    const axes = plot.axes[target.dataset.axes];
    target.classList.add("drawn"); // the style sheet then hides the static SVG
    const tools = toolsOf(plot);
    const figure = figureOf(plot, axes, tools, target);
    state.tools.push(tools);
    const marks = axes.marks.map((mark) => ({ mark, ...draw(figure, mark) }));
    state.drawn.push(...marks);
    for (const one of marks) showOrHide(one, state.off);
    showValues(plot, axes, figure, target, state.off);
    useDrag(tools, state.drag);
    targets.push(target);
    sheet.add_root(figure);
  }

  const byName = (name) => plots.find((plot) => plot.name === name);

  // Calls back once when an element comes near the window. Drawing dozens of charts at once would keep a phone
  // busy for seconds.
  function whenNear(element, callback) {
    const near = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      near.disconnect();
      callback();
    }, { rootMargin: "50%" });
    near.observe(element);
  }

  function drawFigure(element) {
    const state = stateOf(element), places = [...element.querySelectorAll(".chart")];
    for (const target of places) drawAxes(byName(target.dataset.plot), target, state);
    element.classList.add("drawn");
    if (state.tools[0].zoom) connectTools(element, byName(places[0].dataset.plot), state);
  }

  // The columns of a timeline share its legend and tools; one that is hidden is drawn when it is shown.
  function drawTimeline(element) {
    const state = stateOf(element);
    element.classList.add("drawn");
    connectTools(element, byName(element.querySelector(".chart").dataset.plot), state);
    const draw = (column) => whenNear(column, () => {
      for (const target of column.querySelectorAll(".chart")) drawAxes(byName(target.dataset.plot), target, state);
    });
    for (const column of element.querySelectorAll(".column")) draw(column);
    return draw;
  }

  // --- people ---------------------------------------------------------------------------------------

  const ROWS = [["Rate", "kbit/s", 80], ["Delay", "ms", 54], ["Lost", "%", 40], ["Picture", "lines", 54], ["Frozen", "%", 36]];
  const COLOURS = ["#0072B2", "#D55E00", "#D55E00", "#009E73", "#222222"];
  const VALUES = [["frozen", "s a minute"], ["", "kbit/s"], ["", "lines"], ["", "ms from camera to screen"],
    ["", "% of the sound made up"], ["", "% of the packets lost"]];

  // The plots of the small timeline of a pair: a digit for each step is a part of the largest value.
  function smallPlots(flow, { begin, end, levels, pairs }) {
    const [, ...curves] = pairs[flow], model = plots.find(({ compact: row }) => row);
    return ROWS.flatMap(([title, unit, height], index) => {
      const [top, digits] = curves[index] ?? [];
      if (!digits) return [];
      const step = (end - begin) / digits.length, label = `${title} (${unit})`;
      const x = [...digits].map((_, place) => begin + (place + 0.5) * step);
      const y = [...digits].map((digit) => digit === "-" ? null : levels.indexOf(digit) / (levels.length - 1) * top);
      const mark = { kind: "line", label: title.toLowerCase(), colour: COLOURS[index], dash: [], steps: false, x, y };
      return [{ ...model, name: `pair ${flow} ${title}`, height, x: { ...model.x, label: "" },
        y: { ...model.y, label, unit, begin: 0, end: 1.05 * (top || 1) }, axes: [{ title: label, note: "", marks: [mark] }] }];
    });
  }

  function smallColumn(flow, data) {
    const column = document.createElement("div"), heading = document.createElement("h3");
    column.className = "column";
    column.dataset.flow = flow;
    heading.textContent = `${flow.replace("->", " → ")}, in steps of ${((data.end - data.begin) / 30).toPrecision(2)} s`;
    column.append(heading);
    const rows = smallPlots(flow, data);
    if (rows.length) rows.at(-1).x.label = "Time (s)";
    for (const plot of rows) {
      const title = document.createElement("p"), place = document.createElement("div");
      title.className = "row";
      title.textContent = plot.axes[0].title;
      place.className = "chart";
      Object.assign(place.dataset, { plot: plot.name, axes: 0 });
      column.append(title, place);
    }
    plots.push(...rows);
    return column;
  }

  // What a pair's values say, for the title of its cell.
  function inWords(flow, values) {
    const told = values.flatMap((value, index) => value === null ? [] : [`${VALUES[index][0]} ${short(value)} ${VALUES[index][1]}`.trim()]);
    return `${flow.replace("->", " → ")}: ${told.join(", ")}`;
  }

  function connectMatrix(matrix, timeline, draw) {
    const data = JSON.parse(document.getElementById("pairs").textContent);
    const table = matrix.querySelector("table"), body = table.tBodies[0];
    const senders = [...table.tHead.querySelectorAll("th")].map(({ textContent }) => textContent);
    const rows = [...body.rows].map((row) => ({ row, name: row.cells[0].textContent }));
    const flows = new Map(Object.keys(data.pairs).map((flow) => [flow.split("->").reverse().join("\n"), flow]));
    const flowOf = (cell) => flows.get(`${cell.parentElement.cells[0].textContent}\n${senders[cell.cellIndex - 1]}`);
    let pressed = null;
    function open(cell) {
      const flow = flowOf(cell), columns = timeline.querySelector(".columns");
      let column = [...columns.children].find(({ dataset }) => dataset.flow === flow);
      if (!column) {
        column = smallColumn(flow, data);
        columns.append(column);
        draw(column);
      }
      for (const one of columns.children) one.hidden = one !== column;
      pressed?.setAttribute("aria-pressed", "false");
      pressed = cell.querySelector("button");
      pressed.setAttribute("aria-pressed", "true");
    }
    body.addEventListener("click", ({ target }) => {
      const cell = target.closest("td");
      if (!cell?.querySelector("button")) return;
      open(cell);
      timeline.scrollIntoView({ block: "nearest" });
    });
    for (const event of ["pointerover", "focusin"]) {
      body.addEventListener(event, ({ target }) => {
        const button = target.closest("button"), flow = button && flowOf(button.parentElement);
        if (flow && !button.title) button.title = inWords(flow, data.pairs[flow][0]);
      });
    }
    const filter = matrix.querySelector(".filter"), find = filter.querySelector("input"), sort = filter.querySelector("select");
    filter.hidden = false;
    find.addEventListener("input", () => {
      const wanted = find.value.toLowerCase();
      for (const { row, name } of rows) row.hidden = !name.toLowerCase().includes(wanted);
      for (const card of document.querySelectorAll(".cards li")) {
        card.hidden = !card.querySelector("strong").textContent.toLowerCase().includes(wanted);
      }
    });
    sort.addEventListener("change", () => {
      const sorted = sort.value === "name" ? rows.toSorted((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true })) : rows;
      body.append(...sorted.map(({ row }) => row));
    });
    const worst = timeline.querySelector(".column").dataset.flow;
    const cells = rows.flatMap(({ row }) => [...row.cells]).filter((cell) => cell.querySelector("button"));
    open(cells.find((cell) => flowOf(cell) === worst) ?? cells[0]);
  }

  // Adding a root draws it into the target with the same index.
  Bokeh.embed.add_document_standalone(sheet, document.body, targets).then(() => {
    for (const element of document.querySelectorAll("figure.plot")) whenNear(element, () => drawFigure(element));
    const timeline = document.querySelector("figure.timeline"), matrix = document.querySelector(".matrix");
    if (!timeline) return;
    const draw = drawTimeline(timeline);
    if (matrix) connectMatrix(matrix, timeline, draw);
  });
})();
