"use strict";
(() => {
  const box = document.getElementById("search");
  const told = document.getElementById("found");
  const classes = Array.from(document.querySelectorAll("details.class"));
  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const one of classes) {
      const fits = words.every((word) => one.dataset.name.includes(word));
      one.classList.toggle("hidden", !fits);
      found += fits;
    }
    told.textContent = words.length ? found + " of " + classes.length + " classes" : classes.length + " classes";
  };
  const open = () => {
    const target = location.hash.startsWith("#case-") && document.getElementById(location.hash.slice(1));
    if (target) {
      target.closest("details").open = true;
      target.closest("details").classList.remove("hidden");
      target.scrollIntoView();
    }
  };
  box.closest(".search").hidden = false;
  box.addEventListener("input", show);
  addEventListener("hashchange", open);
  show();
  open();
})();
