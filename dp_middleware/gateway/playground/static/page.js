"use strict";

const HEAT = [[0.9, 4, "over 90 %"], [0.5, 3, "over 50 %"], [0.1, 2, "over 10 %"], [0.001, 1, "over 0.1 %"]];
const UNLIKELY = 0;
const BUTTON = { preview: "Preview the cost", release: "Release" };
const EXAMPLE = "Hello, I am Maria Lopez (maria.lopez@acme.test). On March 3, 2024 you charged me $1,249.00 for order ORD-77812.";
const get = (id) => document.getElementById(id);
const state = { choices: [], busy: false, shown: "" };

// Texts are only ever set as text: no markup is made of them.
function made(tag, { text = "", kind = "", title = "" } = {}, ...children) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  if (title) element.title = title;
  element.append(...children);
  return element;
}

const percent = (share) =>
  share > 0 && share < 0.0001 ? "under 0.01 %" : `${Number((100 * share).toPrecision(3))} %`;

function heat(stays) {
  const level = HEAT.find(([from]) => stays >= from);
  return `heat-${level ? level[1] : UNLIKELY}`;
}

function shown(pieces, pairs) {
  return pieces.map(([text, what, stays]) => {
    if (what === "plain" || (what === "token" && stays === null)) return document.createTextNode(text);
    if (what === "token") {
      return made("span", { text, kind: heat(stays), title: `stays with ${percent(stays)}` });
    }
    const element = made("span", { text, kind: what });
    if (pairs.has(text)) {
      element.dataset.pair = pairs.get(text);
      element.tabIndex = 0;
    }
    return element;
  });
}

function legend(answer) {
  const pieces = [...answer.original, ...answer.released];
  const items = [];
  const item = (kind, says) => items.push(made("li", {}, made("span", { kind, text: "word" }), ` ${says}`));
  if (pieces.some(([, what]) => what === "pseudonym")) item("pseudonym", "a pseudonym, or what it stands for");
  if (pieces.some(([, what, stays]) => what === "token" && stays !== null)) {
    for (const [, level, says] of [...HEAT].reverse()) item(`heat-${level}`, `stays with ${says}`);
  }
  return items;
}

function row(...cells) {
  return made("tr", {}, ...cells.map((text) =>
    made("td", { text, kind: /^[\d.]+( %)?$/.test(text) ? "number" : "" })));
}

function show(answer) {
  const pairs = answer.pseudonyms ?? [];
  const goesOut = new Map(pairs.map(([pseudonym, original]) => [original, pseudonym]));
  get("original").replaceChildren(...shown(answer.original, goesOut));
  get("released").replaceChildren(...shown(answer.released, new Map(pairs)));
  get("counts").textContent = answer.counts;
  get("legend").replaceChildren(...legend(answer));
  for (const name of ["certificate", "attackers"]) {
    get(name).replaceChildren(...answer[name].map((text) => made("p", { text })));
  }
  get("budget").textContent = answer.budget;
  get("answered").hidden = !("answer" in answer || "failed" in answer);
  get("answer").textContent = answer.answer ?? answer.failed ?? "";
  get("restored-part").hidden = !answer.restored;
  get("restored").textContent = answer.restored ?? "";
  get("pseudonyms-part").hidden = !answer.pseudonyms?.length;
  get("pseudonyms").replaceChildren(...(answer.pseudonyms ?? []).map((pair) => row(...pair)));
  get("words-part").hidden = !answer.words.length;
  get("words").replaceChildren(...answer.words.map((word) => row(
    word.token, String(word.count), percent(word.stays),
    word.likely.map(([token, share]) => `${token} ${percent(share)}`).join(", "))));
  get("unexplained").textContent = answer.unexplained;
  get("assumptions").replaceChildren(...answer.assumptions.map((text) => made("li", { text })));
  get("result").hidden = false;
  get("result-title").focus();
}

function choice() {
  const checked = document.querySelector("input[name=choice]:checked");
  return state.choices.find((each) => each.name === checked?.value);
}

function chosen() {
  const { epsilon, unit } = choice();
  get("epsilon-field").hidden = epsilon === null;
  get("epsilon").disabled = epsilon === null;
  get("unit").textContent = `(nats per ${unit})`;
  if (epsilon !== null) get("epsilon").value = String(epsilon);
}

function option(each, number) {
  const input = made("input");
  Object.assign(input, { type: "radio", name: "choice", value: each.name, id: `choice-${each.name}` });
  input.checked = number === 0;
  input.setAttribute("aria-describedby", `about-${each.name}`);
  input.addEventListener("change", chosen);
  const label = made("label", { text: each.title });
  label.htmlFor = input.id;
  const about = made("span", { text: each.about, kind: "hint" });
  about.id = `about-${each.name}`;
  return made("div", { kind: "option" }, input, made("div", {}, label, about));
}

async function asked(path, body) {
  const request = body === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, { ...request, credentials: "omit", cache: "no-store" });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  return said;
}

function tell(text) {
  if (get("status").textContent !== text) get("status").textContent = text;
}

// Nothing is released, and so nothing is charged, before the page has shown what it costs.
function next(step, says = "", shown = "") {
  state.shown = shown;
  get("send").textContent = BUTTON[step];
  tell(says);
}

function busy(is) {
  state.busy = is;
  get("form").setAttribute("aria-busy", String(is));
  get("send").setAttribute("aria-disabled", String(is));
  get("progress").hidden = !is;
  get("seconds").textContent = "";
}

async function watched(work) {
  const began = Date.now();
  const look = async () => {
    get("seconds").textContent = `${Math.round((Date.now() - began) / 1000)} s`;
    const { doing } = await asked("/playground/progress");
    if (state.busy && doing) tell(`${doing[0].toUpperCase()}${doing.slice(1)} ...`);
  };
  busy(true);
  const timer = setInterval(() => look().catch(() => {}), 1500);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    busy(false);
  }
}

function filled() {
  const { name, epsilon } = choice();
  return {
    text: get("text").value,
    choice: name,
    epsilon: epsilon === null ? null : Number(get("epsilon").value),
    ask: get("ask").checked,
  };
}

async function send(event) {
  event.preventDefault();
  if (state.busy) return;
  const body = filled();
  const step = JSON.stringify(body) === state.shown ? "release" : "preview";
  get("error").textContent = "";
  get("result").hidden = true;
  tell(step === "preview" ? "Reading your text." : "Releasing.");
  try {
    const answer = await watched(asked(`/playground/${step}`, body));
    if (step === "preview") {
      next("release", answer.budget, JSON.stringify(body));
    } else {
      show(answer);
      next("preview", "Released.");
    }
  } catch (error) {
    next("preview");
    get("error").textContent = `Not released: ${error.message}`;
  }
}

async function copy() {
  await navigator.clipboard.writeText(get("released").textContent);
  get("status").textContent = "Copied: what goes out.";
}

async function start() {
  const form = await asked("/playground/form");
  state.choices = form.choices;
  get("choices").replaceChildren(...form.choices.map(option));
  get("longest").textContent = `At most ${form.longest} characters.`;
  get("text").maxLength = form.longest;
  [get("epsilon").min, get("epsilon").max] = form.range;
  get("warning").textContent = form.warning;
  get("ask").checked = form.model === null;
  get("ask-label").textContent = form.model === null
    ? "Answer with an echo in this process" : `Send the release to ${form.model}`;
  chosen();
  get("example").addEventListener("click", () => {
    get("text").value = EXAMPLE;
    get("text").dispatchEvent(new Event("input", { bubbles: true }));
  });
  get("copy").addEventListener("click", copy);
  get("form").addEventListener("input", () => { if (!state.busy) next("preview"); });
  get("form").addEventListener("submit", send);
}

start().catch((error) => { get("error").textContent = `The page could not start: ${error.message}`; });
