import type { IThemeManager } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, refreshIcon, UseSignal } from '@jupyterlab/ui-components';
import {
  BasicKeyHandler,
  BasicMouseHandler,
  BasicSelectionModel,
  DataGrid
} from '@lumino/datagrid';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { BoxLayout, BoxPanel, type Widget } from '@lumino/widgets';
import { GridModel } from './grid_model';
import { labelWidths, Looks, textOf, widths } from './grid_looks';
import { type Change, Pages } from './pages';
import type { Answer, Page } from './protocol';
import { tableText } from './words';

const ROW = 22;
const RETRY = 5000; // milliseconds after which a busy sandbox is asked again, if nothing was heard of it

export interface ITableOptions {
  name: string;
  ask: (row: number, column: number, at: string) => Promise<Answer>;
  themes: IThemeManager | null;
  trans: TranslationBundle;
}

/** A variable as a scrolling table: a line that says what it is, Lab's data grid, and the cell that the cursor is at. */
export class TableView extends BoxPanel {
  constructor(private readonly options: ITableOptions) {
    super({ direction: 'top-to-bottom', spacing: 0 });
    this.addClass('jp-WasmKernel-tableView');
    this.pages = new Pages(options.ask, change => this.changed(change));
    this.model = new GridModel(this.pages);
    this.grid = new DataGrid({
      defaultSizes: {
        rowHeight: ROW,
        columnWidth: 120,
        rowHeaderWidth: 64,
        columnHeaderHeight: ROW
      },
      minimumSizes: {
        rowHeight: ROW,
        columnWidth: 24,
        rowHeaderWidth: 24,
        columnHeaderHeight: ROW
      },
      copyConfig: {
        separator: '\t',
        headers: 'none',
        format: ({ value }) => textOf(value),
        warningThreshold: 100_000
      }
    });
    this.grid.addClass('jp-WasmKernel-grid');
    this.grid.dataModel = this.model;
    this.grid.keyHandler = new BasicKeyHandler();
    this.grid.mouseHandler = new BasicMouseHandler();
    const selection = new BasicSelectionModel({ dataModel: this.model });
    this.grid.selectionModel = selection;
    selection.changed.connect(() => this.shown.emit());
    const { viewport } = this.grid;
    viewport.node.tabIndex = 0;
    viewport.node.setAttribute('role', 'application');
    viewport.node.setAttribute(
      'aria-label',
      options.trans.__('%1 as a table: move with the arrow keys', options.name)
    );
    this.dress();
    this.options.themes?.themeChanged.connect(this.dress);

    const line = ReactWidget.create(
      <UseSignal signal={this.shown}>{() => this.line()}</UseSignal>
    );
    const cell = ReactWidget.create(
      <UseSignal signal={this.shown}>{() => this.cell()}</UseSignal>
    );
    for (const widget of [line, this.grid, cell] as Widget[]) {
      BoxLayout.setStretch(widget, widget === this.grid ? 1 : 0);
      this.addWidget(widget);
    }
    BoxLayout.setSizeBasis(line, 32);
    BoxLayout.setSizeBasis(cell, 24);
  }

  /** The variable may be another one now. */
  refresh(moment: string): void {
    this.moment = moment;
    this.pages.refresh(moment);
  }

  /** Whether it waits until the sandbox is at rest. */
  get isWaiting(): boolean {
    return this.pages.standing === 'busy' || this.pages.standing === 'failed';
  }

  dispose(): void {
    window.clearTimeout(this.retry);
    this.options.themes?.themeChanged.disconnect(this.dress);
    super.dispose();
  }

  /** A tab that is closed is gone: else it could not be opened again. */
  protected onCloseRequest(message: Message): void {
    super.onCloseRequest(message);
    this.dispose();
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.grid.viewport.node.focus({ preventScroll: true });
  }

  private readonly dress = (): void => {
    this.looks = new Looks(column => this.pages.heading(column)?.type ?? '');
    this.grid.style = this.looks.style;
    this.grid.cellRenderers = this.looks.renderers();
  };

  private changed(change: Change): void {
    if (change.kind === 'size') {
      this.sized.clear();
      this.model.show(change);
      this.widen(this.pages.newest);
    } else if (change.kind === 'page') {
      this.widen(change.page);
      this.model.show(change);
    }
    window.clearTimeout(this.retry);
    if (this.pages.standing === 'busy') {
      this.retry = window.setTimeout(() => this.refresh(this.moment), RETRY);
    }
    this.shown.emit();
  }

  /** Make columns as wide as what is in them, when they are first seen: a person may have changed them since. */
  private widen(page: Page | null): void {
    if (!page || this.sized.has(page.column)) {
      return;
    }
    this.sized.add(page.column);
    const character = 7.3; // of the font for code, at 12 px
    widths(page, character).forEach((width, at) =>
      this.grid.resizeColumn('body', page.column + at, width)
    );
    labelWidths(page, character).forEach((width, level) =>
      this.grid.resizeColumn('row-header', level, width)
    );
  }

  private line(): JSX.Element {
    const { trans, name } = this.options;
    const { newest } = this.pages;
    const note = this.note();
    const { standing } = this.pages;
    const isThere = standing !== 'gone' && standing !== 'no table';
    return (
      <div className="jp-WasmKernel-tableLine">
        <strong title={name}>{name}</strong>
        {newest && isThere && <span>{tableText(newest)}</span>}
        {newest && isThere && newest.shape.length > 2 && this.axes(newest)}
        <span className="jp-WasmKernel-tableNote" role="status" title={note}>
          {note}
        </span>
        <button
          type="button"
          className="jp-WasmKernel-button"
          title={trans.__('Fetch it again')}
          aria-label={trans.__('Fetch it again')}
          onClick={() => this.pages.refresh(`${this.moment} ${++this.again}`)}
        >
          <refreshIcon.react tag="span" width="16px" height="16px" />
        </button>
      </div>
    );
  }

  private note(): string {
    const { trans, name } = this.options;
    switch (this.pages.standing) {
      case 'busy':
        return trans.__(
          'A cell is running: more is fetched when it has ended.'
        );
      case 'gone':
        return trans.__('There is no variable %1 now.', name);
      case 'no table':
        return trans.__('%1 is not a table now.', name);
      case 'failed':
        return (
          this.pages.problem ||
          trans.__('It changes while it is shown. Fetch it again.')
        );
      case 'loading':
        return trans.__('Loading …');
      default:
        return '';
    }
  }

  /** For an array of more than two dimensions: which of its tables is shown. */
  private axes(page: Page): JSX.Element {
    const { trans } = this.options;
    return (
      <span className="jp-WasmKernel-axes">
        {page.at.map((at, axis) => (
          <input
            key={axis}
            type="number"
            min={0}
            max={page.shape[axis] - 1}
            defaultValue={at}
            aria-label={trans.__('Position on axis %1', axis)}
            title={trans.__('Position on axis %1', axis)}
            onChange={event => {
              const position = event.target.valueAsNumber;
              if (position >= 0 && position < page.shape[axis]) {
                this.pages.cut(
                  page.at.map((other, i) => (i === axis ? position : other))
                );
              }
            }}
          />
        ))}
        <span aria-hidden>, :, :</span>
      </span>
    );
  }

  /** The cell that the cursor is at, whole, for eyes and screen readers. */
  private cell(): JSX.Element {
    const { trans } = this.options;
    const selection = this.grid.selectionModel;
    const row = selection?.cursorRow ?? -1;
    const column = selection?.cursorColumn ?? -1;
    const at = row >= 0 && column >= 0 && row < this.pages.rows;
    return (
      <div className="jp-WasmKernel-tableCell" role="status">
        {at && (
          <>
            <span>
              {trans.__(
                'Row %1, column %2',
                textOf(this.pages.label(row, 0)),
                this.pages.heading(column)?.name || column
              )}
            </span>
            <code>{textOf(this.pages.cell(row, column))}</code>
          </>
        )}
      </div>
    );
  }

  private readonly pages: Pages;
  private readonly model: GridModel;
  private readonly grid: DataGrid;
  private readonly shown = new Signal<this, void>(this);
  private readonly sized = new Set<number>();
  private looks!: Looks;
  private moment = '';
  private again = 0; // times that a person wanted it fetched
  private retry = 0;
}
