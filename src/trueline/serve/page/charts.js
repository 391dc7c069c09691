// Small SVG charts. Text goes in as text nodes only, so that a feature's name can never be markup.
const SPACE = "http://www.w3.org/2000/svg";

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("-", "−");
  return value.toLocaleString("en", { maximumSignificantDigits: 5 }).replace("-", "−");
}

function node(name, attributes, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 24;

// Round numbers between low and high: steps of 1, 2 or 5 times a power of ten.
function ticks(low, high) {
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const made = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) made.push(Number((k * step).toPrecision(12)));
  return made;
}

function frame(place, height, low, high, left, right) {
  const width = Math.max(240, place.clientWidth);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - (value - low) / (high - low || 1));
  for (const value of ticks(low, high)) {
    svg.append(node("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(node("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  svg.append(node("text", { x: LEFT, y: height - 6 }, left));
  svg.append(node("text", { x: width - RIGHT, y: height - 6, "text-anchor": "end" }, right));
  place.replaceChildren(svg);
  return { svg, y, width };
}

export function lines(place, points, series) {
  const values = points.flatMap((p) => series.map((s) => p[s.key])).filter((v) => Number.isFinite(v));
  if (values.length === 0) return place.replaceChildren("No label yet.");
  const first = points[0].x, last = points[points.length - 1].x;
  const { svg, y, width } = frame(place, 240, Math.min(0, ...values), Math.max(...values), `label ${first}`, `label ${last}`);
  const x = (value) => LEFT + ((width - LEFT - RIGHT) * (value - first)) / (last - first || 1);
  for (const { key } of series) {
    const known = points.filter((p) => Number.isFinite(p[key]));
    const path = known.map((p, k) => `${k ? "L" : "M"}${x(p.x).toFixed(1)} ${y(p[key]).toFixed(1)}`).join("");
    svg.append(node("path", { class: key, d: path || "M0 0" }));
  }
}

export function bars(place, values) {
  if (values.length === 0) return place.replaceChildren("Not a full window yet.");
  const { svg, y, width } = frame(place, 150, Math.min(0, ...values), Math.max(0, ...values), "older", "newest");
  const step = (width - LEFT - RIGHT) / values.length;
  values.forEach((value, k) => {
    svg.append(node("rect", { x: LEFT + k * step + 1, width: Math.max(1, step - 2), y: y(Math.max(0, value)), height: Math.abs(y(0) - y(value)) }));
  });
}
