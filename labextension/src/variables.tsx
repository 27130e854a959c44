import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { useState } from 'react';
import {
  arranged,
  type Column,
  type Described,
  firstText,
  opens
} from './arranged';
import { readable } from './file_names';
import { ValuesOfSessions } from './first_values';
import { type FirstValues, MOST_VARIABLES, type Variable } from './protocol';
import type { Sessions } from './sessions';
import { shapeText, size } from './words';

/** The variables of the active notebook, as the guest reports them with each cell, and their first values. */
export class VariablesView extends ReactWidget {
  constructor(
    private readonly sessions: Sessions,
    private readonly open: (name: string) => void,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-WasmKernel-view');
    this.title.label = trans.__('Variables');
    this.values = new ValuesOfSessions(sessions, () => this.isVisible);
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.values.look();
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this.sessions.changed}>
        {() => (
          <UseSignal signal={this.values.changed}>
            {() => (
              <VariableTable
                variables={this.sessions.connection()?.state?.variables ?? null}
                values={this.values.current}
                open={this.open}
                trans={this.trans}
              />
            )}
          </UseSignal>
        )}
      </UseSignal>
    );
  }

  private readonly values: ValuesOfSessions;
}

function VariableTable(props: {
  /** Null if there is no session. */
  variables: Variable[] | null;
  values: { [name: string]: FirstValues };
  open: (name: string) => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { variables, values, open, trans } = props;
  const [text, setText] = useState('');
  const [column, setColumn] = useState<Column>('name');
  const [down, setDown] = useState(false);
  if (!variables?.length) {
    return (
      <p className="jp-WasmKernel-hint">
        {variables
          ? trans.__('No variables yet.')
          : trans.__(
              'The variables of a notebook with the kernel "Python (WebAssembly sandbox)" are here while it runs.'
            )}
      </p>
    );
  }
  const head = (name: Column, label: string) => (
    <th
      scope="col"
      aria-sort={column === name ? (down ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        onClick={() => {
          setDown(column === name && !down);
          setColumn(name);
        }}
      >
        {label}
        {column === name ? (down ? ' ▾' : ' ▴') : ''}
      </button>
    </th>
  );
  const found = arranged(variables, values, text, column, down);
  return (
    <>
      <div className="jp-WasmKernel-top jp-WasmKernel-bar">
        <input
          type="search"
          className="jp-WasmKernel-search"
          placeholder={trans.__('Search')}
          aria-label={trans.__('Search variables')}
          value={text}
          onChange={event => setText(event.target.value)}
        />
      </div>
      <table className="jp-WasmKernel-table jp-WasmKernel-variables">
        <colgroup>
          {['26%', '27%', '27%', '20%'].map((width, at) => (
            <col key={at} style={{ width }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {head('name', trans.__('Name'))}
            {head('type', trans.__('Type'))}
            {head('shape', trans.__('Shape'))}
            {head('bytes', trans.__('Size'))}
          </tr>
        </thead>
        {found.map(variable => (
          <VariableRows
            key={variable.name}
            variable={variable}
            open={open}
            trans={trans}
          />
        ))}
      </table>
      {found.length === 0 && (
        <p className="jp-WasmKernel-hint">
          {trans.__('No variable contains “%1”.', text)}
        </p>
      )}
      {variables.length >= MOST_VARIABLES && (
        <p className="jp-WasmKernel-hint">
          {trans.__('The first %1 variables are here.', MOST_VARIABLES)}
        </p>
      )}
    </>
  );
}

/** A variable: what it is, and below that its first values. A table opens by its name, or by a double click. */
function VariableRows(props: {
  variable: Described;
  open: (name: string) => void;
  trans: TranslationBundle;
}): JSX.Element {
  const { variable, open, trans } = props;
  const first = readable(firstText(variable));
  const name = readable(variable.name);
  const type = readable(variable.type);
  const shape = variable.shape ?? (variable.size ? [variable.size] : []);
  return (
    <tbody
      data-opens={opens(variable)}
      onDoubleClick={() => opens(variable) && open(variable.name)}
    >
      <tr>
        <th scope="row" title={name}>
          {opens(variable) ? (
            <button
              type="button"
              title={trans.__('Open %1 as a table', name)}
              onClick={() => open(variable.name)}
            >
              {name}
            </button>
          ) : (
            name
          )}
        </th>
        <td title={type}>{type}</td>
        <td title={shapeText(shape)}>{shapeText(shape)}</td>
        <td className="jp-WasmKernel-count">
          {variable.bytes ? size(variable.bytes) : ''}
        </td>
      </tr>
      {first && (
        <tr className="jp-WasmKernel-first">
          <td colSpan={4} title={first}>
            {first}
          </td>
        </tr>
      )}
    </tbody>
  );
}
