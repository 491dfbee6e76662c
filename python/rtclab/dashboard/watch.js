// Shows what happens in a run: from the lines of its watch file, which the server sends or the page contains.
// Everything is put into the page as text, never as HTML.
"use strict";
(() => {
  const CURVES = [
    { field: "sent_kbps", title: "Sending rate", unit: "kbit/s", side: "sender", dotted: "target_kbps" },
    { field: "received_kbps", title: "Receiving rate", unit: "kbit/s", side: "receiver" },
    { field: "rtt_ms", title: "Round-trip time", unit: "ms", side: "sender" },
    { field: "delay_ms", title: "One-way delay", unit: "ms", side: "receiver" },
    { field: "loss_percent", title: "Lost packets", unit: "%", side: "receiver" },
    { field: "frame_height", title: "Resolution", unit: "lines", side: "receiver" },
    { field: "frame_rate", title: "Frame rate", unit: "frames/s", side: "receiver" },
    { field: "frozen_s", title: "Frozen so far", unit: "s", side: "receiver" },
    { field: "buffer_ms", title: "Jitter buffer", unit: "ms", side: "receiver" },
    { field: "concealed_percent", title: "Sound made up", unit: "%", side: "receiver" },
    { field: "cpu_percent", title: "Processor", unit: "% of a core", side: "person" },
  ];
  const COLUMNS = [
    { field: "sent_kbps", title: "Sent", unit: "kbit/s" },
    { field: "target_kbps", title: "Target", unit: "kbit/s" },
    { field: "received_kbps", title: "Received", unit: "kbit/s" },
    { field: "rtt_ms", title: "Round trip", unit: "ms" },
    { field: "delay_ms", title: "One way", unit: "ms" },
    { field: "loss_percent", title: "Lost", unit: "%" },
    { field: "frame_rate", title: "Frames", unit: "per s" },
    { field: "frame_height", title: "Lines", unit: "" },
    { field: "concealed_percent", title: "Made up", unit: "% of sound" },
    { field: "freezes", title: "Freezes", unit: "so far" },
  ];
  const INK = "#222222", GRID = "#e3e3e3", DOTS = [1, 1.2], DASHES = [[], [6, 1.5], [3, 1, 1, 1]], LINE_WIDTH = 1.6;
  const LEFT = 40, RIGHT = 8, TOP = 6, BOTTOM = 20, HEIGHT = 120;
  const MOST_POINTS = 300, GAP_S = 3, MOST_EVENTS = 200, DRAW_EVERY_MS = 400;
  const UNKNOWN = "–";

  const byId = (id) => document.getElementById(id);
  const repeats = new Map();
  let run = null, end = null, died = false, finished = 0, chosen = null, drawing = null, shown = null;

  function element(name, text = "", attributes = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function drawn(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  // --- what has happened ---------------------------------------------------------------------------

  function keyOf(message) {
    return `${message.repeat} ${message.condition}`;
  }

  function append(curves, more) {
    for (const [name, fields] of Object.entries(more)) {
      if (!curves.has(name)) curves.set(name, new Map());
      for (const [field, points] of Object.entries(fields)) {
        const known = curves.get(name).get(field);
        if (known) known.push(...points);
        else curves.get(name).set(field, points);
      }
    }
  }

  // A flow that was not planned, of a connection that a page of the user's own made.
  function addFlow(repeat, flow, ends) {
    if (repeat.flows.has(flow)) return;
    const alike = [...repeat.flows.values()].filter((other) =>
      other.provisional && other.sender === ends.sender && other.receiver === ends.receiver);
    repeat.flows.set(flow, { ...ends, provisional: true });
    repeat.looks.set(flow, { colour: INK, dash: DASHES[alike.length % DASHES.length] });
  }

  function take(message) {
    const repeat = repeats.get(keyOf(message));
    died = false;
    switch (message.what) {
      case "run":
        run = message;
        end = null;
        finished = message.finished;
        break;
      case "repeat": {
        const button = repeat ? repeat.button : buttonOf(message);
        const flows = new Map(Object.entries(message.flows)), looks = new Map(Object.entries(message.looks));
        repeats.delete(keyOf(message)); // it is the newest again
        repeats.set(keyOf(message), { ...message, button, flows, looks, curves: new Map(), people: new Map(),
          events: [], at_s: null, outcome: null });
        shown = null;
        break;
      }
      case "points":
        if (!repeat) break;
        for (const [flow, ends] of Object.entries(message.ends)) addFlow(repeat, flow, ends);
        append(repeat.curves, message.flows);
        append(repeat.people, message.people);
        repeat.events.push(...message.events);
        repeat.at_s = message.at_s;
        break;
      case "outcome":
        if (!repeat) break;
        repeat.outcome = message;
        if (message.status === "finished") finished += 1;
        break;
      case "end":
        end = message;
        break;
      case "died":
        died = true;
        break;
    }
    drawing ??= setTimeout(draw, DRAW_EVERY_MS);
  }

  // The button of a repeat. Buttons are in the order of repeats, though a later repeat may have begun earlier.
  function buttonOf(message) {
    const button = element("button", "", { type: "button" }), key = keyOf(message);
    button.addEventListener("click", () => {
      chosen = chosen === key ? null : key;
      draw();
    });
    const later = [...repeats.values()].filter(({ condition, repeat }) =>
      condition === message.condition && repeat > message.repeat).sort((a, b) => a.repeat - b.repeat);
    byId("repeats").insertBefore(button, later[0]?.button ?? null);
    return button;
  }

  // --- the page ------------------------------------------------------------------------------------

  function draw() {
    clearTimeout(drawing);
    drawing = null;
    const all = [...repeats.values()];
    byId("name").textContent = run ? `${run.name}, ${run.backend === "live" ? "live" : "simulated"}` : "";
    document.title = run ? `${run.name} – rtclab watch` : "rtclab watch";
    byId("status").textContent = statusOf(all);
    byId("progress").max = run ? run.planned : 1;
    byId("progress").value = finished;
    const repeat = repeats.get(chosen) ?? newest(all);
    for (const one of all) drawButton(one, one === repeat);
    byId("repeats").hidden = all.length < 2;
    byId("repeat").hidden = !repeat;
    if (repeat) drawRepeat(repeat);
  }

  // The newest repeat. There is nothing to see of a simulated one before it ends.
  function newest(all) {
    const ended = all.filter(({ outcome }) => outcome);
    return (run?.backend !== "live" && ended.at(-1)) || all.at(-1);
  }

  function statusOf(all) {
    if (!run) return "Waiting for the run to begin";
    const count = `${finished} of ${run.planned} ${run.planned === 1 ? "repeat" : "repeats"} finished`;
    const failed = all.filter(({ outcome }) => outcome && outcome.status !== "finished").length;
    const counts = failed ? `${count}, ${failed} failed` : count;
    if (end) return end.reason ? `The run stopped: ${end.reason}. ${counts}` : `The run has ended: ${counts}`;
    if (died) return `The process that ran the repeats died. ${counts}`;
    return `Running: ${counts}`;
  }

  function nameOf(repeat) {
    const name = `repeat ${repeat.repeat}`;
    return repeat.condition ? `${repeat.condition}, ${name}` : name;
  }

  function stateOf(repeat) {
    if (repeat.outcome) return repeat.outcome.status;
    return end || died ? "interrupted" : "running";
  }

  function drawButton(repeat, pressed) {
    const state = stateOf(repeat);
    repeat.button.textContent = state === "finished" ? nameOf(repeat) : `${nameOf(repeat)}: ${state}`;
    repeat.button.className = state;
    repeat.button.setAttribute("aria-pressed", String(pressed));
    repeat.button.title = pressed && chosen ? "Click to follow the newest repeat" : "";
  }

  function drawRepeat(repeat) {
    const { outcome } = repeat;
    const attempt = repeat.attempt > 1 ? `, try ${repeat.attempt}` : "";
    const at = outcome || repeat.at_s === null ? "" : `, ${Math.round(repeat.at_s)} s of ${repeat.duration_s} s`;
    byId("heading").textContent = `${nameOf(repeat)[0].toUpperCase()}${nameOf(repeat).slice(1)}${attempt}: ${stateOf(repeat)}${at}`;
    const reason = outcome ? outcome.reason || outcome.disturbed || outcome.note : "";
    byId("answer").textContent = answerOf(repeat);
    byId("next").hidden = !(recorded && end && finished);
    byId("reason").textContent = reason;
    byId("reason").hidden = !reason;
    const curves = CURVES.filter(({ field, side }) =>
      [...(side === "person" ? repeat.people : repeat.curves).values()].some((fields) => fields.has(field)));
    const fields = curves.map(({ field }) => field).join();
    if (shown?.repeat !== repeat || shown.fields !== fields) shown = { repeat, fields, cards: cardsOf(repeat, curves) };
    const lines = curves.map((curve) => repeat.participants.map((person) => linesOf(repeat, curve, person)));
    const tops = lines.map((ofCurve) => Math.max(0, ...ofCurve.flat().map(({ top }) => top)));
    repeat.participants.forEach((person, index) => {
      const card = shown.cards[index];
      card.state.textContent = lastEvent(repeat, person);
      drawLegend(card.legend, repeat, lines.flatMap((ofCurve) => ofCurve[index]).filter(({ flow }) => flow));
      card.charts.forEach((chart, which) => drawChart(chart, lines[which][index], tops[which], repeat.duration_s, curves[which]));
    });
    drawFlows(repeat);
    drawEvents(repeat);
  }

  // How the repeat went so far: whose pictures froze longest, and else what was received.
  function answerOf(repeat) {
    const flows = [...repeat.curves].filter(([, curves]) => curves.has("received_kbps"));
    if (!flows.length) return "Nothing has been received yet.";
    const mean = (points) => points.reduce((sum, [, value]) => sum + value, 0) / points.length;
    const part = (field) => flows.filter(([, curves]) => curves.get(field)?.length)
      .map(([flow, curves]) => [mean(curves.get(field)), flow]).sort(([a], [b]) => b - a);
    const told = [];
    const frozen = flows.filter(([, curves]) => curves.has("frozen_s"))
      .map(([flow, curves]) => [curves.get("frozen_s").at(-1)[1], flow]).sort(([a], [b]) => b - a)[0];
    const [made] = part("concealed_percent"), [lost] = part("loss_percent");
    if (frozen) {
      told.push(frozen[0] < 0.1 ? "no video froze" : `video of ${arrow(frozen[1])} was frozen for ${number(frozen[0])} s`);
    }
    if (made && made[0] >= 1) told.push(`${number(made[0])} % of the sound of ${arrow(made[1])} was made up`);
    if (lost && lost[0] >= 0.1) told.push(`${number(lost[0])} % of the packets of ${arrow(lost[1])} were lost`);
    const rates = part("received_kbps"), least = rates.at(-1);
    told.push(rates.length > 1 ? `${number(least[0], true)} (${arrow(least[1])}) to ${number(rates[0][0], true)} kbit/s are received`
      : `${number(least[0], true)} kbit/s are received`);
    return `${repeat.outcome ? "In this repeat" : "So far"} ${told.join("; ")}.`;
  }

  function cardsOf(repeat, curves) {
    byId("cards").replaceChildren();
    return repeat.participants.map((person) => {
      const card = element("article", "", { class: "card" }), heading = element("h3", person), state = element("span");
      const legend = element("div", "", { class: "legend" }), charts = element("div", "", { class: "charts" });
      heading.append(state);
      card.append(heading, legend, charts);
      byId("cards").append(card);
      const made = curves.map(({ title, unit }) => {
        const figure = element("figure"), caption = element("figcaption", `${title} `);
        const chart = drawn("svg", { class: "chart", role: "img", "aria-label": `${title} of ${person} in ${unit} over time` });
        caption.append(element("span", `(${unit})`, { class: "unit" }));
        figure.append(caption, chart);
        charts.append(figure);
        return chart;
      });
      return { state, legend, charts: made };
    });
  }

  // With many flows there is a colour for each sender, otherwise for each flow.
  function drawLegend(legend, repeat, lines) {
    const alike = Map.groupBy(new Map(lines.map((line) => [line.flow, line])).values(), ({ flow, colour, dash }) =>
      `${colour} ${dash} ${repeat.flows.get(flow).sender ?? flow}`);
    legend.replaceChildren(...[...alike.values()].map(([line, ...others]) => {
      const entry = element("span");
      entry.append(sample(line), others.length ? `from ${repeat.flows.get(line.flow).sender}` : arrow(line.flow));
      return entry;
    }));
  }

  function arrow(flow) {
    return flow ? flow.replace("->", " → ") : "";
  }

  function lastEvent(repeat, person) {
    const own = repeat.events.filter(([, who]) => who === person);
    if (!own.length) return repeat.outcome ? "never joined" : "starting";
    const [at_s, , flow, event] = own.at(-1);
    return `${event.replaceAll("_", " ")}${flow ? ` (${arrow(flow)})` : ""} at ${at_s.toFixed(1)} s`;
  }

  // --- curves --------------------------------------------------------------------------------------

  function linesOf(repeat, { field, side, dotted }, person) {
    if (side === "person") {
      const points = repeat.people.get(person)?.get(field);
      return points ? [lineOf("", points, INK, [])] : [];
    }
    const lines = [];
    for (const [flow, about] of repeat.flows) {
      const look = repeat.looks.get(flow), curves = repeat.curves.get(flow);
      // What a server passes on is in the flow from one participant to the other.
      if (!curves || about[side] !== person || (side === "receiver" && !look)) continue;
      const colour = look?.colour ?? INK, dash = look?.dash ?? [];
      if (curves.has(field)) lines.push(lineOf(flow, curves.get(field), colour, dash));
      if (dotted && curves.has(dotted)) lines.unshift(lineOf("", curves.get(dotted), colour, DOTS));
    }
    return lines;
  }

  function lineOf(flow, points, colour, dash) {
    return { flow, points, colour, dash, top: points.reduce((top, [, value]) => Math.max(top, value), 0) };
  }

  function stroke({ colour, dash }) {
    const dashes = dash.map((length) => length * LINE_WIDTH).join(" ");
    return { stroke: colour, "stroke-width": LINE_WIDTH, fill: "none", "stroke-dasharray": dashes };
  }

  function sample(line) {
    const made = drawn("svg", { width: 24, height: 10, "aria-hidden": "true" });
    made.append(drawn("path", { d: "M0 5H24", ...stroke(line), "stroke-width": 2.5 }));
    return made;
  }

  // Steps between ticks that give at most `most` of them.
  function stepOf(length, most) {
    const least = length / most, power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
  }

  // The end of an axis: the first tick that is not below the highest value.
  function topOf(highest, most) {
    const step = stepOf(highest, most);
    return step * Math.ceil(highest / step - 1e-9);
  }

  function ticks(length, most) {
    const step = stepOf(length, most), digits = Math.max(0, -Math.floor(Math.log10(step)));
    return Array.from({ length: Math.floor(length / step + 1e-9) + 1 }, (_, index) => [index * step, (index * step).toFixed(digits)]);
  }

  function drawChart(chart, lines, highest, duration, { unit }) {
    const width = Math.max(chart.clientWidth, 120), top = highest > 0 ? topOf(highest, 4) : 1;
    const x = (at_s) => LEFT + (at_s / duration) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (Math.max(value, 0) / top) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (const [value, text] of ticks(top, 4)) {
      parts.push(drawn("path", { d: `M${LEFT} ${y(value).toFixed(1)}H${width - RIGHT}`, stroke: GRID }));
      parts.push(drawn("text", { x: LEFT - 4, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    const moments = ticks(duration, width / 60);
    moments.forEach(([at_s, text], index) => {
      const last = index === moments.length - 1;
      parts.push(drawn("path", { d: `M${x(at_s).toFixed(1)} ${HEIGHT - BOTTOM}v4`, stroke: "#6b6b6b" }));
      const place = { x: x(at_s), y: HEIGHT - 4, "text-anchor": last ? "end" : "middle" };
      parts.push(drawn("text", last ? { ...place, x: Math.min(x(at_s) + 12, width) } : place, last ? `${text} s` : text));
    });
    for (const line of lines) parts.push(drawn("path", { d: pathOf(line.points, x, y), ...stroke(line) }));
    chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    chart.replaceChildren(...parts);
  }

  function pathOf(points, x, y) {
    const size = Math.ceil(points.length / MOST_POINTS);
    let path = "", before = -Infinity;
    for (let first = 0; first < points.length; first += size) {
      const some = points.slice(first, first + size);
      const at_s = some.reduce((sum, [at]) => sum + at, 0) / some.length;
      const value = some.reduce((sum, [, one]) => sum + one, 0) / some.length;
      path += `${at_s - before > GAP_S * size ? "M" : "L"}${x(at_s).toFixed(1)} ${y(value).toFixed(1)}`;
      if (at_s - before > GAP_S * size) path += "h0.1"; // a lone point is seen, too
      before = at_s;
    }
    return path;
  }

  // --- tables --------------------------------------------------------------------------------------

  function drawFlows(repeat) {
    const columns = COLUMNS.filter(({ field }) => [...repeat.curves.values()].some((fields) => fields.has(field)));
    const head = element("tr");
    head.append(element("th", "Flow"), ...columns.map(({ title, unit }) => {
      const cell = element("th", title, { class: "number" });
      cell.append(element("span", unit, { class: "unit" }));
      return cell;
    }));
    const rows = [...repeat.flows.keys()].filter((flow) => repeat.curves.has(flow)).map((flow) => {
      const curves = repeat.curves.get(flow);
      const row = element("tr"), name = element("td"), look = repeat.looks.get(flow);
      name.append(sample({ colour: look?.colour ?? INK, dash: look?.dash ?? [] }), arrow(flow));
      row.append(name, ...columns.map(({ field }) => {
        const cell = element("td", number(curves.get(field)?.at(-1)?.[1], field === "freezes"), { class: "number" });
        Object.assign(cell.dataset, { flow, field });
        return cell;
      }));
      return row;
    });
    byId("flows").replaceChildren(head, ...rows);
  }

  function number(value, whole) {
    return value === undefined ? UNKNOWN : value.toFixed(whole || value >= 100 ? 0 : 1);
  }

  function drawEvents(repeat) {
    const rows = repeat.events.slice(-MOST_EVENTS).reverse().map(([at_s, person, flow, event, detail]) => {
      const row = element("tr");
      row.append(element("td", `${at_s.toFixed(2)} s`, { class: "number" }), element("td", person),
        element("td", event.replaceAll("_", " ")), element("td", arrow(flow)),
        element("td", detail, { class: "detail" }));
      return row;
    });
    byId("events").replaceChildren(...rows);
  }

  // --- where it comes from -------------------------------------------------------------------------

  const recorded = JSON.parse(byId("recorded").textContent);
  addEventListener("resize", () => { drawing ??= setTimeout(draw, DRAW_EVERY_MS); });
  if (recorded) {
    recorded.forEach(take);
    draw();
    return;
  }
  const source = new EventSource(`events${location.search}`);
  source.onopen = () => { byId("connection").hidden = true; };
  source.onmessage = ({ data }) => take(JSON.parse(data));
  source.onerror = () => {
    if (end) source.close(); // the server ends with the run
    else byId("connection").hidden = false;
  };
})();
