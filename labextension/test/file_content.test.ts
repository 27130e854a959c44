import { expect, test } from 'vitest';
import { nullTranslator } from '@jupyterlab/translation';
import { bytesOf, contentOf as contentIn } from '../src/file_content';

const trans = nullTranslator.load('wasm_kernel');
const contentOf = (bytes: Uint8Array, type?: string, format?: string) =>
  contentIn(bytes, trans, type, format);

const text = (value: string) => new TextEncoder().encode(value);

test('text stays text, and what is none becomes base64', () => {
  expect(contentOf(text('größer'))).toEqual({
    type: 'file',
    format: 'text',
    content: 'größer'
  });
  expect(contentOf(new Uint8Array([0xff, 0xfe])).format).toBe('base64');
  expect(() => contentOf(new Uint8Array([0xff]), 'file', 'text')).toThrow(
    'UTF-8'
  );
});

test('a notebook is read as such', () => {
  expect(contentOf(text('{"cells": []}'), 'notebook').content).toEqual({
    cells: []
  });
});

test('what is saved is what was read', () => {
  const bytes = new Uint8Array(100_000).map((_, index) => index % 251);
  const read = contentOf(bytes, 'file', 'base64');
  expect(bytesOf(read)).toEqual(bytes);
  expect(bytesOf(contentOf(text('a\nb')))).toEqual(text('a\nb'));
});

test('no notebook of the guest says of itself that it is trusted', () => {
  const cell = (metadata: unknown) => ({ cell_type: 'code', metadata });
  const written = {
    cells: [cell({ trusted: true, tags: ['a'] }), cell(null), null, 3]
  };
  const read = contentOf(text(JSON.stringify(written)), 'notebook');
  expect(read.content).toEqual({
    cells: [cell({ tags: ['a'] }), cell(null), null, 3]
  });
  for (const odd of ['null', '[]', '{"cells": {"length": 1e9}}', '"x"']) {
    expect(contentOf(text(odd), 'notebook').content).toEqual(JSON.parse(odd));
  }
  expect(() => contentOf(text('{'), 'notebook')).toThrow('not a notebook');
});
