/** Files' bytes as Lab's documents have them, and back. */

import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

type Content = Pick<Contents.IModel, 'content' | 'format' | 'type'>;

/** Bytes as a document's content: of a notebook, as text, or base64 if they are no text or are asked for so. */
export function contentOf(
  bytes: Uint8Array,
  trans: TranslationBundle,
  type?: string,
  format?: string | null
): Content {
  if (type === 'notebook') {
    return { type, format: 'json', content: notebookOf(bytes, trans) };
  }
  if (format !== 'base64') {
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      return { type: 'file', format: 'text', content: text };
    } catch (error) {
      if (format === 'text') {
        throw new Error(
          trans.__(
            'It is not a text in UTF-8. Download it, or read it in a cell.'
          ),
          {
            cause: error
          }
        );
      }
    }
  }
  return { type: 'file', format: 'base64', content: base64(bytes) };
}

/**
 * A notebook as it may be opened: Lab runs what is in the outputs of cells that say they are trusted, and takes the
 * server to have checked that. This one was written by the guest.
 */
function notebookOf(bytes: Uint8Array, trans: TranslationBundle): unknown {
  let found: unknown;
  try {
    found = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new Error(trans.__('It is not a notebook.'), { cause: error });
  }
  return withoutTrust(found);
}

function withoutTrust(found: unknown): unknown {
  const { cells } = (found ?? {}) as { cells?: unknown };
  for (const cell of Array.isArray(cells) ? (cells as unknown[]) : []) {
    const { metadata } = (cell ?? {}) as { metadata?: unknown };
    if (typeof metadata === 'object' && metadata !== null) {
      delete (metadata as { trusted?: unknown }).trusted;
    }
  }
  return found;
}

/** A document's content as the bytes to write. */
export function bytesOf(options: Partial<Contents.IModel>): Uint8Array {
  const content: unknown = options.content;
  if (options.format === 'base64' && typeof content === 'string') {
    return Uint8Array.from(atob(content), c => c.charCodeAt(0));
  }
  const text =
    typeof content === 'string' ? content : JSON.stringify(content, null, 1);
  return new TextEncoder().encode(text);
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}
