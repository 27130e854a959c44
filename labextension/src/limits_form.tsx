import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { changesOf, typed } from './limit_changes';
import type { Limit } from './protocol';

type Limits = { [name: string]: Limit };
type Typed = { [name: string]: string };

/**
 * Ask the person for limits, until they are taken or the person gives up.
 * `change` gets them as after `%session limits`, and answers with what is wrong.
 */
export async function askForLimits(
  limits: Limits,
  trans: TranslationBundle,
  change: (change: string) => Promise<string | null>
): Promise<void> {
  let given: Typed = typed(limits);
  let problem: string | null = null;
  for (;;) {
    const form = new LimitsForm(limits, given, problem, trans);
    const asked = await showDialog({
      title: trans.__('Limits of this session'),
      body: form,
      buttons: [
        Dialog.cancelButton(),
        Dialog.okButton({ label: trans.__('Change') })
      ],
      focusNodeSelector: 'input'
    });
    if (!asked.button.accept) {
      return;
    }
    given = asked.value ?? given;
    const changes = changesOf(limits, given);
    problem = changes ? await change(changes) : null;
    if (problem === null) {
      return;
    }
  }
}

/** A field for each limit, with what it can be raised to. */
class LimitsForm extends ReactWidget {
  constructor(
    private readonly limits: Limits,
    given: Typed,
    private readonly problem: string | null,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.given = { ...given };
    this.addClass('jp-WasmKernel-limits');
  }

  getValue(): Typed {
    return this.given;
  }

  protected render(): JSX.Element {
    const { trans } = this;
    const meanings: { [name: string]: string } = {
      memory: trans.__('memory of the interpreter and its data'),
      timeout: trans.__('time of one cell'),
      fuel: trans.__('WebAssembly instructions of one cell'),
      disk: trans.__('files in /app and /tmp together'),
      file: trans.__('any single file'),
      files: trans.__('number of files and folders'),
      open: trans.__('files open at once'),
      connections: trans.__('network connections open at once'),
      transfer: trans.__('what one cell sends and receives'),
      traffic: trans.__('what the session sends and receives in all'),
      connect: trans.__('time to connect to a host'),
      output: trans.__('text printed by one cell'),
      display: trans.__('figures, tables and widgets of one cell'),
      workers: trans.__('workers of process pools and joblib'),
      cluster: trans.__('workers on a cluster')
    };
    return (
      <>
        {this.problem && (
          <p className="jp-WasmKernel-problem" role="alert">
            {this.problem}
          </p>
        )}
        <p className="jp-WasmKernel-hint">
          {trans.__(
            'They hold from the next cell on, for this session. Write 4G, 500M, 60s or 10m, or off for no limit.'
          )}
        </p>
        <table>
          <tbody>
            {Object.entries(this.limits).map(([name, limit]) => (
              <tr key={name}>
                <th scope="row">
                  <label htmlFor={`wasm-kernel-limit-${name}`}>{name}</label>
                </th>
                <td>
                  <input
                    id={`wasm-kernel-limit-${name}`}
                    className="jp-mod-styled"
                    type="text"
                    spellCheck={false}
                    defaultValue={this.given[name]}
                    aria-describedby={`wasm-kernel-most-${name}`}
                    onChange={event => {
                      this.given[name] = event.target.value;
                    }}
                  />
                </td>
                <td id={`wasm-kernel-most-${name}`}>
                  {meanings[name] ?? ''}
                  {limit.most !== 'no limit' && (
                    <small>{trans.__('at most %1', limit.most)}</small>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </>
    );
  }

  private readonly given: Typed;
}
