const root = this.closest('.wk-files');
if (root && !root.dataset.wk) {
  root.dataset.wk = 1;
  /* Lab's own keys would delete cells and mark them: its bindings look at the focused element itself, and upward. */
  root.addEventListener('focusin', e => e.target.setAttribute('data-lm-suppress-shortcuts', 'true'));
  /* A key may come before the kernel has enabled the button for what was just selected: the kernel decides. */
  const press = name => {
    const button = root.querySelector('.wk-' + name);
    if (!button) return;
    const disabled = button.disabled;
    button.disabled = false;
    button.click();
    button.disabled = disabled;
  };
  /* A front end sends clicks at once, but selections only when the kernel has answered to the one before. */
  const heard = () => {
    const list = root.querySelector('.wk-list select'), head = root.querySelector('.wk-head');
    return head.dataset.picked === [...list.selectedOptions].map(option => option.index).join();
  };
  let late = false;
  root.addEventListener('click', e => {
    const button = e.target.closest('.wk-acts button, .wk-acts a');
    if (!button || late || heard()) return;
    e.preventDefault();
    e.stopPropagation();
    const begun = Date.now(), again = () => {
      if (!heard() && Date.now() - begun < 5000) return setTimeout(again, 20);
      late = true;
      (button.isConnected ? button : root.querySelector('.wk-acts a')).click();
      late = false;
    };
    again();
  }, true);
  const keys = {Enter: 'open', Backspace: 'up', Delete: 'delete', F2: 'rename'};
  root.addEventListener('dblclick', e => { if (e.target.closest('.wk-list')) press('open'); });
  root.addEventListener('keydown', e => {
    let name = '';
    if (e.target.closest('.wk-list')) name = keys[e.key] || (e.key === 'Escape' ? 'cancel' : '');
    else if (e.key === 'Escape') name = 'cancel';
    else if (e.key === 'Enter' && e.target.matches('.wk-panel input')) name = 'ok';
    if (name === 'ok') { e.target.blur(); e.target.focus(); }  /* now the field is sent */
    if (name) { e.preventDefault(); e.stopPropagation(); press(name); }
  }, true);  /* before ipywidgets' own fields, which keep their keys to themselves */
  /* A click on a heading sorts, through the field that does. */
  const sort = e => {
    const by = e.target.closest('.wk-by');
    if (!by) return;
    e.preventDefault();
    e.stopPropagation();
    const order = root.querySelector('.wk-order select');
    order.selectedIndex = by.dataset.order;
    order.dispatchEvent(new Event('change', {bubbles: true}));
  };
  root.addEventListener('click', sort);
  root.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') sort(e); }, true);
  /* What is dropped onto the list is handed to the page that uploads into its folder, as if it were dropped there. */
  const over = on => root.querySelector('.wk-left').classList.toggle('wk-over', on);
  const isDrop = e => e.target.closest('.wk-left') && [...e.dataTransfer.types].includes('Files');
  for (const kind of ['dragenter', 'dragover']) root.addEventListener(kind, e => {
    if (isDrop(e)) { e.preventDefault(); e.stopPropagation(); over(true); }
  }, true);
  root.addEventListener('dragleave', e => { if (e.target.closest('.wk-left')) over(false); }, true);
  root.addEventListener('drop', e => {
    if (!isDrop(e)) return;
    e.preventDefault();
    e.stopPropagation();
    over(false);
    const files = [...e.dataTransfer.items].filter(item => item.webkitGetAsEntry?.()?.isFile !== false)
      .map(item => item.getAsFile()).filter(file => file);
    const folder = root.querySelector('.wk-head').dataset.folder, begun = Date.now();
    const page = () => [...root.querySelectorAll('.wk-upload iframe')].find(f => f.dataset.folder === folder);
    if (!page()) press('add');
    const give = () => {
      const take = page()?.contentWindow?.take;
      if (take) take(files);
      else if (Date.now() - begun < 20000) setTimeout(give, 50);
    };
    if (files.length) give();
  }, true);
  let asked = null;
  new MutationObserver(() => {
    const field = root.querySelector('.wk-panel input[type=text]') || root.querySelector('.wk-panel .wk-ok');
    if (field && field !== asked) {
      field.focus();
      if (document.activeElement !== field) return;
      if (field.select) field.select();
    }
    if (!field && asked) root.querySelector('.wk-list select').focus();
    asked = field;
  }).observe(root, {childList: true, subtree: true, attributeFilter: ['class']});  /* a button's class comes after it */
}
