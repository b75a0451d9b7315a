// The stencil explorer: weights and roots that can be moved, the verdict, and the stencil on a signal.
"use strict";
(() => {
  const explorer = document.getElementById("explorer");
  const constants = JSON.parse(explorer.querySelector(".constants").textContent);
  const { applyStencil, characteristicRoots, explain, formatG, fromRoots, modulus } = globalThis.tdegnnStencil;
  const { draw, keepDrawn } = globalThis.tdegnnCharts;
  const find = (name) => explorer.querySelector(name);
  const [preset, length, weights, disc, verdict, results, signalChoice, plot] = [
    ".preset", ".length", ".weights", ".disc", ".verdict", ".results", ".signal", ".acting",
  ].map(find);
  const svgElement = (name, attributes = {}) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  // Half the width of the picture of the roots.
  const half = 170;
  let c = [...constants.vectors[0]];
  // The roots besides the 1 that is always there. A pair is one entry.
  let free = [];
  let reach = 1.5;

  const rootText = ([re, im]) => (Math.abs(im) < 1e-9 ? formatG(re, 4) : `${formatG(re, 4)} ${im < 0 ? "−" : "+"} ${formatG(Math.abs(im), 4)}i`);

  const findFree = () => {
    const roots = characteristicRoots(c, constants.rounding);
    // One root 1 stays where it is: the weights sum to 1.
    const nearest = roots.reduce((best, root, place) => (Math.hypot(root[0] - 1, root[1]) < Math.hypot(roots[best][0] - 1, roots[best][1]) ? place : best), 0);
    const others = roots.filter((_, place) => place !== nearest);
    free = others
      .filter(([, im]) => im >= -1e-9)
      .map(([re, im]) => ({ re, im: Math.abs(im) < 1e-9 ? 0 : im, isPair: Math.abs(im) >= 1e-9 }));
  };
  const fit = () => (reach = Math.max(1.5, 1.2 * Math.max(...characteristicRoots(c).map(modulus))));

  const setWeights = (values) => {
    c = values;
    c[0] = 1 - c.slice(1).reduce((total, value) => total + value, 0);
    findFree();
    fit();
    showAll();
  };
  const setRoots = () => {
    c = fromRoots([{ re: 1, im: 0, isPair: false }, ...free]);
    showAll();
  };

  const showWeights = () => {
    if (weights.children.length !== c.length) {
      weights.replaceChildren(
        ...c.map((_, place) => {
          const row = document.createElement("div");
          row.className = "weight";
          const name = document.createElement("span");
          name.className = "var";
          name.append("c", Object.assign(document.createElement("sub"), { textContent: String(place + 1) }));
          if (place === 0) {
            const value = document.createElement("output");
            row.append(name, document.createElement("span"), value);
            return row;
          }
          const label = `Weight of the state ${place} before the newest`;
          const [slider, box] = ["range", "number"].map((type) =>
            Object.assign(document.createElement("input"), { type, min: type === "range" ? -3 : "", max: type === "range" ? 3 : "", step: type === "range" ? 0.01 : "any", ariaLabel: type === "range" ? `${label}, slider` : label }),
          );
          for (const input of [slider, box]) {
            input.addEventListener("input", () => {
              const value = Number(input.value);
              if (input.value === "" || !Number.isFinite(value)) return;
              setWeights(c.map((weight, number) => (number === place ? value : weight)));
            });
          }
          row.append(name, slider, box);
          return row;
        }),
      );
    }
    c.forEach((weight, place) => {
      const row = weights.children[place];
      if (place === 0) {
        row.querySelector("output").textContent = formatG(weight, 8);
        return;
      }
      for (const input of row.querySelectorAll("input")) {
        if (input !== document.activeElement || input.type === "range") {
          input.value = input.type === "range" ? weight : formatG(weight, 6);
        }
      }
    });
    length.value = c.length;
  };

  const toScreen = ([re, im]) => [(re / reach) * half, (-im / reach) * half];
  const showDisc = () => {
    let svg = disc.querySelector("svg");
    if (!svg) {
      svg = svgElement("svg", { viewBox: `${-half} ${-half} ${2 * half} ${2 * half}`, role: "group", "aria-label": "Roots in the complex plane" });
      svg.append(
        svgElement("line", { class: "axis", x1: -half, x2: half, y1: 0, y2: 0 }),
        svgElement("line", { class: "axis", x1: 0, x2: 0, y1: -half, y2: half }),
        svgElement("circle", { class: "circle", cx: 0, cy: 0 }),
        svgElement("g", { class: "roots" }),
      );
      disc.append(svg);
    }
    svg.querySelector(".circle").setAttribute("r", half / reach);
    const group = svg.querySelector(".roots");
    if (group.childElementCount !== free.length + 1 || [...group.children].some((each, place) => place && (each.childElementCount === 2) !== free[place - 1].isPair)) {
      group.replaceChildren(fixedRoot(), ...free.map((root, place) => movableRoot(root, place, svg)));
    }
    const place = (element, root) => {
      const [x, y] = toScreen(root);
      element.setAttribute("cx", x);
      element.setAttribute("cy", y);
    };
    place(group.children[0].firstChild, [1, 0]);
    free.forEach(({ re, im, isPair }, number) => {
      const mark = group.children[number + 1];
      place(mark.children[0], [re, im]);
      if (isPair) place(mark.children[1], [re, -im]);
      const size = Math.hypot(re, im);
      mark.classList.toggle("outside", size > 1 + constants.tolerance);
      mark.setAttribute("aria-valuenow", formatG(re, 4));
      mark.setAttribute("aria-valuetext", `${rootText([re, im])}${isPair ? " and its conjugate" : ""}, modulus ${formatG(size, 4)}`);
    });
  };
  const fixedRoot = () => {
    const mark = svgElement("g", { class: "root fixed", role: "img", "aria-label": "The root 1, which is always there" });
    // Larger than the others, so that it is seen below one that is moved onto it.
    mark.append(svgElement("circle", { r: 13 }));
    return mark;
  };
  const movableRoot = (root, place, svg) => {
    const mark = svgElement("g", {
      class: "root",
      tabindex: 0,
      role: "slider",
      "aria-label": root.isPair ? `Pair of roots ${place + 1}` : `Real root ${place + 1}`,
      "aria-orientation": "horizontal",
    });
    mark.append(svgElement("circle", { r: 9 }), ...(root.isPair ? [svgElement("circle", { r: 9 })] : []));
    const move = (re, im) => {
      free[place] = { ...free[place], re, im: free[place].isPair ? Math.max(0, im) : 0 };
      setRoots();
    };
    mark.addEventListener("keydown", (event) => {
      const size = event.shiftKey ? 0.001 : 0.02;
      const steps = { ArrowLeft: [-size, 0], ArrowRight: [size, 0], ArrowUp: [0, size], ArrowDown: [0, -size] };
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      move(free[place].re + step[0], free[place].im + step[1]);
    });
    mark.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      mark.focus();
      mark.setPointerCapture(event.pointerId);
      // The conjugate below the axis moves the pair as well.
      const side = event.target === mark.children[1] ? -1 : 1;
      const follow = (moved) => {
        const box = svg.getBoundingClientRect();
        const [x, y] = [moved.clientX - box.left - box.width / 2, moved.clientY - box.top - box.height / 2];
        move((x / (box.width / 2)) * reach, side * (-y / (box.height / 2)) * reach);
      };
      const end = () => {
        mark.removeEventListener("pointermove", follow);
        fit();
        showAll();
      };
      mark.addEventListener("pointermove", follow);
      mark.addEventListener("lostpointercapture", end, { once: true });
    });
    return mark;
  };

  const showResults = () => {
    const found = explain(c, constants);
    if (verdict.textContent !== found.verdict) verdict.textContent = found.verdict;
    // Show zeros without their rounding error.
    const derivatives = found.derivativeCoefficients.map((weight) => (Math.abs(weight) < 1e-12 ? 0 : weight));
    const rows = {
      c: c.map((weight) => formatG(weight, 5)).join(", "),
      roots: found.roots.map(rootText).join(", "),
      "largest modulus": formatG(found.maxRootModulus, 6),
      "multiplicity of 1": `${found.rootMultiplicity} (at tolerance ${constants.tolerance})`,
      equation: `${derivatives.map((weight, place) => `${weight < 0 ? "−" : place ? "+" : ""} ${formatG(Math.abs(weight), 4)} h${place ? `^${place + 1}` : ""} F${place < 3 ? "'".repeat(place + 1) : `^(${place + 1})`}`).join(" ")} = h s`,
      "on a sine": `${(100 * found.secondDerivativeShare).toFixed(1)} % second derivative`,
    };
    results.replaceChildren(
      ...Object.entries(rows).flatMap(([name, text]) => [
        Object.assign(document.createElement("dt"), { textContent: name }),
        Object.assign(document.createElement("dd"), { textContent: text }),
      ]),
    );
    explorer.dataset.c = JSON.stringify(c);
  };

  const numSteps = 96;
  const signals = {
    sine: (step) => Math.sin((2 * Math.PI * step) / 32),
    "damped swing": (step) => Math.exp(-step / 40) * Math.cos((2 * Math.PI * step) / 16),
    ramp: (step) => step / numSteps,
    step: (step) => (step < numSteps / 2 ? 0 : 1),
    // The same noise each time: fractions of a sine of large numbers.
    noise: (step) => ((Math.sin(127.1 * (step + 1)) * 43758.5453) % 1) * 0.9,
  };
  const showSignal = () => {
    const signal = Array.from({ length: numSteps }, (_, step) => signals[signalChoice.value](step));
    const residuals = applyStencil(c, signal);
    const rows = signal.flatMap((value, step) => {
      const residual = step < c.length ? null : residuals[step - c.length];
      return [
        { step, value, what: "signal" },
        ...(residual === null ? [] : [{ step, value: value - residual, what: "predicted" }, { step, value: residual, what: "difference" }]),
      ];
    });
    const names = ["signal", "predicted", "difference"];
    draw(plot, {
      data: { values: rows },
      mark: { type: "line", clip: true },
      encoding: {
        x: { field: "step", type: "quantitative", title: "step", scale: { domain: [0, numSteps - 1], nice: false } },
        y: { field: "value", type: "quantitative", title: null },
        color: { field: "what", type: "nominal", sort: names, scale: { domain: names, range: ["var(--soft-ink)", "var(--blue)", "var(--orange)"] }, legend: { title: null } },
        strokeDash: { field: "what", type: "nominal", sort: names, scale: { domain: names, range: [[1, 0], [6, 3], [2, 2]] }, legend: { title: null } },
      },
      height: 240,
    });
  };

  const showAll = () => {
    showWeights();
    showDisc();
    showResults();
    showSignal();
  };
  preset.addEventListener("change", () => setWeights([...constants.vectors[Number(preset.value)]]));
  length.addEventListener("change", () => {
    const wanted = Math.min(constants.longest, Math.max(1, Math.round(Number(length.value)) || 1));
    const kept = c.slice(0, wanted);
    setWeights([...kept, ...new Array(wanted - kept.length).fill(0)]);
  });
  signalChoice.addEventListener("change", showSignal);
  findFree();
  fit();
  showWeights();
  showDisc();
  showResults();
  keepDrawn(plot, showSignal);
})();
