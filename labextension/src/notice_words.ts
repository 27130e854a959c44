/** What notifications say. Lab shows 140 characters of each; the rest is behind a button. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Hello, Notice, Progress } from './protocol';
import { VERSION } from './protocol';
import { when } from './words';

/** What Lab shows of a notification. */
export const LONGEST = 140;
const LONGEST_NAME = 32;

/** A notice in a few words, how grave it is, and which buttons it has. */
export interface Told {
  message: string;
  type: 'info' | 'warning';
  /** Offer a fresh interpreter. */
  fresh: boolean;
  /** Offer the kernel's own words: they say what to do. */
  details: boolean;
}

/** What to say of a notice about a notebook. */
export function told(
  notice: Notice,
  notebook: string,
  trans: TranslationBundle
): Told {
  const name = shortened(notebook);
  const { at, cells, why, due, sessions } = notice.values;
  switch (notice.kind) {
    case 'continued':
      return {
        message: trans.__(
          '%1 continues from %2, with all its variables.',
          name,
          when(at ?? '')
        ),
        type: 'info',
        fresh: true,
        details: false
      };
    case 'lost': {
      const first = cells?.[0] ?? 0;
      const last = cells?.[cells.length - 1] ?? 0;
      return {
        message:
          first === last
            ? trans.__(
                '%1: the kernel was ended while cell [%2] ran. What that cell did is lost; the rest is restored.',
                name,
                first
              )
            : trans.__(
                '%1: the kernel was ended, and what cells [%2] to [%3] did is lost. The rest is restored.',
                name,
                first,
                last
              ),
        type: 'warning',
        fresh: true,
        details: false
      };
    }
    case 'unstored':
      return {
        message: notStored(why ?? '', name, trans),
        type: 'warning',
        fresh: false,
        details: true
      };
    case 'prune':
      return {
        message:
          sessions === 1
            ? trans.__(
                'One of your sessions will be deleted on %1.',
                day(due ?? '')
              )
            : trans.__(
                '%1 of your sessions will be deleted, the first on %2.',
                sessions ?? '',
                day(due ?? '')
              ),
        type: 'warning',
        fresh: false,
        details: true
      };
    default:
      return {
        message: `${name}: ${notice.text}`,
        type: notice.good ? 'info' : 'warning',
        fresh: false,
        details: name.length + 2 + notice.text.length > LONGEST
      };
  }
}

function notStored(
  why: string,
  name: string,
  trans: TranslationBundle
): string {
  switch (why) {
    case 'disk':
      return trans.__(
        '%1: the disk is full. Cells cannot be undone, and variables are lost when the kernel ends.',
        name
      );
    case 'quota':
      return trans.__(
        '%1: little space is left for checkpoints. Soon cells cannot be undone.',
        name
      );
    case 'off':
      return trans.__(
        '%1: checkpoints are switched off. Cells cannot be undone.',
        name
      );
    default:
      return trans.__(
        '%1: the last checkpoint was not stored. That cell cannot be undone.',
        name
      );
  }
}

/** What to say while the image is built, and at the end. */
export function progressWords(
  progress: Progress,
  trans: TranslationBundle
): string {
  switch (progress.state) {
    case 'running':
      return trans.__(
        'Building the sandbox, once on this machine: step %1 of %2, %3 %. Cells wait for it.',
        progress.step,
        progress.steps,
        Math.round(100 * progress.fraction)
      );
    case 'ready':
      return trans.__('The sandbox is built.');
    case 'stopped':
      return trans.__(
        'Building the sandbox was interrupted. Run a cell to go on.'
      );
    default:
      return trans.__('The sandbox could not be built.');
  }
}

/** What to do about a kernel that speaks another version. The notebook works all the same. */
export function versionHint(kernel: Hello, trans: TranslationBundle): string {
  return kernel.version > VERSION
    ? trans.__(
        'This page is older than the kernel (wasm-kernel %1), so there is no timeline here. Reload the page; if that does ' +
          'not help, update wasm-kernel where JupyterLab runs. Cells run, and %session does what the panel would.',
        kernel.kernel
      )
    : trans.__(
        'The kernel (wasm-kernel %1) is older than this page, so there is no timeline here. Restart the kernel; if that ' +
          'does not help, update wasm-kernel where the kernel runs. Cells run, and %session does what the panel would.',
        kernel.kernel
      );
}

function day(at: string): string {
  return new Date(at).toLocaleDateString();
}

function shortened(name: string): string {
  return name.length > LONGEST_NAME
    ? `${name.slice(0, LONGEST_NAME - 1)}…`
    : name;
}
