import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { type Actions, nameOf } from './actions';
import type { Connection } from './connection';
import { detailsButton } from './dialogs';
import { progressWords, told } from './notice_words';
import type { Notice, Progress } from './protocol';
import type { Sessions } from './sessions';

/** Milliseconds after which a notification goes by itself, so that it does not lie over the panel; Lab's bell keeps it. */
const GLANCE = 6_000;
const WARNING = 15_000;

/** Show what kernels want the person to know as Lab's own notifications; each event once, however many views it has. */
export function showNotices(
  sessions: Sessions,
  actions: Actions,
  trans: TranslationBundle
): void {
  const shown = new Set<string>();
  const building = new Building(trans);
  sessions.connected.connect((_, panel) => {
    const connection = sessions.connection(panel);
    connection?.noticed.connect((_, notice) => {
      if (!shown.has(notice.id)) {
        shown.add(notice.id);
        show(notice, panel, actions, trans);
      }
      seen(connection, notice.id);
    });
    connection?.progressed.connect((_, progress) => {
      building.progressed(progress);
      if (!shown.has(progress.id)) {
        shown.add(progress.id);
        seen(connection, progress.id);
      }
    });
  });
}

function seen(connection: Connection, notice: string): void {
  connection.ask({ do: 'seen', notice }).catch(() => undefined); // the next cell says it, then
}

function show(
  notice: Notice,
  panel: NotebookPanel,
  actions: Actions,
  trans: TranslationBundle
): void {
  const { message, type, fresh, details } = told(notice, nameOf(panel), trans);
  const buttons: Notification.IAction[] = [];
  if (fresh) {
    buttons.push({
      label: trans.__('Start Fresh'),
      caption: trans.__('A fresh interpreter; files stay'),
      callback: () => void actions.startFresh(panel)
    });
  }
  if (details) {
    buttons.push(detailsButton(notice.text, trans));
  }
  Notification.emit(message, type, {
    autoClose:
      type === 'info' ? GLANCE : notice.kind === 'lost' ? false : WARNING,
    actions: buttons
  });
}

/** The one notification about the image, however many kernels wait for it. */
class Building {
  constructor(private readonly trans: TranslationBundle) {}

  progressed(progress: Progress): void {
    const message = progressWords(progress, this.trans);
    if (progress.state === 'running') {
      this.running.add(progress.id);
      const options = { progress: progress.fraction };
      if (this.notification === null) {
        this.notification = Notification.emit(message, 'in-progress', {
          autoClose: false,
          ...options
        });
      } else {
        // Nothing happens if the person has dismissed it.
        Notification.update({ id: this.notification, message, ...options });
      }
      return;
    }
    const mine = this.running.delete(progress.id);
    if (!mine || this.running.size > 0) {
      return; // it was told, or another kernel's build goes on
    }
    if (this.notification !== null) {
      Notification.dismiss(this.notification);
      this.notification = null;
    }
    if (progress.state === 'ready') {
      Notification.success(message, { autoClose: GLANCE });
    } else {
      Notification.error(message, {
        autoClose: false,
        actions: progress.text ? [detailsButton(progress.text, this.trans)] : []
      });
    }
  }

  private readonly running = new Set<string>();
  private notification: string | null = null;
}
