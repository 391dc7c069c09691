// The live page: events in, drawings out. Everything that came from outside is set as text.
import { bars, lines, short } from "./charts.js";

const $ = (id) => document.getElementById(id);
const history = new Map();  // model -> points of the run that this page has seen
let token = sessionStorage.getItem("token") || "";
let chosen = null, state = null, last = null, shape = "";

const headers = () => (token ? { authorization: `Bearer ${token}` } : {});

function cell(row, text, kind) {
  const made = row.insertCell();
  made.textContent = text;
  if (kind) made.className = kind;
}

function fill(body, rows) {
  body.replaceChildren();
  for (const values of rows) {
    const row = body.insertRow();
    values.forEach((value, k) => cell(row, value, k > 0 && k < 3 ? "number" : ""));
  }
}

function choose(models) {
  const names = models.map((m) => m.name);
  const list = $("model");
  if ([...list.options].map((o) => o.value).join("\n") !== names.join("\n")) {
    list.replaceChildren(...names.map((name) => new Option(name, name)));
    if (!names.includes(chosen)) chosen = names[0] ?? null;
    list.value = chosen ?? "";
  }
}

function draw() {
  const model = state?.models.find((m) => m.name === chosen);
  $("rate").textContent = short(Math.round(state.labels_per_second * 10) / 10);
  $("expired").textContent = short(state.expired);
  if (!model) return;
  $("position").textContent = model.position.toLocaleString("en");
  $("pending").textContent = model.pending.toLocaleString("en");
  $("best-name").textContent = model.best_name + (model.best === null ? " –" : "");
  lines($("losses"), history.get(model.name) ?? [], [{ key: "bound" }, { key: "best" }, { key: "own" }]);
  bars($("windows"), model.drift.windows.slice(-24).map((w) => w[2] ?? w[1]));
  $("windownote").textContent = `The mean loss of each ${model.drift.window} labels above ${model.drift.against}.`;
  $("words").textContent = model.words.replace(/\.$/, "") + (model.delayed ? `. ${model.delayed.toLocaleString("en")} labels came late: the loss as served is ${short(model.served_loss)}` : "") + ".";
  $("drift").textContent = model.drift.drifting ? "Drift: the newest window's regret stands out of those before it." : "";
  $("drift").className = "bad";
  fill($("coefficients").tBodies[0], [["intercept", short(model.intercept), ""], ...model.coefficients.map(([t, v, d]) => [t, short(v), (d > 0 ? "+" : "") + short(d)])]);
  fill($("recent").tBodies[0], model.recent.map((r) => [
    r.id ?? "–", typeof r.prediction === "number" ? short(r.prediction) : r.prediction ?? "–",
    r.label === null ? "waiting" : typeof r.label === "number" ? short(r.label) : String(r.label), r.contributions.map(([t, v]) => `${t} ${short(v)}`).join(", "),
  ]));
  form(model);
}

function form(model) {
  const now = JSON.stringify([model.name, model.features]);
  if (now === shape) return;
  shape = now;
  $("fields").replaceChildren(...model.features.map((feature) => {
    const label = document.createElement("label");
    label.textContent = feature.name;
    const input = document.createElement(feature.levels ? "select" : "input");
    if (feature.levels) input.append(...feature.levels.map((level) => new Option(level, level)));
    else if (feature.kind === "boolean") input.type = "checkbox";
    else if (feature.kind === "number") Object.assign(input, { type: "number", step: "any", value: 0 });
    input.dataset.name = feature.name;
    input.dataset.kind = feature.kind;
    label.append(input);
    return label;
  }));
}

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const features = {};
  for (const input of $("fields").querySelectorAll("[data-name]")) {
    const kind = input.dataset.kind;
    features[input.dataset.name] = kind === "boolean" ? input.checked : kind === "number" ? Number(input.value) : input.value;
  }
  const answer = await fetch(`v1/models/${encodeURIComponent(chosen)}/predict`, {
    method: "POST", headers: { "content-type": "application/json", ...headers() }, body: JSON.stringify({ features }),
  });
  const body = await answer.json();
  $("answer").textContent = answer.ok ? String(typeof body.prediction === "number" ? short(body.prediction) : body.prediction) : body.error.message;
  $("answer").className = answer.ok ? "" : "bad";
});

$("model").addEventListener("change", () => { chosen = $("model").value; $("answer").textContent = ""; draw(); });
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("token", token);
  location.reload();
});
addEventListener("resize", () => state && draw());

function take(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
  if (fields.id) last = fields.id;
  if (fields.event === "past") {  // what happened before this page was opened
    for (const [name, points] of Object.entries(JSON.parse(fields.data))) history.set(name, points.map(([x, own, best, bound]) => ({ x, own, best, bound })));
  }
  if (fields.event !== "state") return;
  state = JSON.parse(fields.data);
  choose(state.models);
  for (const m of state.models) {
    let points = history.get(m.name) ?? [];
    if (points.at(-1)?.x > m.position) points = [];  // another model of the same name
    if (m.position > 0 && points.at(-1)?.x !== m.position) points.push({ x: m.position, own: m.loss, best: m.best, bound: m.bound });
    if (points.length > 400) points = points.filter((_, k) => k % 2 === 0 || k === points.length - 1);
    history.set(m.name, points);
  }
  draw();
}

// fetch, not EventSource, because a token goes in a header; resumed by the id of the last event seen.
async function follow() {
  for (;;) {
    try {
      const answer = await fetch("events", { headers: { ...headers(), ...(last ? { "last-event-id": last } : {}) } });
      if (answer.status === 401 || answer.status === 403) { $("key").hidden = false; $("state").textContent = "a token is needed"; return; }
      if (!answer.ok) throw new Error(String(answer.status));
      $("state").textContent = "live";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        blocks.forEach(take);
      }
    } catch { /* the server is away; try again */ }
    $("state").textContent = "reconnecting …";
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function start() {
  const answer = await fetch("v1/models", { headers: headers() });
  if (answer.ok) {
    const seconds = (await answer.json()).retention_seconds;
    const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([size]) => seconds >= size) ?? [1, "second"];
    $("retention").textContent = `${short(seconds / size)} ${unit}${seconds === size ? "" : "s"}`;
  }
  follow();
}
start();
