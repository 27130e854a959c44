import type { TranslationBundle } from '@jupyterlab/translation';
import { editIcon, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { sealedIcon, trustedIcon } from './icons';
import type { Usage } from './protocol';
import type { Sessions } from './sessions';
import { size } from './words';

/** In the status bar: memory and disk against their limits, and whether outputs are trusted. */
export class UsageItem extends ReactWidget {
  constructor(
    private readonly sessions: Sessions,
    private readonly open: () => void,
    private readonly changeLimits: () => void,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-WasmKernel-usage');
  }

  protected render(): JSX.Element {
    return (
      <UseSignal signal={this.sessions.changed}>{() => this.view()}</UseSignal>
    );
  }

  private view(): JSX.Element | null {
    const state = this.sessions.connection()?.state;
    if (!state) {
      return null;
    }
    const { trans } = this;
    const Icon = state.trusted ? trustedIcon.react : sealedIcon.react;
    const trust = state.trusted ? trans.__('Trusted') : trans.__('Sealed');
    const memory = `${trans.__('Memory')} ${text(state.memory)}`;
    const disk = `${trans.__('Disk')} ${text(state.disk)}`;
    const said = [trust, memory, disk];
    return (
      <>
        <button
          type="button"
          className="jp-WasmKernel-usageButton"
          title={trans.__(
            '%1. What this notebook uses, and how much it may. Click for its timeline.',
            said.join(', ')
          )}
          aria-label={said.join(', ')}
          onClick={this.open}
        >
          <Icon tag="span" width="14px" height="14px" />
          <span className="jp-WasmKernel-words">{trust}</span>
          <Meter text={memory} usage={state.memory} />
          <Meter text={disk} usage={state.disk} />
        </button>
        <button
          type="button"
          className="jp-WasmKernel-limitsButton"
          title={trans.__('Change the limits')}
          aria-label={trans.__('Change the limits')}
          onClick={this.changeLimits}
        >
          <editIcon.react tag="span" width="14px" height="14px" />
        </button>
      </>
    );
  }
}

function text({ used, limit }: Usage): string {
  return `${used === null ? '?' : size(used)} / ${size(limit)}`;
}

/** A text and a bar; a narrow status bar has room for one of them. */
function Meter(props: { text: string; usage: Usage }): JSX.Element {
  const { used, limit } = props.usage;
  const share = used === null ? 1 : Math.min(1, used / limit);
  return (
    <span className="jp-WasmKernel-meter">
      <span className="jp-WasmKernel-words">{props.text}</span>
      <meter min={0} max={1} high={0.8} optimum={0} value={share} aria-hidden />
    </span>
  );
}
