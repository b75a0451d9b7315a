// The forecasts of one node: search, choose, zoom.
"use strict";
for (const figure of document.querySelectorAll("figure.series")) {
  const { draw, keepDrawn, views } = globalThis.tdegnnCharts;
  const data = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".plot");
  const [find, nodes, channels, status] = [".find", ".node", ".channel", ".status"].map((name) => figure.querySelector(name));
  const article = figure.closest("article");
  const last = data.future ? data.future.times.at(-1) : data.times.at(-1);
  const whole = [data.times[0], last];
  const shortest = (whole[1] - whole[0]) / 40;
  let domain = whole;

  const rowsOf = (channel, node) => {
    const observed = data.times.map((time, step) => ({ time, value: data.observed[channel][node][step] }));
    const forecasts = data.windows.flatMap((start, window) =>
      Array.from({ length: data.horizon }, (_, ahead) => {
        const entry = window * data.horizon + ahead;
        const [value, low, high] = ["forecast", "low", "high"].map((name) => data[name][channel][node][entry]);
        return { time: data.times[start + ahead], value, low, high, window, ahead: ahead + 1 };
      }),
    );
    const future = (data.future?.times ?? []).map((time, ahead) => {
      const [value, low, high] = ["forecast", "low", "high"].map((name) => data.future[name][channel][node][ahead]);
      return { time, value, low, high, ahead: ahead + 1 };
    });
    return { observed, forecasts, future };
  };

  const specOf = ({ observed, forecasts, future }) => {
    const x = {
      field: "time",
      type: data.is_date ? "temporal" : "quantitative",
      title: null,
      scale: { ...(data.is_date ? { type: "utc" } : {}), domain, nice: false },
      axis: { labelOverlap: true, tickCount: Math.max(3, Math.floor(place.clientWidth / 110)) },
    };
    const y = { type: "quantitative", title: data.channels[channels.value || 0], scale: { zero: false } };
    const when = data.is_date
      ? { field: "time", type: "temporal", timeUnit: "utcyearmonthdatehoursminutes", title: "time" }
      : { field: "time", title: "time" };
    const tips = [when, { field: "value", title: "value" }, { field: "low" }, { field: "high" }, { field: "ahead", title: "steps ahead" }];
    // A band for each stretch of steps with an interval. It begins at a forecast, never at an observation, and steps
    // without an interval are not covered. Of a single step, whose band would have no width, there is a bar.
    const hasInterval = (row) => row !== undefined && row.low !== null && row.high !== null;
    const stretchesOf = (rows) => {
      const stretches = [];
      rows.forEach((row, number) => {
        const before = rows[number - 1];
        const goesOn = hasInterval(before) && (data.horizon === 1 || before.window === row.window);
        if (hasInterval(row) && !goesOn) stretches.push([]);
        if (hasInterval(row)) stretches.at(-1).push({ ...row, stretch: stretches.length });
      });
      return stretches;
    };
    const bands = (rows, color) => {
      const stretches = stretchesOf(rows);
      const shaded = (parts, mark, detail) => ({
        data: { values: parts.flat() },
        mark: { ...mark, color, opacity: 0.22, clip: true },
        encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, ...detail },
      });
      const [long, single] = [stretches.filter((part) => part.length > 1), stretches.filter((part) => part.length === 1)];
      return [
        shaded(long, { type: "area", line: false }, { detail: { field: "stretch" } }),
        shaded(single, { type: "rule", strokeWidth: 6 }, {}),
      ];
    };
    const line = (rows, color, detail, size) => ({
      data: { values: rows },
      mark: { type: "line", color, clip: true, strokeWidth: size, point: { filled: true, size: 14, color } },
      encoding: { x, y: { ...y, field: "value" }, tooltip: tips, ...detail },
    });
    // Forecasts of one step are joined to a line.
    const byWindow = data.horizon === 1 ? {} : { detail: { field: "window" } };
    return {
      layer: [
        ...bands(forecasts, "var(--blue)"),
        ...bands(future, "var(--orange)"),
        {
          data: { values: observed },
          params: [
            {
              name: "zoom",
              select: { type: "interval", encodings: ["x"], zoom: "wheel![event.shiftKey]" },
              bind: "scales",
            },
          ],
          mark: { type: "line", color: "var(--soft-ink)", clip: true, strokeWidth: 1.4 },
          encoding: { x, y: { ...y, field: "value" }, tooltip: [when, { field: "value", title: "observed" }] },
        },
        line(forecasts, "var(--blue)", byWindow, 1.8),
        line(future, "var(--orange)", {}, 1.8),
      ],
      height: 300,
    };
  };

  const show = () => {
    const [channel, node] = [Number(channels.value || 0), Number(nodes.value)];
    const rows = rowsOf(channel, node);
    draw(place, specOf(rows));
    const seen = new Map(rows.observed.map((row) => [row.time, row.value]));
    const errors = rows.forecasts
      .filter((row) => row.value !== null && seen.get(row.time) !== null && seen.get(row.time) !== undefined)
      .map((row) => Math.abs(row.value - seen.get(row.time)));
    const mean = errors.reduce((total, value) => total + value, 0) / Math.max(1, errors.length);
    status.textContent =
      `${data.nodes[node]}: mean absolute error ${globalThis.tdegnnStencil.formatG(mean, 3)} ` +
      `on the ${errors.length} held-out values shown.`;
  };

  const choose = (name) => {
    const number = data.nodes.indexOf(name);
    if (number < 0) return;
    find.value = "";
    list("");
    nodes.value = String(number);
    show();
    figure.scrollIntoView({ block: "nearest" });
  };

  const list = (text) => {
    const wanted = text.trim().toLowerCase();
    const matching = data.nodes.map((name, number) => [name, number]).filter(([name]) => name.toLowerCase().includes(wanted));
    nodes.replaceChildren(...matching.map(([name, number]) => new Option(name, number)));
    return matching.length;
  };

  find.addEventListener("input", () => {
    const before = nodes.value;
    const count = list(find.value);
    if (count === 0) {
      list("");
      nodes.value = before;
      status.textContent = `No node is called like "${find.value}".`;
      return;
    }
    if ([...nodes.options].some((option) => option.value === before)) nodes.value = before;
    show();
    const matches = count === 1 ? "1 node matches" : `${count} nodes match`;
    status.textContent += find.value ? ` ${matches} the search.` : "";
  });
  nodes.addEventListener("change", show);
  channels.addEventListener("change", show);
  article.addEventListener("pick", (event) => choose(event.detail));
  for (const button of article.querySelectorAll(".pick")) {
    button.addEventListener("click", () => choose(button.dataset.node));
  }

  const zoom = (change) => {
    const now = views.get(place).scale("x").domain().map(Number);
    let [start, end] = change(now[0], now[1], now[1] - now[0]);
    const length = Math.min(Math.max(end - start, shortest), whole[1] - whole[0]);
    start = Math.min(Math.max(start, whole[0]), whole[1] - length);
    domain = [start, start + length];
    show();
  };
  const moves = {
    earlier: (start, end, length) => [start - length / 2, end - length / 2],
    later: (start, end, length) => [start + length / 2, end + length / 2],
    in: (start, end, length) => [start + length / 4, end - length / 4],
    out: (start, end, length) => [start - length / 2, end + length / 2],
    all: () => whole,
  };
  for (const [name, move] of Object.entries(moves)) {
    figure.querySelector(`.zoom.${name}`).addEventListener("click", () => zoom(move));
  }
  keepDrawn(place, show);
}
