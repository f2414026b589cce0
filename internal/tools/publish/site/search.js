// The search box of the site: sections that hold all words, those with words in their headings first. What is looked
// through, search-index.js, is loaded on the first use. Without JavaScript there is no box.
"use strict";
(() => {
  const up = document.currentScript.dataset.up;
  const form = document.querySelector("form.search");
  const box = form.querySelector("input"), list = form.querySelector("ul"), said = form.querySelector("output");
  const shown = 12, around = 60; // results, and characters of text around a word
  form.hidden = false;

  let loading;
  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = up + "search-index.js";
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });

  const score = (s, words) => {
    const title = s.title.toLowerCase(), page = s.page.toLowerCase(), text = s.text.toLowerCase();
    let sum = 0;
    for (const w of words) {
      const n = 8 * title.includes(w) + 4 * page.includes(w) + Math.min(3, text.split(w).length - 1);
      if (n === 0) return 0;
      sum += n;
    }
    return sum;
  };

  const excerpt = (s, words) => {
    const text = s.text.toLowerCase();
    const at = Math.max(0, Math.min(...words.map(w => text.indexOf(w)).filter(i => i >= 0), text.length) - around);
    return (at > 0 ? "… " : "") + s.text.slice(at, at + 2 * around) + (at + 2 * around < s.text.length ? " …" : "");
  };

  const find = async () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(w => w);
    await load();
    if (words.join(" ") !== box.value.toLowerCase().split(/\s+/).filter(w => w).join(" ")) return; // typed on meanwhile
    const found = words.length === 0 ? [] : window.sections.map(s => [score(s, words), s]).filter(([n]) => n > 0)
      .sort((a, b) => b[0] - a[0]);
    list.replaceChildren(...found.slice(0, shown).map(([, s]) => {
      const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("p");
      link.href = up + s.target;
      link.textContent = s.title === s.page ? s.page : s.page + " › " + s.title;
      text.textContent = excerpt(s, words);
      item.append(link, text);
      return item;
    }));
    said.value = words.length === 0 ? "" : found.length === 1 ? "1 section" : found.length + " sections" +
      (found.length > shown ? ", the first " + shown : "");
  };

  box.addEventListener("focus", load);
  box.addEventListener("input", find);
  form.addEventListener("submit", e => { e.preventDefault(); find(); });
  document.addEventListener("keydown", e => {
    if (e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && document.activeElement !== box) {
      e.preventDefault();
      box.focus();
    }
    if (e.key === "Escape" && form.contains(document.activeElement)) {
      box.value = "";
      find();
    }
  });
  box.value = new URLSearchParams(location.search).get("q") ?? "";
  if (box.value) find();
})();
