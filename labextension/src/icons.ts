import { LabIcon } from '@jupyterlab/ui-components';

function icon(name: string, path: string): LabIcon {
  return new LabIcon({
    name: `wasm-kernel:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3 jp-icon-selectable" fill="#616161" d="${path}"/></svg>`
  });
}

/** A clock that turns back. */
export const timelineIcon = icon(
  'timeline',
  'M13 3a9 9 0 0 0-9 9H1l4 4 4-4H6a7 7 0 1 1 2.05 4.95l-1.42 1.42A9 9 0 1 0 13 3zm-1 5v5l4.25 2.52.77-1.28-3.52-2.09V8z'
);
/** A way back. */
export const hereIcon = icon(
  'here',
  'M12.5 8c-2.65 0-5.05.99-6.9 2.6L2 7v9h9l-3.62-3.62A8 8 0 0 1 20 16l2.37-.78A10.5 10.5 0 0 0 12.5 8z'
);
/** One line becomes two. */
export const forkIcon = icon(
  'fork',
  'M7 3a3 3 0 0 1 1 5.83V11h6a2 2 0 0 0 2-2v-.17a3 3 0 1 1 2 0V9a4 4 0 0 1-4 4H8v2.17A3 3 0 1 1 6 15.17V8.83A3 3 0 0 1 7 3z'
);
/** Two sheets side by side. */
export const compareIcon = icon(
  'compare',
  'M10 3H5a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h5v2h2V1h-2zm0 15H5l5-6zm9-15h-5v2h5v13l-5-6v9h5a2 2 0 0 0 2-2V5a2 2 0 0 0-2-2z'
);
/** A shield with a tick: outputs are sealed. */
export const sealedIcon = icon(
  'sealed',
  'M12 1 3 5v6c0 5.55 3.84 10.74 9 12 5.16-1.26 9-6.45 9-12V5zm-2 16-4-4 1.41-1.41L10 14.17l6.59-6.59L18 9z'
);
/** A shield without: outputs are trusted. */
export const trustedIcon = icon(
  'trusted',
  'M12 1 3 5v6c0 5.55 3.84 10.74 9 12 5.16-1.26 9-6.45 9-12V5zm1 15h-2v-2h2zm0-4h-2V7h2z'
);
