import type { TranslationBundle } from '@jupyterlab/translation';
import {
  copyIcon,
  editIcon,
  type LabIcon,
  ReactWidget,
  redoIcon,
  undoIcon,
  UseSignal
} from '@jupyterlab/ui-components';
import type { Actions } from './actions';
import { compareIcon, forkIcon, hereIcon } from './icons';
import type { Row } from './protocol';
import type { Sessions } from './sessions';
import { duration, firstLine, signs, when } from './words';

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
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this.sessions.changed}>{() => this.view()}</UseSignal>
    );
  }

  private view(): JSX.Element {
    const { trans, actions } = this;
    const connection = this.sessions.connection();
    const state = connection?.state;
    if (!connection) {
      return (
        <p className="jp-WasmKernel-hint">
          {trans.__(
            'For notebooks with the kernel "Python (WebAssembly sandbox)": every cell that ran, and the way back to it.'
          )}
        </p>
      );
    }
    if (connection.otherVersion !== null) {
      return (
        <p className="jp-WasmKernel-hint">
          {trans.__(
            'This extension and the kernel are of different versions. Update wasm-kernel here and for the kernel, and reload the page.'
          )}
        </p>
      );
    }
    if (!state || state.rows.length === 0) {
      return (
        <p className="jp-WasmKernel-hint">
          {trans.__(
            'Run a cell: it appears here, and you can come back to it.'
          )}
        </p>
      );
    }
    return (
      <>
        <div className="jp-WasmKernel-bar" role="toolbar">
          <Button
            icon={undoIcon}
            label={trans.__('Undo cell')}
            text={trans.__('Undo')}
            enabled={state.canUndo}
            run={() => actions.undo()}
          />
          <Button
            icon={redoIcon}
            label={trans.__('Redo cell')}
            text={trans.__('Redo')}
            enabled={state.canRedo}
            run={() => actions.redo()}
          />
        </div>
        <ol className="jp-WasmKernel-rows" aria-label={trans.__('Timeline')}>
          {state.rows.map((row, index) => (
            <RowView
              key={row.id || `new ${row.number} ${index}`}
              row={row}
              actions={actions}
              trans={trans}
            />
          ))}
        </ol>
      </>
    );
  }
}

function RowView(props: {
  row: Row;
  actions: Actions;
  trans: TranslationBundle;
}): JSX.Element {
  const { row, actions, trans } = props;
  const code = firstLine(row.code);
  const changes = [
    ...signs(row.variables).map(found => ({ ...found, file: false })),
    ...signs(row.files).map(found => ({ ...found, file: true }))
  ];
  const stored = row.id !== '';
  return (
    <li
      className="jp-WasmKernel-row"
      data-state={row.state}
      data-failed={!row.ok}
      aria-current={row.state === 'now' ? 'step' : undefined}
    >
      <div className="jp-WasmKernel-line">
        <span className="jp-WasmKernel-number">
          {row.number ? `[${row.number}]` : ''}
        </span>
        <span
          className={code ? 'jp-WasmKernel-code' : 'jp-WasmKernel-note'}
          title={row.code}
        >
          {code ||
            (row.number === 0 ? trans.__('Start') : trans.__('Snapshot'))}
        </span>
        {row.label && <span className="jp-WasmKernel-label">{row.label}</span>}
      </div>
      <div className="jp-WasmKernel-line jp-WasmKernel-details">
        <span>
          {when(row.at)}
          {row.seconds !== null && ` · ${duration(row.seconds)}`}
          {row.state === 'now' && ` · ${trans.__('now')}`}
          {row.state === 'undone' && ` · ${trans.__('undone')}`}
          {!row.ok && ` · ${trans.__('failed')}`}
        </span>
        <span className="jp-WasmKernel-actions">
          {row.state !== 'now' && (
            <Button
              icon={hereIcon}
              label={trans.__('Back to here')}
              enabled={stored}
              run={() => actions.backTo(row)}
            />
          )}
          <Button
            icon={forkIcon}
            label={trans.__('Fork from here')}
            enabled={stored}
            run={() => actions.fork(row)}
          />
          <Button
            icon={editIcon}
            label={trans.__('Name it')}
            enabled={stored}
            run={() => actions.name(row)}
          />
          {row.state !== 'now' && (
            <Button
              icon={compareIcon}
              label={trans.__('Compare with now')}
              enabled={stored}
              run={() => actions.compare(row)}
            />
          )}
        </span>
      </div>
      {changes.length > 0 && (
        <div className="jp-WasmKernel-changes">
          {changes.map(({ sign, kind, name, file }) => (
            <span
              key={`${file} ${sign} ${name}`}
              className="jp-WasmKernel-change"
              data-sign={sign}
              title={`${name}: ${kind}`}
            >
              {sign}
              {file ? <copyIcon.react tag="span" width="10px" /> : null}
              {name}
            </span>
          ))}
        </div>
      )}
    </li>
  );
}

function Button(props: {
  icon: LabIcon;
  label: string;
  text?: string;
  enabled: boolean;
  run: () => Promise<void>;
}): JSX.Element {
  return (
    <button
      type="button"
      className="jp-WasmKernel-button"
      title={props.label}
      aria-label={props.label}
      disabled={!props.enabled}
      onClick={() => void props.run()}
    >
      <props.icon.react tag="span" width="14px" height="14px" />
      {props.text}
    </button>
  );
}
