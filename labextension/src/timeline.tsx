import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  editIcon,
  fileIcon,
  type LabIcon,
  ReactWidget,
  redoIcon,
  undoIcon,
  UseSignal
} from '@jupyterlab/ui-components';
import { type KeyboardEvent, memo, useEffect, useRef, useState } from 'react';
import type { Actions } from './actions';
import type { Connection } from './connection';
import { readable, readableLines } from './file_names';
import { compareIcon, forkIcon, hereIcon } from './icons';
import { keysOf, moveBetween, stepOf } from './moves';
import { versionHint } from './notice_words';
import { merged } from './older_rows';
import { MOST_NAMES, type Row } from './protocol';
import type { Sessions } from './sessions';
import { showItem, Windowed } from './windowed';
import { duration, firstLine, isCut, signs, when } from './words';

/** The history of the active notebook: a row per cell that ran, newest on top. */
export class TimelineView extends ReactWidget {
  constructor(
    private readonly sessions: Sessions,
    private readonly actions: Actions,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-WasmKernel-view');
    this.title.label = trans.__('Timeline');
    sessions.changed.connect(() => this.tell());
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this.sessions.changed}>{() => this.view()}</UseSignal>
    );
  }

  /** Say where an undo or redo led: to screen readers always, to everybody if files changed with it. */
  private tell(): void {
    const connection = this.sessions.connection();
    const rows = connection?.state?.rows ?? [];
    const move =
      connection === this.shown ? moveBetween(this.rows, rows) : null;
    const now = keysOf(rows)[rows.findIndex(row => row.state === 'now')];
    if (connection !== this.shown || now !== this.now) {
      this.told = { where: '', files: '' }; // a cell has run, or it is another notebook
    }
    this.shown = connection;
    this.rows = rows;
    this.now = now;
    if (!move) {
      return;
    }
    const { trans } = this;
    const { number, label } = move.to;
    const where = number
      ? trans.__('Now at cell [%1].', number)
      : trans.__('Now at %1.', readable(label) || trans.__('Start'));
    this.moves += 1;
    const files = move.files.slice(0, MOST_TOLD).map(readable).join(', ');
    const more = move.files.length > MOST_TOLD ? ', …' : '';
    this.told = {
      where,
      files: files && trans.__('Files changed, too: %1', files + more)
    };
    if (files && !this.isVisible) {
      const message = `${where} ${this.told.files}`;
      Notification.info(message, { autoClose: 6000 });
    }
  }

  private told = { where: '', files: '' };
  private moves = 0;
  private shown: Connection | null = null;
  private rows: Row[] = [];
  private now: string | undefined;

  private view(): JSX.Element {
    const { trans, actions } = this;
    const connection = this.sessions.connection();
    const state = connection?.state;
    if (!connection) {
      return <p className="jp-WasmKernel-hint">{this.whyEmpty()}</p>;
    }
    if (connection.stranger) {
      return (
        <p className="jp-WasmKernel-hint">
          {versionHint(connection.stranger, trans)}
        </p>
      );
    }
    if (!state) {
      return (
        <p className="jp-WasmKernel-hint">
          {trans.__('Opening the session …')}
        </p>
      );
    }
    if (state.rows.length === 0) {
      return (
        <p className="jp-WasmKernel-hint">
          {state.kept === 0
            ? trans.__(
                'Checkpoints are switched off (WasmKernel.checkpoint), so there is no way back to cells that ran.'
              )
            : trans.__(
                'Run a cell: it appears here, and you can come back to it.'
              )}
        </p>
      );
    }
    return (
      <>
        <div className="jp-WasmKernel-top">
          <div
            className="jp-WasmKernel-bar"
            role="group"
            aria-label={trans.__('Undo and redo')}
          >
            <Button
              icon={undoIcon}
              label={trans.__('Undo cell')}
              text={trans.__('Undo')}
              disabled={
                state.canUndo ? '' : trans.__('nothing is left to undo')
              }
              run={() => actions.undo()}
            />
            <Button
              icon={redoIcon}
              label={trans.__('Redo cell')}
              text={trans.__('Redo')}
              disabled={state.canRedo ? '' : trans.__('nothing was undone')}
              run={() => actions.redo()}
            />
          </div>
          <div
            className="jp-WasmKernel-told"
            role="status"
            data-seen={this.told.files !== ''}
          >
            <span>{this.told.where} </span>
            <span title={this.told.files}>{this.told.files}</span>
          </div>
        </div>
        <Rows
          rows={merged(state.rows, connection.older.rows)}
          count={state.rows.length + state.older}
          kept={state.kept}
          moves={this.moves}
          more={() => void connection.older.more()}
          actions={actions}
          trans={trans}
        />
      </>
    );
  }

  private whyEmpty(): string {
    const { trans } = this;
    switch (this.sessions.standing) {
      case 'starting':
        return trans.__('The kernel is starting …');
      case 'ended':
        return trans.__(
          'The kernel is not running. Variables and files are kept: start it, and the notebook goes on where it was.'
        );
      default:
        return trans.__(
          'For notebooks with the kernel "Python (WebAssembly sandbox)": every cell that ran, and the way back to it.'
        );
    }
  }
}

const MOST_TOLD = 5;

/** The rows, of which one is in the tab order: arrow keys lead to the others, Tab to the buttons of that one. */
function Rows(props: {
  rows: Row[];
  /** How many there are, with those that are not here yet. */
  count: number;
  kept: number;
  /** Another one after each undo, redo or restore. */
  moves: number;
  more: () => void;
  actions: Actions;
  trans: TranslationBundle;
}): JSX.Element {
  const { rows, actions, trans } = props;
  const list = useRef<HTMLDivElement>(null);
  const [chosen, choose] = useState('');
  const keys = keysOf(rows);
  const reachable = Math.max(0, keys.indexOf(chosen));
  const walk = (event: KeyboardEvent) => {
    const step = stepOf(event.key, reachable, rows.length);
    if (step !== null && list.current) {
      event.preventDefault();
      showItem(list.current, step, item => item.focus());
    }
  };
  useEffect(() => {
    const now = rows.findIndex(row => row.state === 'now');
    if (props.moves && now >= 0 && list.current) {
      showItem(list.current, now, item =>
        item.scrollIntoView({ block: 'nearest' })
      );
    }
  }, [props.moves]);
  return (
    <div
      ref={list}
      role="presentation"
      onKeyDown={walk}
      onFocus={event => {
        const row = event.target.closest<HTMLElement>('[data-index]');
        choose(keys[Number(row?.dataset.index)] ?? '');
      }}
    >
      <Windowed
        className="jp-WasmKernel-rows"
        label={trans.__('Timeline')}
        items={rows}
        onEnd={props.more}
        render={(row, index) => (
          <RowView
            key={keys[index]}
            row={row}
            index={index}
            count={props.count}
            kept={props.kept}
            isReachable={index === reachable}
            actions={actions}
            trans={trans}
          />
        )}
      />
    </div>
  );
}

interface RowProps {
  row: Row;
  /** Where it is in the list, of which only a part is in the page, and how long that is. */
  index: number;
  count: number;
  /** How many checkpoints are kept. */
  kept: number;
  /** Whether Tab leads to it. */
  isReachable: boolean;
  actions: Actions;
  trans: TranslationBundle;
}

/** Each state brings all rows anew; drawn are those in which something differs. */
const RowView = memo(
  DrawnRow,
  (old, now) =>
    old.isReachable === now.isReachable &&
    old.index === now.index &&
    old.count === now.count &&
    JSON.stringify(old.row) === JSON.stringify(now.row)
);

function DrawnRow(props: RowProps): JSX.Element {
  const { row, isReachable, actions, trans } = props;
  const code = firstLine(row.code);
  const changes = [
    ...signs(row.variables).map(found => ({ ...found, file: false })),
    ...signs(row.files).map(found => ({ ...found, file: true }))
  ];
  const kinds = {
    added: trans.__('added'),
    changed: trans.__('changed'),
    removed: trans.__('removed')
  };
  const disabled = whyDisabled(props);
  const here = row.state === 'now' ? trans.__('this is now') : '';
  return (
    <div
      role="listitem"
      className="jp-WasmKernel-row"
      aria-posinset={props.index + 1}
      aria-setsize={props.count}
      data-index={props.index}
      data-state={row.state}
      data-gone={row.gone}
      data-failed={!row.ok}
      aria-current={row.state === 'now' ? 'step' : undefined}
      tabIndex={isReachable ? 0 : -1}
    >
      <div className="jp-WasmKernel-line">
        <span className="jp-WasmKernel-number">
          {row.number ? `[${row.number}]` : ''}
        </span>
        <span
          className={code ? 'jp-WasmKernel-code' : 'jp-WasmKernel-note'}
          title={readableLines(row.code)}
        >
          {code ||
            (row.number === 0 ? trans.__('Start') : trans.__('Snapshot'))}
        </span>
        {row.label && (
          <span className="jp-WasmKernel-label" title={readable(row.label)}>
            {readable(row.label)}
          </span>
        )}
      </div>
      <div className="jp-WasmKernel-line jp-WasmKernel-details">
        <span title={new Date(row.at).toLocaleString()}>
          {when(row.at)}
          {row.seconds !== null && ` · ${duration(row.seconds)}`}
          {row.state === 'now' && ` · ${trans.__('now')}`}
          {row.state === 'undone' && ` · ${trans.__('undone')}`}
          {!row.ok && ' · '}
          {!row.ok && (
            <span className="jp-WasmKernel-failed">{trans.__('failed')}</span>
          )}
        </span>
        <span
          className="jp-WasmKernel-actions"
          role="group"
          aria-label={trans.__('Cell [%1]', row.number ?? readable(row.label))}
        >
          <Button
            icon={hereIcon}
            label={trans.__('Back to here')}
            disabled={disabled || here}
            isReachable={isReachable}
            run={() => actions.backTo(row)}
          />
          <Button
            icon={forkIcon}
            label={trans.__('Fork from here')}
            disabled={disabled}
            isReachable={isReachable}
            run={() => actions.fork(row)}
          />
          <Button
            icon={editIcon}
            label={trans.__('Name it')}
            disabled={disabled}
            isReachable={isReachable}
            run={() => actions.name(row)}
          />
          <Button
            icon={compareIcon}
            label={trans.__('Compare with now')}
            disabled={disabled || here}
            isReachable={isReachable}
            run={() => actions.compare(row)}
          />
        </span>
      </div>
      {changes.length > 0 && (
        <div className="jp-WasmKernel-changes">
          {changes.map(({ sign, kind, name, file }, index) => (
            <span
              key={index}
              className="jp-WasmKernel-change"
              data-sign={sign}
              title={`${name}: ${kinds[kind]}`}
            >
              {sign}
              {file ? <fileIcon.react tag="span" width="11px" /> : null}
              {name}
            </span>
          ))}
          {(isCut(row.variables, MOST_NAMES) ||
            isCut(row.files, MOST_NAMES)) && (
            <span
              title={trans.__(
                'The first %1 of each kind are here.',
                MOST_NAMES
              )}
            >
              …
            </span>
          )}
        </div>
      )}
    </div>
  );
}

/** Why nothing can be done with a row; empty if something can. */
function whyDisabled({ row, kept, trans }: RowProps): string {
  if (row.gone) {
    return trans.__(
      'its checkpoint is gone; the last %1 cells are kept, and moments that have a name',
      kept
    );
  }
  return row.id ? '' : trans.__('it is being stored; in about a second');
}

/** A button that keeps the focus when it can do nothing, so that the keyboard is not lost, and says why. */
function Button(props: {
  icon: LabIcon;
  label: string;
  text?: string;
  /** Why it can do nothing now; empty if it can. */
  disabled: string;
  isReachable?: boolean;
  run: () => Promise<void>;
}): JSX.Element {
  const { label, disabled } = props;
  return (
    <button
      type="button"
      className="jp-WasmKernel-button"
      title={disabled ? `${label}: ${disabled}` : label}
      aria-label={label}
      aria-disabled={disabled !== ''}
      tabIndex={props.isReachable === false ? -1 : 0}
      onClick={() => void (disabled || props.run())}
    >
      <props.icon.react tag="span" width="14px" height="14px" />
      {props.text}
    </button>
  );
}
