// What a vector c says: the same numbers and words as tdegnn.explain, which the tests compare.
"use strict";
globalThis.tdegnnStencil = (() => {
  const choose = (n, k) => {
    let value = 1;
    for (let step = 1; step <= k; step++) value = (value * (n - k + step)) / step;
    return k < 0 || k > n ? 0 : Math.round(value);
  };
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const modulus = ([re, im]) => Math.hypot(re, im);
  const times = (a, b) => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
  const over = (a, b) => {
    const size = b[0] * b[0] + b[1] * b[1];
    return [(a[0] * b[0] + a[1] * b[1]) / size, (a[1] * b[0] - a[0] * b[1]) / size];
  };
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

  // As Python's format(value, f".{digits}g").
  const formatG = (value, digits) => {
    if (value === 0) return Object.is(value, -0) ? "-0" : "0";
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const exponent = Number(power);
    if (exponent < -4 || exponent >= digits) {
      return `${bare(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    }
    return bare(value.toFixed(Math.max(0, digits - 1 - exponent)));
  };

  const stencilWeights = (c) =>
    c.map((_, place) => sum(c.map((weight, p) => (place % 2 ? -1 : 1) * choose(p + 1, place + 1) * weight)));

  const derivativeCoefficients = (c) => {
    const polynomial = [1, ...c.map((weight) => -weight)];
    return c.map((_, place) => sum(polynomial.map((value, power) => choose(c.length - power, place + 1) * value)));
  };

  const rootMultiplicity = (c, tolerance) => {
    const sizes = stencilWeights(c).map(Math.abs);
    const largest = Math.max(...sizes);
    return sizes.findIndex((size) => size > tolerance * largest) + 1;
  };

  // Value and derivative of a real polynomial, highest power first, at a complex number.
  const evaluate = (polynomial, x) => {
    let value = [0, 0];
    let slope = [0, 0];
    for (const coefficient of polynomial) {
      slope = times(slope, x);
      slope = [slope[0] + value[0], slope[1] + value[1]];
      value = times(value, x);
      value = [value[0] + coefficient, value[1]];
    }
    return [value, slope];
  };

  // All roots at once, by the method of Ehrlich and Aberth: Newton steps that keep the roots apart.
  const polynomialRoots = (polynomial) => {
    const found = [];
    let rest = polynomial;
    while (rest.length > 1 && rest[rest.length - 1] === 0) {
      found.push([0, 0]);
      rest = rest.slice(0, -1);
    }
    const degree = rest.length - 1;
    if (degree < 1) return found;
    const radius = 1 + Math.max(...rest.slice(1).map((value) => Math.abs(value / rest[0])));
    let roots = Array.from({ length: degree }, (_, number) => {
      const angle = (2 * Math.PI * number) / degree + 0.4;
      return [0.5 * radius * Math.cos(angle), 0.5 * radius * Math.sin(angle)];
    });
    for (let round = 0; round < 500; round++) {
      let moved = 0;
      roots.forEach((root, place) => {
        const [value, slope] = evaluate(rest, root);
        if (modulus(value) === 0) return;
        // Where the slope vanishes, a small step leads out.
        const newton = modulus(slope) === 0 ? [1e-8, 1e-8] : over(value, slope);
        let pull = [0, 0];
        roots.forEach((other, number) => {
          const gap = [root[0] - other[0], root[1] - other[1]];
          if (number !== place && modulus(gap) > 0) {
            const away = over([1, 0], gap);
            pull = [pull[0] + away[0], pull[1] + away[1]];
          }
        });
        const held = times(newton, pull);
        const step = over(newton, [1 - held[0], -held[1]]);
        roots[place] = [root[0] - step[0], root[1] - step[1]];
        moved = Math.max(moved, modulus(step) / Math.max(1e-300, modulus(roots[place])));
      });
      if (moved < 1e-15) break;
    }
    // Roots of a real polynomial are real or come in pairs.
    roots = roots.map(([re, im]) => (Math.abs(im) < 1e-12 * Math.max(1, Math.abs(re)) ? [re, 0] : [re, im]));
    return [...found, ...roots];
  };

  const characteristicRoots = (c, rounding = 1e-12) => {
    let polynomial = [1, ...c.map((weight) => -weight)];
    const multiplicity = rootMultiplicity(c, rounding);
    for (let count = 0; count < multiplicity; count++) {
      let total = 0;
      polynomial = polynomial.map((value) => (total += value)).slice(0, -1);
    }
    const ones = Array.from({ length: multiplicity }, () => [1, 0]);
    return [...ones, ...polynomialRoots(polynomial)].sort((a, b) => modulus(b) - modulus(a));
  };

  const isStable = (c, roots, tolerance) => {
    if (Math.max(...roots.map(modulus)) > 1 + tolerance) return false;
    const byDistance = [...roots].sort((a, b) => distance(a, [1, 0]) - distance(b, [1, 0]));
    const others = byDistance.slice(rootMultiplicity(c, tolerance));
    const onCircle = others.filter((root) => modulus(root) >= 1 - tolerance);
    return onCircle.every((a, i) => onCircle.every((b, j) => i === j || distance(a, b) > tolerance));
  };

  const applyStencil = (c, signal) =>
    signal.slice(c.length).map((value, start) => {
      const past = signal.slice(start, start + c.length).reverse();
      return value - sum(past.map((before, p) => c[p] * before));
    });

  const secondDerivativeShare = (c, points = 64) => {
    const samples = Array.from({ length: c.length + points }, (_, place) => (place - c.length + 1) / points);
    const residual = applyStencil(c, samples.map((time) => Math.sin(2 * Math.PI * time)));
    const project = (wave) => (2 / points) * sum(residual.map((value, place) => value * wave((2 * Math.PI * place) / points)));
    const first = project(Math.cos);
    const second = project((angle) => -Math.sin(angle));
    return (second * second) / (first * first + second * second);
  };

  const explain = (c, { tolerance = 1e-3, rounding = 1e-12, nearlyNothing = 0.1, ordinals = [] } = {}) => {
    const ordinal = (order) => ordinals[order] ?? `${order}th`;
    const roots = characteristicRoots(c, rounding);
    const maxRootModulus = Math.max(...roots.map(modulus));
    const multiplicity = rootMultiplicity(c, tolerance);
    const stable = isStable(c, roots, tolerance);
    const stencils = stencilWeights(c);
    const derivatives = derivativeCoefficients(c);
    const sizes = stencils.map(Math.abs);
    const leading = sizes.indexOf(Math.max(...sizes));
    const reach = Math.max(tolerance, 1e-3) ** (1 / multiplicity);
    const near = roots.filter((root) => distance(root, [1, 0]) <= reach).length;
    const older = sum(c.slice(1).map(Math.abs));

    let order;
    if (multiplicity > 1 && near < multiplicity) {
      const small = multiplicity === 2 ? "D_1 is" : `D_1 to D_${multiplicity - 1} are`;
      order = `${small} below the tolerance, although 1 is not a ${multiplicity}-fold root.`;
    } else if (multiplicity > 1) {
      order = `a pure ${ordinal(multiplicity)}-order recursion, 1 is a ${multiplicity}-fold root.`;
    } else if (c.slice(1).every((weight) => weight === 0)) {
      order = "forward Euler, first order.";
    } else if (older <= nearlyNothing) {
      order = "first order, close to forward Euler; 1 is a simple root.";
    } else {
      const share = formatG(derivatives[0] / derivatives[leading], 3);
      const first = leading === 0 ? "does not vanish" : `is ${share} D_${leading + 1}`;
      const largest = leading === 0 ? "" : `: ${ordinal(leading + 1)} order with lower derivatives`;
      order = `1 is a simple root, so the first derivative takes part (D_1 ${first}${largest}).`;
    }
    let stability = "Stable";
    if (!stable) {
      stability =
        maxRootModulus > 1 + tolerance
          ? `Unstable (largest root modulus ${formatG(maxRootModulus, 4)})`
          : "Unstable (a repeated root on the unit circle)";
    }
    return {
      roots,
      maxRootModulus,
      rootMultiplicity: multiplicity,
      isStable: stable,
      derivativeCoefficients: derivatives,
      stencilWeights: stencils,
      secondDerivativeShare: secondDerivativeShare(c),
      verdict: `${stability}: ${order}`,
    };
  };

  // The vector c whose polynomial has these roots. Each root with an imaginary part stands for its conjugate too.
  const fromRoots = (roots) => {
    let polynomial = [1];
    const multiply = (factor) => {
      const product = new Array(polynomial.length + factor.length - 1).fill(0);
      polynomial.forEach((a, i) => factor.forEach((b, j) => (product[i + j] += a * b)));
      polynomial = product;
    };
    for (const { re, im, isPair } of roots) multiply(isPair ? [1, -2 * re, re * re + im * im] : [1, -re]);
    return polynomial.slice(1).map((value) => (value === 0 ? 0 : -value));
  };

  return { applyStencil, characteristicRoots, explain, formatG, fromRoots, modulus };
})();
