import {
  Dialog,
  InputDialog,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Refused } from './connection';
import { differencesView, filesView } from './dialogs';
import type { Answer, Differences, Request, Row } from './protocol';
import type { Sessions } from './sessions';

/** What a person can do with a session: each asks the kernel, and says what it answers if that is no. */
export class Actions {
  constructor(
    private readonly sessions: Sessions,
    private readonly trans: TranslationBundle,
    private readonly openNotebook: (path: string) => Promise<unknown>
  ) {}

  undo(): Promise<void> {
    return this.goBack({ do: 'undo' });
  }

  async redo(): Promise<void> {
    await this.ask({ do: 'redo' });
  }

  /** Go to a row's moment; files that a person uploaded since are asked about first. */
  backTo(row: Row): Promise<void> {
    return this.goBack({ do: 'restore', row: row.id });
  }

  async name(row: Row): Promise<void> {
    const typed = await InputDialog.getText({
      title: this.trans.__('Name this moment'),
      label: this.trans.__('It is kept until you delete it.'),
      text: row.label,
      placeholder: this.trans.__('such as: before the merge')
    });
    if (typed.button.accept && typed.value?.trim()) {
      await this.ask({ do: 'name', row: row.id, label: typed.value });
    }
  }

  async compare(row: Row): Promise<void> {
    const answer = await this.ask({ do: 'compare', row: row.id });
    if (answer?.result) {
      await showDialog({
        title: this.trans.__('From cell [%1] to now', row.number ?? ''),
        body: differencesView(
          answer.result as unknown as Differences,
          this.trans
        ),
        buttons: [Dialog.okButton({ label: this.trans.__('Close') })]
      });
    }
  }

  /** A copy of the notebook opens beside it, in a session that goes on from a row's moment. */
  async fork(row: Row): Promise<void> {
    const panel = this.sessions.notebook;
    if (!panel) {
      return;
    }
    await panel.context.save();
    const answer = await this.ask({ do: 'fork', row: row.id });
    const name = answer?.result?.notebook;
    if (typeof name === 'string') {
      await this.openNotebook(beside(panel, name));
    }
  }

  /** Trust the session's outputs, after the person has read what that means; or seal them again. */
  async toggleTrust(): Promise<void> {
    const trusted = this.sessions.connection()?.state?.trusted;
    if (trusted === undefined) {
      return;
    }
    if (!trusted) {
      const asked = await showDialog({
        title: this.trans.__('Trust the outputs of this session?'),
        body: this.trans.__(
          'Scripts in outputs then act in your browser as you: on this Jupyter server, too, with its files and ' +
            'terminals. Do this only if you trust whoever wrote the code in this notebook.'
        ),
        buttons: [
          Dialog.cancelButton({ label: this.trans.__('Keep them sealed') }),
          Dialog.warnButton({ label: this.trans.__('Trust') })
        ],
        defaultButton: 0
      });
      if (!asked.button.accept) {
        return;
      }
    }
    await this.ask({ do: 'trust', on: !trusted });
  }

  async changeLimit(name: string, value: string): Promise<void> {
    const typed = await InputDialog.getText({
      title: this.trans.__('Change the limit of %1', name),
      text: value.replace(/ /g, ''),
      label: this.trans.__('Such as 4G, 500M, 60s or 10m.')
    });
    if (typed.button.accept && typed.value?.trim()) {
      const change = `${name}=${typed.value.replace(/\s+/g, '')}`;
      await this.ask({ do: 'limits', change });
    }
  }

  private async goBack(
    request: Extract<Request, { do: 'undo' | 'restore' }>
  ): Promise<void> {
    const answer = await this.ask(request);
    if (!answer?.confirm) {
      return;
    }
    const asked = await showDialog({
      title: this.trans.__('Files that you uploaded would go, too'),
      body: filesView(answer.confirm.files, this.trans),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: this.trans.__('Go back anyway') })
      ],
      defaultButton: 0
    });
    if (asked.button.accept) {
      await this.ask({ ...request, confirmed: true });
    }
  }

  private async ask(request: Request): Promise<Answer | null> {
    const connection = this.sessions.connection();
    if (!connection) {
      return null;
    }
    try {
      return await connection.ask(request);
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      Notification.warning(error.message, { autoClose: 8000 });
      return null;
    }
  }
}

function beside(panel: NotebookPanel, name: string): string {
  const path = panel.context.path;
  return path.slice(0, path.lastIndexOf('/') + 1) + name;
}
