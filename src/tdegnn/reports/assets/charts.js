// Draws the Vega-Lite pictures of the page, their tooltips, and switches between light and dark colors.
"use strict";
globalThis.tdegnnCharts = (() => {
  // Colors are variables of the page's style: they follow its theme without drawing anew.
  const theme = {
    background: "transparent",
    aria: false,
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: "var(--soft-ink)",
      titleColor: "var(--ink)",
      domainColor: "var(--soft-ink)",
      tickColor: "var(--soft-ink)",
      gridColor: "var(--line)",
      labelFontSize: 12,
      titleFontSize: 12,
      titleFontWeight: "normal",
      labelLimit: 120,
      labelOverlap: true,
      labelSeparation: 6,
    },
    legend: {
      orient: "top",
      labelColor: "var(--ink)",
      titleColor: "var(--soft-ink)",
      labelFontSize: 12,
      titleFontSize: 12,
      titleFontWeight: "normal",
      labelLimit: 150,
      symbolStrokeWidth: 2,
      // Several legends stand below each other: side by side they may be wider than a phone.
      layout: { top: { direction: "vertical", anchor: "start" } },
    },
    text: { color: "var(--ink)", fontSize: 12 },
    line: { strokeWidth: 2 },
  };
  // A square picture is not larger than this.
  const largestSquare = 440;
  // A cell with a number is at least this wide.
  const narrowest = 38;

  const tooltip = document.createElement("div");
  tooltip.id = "tooltip";
  tooltip.hidden = true;
  document.body.append(tooltip);
  const showTooltip = (_, event, __, value) => {
    tooltip.hidden = value === null || value === undefined || value === "";
    if (tooltip.hidden) return;
    const isRecord = typeof value === "object";
    tooltip.textContent = isRecord
      ? Object.entries(value).map(([name, text]) => `${name}: ${text}`).join("\n")
      : String(value);
    const { width, height } = tooltip.getBoundingClientRect();
    tooltip.style.left = `${Math.min(event.clientX + 12, innerWidth - width - 8)}px`;
    tooltip.style.top = `${event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14}px`;
  };

  const views = new WeakMap();

  const draw = (place, spec) => {
    const width = Math.max(120, Math.floor(place.clientWidth));
    // A square picture has room for its axes beside it.
    const axes = spec.usermeta?.square;
    const isSquare = axes !== undefined;
    const side = Math.min(width, largestSquare) - (axes ?? 0);
    // Numbers are left out of cells that are too narrow for them.
    const hasRoom = !spec.usermeta?.columns || (width - 80) / spec.usermeta.columns > narrowest;
    const sized = {
      ...spec,
      ...(hasRoom ? {} : { layer: spec.layer.filter((each) => (each.mark.type ?? each.mark) !== "text") }),
      config: theme,
      width: isSquare ? side : width,
      ...(isSquare ? { height: side } : {}),
      autosize: { type: isSquare ? "pad" : "fit-x", contains: "padding" },
      padding: 2,
    };
    views.get(place)?.finalize();
    // Screen readers read the label of the place, not the marks.
    const container = Object.assign(document.createElement("div"), { ariaHidden: "true" });
    place.replaceChildren(container);
    const view = new vega.View(vega.parse(vegaLite.compile(sized).spec), { renderer: "svg", container, hover: true });
    view.tooltip(showTooltip);
    views.set(place, view);
    view.run();
    return view;
  };

  // Calls `redraw` now, and again whenever the width of a place changes.
  const keepDrawn = (place, redraw) => {
    let width = place.clientWidth;
    redraw();
    new ResizeObserver(() => {
      if (Math.abs(place.clientWidth - width) > 2 && place.clientWidth > 0) {
        width = place.clientWidth;
        redraw();
      }
    }).observe(place);
  };

  for (const figure of document.querySelectorAll("figure.card:not(.series)")) {
    const place = figure.querySelector(".plot");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    keepDrawn(place, () => {
      const view = draw(place, spec);
      if (spec.usermeta?.picks) {
        view.addEventListener("click", (_, item) => {
          const node = item?.datum?.[spec.usermeta.picks];
          if (node !== undefined) {
            figure.closest("article").dispatchEvent(new CustomEvent("pick", { detail: node }));
          }
        });
      }
    });
  }

  const button = document.getElementById("theme");
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const nameTheme = () => (button.textContent = isDark() ? "Light colors" : "Dark colors");
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();

  return { draw, keepDrawn, views };
})();
