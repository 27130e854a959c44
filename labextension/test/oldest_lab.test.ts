import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

interface Lock {
  packages: { [path: string]: { version?: string } };
}

const read = (name: string): unknown => JSON.parse(readFileSync(name, 'utf8'));

test('it is compiled against the oldest JupyterLab that it is for', () => {
  const { dependencies } = read('package.json') as {
    dependencies: { [name: string]: string };
  };
  const { packages } = read('package-lock.json') as Lock;
  for (const [name, range] of Object.entries(dependencies)) {
    if (name.startsWith('@jupyterlab/')) {
      const oldest = range.replace(/^\^(\d+\.\d+)\..*$/, '$1.');
      expect(packages[`node_modules/${name}`].version).toContain(oldest);
    }
  }
});
