import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DRIVE, type SandboxDrive } from './drive';
import { isMissing, type Room, split } from './file_routes';
import { size } from './words';

/** For so long, in milliseconds, it is believed how much room there is. */
const FRESH = 3000;
/** Uploads that follow each other sooner are told of together: Lab sends a folder's files one by one. */
const PAUSE = 500;
/** Milliseconds after which what is said at the end goes by itself; Lab's bell keeps it. */
const GLANCE = 3000;
const LONG = 20_000;

/**
 * Uploads of any size, one after the other: what does not fit is not sent, what is there is not replaced unasked, and
 * one notification says how far they are.
 */
export class Uploads {
  constructor(
    private readonly drive: SandboxDrive,
    private readonly trans: TranslationBundle,
    private readonly changeLimits: () => Promise<void>
  ) {}

  /** Send a file into a folder. It resolves however that ends: the person has been told. */
  send(file: File, folder: string): Promise<void> {
    const path = PathExt.join(folder.replace(`${DRIVE}:`, ''), file.name);
    clearTimeout(this.timer);
    if (!this.batch) {
      this.batch = new Batch(this.trans, this.changeLimits);
      this.room = null; // limits may have changed
    }
    const batch = this.batch;
    batch.files += 1;
    batch.bytes += file.size;
    const done = this.busy.then(async () => {
      try {
        await this.sendNext(file, path, batch);
      } catch (error) {
        batch.fail(
          `${file.name}: ${error instanceof Error ? error.message : String(error)}`
        );
      }
      batch.ended += 1;
      if (batch.ended === batch.files) {
        this.timer = setTimeout(() => {
          this.batch = null;
          batch.finish();
        }, PAUSE);
      }
    });
    this.busy = done;
    return done;
  }

  private async sendNext(
    file: File,
    path: string,
    batch: Batch
  ): Promise<void> {
    if (batch.cancelled.signal.aborted) {
      return;
    }
    const replaced = await this.sizeOf(path);
    const look = () => this.refusal(file, split(path).session, replaced ?? 0);
    let refused = await look();
    if (refused && (await batch.mayTryAgain(refused))) {
      this.room = null;
      refused = await look();
    }
    if (refused) {
      batch.fail(refused);
      return;
    }
    const exists = replaced !== null;
    if (exists && !(await batch.mayReplace(file.name))) {
      return;
    }
    batch.begin(file.name);
    await this.drive.routes.upload(
      path,
      file,
      exists,
      sent => batch.progress(sent),
      batch.cancelled.signal
    );
    batch.sent += file.size;
    batch.done.push(file.name);
    if (this.room) {
      this.room.free += (replaced ?? 0) - file.size;
    }
    await this.drive.told('save', null, path);
  }

  /** Why a file cannot be sent; empty if it can. */
  private async refusal(
    file: File,
    session: string,
    replaced: number
  ): Promise<string> {
    const { trans } = this;
    if (!session) {
      return trans.__('There is no session to upload into.');
    }
    if (this.room?.session !== session || Date.now() - this.room.at > FRESH) {
      const found = await this.drive.routes.room(session);
      this.room = { ...found, session, at: Date.now() };
    }
    const { free, maxFile } = this.room;
    if (file.size > maxFile) {
      return trans.__(
        '%1 has %2; a file may have %3 at most. Raise the limit "file".',
        file.name,
        size(file.size),
        size(maxFile)
      );
    }
    return file.size <= free + replaced
      ? ''
      : trans.__(
          '%1 has %2; this session has room for %3. Delete files, or raise the limit "disk".',
          file.name,
          size(file.size),
          size(free + replaced)
        );
  }

  /** How large the file is that is there; null if there is none. */
  private async sizeOf(path: string): Promise<number | null> {
    try {
      return (await this.drive.routes.about(path)).size;
    } catch (error) {
      if (isMissing(error)) {
        return null;
      }
      throw error;
    }
  }

  private batch: Batch | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private busy: Promise<void> = Promise.resolve();
  private room: (Room & { session: string; at: number }) | null = null;
}

/** Uploads that follow each other without a pause, and the notification about them. */
class Batch {
  constructor(
    private readonly trans: TranslationBundle,
    private readonly changeLimits: () => Promise<void>
  ) {
    window.addEventListener('beforeunload', this.ask);
  }

  files = 0;
  ended = 0;
  bytes = 0;
  sent = 0;
  readonly done: string[] = [];
  readonly cancelled = new AbortController();

  begin(name: string): void {
    this.name = name;
    this.progress(0);
  }

  /** So many bytes of the present file are sent. */
  progress(bytes: number): void {
    const share = this.bytes ? (this.sent + bytes) / this.bytes : 0;
    const percent = `${Math.floor(100 * Math.min(1, share))} %`;
    const message =
      this.files > 1
        ? this.trans.__(
            'Uploading %1: %2 (file %3 of %4)',
            this.name,
            percent,
            Math.min(this.ended + 1, this.files),
            this.files
          )
        : this.trans.__('Uploading %1: %2', this.name, percent);
    if (this.id === null) {
      this.id = Notification.emit(message, 'in-progress', {
        autoClose: false,
        progress: 0,
        actions: [
          {
            label: this.trans.__('Cancel'),
            callback: event => {
              event.preventDefault(); // it stays until there is something to say
              this.cancelled.abort();
            }
          }
        ]
      });
    } else {
      Notification.update({
        id: this.id,
        message,
        progress: Math.min(1, share)
      });
    }
  }

  fail(why: string): void {
    this.failed.push(why);
  }

  /** Say in a dialog what is wrong, but only once for all files. Whether the person may have mended it. */
  async mayTryAgain(problem: string): Promise<boolean> {
    if (this.said) {
      return false;
    }
    this.said = true;
    const { trans } = this;
    const answer = await showDialog({
      title: trans.__('It does not fit'),
      body: problem,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Close') }),
        Dialog.okButton({ label: trans.__('Change Limits…') })
      ],
      defaultButton: 0
    });
    if (answer.button.accept) {
      this.said = false; // what is wrong afterwards was not said
      await this.changeLimits();
    }
    return answer.button.accept;
  }

  /** Whether a file may be replaced: as the person says, for this one or for all that follow. */
  async mayReplace(name: string): Promise<boolean> {
    if (this.replaceAll !== null) {
      return this.replaceAll;
    }
    const others = this.files - this.ended - 1;
    const answer = await showDialog({
      title: this.trans.__('Replace the file?'),
      body: this.trans.__('"%1" is already there.', name),
      buttons: [
        Dialog.cancelButton({ label: this.trans.__('Skip') }),
        Dialog.warnButton({ label: this.trans.__('Replace') })
      ],
      checkbox: others
        ? { label: this.trans.__('The same for all that follow') }
        : undefined
    });
    if (answer.isChecked) {
      this.replaceAll = answer.button.accept;
    }
    return answer.button.accept;
  }

  finish(): void {
    window.removeEventListener('beforeunload', this.ask);
    const { trans, done, failed } = this;
    const isCancelled = this.cancelled.signal.aborted;
    const uploaded =
      done.length === 1
        ? trans.__('Uploaded %1', done[0])
        : trans.__('Uploaded %1 files', done.length);
    const message = isCancelled
      ? trans.__('Upload cancelled')
      : failed.length
        ? trans.__(
            'Not uploaded: %1',
            failed.length > 1
              ? trans.__('%1 (and %2 more)', failed[0], failed.length - 1)
              : failed[0]
          )
        : uploaded;
    const isBad = !isCancelled && failed.length > 0;
    const isSaid = failed.length === Number(this.said); // in a dialog
    if (isSaid && this.id === null) {
      return; // nothing was sent, and there is nothing more to say
    }
    const type = isBad ? 'error' : isCancelled ? 'info' : 'success';
    const autoClose = isBad ? LONG : GLANCE;
    if (this.id === null) {
      Notification.emit(message, type, { autoClose });
    } else {
      const id = this.id;
      Notification.update({ id, message, type, autoClose, actions: [] });
    }
  }

  private readonly ask = (event: Event) => event.preventDefault();
  private id: string | null = null;
  private name = '';
  private said = false;
  private replaceAll: boolean | null = null;
  private readonly failed: string[] = [];
}
