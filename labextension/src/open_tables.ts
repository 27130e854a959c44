import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import type { IThemeManager } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { spreadsheetIcon } from '@jupyterlab/ui-components';
import { SplitPanel, type Widget } from '@lumino/widgets';
import { Refused } from './connection';
import { readable } from './file_names';
import type { Sessions } from './sessions';
import type { TableView } from './table_view';

/** Variables that are open as tables beside their notebooks: one for each name, which follows the session. */
export class OpenTables {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly labShell: ILabShell | null,
    private readonly sessions: Sessions,
    private readonly themes: IThemeManager | null,
    private readonly trans: TranslationBundle
  ) {
    sessions.changed.connect(() => this.follow());
  }

  /** Open a variable of the active notebook, or go to it if it is open. */
  async open(name: string): Promise<void> {
    const panel = this.sessions.notebook;
    if (!panel || !this.sessions.connection(panel)) {
      return;
    }
    const id = `wasm-kernel-table-${panel.id}-${name}`;
    const isNew = !this.tables.has(id);
    if (isNew) {
      await this.add(id, panel, name);
    }
    this.app.shell.activateById(id);
    const table = this.tables.get(id);
    if (isNew && table && !this.labShell) {
      enlarge(table.view); // only now is there something below the notebook
    }
  }

  private async add(
    id: string,
    panel: NotebookPanel,
    name: string
  ): Promise<void> {
    const { TableView } = await import('./table_view'); // with the data grid, which few need
    if (this.tables.has(id) || panel.isDisposed) {
      return;
    }
    const { sessions, themes, trans } = this;
    const shown = readable(name);
    const view = new TableView({
      name: shown,
      themes,
      trans,
      ask: async (row, column, at) => {
        const connection = sessions.connection(panel);
        if (!connection) {
          throw new Refused(trans.__('The kernel has ended.'));
        }
        return connection.ask({ do: 'page', name, row, column, at });
      }
    });
    view.id = id;
    view.title.label = shown;
    view.title.caption = trans.__('%1 of %2', shown, panel.title.label);
    view.title.icon = spreadsheetIcon;
    view.title.closable = true;
    const beside = [...this.tables.values()].find(
      other => other.panel === panel
    );
    const table = { view, panel, seen: '' };
    this.tables.set(id, table);
    const close = () => view.dispose();
    panel.disposed.connect(close);
    view.disposed.connect(() => {
      panel.disposed.disconnect(close);
      this.tables.delete(id);
    });
    // Notebook 7 has room for one document, and a panel below it.
    this.app.shell.add(
      view,
      this.labShell ? 'main' : 'down',
      beside
        ? { ref: beside.view.id, mode: 'tab-after' }
        : { ref: panel.id, mode: 'split-right' }
    );
    this.look(table);
  }

  private follow(): void {
    for (const table of this.tables.values()) {
      this.look(table);
    }
  }

  /** Fetch anew what may have changed, or what could not be had before. */
  private look(table: Table): void {
    const state = this.sessions.connection(table.panel)?.state;
    if (!state) {
      return;
    }
    const moment = `${state.session} ${state.moment}`;
    if (moment !== table.seen || table.view.isWaiting) {
      table.seen = moment;
      table.view.refresh(moment);
    }
  }

  private readonly tables = new Map<string, Table>();
}

/** Give what is below the notebook a third of the page: at first it has room for a line. */
function enlarge(view: Widget): void {
  for (let outer = view.parent; outer; outer = outer.parent) {
    if (outer instanceof SplitPanel && outer.orientation === 'vertical') {
      outer.setRelativeSizes([2, 1]);
    }
  }
}

interface Table {
  view: TableView;
  panel: NotebookPanel;
  /** The moment at which it was last fetched. */
  seen: string;
}
