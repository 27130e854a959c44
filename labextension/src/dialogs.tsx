import { Dialog, type Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import {
  type Differences,
  MOST_COMPARED,
  type VariableDifference
} from './protocol';
import { readable } from './file_names';
import { isCut, isEmpty, signs } from './words';

function byName(one: { name: string }, other: { name: string }): number {
  return one.name.localeCompare(other.name, undefined, { numeric: true });
}

/** What differs between two moments: a table of variables, a list of files. */
export function differencesView(
  found: Differences,
  trans: TranslationBundle
): ReactWidget {
  const listed = (items: VariableDifference[], sign: string) =>
    [...items].sort(byName).map(item => ({ sign, item }));
  const rows = [
    ...listed(found.variables.added, '+'),
    ...listed(found.variables.changed, '~'),
    ...listed(found.variables.removed, '−')
  ];
  return ReactWidget.create(
    <div className="jp-WasmKernel-differences">
      {rows.length === 0 && isEmpty(found.files) && (
        <p>{trans.__('Nothing differs: variables and files are the same.')}</p>
      )}
      {rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">{trans.__('Variable')}</th>
              <th scope="col">{trans.__('Then')}</th>
              <th scope="col">{trans.__('Now')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ sign, item }) => {
              const name = readable(item.name);
              const then = readable(item.then) || '–';
              const now =
                item.now && item.now === item.then
                  ? trans.__('%1, other contents', readable(item.now))
                  : readable(item.now) || '–';
              return (
                <tr key={item.name}>
                  <th scope="row" title={name}>
                    <span className="jp-WasmKernel-sign" data-sign={sign}>
                      {sign}
                    </span>
                    {name}
                  </th>
                  <td title={then}>{then}</td>
                  <td title={now}>{now}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {!isEmpty(found.files) && (
        <>
          <h4>{trans.__('Files')}</h4>
          <ul>
            {signs(found.files).map(({ sign, name }, index) => (
              <li key={index}>
                <span className="jp-WasmKernel-sign" data-sign={sign}>
                  {sign}
                </span>
                {name}
              </li>
            ))}
          </ul>
        </>
      )}
      {(isCut(found.variables, MOST_COMPARED) ||
        isCut(found.files, MOST_COMPARED)) && (
        <p>
          {trans.__('Only the first %1 of each kind are here.', MOST_COMPARED)}
        </p>
      )}
    </div>
  );
}

/** Files that a person uploaded, which going back would remove or replace. */
export function filesView(
  files: string[],
  trans: TranslationBundle
): ReactWidget {
  return ReactWidget.create(
    <div className="jp-WasmKernel-differences">
      <p>{trans.__('No cell made these files, so going back removes them:')}</p>
      <ul>
        {files.map(name => (
          <li key={name}>{readable(name)}</li>
        ))}
      </ul>
    </div>
  );
}

/** A notification's button for all that there is to say: Lab shows the beginning of it. */
export function detailsButton(
  text: string,
  trans: TranslationBundle
): Notification.IAction {
  return {
    label: trans.__('What To Do'),
    callback: event => {
      event.preventDefault(); // it stays until the person closes it
      void showDialog({
        title: trans.__('About this notice'),
        body: text,
        buttons: [Dialog.okButton({ label: trans.__('Close') })]
      });
    }
  };
}
