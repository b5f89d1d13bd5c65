(function () {
  'use strict';
  const svg = document.querySelector('svg[data-samples]');
  const boxes = Array.from(svg.querySelectorAll('.box'), function (node) {
    return {
      node: node,
      rect: node.querySelector('rect'),
      text: node.querySelector('text'),
      name: node.dataset.name,
      start: Number(node.dataset.s),
      count: Number(node.dataset.n),
      depth: Number(node.dataset.d),
    };
  });
  const all = { start: 0, count: Number(svg.dataset.samples) || 1, depth: -1 };
  const found = document.getElementById('found');
  const search = document.getElementById('search');
  let focus = all;

  function label(box, pixels) {
    const most = Math.floor((pixels - 8) / 6.6);
    if (most < 3) { return ''; }
    return box.name.length <= most ? box.name : box.name.slice(0, most - 2) + '..';
  }

  // Everything above the focus is drawn to its scale; its callers fill the width.
  function draw() {
    const width = svg.getBoundingClientRect().width || 1200;
    const end = focus.start + focus.count;
    for (const box of boxes) {
      const isCaller = box.depth < focus.depth && box.start <= focus.start && box.start + box.count >= end;
      const isInside = box.start >= focus.start && box.start + box.count <= end && box.depth >= focus.depth;
      box.node.style.display = isCaller || isInside ? '' : 'none';
      if (!isCaller && !isInside) { continue; }
      const x = isCaller ? 0 : (box.start - focus.start) * 100 / focus.count;
      const w = isCaller ? 100 : box.count * 100 / focus.count;
      box.node.classList.toggle('below', isCaller);
      box.rect.setAttribute('x', x + '%');
      box.rect.setAttribute('width', w + '%');
      box.text.setAttribute('x', x + '%');
      box.text.textContent = label(box, w * width / 100);
    }
  }

  function zoom(box) {
    focus = box;
    draw();
  }

  // Samples in any of the functions that match: a match inside another one counts once.
  function mark() {
    const wanted = search.value;
    let test = null;
    if (wanted) {
      try {
        const pattern = new RegExp(wanted, 'i');
        test = function (name) { return pattern.test(name); };
      } catch (error) {
        test = function (name) { return name.toLowerCase().includes(wanted.toLowerCase()); };
      }
    }
    let sum = 0, functions = 0, covered = -1;
    for (const box of boxes) {
      const hit = test !== null && test(box.name);
      box.node.classList.toggle('hit', hit);
      if (!hit) { continue; }
      functions += 1;
      if (box.start >= covered) {
        sum += box.count;
        covered = box.start + box.count;
      }
    }
    found.textContent = test === null ? '' :
      functions + (functions === 1 ? ' box, ' : ' boxes, ') + (sum * 100 / all.count).toFixed(1) + ' % of all samples';
  }

  for (const box of boxes) {
    box.node.addEventListener('click', function () { zoom(box); });
    box.node.addEventListener('keydown', function (event) { if (event.key === 'Enter') { zoom(box); } });
  }
  document.getElementById('reset').addEventListener('click', function () { zoom(all); });
  search.addEventListener('input', mark);
  window.addEventListener('keydown', function (event) {
    if (event.key === '/' && event.target !== search) { event.preventDefault(); search.focus(); }
    if (event.key === 'Escape') { search.value = ''; mark(); zoom(all); }
  });
  window.addEventListener('resize', draw);
  draw();
}());
