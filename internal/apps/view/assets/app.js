// What the pages do beyond links and forms: they follow a running training, show values under the pointer, and listen to the keyboard.
// Everything is there without this file too.
"use strict";
(() => {
  const $ = (css, root = document) => root.querySelector(css);
  const $$ = (css, root = document) => [...root.querySelectorAll(css)];
  const say = (text) => { $("#said").textContent = text; };

  // ---- the part of the page that changes -------------------------------------------------------------------------------

  const every = 1000; // ms between two looks
  let etag = "", failures = 0;

  // swap puts a new part in place; what the person did to the old one (boxes, open details, focus, scrolling) stays.
  function swap(live, html) {
    const boxes = new Set($$("input[type=checkbox]:checked", live).map((b) => b.name + "=" + b.value));
    const known = new Set($$("details[id]", live).map((d) => d.id));
    const open = new Set($$("details[id][open]", live).map((d) => d.id));
    const scrolled = $$(".scroll", live).map((s) => s.scrollLeft);
    const focused = live.contains(document.activeElement) ? document.activeElement : null;
    const same = focused && (focused.id ? "#" + CSS.escape(focused.id) : focused.matches("a[data-row]") ? `a[data-row][href="${CSS.escape(focused.getAttribute("href"))}"]` : null);
    live.innerHTML = html;
    for (const b of $$("input[type=checkbox]", live)) if (boxes.has(b.name + "=" + b.value)) b.checked = true;
    for (const d of $$("details[id]", live)) if (known.has(d.id)) d.open = open.has(d.id);
    $$(".scroll", live).forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
    plots(live);
    const target = (same && $(same, live)) || $("[autofocus]", live);
    if (target) target.focus({ preventScroll: true });
  }

  // typing reports that a person is filling in a form of the part, which must not be taken away.
  function typing(live) {
    const e = document.activeElement;
    return live.contains(e) && (e.tagName === "SELECT" || e.tagName === "INPUT" && e.type !== "checkbox" && e.value !== e.defaultValue);
  }

  async function look(live) {
    let again = true;
    if (!document.hidden && !typing(live)) {
      try {
        const answer = await fetch(live.dataset.part, { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store", credentials: "same-origin" });
        failures = 0;
        $(".lost")?.remove();
        if (answer.status === 200) {
          etag = answer.headers.get("ETag") || "";
          again = answer.headers.get("X-Live") !== "done";
          const html = await answer.text();
          if (!typing(live)) swap(live, html); else etag = "";
        }
      } catch {
        failures++;
        if (failures === 2) {
          const lost = document.createElement("p");
          lost.className = "lost";
          lost.setAttribute("role", "alert");
          lost.textContent = "vsetrain view has stopped; this page is out of date";
          document.body.append(lost);
        }
      }
    }
    if (again) setTimeout(() => look(live), every * Math.min(8, 1 + failures));
  }

  // ---- values under the pointer -----------------------------------------------------------------------------------------

  function short(v) {
    if (v === 0) return "0";
    const a = Math.abs(v);
    return a >= 1e6 || a < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4)));
  }

  function plots(root) {
    for (const svg of $$("svg[data-range]", root)) {
      const [x0, x1, y0, y1] = svg.dataset.range.split(" ").map(Number);
      const [left, top, right, bottom] = svg.dataset.frame.split(" ").map(Number);
      const log = svg.dataset.log === "1";
      const value = (py) => {
        const at = (bottom - py) / (bottom - top);
        return log ? y0 * Math.pow(y1 / y0, at) : y0 + at * (y1 - y0);
      };
      let lines = null, places = null, cursor = null, box = null, at = 0; // at is an index of places, the points of all curves
      const prepare = () => {
        lines = $$("polyline:not(.faint)", svg).map((p) => ({
          name: p.dataset.name, style: p.getAttribute("class"),
          points: p.getAttribute("points").split(" ").map((xy) => xy.split(",").map(Number)),
        }));
        places = [...new Set(lines.flatMap((l) => l.points.map((p) => p[0])))].sort((a, b) => a - b);
        cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
        cursor.setAttribute("class", "cursor");
        cursor.setAttribute("y1", top);
        cursor.setAttribute("y2", bottom);
        svg.append(cursor);
        box = document.createElement("div");
        box.className = "readout";
        svg.parentElement.append(box);
      };
      const hide = () => { cursor?.remove(); box?.remove(); lines = null; };
      const show = (index) => {
        at = Math.min(places.length - 1, Math.max(0, index));
        const px = places[at];
        const x = x0 + (px - left) / (right - left) * (x1 - x0);
        cursor.setAttribute("x1", px);
        cursor.setAttribute("x2", px);
        box.replaceChildren();
        const head = document.createElement("div");
        head.textContent = `${svg.dataset.x} ${short(x)}`;
        box.append(head);
        for (const l of lines) {
          let best = l.points[0];
          for (const p of l.points) if (Math.abs(p[0] - px) < Math.abs(best[0] - px)) best = p;
          if (Math.abs(best[0] - px) > 30) continue;
          const row = document.createElement("div"), name = document.createElement("span"), v = document.createElement("b");
          row.className = l.style.split(" ").filter((c) => /^s\d$/.test(c)).join(" ");
          name.append(document.createElement("i"), l.name);
          v.textContent = short(value(best[1]));
          row.append(name, v);
          box.append(row);
        }
        // The place on the screen; the matrix knows how the picture lies in its box.
        const figure = svg.parentElement.getBoundingClientRect(), m = svg.getScreenCTM();
        const sx = m.a * px + m.e - figure.left, half = px > (left + right) / 2;
        box.style.top = `${m.d * top + m.f - figure.top}px`;
        box.style.left = half ? "auto" : `${sx + 10}px`;
        box.style.right = half ? `${figure.width - sx + 10}px` : "auto";
      };
      svg.addEventListener("pointermove", (e) => {
        if (!lines) prepare();
        const m = svg.getScreenCTM(), px = (e.clientX - m.e) / m.a;
        let near = 0;
        places.forEach((p, i) => { if (Math.abs(p - px) < Math.abs(places[near] - px)) near = i; });
        show(near);
      });
      svg.addEventListener("pointerleave", hide);
      svg.addEventListener("blur", hide);
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("keydown", (e) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (!step) return;
        e.preventDefault();
        if (lines) show(at + step);
        else { prepare(); show(at); }
        say(box.innerText.replaceAll("\n", " "));
      });
    }
  }

  // ---- colours ----------------------------------------------------------------------------------------------------------

  function paint(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const b of $$(".theme button")) b.setAttribute("aria-pressed", String(b.value === theme));
    fetch("/theme", { method: "POST", body: new URLSearchParams({ theme, back: "/" }), redirect: "manual", credentials: "same-origin" });
    say(`${theme} colours`);
  }
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  // ---- keyboard ---------------------------------------------------------------------------------------------------------

  function step(by) {
    const rows = $$("[data-row]");
    if (!rows.length) return;
    const now = rows.indexOf(document.activeElement);
    const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  let chord = 0; // when g was pressed
  const places = { r: "/", c: "/compare", s: "/sweep", i: "/search" };
  const keys = {
    "/": () => { const e = $("[data-search]"); if (e) { e.focus(); e.select?.(); } },
    j: () => step(1),
    k: () => step(-1),
    x: () => { const b = $("input[type=checkbox]", document.activeElement.closest("tr") || document.createElement("p")); if (b) b.click(); },
    c: () => $("#compare")?.requestSubmit(),
    "[": () => $("a[rel=prev]")?.click(),
    "]": () => $("a[rel=next]")?.click(),
    t: () => paint(dark() ? "light" : "dark"),
    g: () => { chord = Date.now(); },
    "?": () => $("#keys").showModal(),
  };
  document.addEventListener("keydown", (e) => {
    const t = e.target, writes = t.matches?.("input:not([type=checkbox]), select, textarea");
    if (e.key === "Escape" && writes) { t.blur(); return; }
    if (writes || e.ctrlKey || e.metaKey || e.altKey || $("#keys").open) return;
    if (Date.now() - chord < 1500 && places[e.key]) { chord = 0; e.preventDefault(); location.assign(places[e.key]); return; }
    const act = keys[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  const help = $("#help");
  help.hidden = false;
  help.addEventListener("click", keys["?"]);
  $(".theme").addEventListener("submit", (e) => { if (e.submitter) { e.preventDefault(); paint(e.submitter.value); } });
  plots(document);
  const live = $("#live");
  if (live) setTimeout(() => look(live), every);
})();
