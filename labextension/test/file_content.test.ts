import { expect, test } from 'vitest';
import { bytesOf, contentOf } from '../src/file_content';

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
