/** Limits as a person types them, and as the kernel takes them. */

import type { Limit } from './protocol';

const NONE = 'no limit'; // the kernel's word for it
const OFF = 'off'; // and what it takes for it

/** What is in the fields at first. */
export function typed(limits: { [name: string]: Limit }): {
  [name: string]: string;
} {
  return Object.fromEntries(
    Object.entries(limits).map(([name, limit]) => [name, asTyped(limit.value)])
  );
}

/** What a person changed, as after `%session limits`; empty if nothing. */
export function changesOf(
  limits: { [name: string]: Limit },
  given: { [name: string]: string }
): string {
  return Object.entries(limits)
    .map(([name, limit]) => ({
      name,
      before: packed(asTyped(limit.value)),
      after: packed(given[name] ?? '') || OFF
    }))
    .filter(({ before, after }) => after !== before)
    .map(({ name, after }) => `${name}=${after}`)
    .join(' ');
}

function asTyped(value: string): string {
  return value === NONE ? OFF : value;
}

function packed(text: string): string {
  return text.replace(/\s+/g, '');
}
