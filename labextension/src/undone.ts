import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Sessions } from './sessions';
import { undoneCells } from './words';

const UNDONE = 'jp-mod-wasmUndone';

/** Keep the look of notebooks' cells true: those that were undone look so, until they run again. */
export function markUndoneCells(
  sessions: Sessions,
  tracker: INotebookTracker
): void {
  sessions.changed.connect(() =>
    tracker.forEach(panel => mark(panel, sessions))
  );
  const follow = (panel: NotebookPanel) => {
    // A cell that begins to run has no number any more.
    panel.sessionContext.statusChanged.connect(() => mark(panel, sessions));
  };
  tracker.forEach(follow);
  tracker.widgetAdded.connect((_, panel) => follow(panel));
}

function mark(panel: NotebookPanel, sessions: Sessions): void {
  const rows = sessions.connection(panel)?.state?.rows ?? [];
  const cells = panel.content.widgets;
  const undone = undoneCells(
    rows,
    cells.map(cell => ({
      number:
        cell.model.type === 'code'
          ? ((cell.model as { executionCount?: number | null })
              .executionCount ?? null)
          : null,
      code: cell.model.sharedModel.source
    }))
  );
  cells.forEach((cell, index) => cell.toggleClass(UNDONE, undone[index]));
}
