import type { Kernel } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { expect, test } from 'vitest';
import { Connection, Refused } from '../src/connection';
import { type Notice, type State, TARGET, VERSION } from '../src/protocol';

/** A kernel that a test speaks for. */
function kernel() {
  const sent: { [name: string]: unknown }[] = [];
  const comm = {
    isDisposed: false,
    onMsg: (() => undefined) as (message: unknown) => unknown,
    onClose: () => undefined as unknown,
    open: (data: { [name: string]: unknown }) => sent.push(data),
    send: (data: { [name: string]: unknown }) => sent.push(data),
    close: () => comm.onClose(),
    dispose: () => undefined
  };
  const targets: string[] = [];
  const itself = {
    isDisposed: false,
    connectionStatus: 'connected',
    createComm: (target: string) => {
      targets.push(target);
      return comm;
    }
  };
  const connection = new Connection(
    itself as unknown as Kernel.IKernelConnection,
    nullTranslator.load('wasm_kernel')
  );
  const says = (data: unknown) => comm.onMsg({ content: { data } });
  return { connection, says, sent, targets, itself };
}

const state = { session: 's', rows: [] } as unknown as State;

test('it opens its comm with its version, and asks for the state', () => {
  const { connection, says, sent, targets } = kernel();
  expect(targets).toEqual([TARGET]);
  expect(sent).toEqual([{ version: VERSION }, { request: 1, do: 'look' }]);
  says({ hello: { version: VERSION, kernel: '1' } });
  says({ state });
  expect(connection.state).toBe(state);
  expect(connection.stranger).toBeNull();
});

test.each([VERSION + 1, VERSION - 1])(
  'of a kernel that speaks version %d it understands the greeting and no more',
  async version => {
    const { connection, says } = kernel();
    const heard: Notice[] = [];
    connection.noticed.connect((_, notice) => heard.push(notice));
    says({ hello: { version, kernel: '9.9' } });
    says({ state: { shape: 'of another time' } });
    says({ notice: { id: 'n' } });
    says({ progress: { id: 'p' } });
    expect(connection.stranger).toEqual({ version, kernel: '9.9' });
    expect(connection.state).toBeNull();
    expect(heard).toEqual([]);
    const asked = connection.ask({ do: 'undo' });
    says({ answer: 2, error: 'reload the page' });
    await expect(asked).rejects.toThrow('reload the page');
  }
);

test('a request is answered, refused, or ends with the kernel', async () => {
  const { connection, says } = kernel();
  const first = connection.ask({ do: 'redo' });
  const second = connection.ask({ do: 'redo' });
  const third = connection.ask({ do: 'redo' });
  says({ answer: 3, error: 'there is nothing to redo' });
  says({ answer: 2, result: {} });
  says({ answer: 77, result: {} });
  await expect(first).resolves.toEqual({ answer: 2, result: {} });
  await expect(second).rejects.toThrow(Refused);
  connection.dispose();
  await expect(third).rejects.toThrow('The kernel has ended.');
  await expect(connection.ask({ do: 'redo' })).rejects.toThrow(Refused);
});

test('notices and progress are passed on', () => {
  const { connection, says } = kernel();
  const heard: unknown[] = [];
  connection.noticed.connect((_, notice) => heard.push(notice));
  connection.progressed.connect((_, progress) => heard.push(progress));
  says({ notice: { id: 'n' } });
  says({ progress: { id: 'p' } });
  expect(heard).toEqual([{ id: 'n' }, { id: 'p' }]);
});

test('nothing is sent later than the person expects it', async () => {
  const { connection, sent, itself } = kernel();
  itself.connectionStatus = 'connecting';
  await expect(connection.ask({ do: 'undo' })).rejects.toThrow(Refused);
  expect(sent.length).toBe(2);
});
