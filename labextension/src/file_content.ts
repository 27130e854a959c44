/** Files' bytes as Lab's documents have them, and back. */

import type { Contents } from '@jupyterlab/services';

type Content = Pick<Contents.IModel, 'content' | 'format' | 'type'>;

/** Bytes as a document's content: of a notebook, as text, or base64 if they are no text or are asked for so. */
export function contentOf(
  bytes: Uint8Array,
  type?: string,
  format?: string | null
): Content {
  if (type === 'notebook') {
    return {
      type,
      format: 'json',
      content: JSON.parse(new TextDecoder().decode(bytes)) as unknown
    };
  }
  if (format !== 'base64') {
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      return { type: 'file', format: 'text', content: text };
    } catch (error) {
      if (format === 'text') {
        throw new Error('It is not a text in UTF-8.', { cause: error });
      }
    }
  }
  return { type: 'file', format: 'base64', content: base64(bytes) };
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
