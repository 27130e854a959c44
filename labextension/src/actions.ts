import {
  Dialog,
  InputDialog,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Refused } from './connection';
import { detailsButton, differencesView, filesView } from './dialogs';
import { readable } from './file_names';
import { askForLimits } from './limits_form';
import { LONGEST } from './notice_words';
import type { Answer, Differences, Request, Row } from './protocol';
import type { Sessions } from './sessions';
import { laterCells, when } from './words';

/** Milliseconds after which a person wonders. */
const LATE = 1000;
/** Characters of a moment's name, as many as the kernel keeps. */
const MOST_OF_NAME = 200;

/**
 * What a person can do with a session, by default that of the active notebook: each asks the kernel, and says what it
 * answers if that is no.
 */
export class Actions {
  constructor(
    private readonly sessions: Sessions,
    private readonly trans: TranslationBundle,
    /** Resolves to nothing where a notebook opens in a page of its own. */
    private readonly openNotebook: (
      path: string
    ) => Promise<NotebookPanel | undefined>
  ) {}

  undo(panel = this.sessions.notebook): Promise<void> {
    return this.goBack({ do: 'undo' }, panel);
  }

  async redo(panel = this.sessions.notebook): Promise<void> {
    await this.ask({ do: 'redo' }, panel);
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
    const label = typed.value?.trim().slice(0, MOST_OF_NAME);
    if (typed.button.accept && label) {
      await this.ask({ do: 'name', row: row.id, label });
    }
  }

  async compare(row: Row): Promise<void> {
    const answer = await this.ask({ do: 'compare', row: row.id });
    if (answer?.result) {
      await showDialog({
        title: row.number
          ? this.trans.__('From cell [%1] to now', row.number)
          : this.trans.__(
              'From %1 to now',
              readable(row.label) || when(row.at)
            ),
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
      const rows = this.sessions.connection(panel)?.state?.rows ?? [];
      const fork = await this.openNotebook(beside(panel, name));
      if (fork) {
        await clearWhatCameLater(fork, row, rows);
      }
    }
  }

  /** Trust the session's outputs, after the person has read what that means; or seal them again. */
  async toggleTrust(panel = this.sessions.notebook): Promise<void> {
    const trusted = this.sessions.connection(panel)?.state?.trusted;
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
    await this.ask({ do: 'trust', on: !trusted }, panel);
  }

  /** A fresh interpreter for a notebook, after the person has read what that means. */
  async startFresh(panel: NotebookPanel): Promise<void> {
    const asked = await showDialog({
      title: this.trans.__('Start %1 fresh?', nameOf(panel)),
      body: this.trans.__(
        'Its variables go, its files stay. The timeline has the way back.'
      ),
      buttons: [
        Dialog.cancelButton(),
        Dialog.warnButton({ label: this.trans.__('Start fresh') })
      ],
      defaultButton: 0
    });
    if (asked.button.accept) {
      await this.ask({ do: 'reset' }, panel);
    }
  }

  /** Ask the person for other limits. Nothing of a notebook's text gets here. */
  async changeLimits(): Promise<void> {
    const connection = this.sessions.connection();
    if (!connection?.state) {
      return;
    }
    const panel = this.sessions.notebook;
    await askForLimits(connection.state.limits, this.trans, async change => {
      const late = setTimeout(() => this.explainWait(panel), LATE);
      try {
        await connection.ask({ do: 'limits', change });
        return null;
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      } finally {
        clearTimeout(late);
      }
    });
  }

  private async goBack(
    request: Extract<Request, { do: 'undo' | 'restore' }>,
    panel = this.sessions.notebook
  ): Promise<void> {
    const answer = await this.ask(request, panel);
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
      await this.ask({ ...request, confirmed: true }, panel);
    }
  }

  private async ask(
    request: Request,
    panel = this.sessions.notebook
  ): Promise<Answer | null> {
    const connection = this.sessions.connection(panel);
    if (!connection) {
      return null;
    }
    const late = setTimeout(() => this.explainWait(panel), LATE);
    try {
      return await connection.ask(request);
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      Notification.warning(error.message, {
        autoClose: 8000,
        actions:
          error.message.length > LONGEST
            ? [detailsButton(error.message, this.trans)]
            : []
      });
      return null;
    } finally {
      clearTimeout(late);
    }
  }

  private explainWait(panel: NotebookPanel | null): void {
    if (panel?.sessionContext.session?.kernel?.status === 'busy') {
      const message = this.trans.__('This happens when the cell has ended.');
      Notification.info(message, { autoClose: 4000 });
    }
  }
}

/** What is needed of the model of a cell with code. */
interface CodeModel {
  executionCount: number | null;
  sharedModel: { source: string };
  clearExecution(): void;
}

/** Clear the numbers and outputs of cells that ran after a row's moment: a fork from there knows nothing of what they did. */
async function clearWhatCameLater(
  fork: NotebookPanel,
  row: Row,
  rows: Row[]
): Promise<void> {
  await fork.context.ready;
  const cells = fork.content.widgets
    .filter(({ model }) => model.type === 'code')
    .map(({ model }) => model as unknown as CodeModel);
  const later = laterCells(
    rows,
    row.id,
    cells.map(cell => ({
      number: cell.executionCount,
      code: cell.sharedModel.source
    }))
  );
  cells.filter((_, index) => later[index]).forEach(c => c.clearExecution());
  if (later.includes(true)) {
    await fork.context.save();
  }
}

/** The file name of a notebook. */
export function nameOf(panel: NotebookPanel): string {
  return panel.context.path.split('/').pop() ?? '';
}

function beside(panel: NotebookPanel, name: string): string {
  const path = panel.context.path;
  return path.slice(0, path.lastIndexOf('/') + 1) + name;
}
