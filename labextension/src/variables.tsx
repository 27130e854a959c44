import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { useState } from 'react';
import { arranged, type Column } from './arranged';
import type { Variable } from './protocol';
import type { Sessions } from './sessions';

/** The variables of the active notebook, as the guest reports them with each cell. */
export class VariablesView extends ReactWidget {
  constructor(
    private readonly sessions: Sessions,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-WasmKernel-view');
    this.title.label = trans.__('Variables');
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this.sessions.changed}>
        {() => (
          <VariableTable
            variables={this.sessions.connection()?.state?.variables ?? []}
            trans={this.trans}
          />
        )}
      </UseSignal>
    );
  }
}

function VariableTable(props: {
  variables: Variable[];
  trans: TranslationBundle;
}): JSX.Element {
  const { variables, trans } = props;
  const [text, setText] = useState('');
  const [column, setColumn] = useState<Column>('name');
  const [down, setDown] = useState(false);
  if (variables.length === 0) {
    return (
      <p className="jp-WasmKernel-hint">{trans.__('No variables yet.')}</p>
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
  return (
    <>
      <div className="jp-WasmKernel-bar">
        <input
          type="search"
          className="jp-WasmKernel-search"
          placeholder={trans.__('Search')}
          aria-label={trans.__('Search variables')}
          value={text}
          onChange={event => setText(event.target.value)}
        />
      </div>
      <table className="jp-WasmKernel-table">
        <thead>
          <tr>
            {head('name', trans.__('Name'))}
            {head('type', trans.__('Type'))}
            {head('size', trans.__('Items'))}
            <th scope="col">{trans.__('Value')}</th>
          </tr>
        </thead>
        <tbody>
          {arranged(variables, text, column, down).map(variable => (
            <tr key={variable.name}>
              <th scope="row" title={variable.name}>
                {variable.name}
              </th>
              <td>{variable.type}</td>
              <td className="jp-WasmKernel-count">
                {variable.size ? variable.size.toLocaleString() : ''}
              </td>
              <td title={variable.value}>{variable.value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
