// Conveniences; everything works without them.
'use strict';

function size(bytes) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let n = 0;
  while (bytes >= 1024 && n < units.length - 1) { bytes /= 1024; n++; }
  return `${bytes.toFixed(n ? 1 : 0)} ${units[n]}`;
}

for (const form of document.querySelectorAll('[data-choosing]')) {
  const boxes = [...form.querySelectorAll('input[name=item]')], all = form.querySelector('[data-all]');
  const chosen = form.querySelector('[data-chosen]'), buttons = [...form.querySelectorAll('.actions button')];
  let last = null;
  const count = () => {
    const ticked = boxes.filter(box => box.checked);
    const bytes = ticked.reduce((sum, box) => sum + Number(box.dataset.size), 0);
    chosen.textContent = ticked.length ? `${ticked.length} selected, ${size(bytes)}` : 'Nothing selected';
    buttons.forEach(button => { button.disabled = !ticked.length; });
    all.checked = ticked.length === boxes.length;
    all.indeterminate = ticked.length > 0 && !all.checked;
    form.classList.toggle('choosing', ticked.length > 0);
  };
  all.hidden = false;
  all.addEventListener('change', () => { boxes.forEach(box => { box.checked = all.checked; }); count(); });
  boxes.forEach((box, n) => box.addEventListener('click', event => {
    if (event.shiftKey && last !== null) {  // all between this one and the last
      for (let i = Math.min(n, last); i <= Math.max(n, last); i++) boxes[i].checked = box.checked;
    }
    last = n;
    count();
  }));
  window.addEventListener('pageshow', count);  // also when somebody returns to the page
  count();
}

for (const form of document.querySelectorAll('[data-once]')) {
  form.addEventListener('submit', () => {
    const button = form.querySelector('button');
    setTimeout(() => { button.disabled = true; button.textContent = 'Working …'; });
  });
}

for (const link of document.querySelectorAll('[data-back]')) {
  link.addEventListener('click', event => {
    if (history.length > 1) { event.preventDefault(); history.back(); }
  });
}

// Times in the reader's own time zone; without this they are UTC, and say so.
for (const time of document.querySelectorAll('time[datetime]')) {
  const moment = new Date(time.dateTime);
  if (isNaN(moment)) continue;
  const local = moment.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  if ('local' in time.dataset) { time.title = time.textContent; time.textContent = local; } else if (time.title) { time.title = local; }
}
