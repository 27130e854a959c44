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
  const keys = {Enter: 'open', Backspace: 'up', Delete: 'delete', F2: 'rename'};
  root.addEventListener('dblclick', e => { if (e.target.closest('.wk-list')) press('open'); });
  root.addEventListener('keydown', e => {
    let name = '';
    if (e.target.closest('.wk-list')) name = keys[e.key] || (e.key === 'Escape' ? 'cancel' : '');
    else if (e.key === 'Escape') name = 'cancel';
    else if (e.key === 'Enter' && e.target.matches('.wk-panel input')) name = 'ok';
    if (name) { e.preventDefault(); e.stopPropagation(); press(name); }
  }, true);  /* before ipywidgets' own fields, which keep their keys to themselves */
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
