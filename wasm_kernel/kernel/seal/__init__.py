"""What a guest shows, made harmless before a front end sees it.

Front ends trust what a running kernel sends them: HTML goes into the page as it is, scripts run with the rights of the
page, and the page controls the Jupyter server, terminals included. So everything the guest wants shown passes through
here. The rules:

* Whatever is not known to be harmless is left out, mime type by mime type (`bundles`). Plain text always stays.
* HTML and SVG pass through a sanitiser (`markup`), their style sheets apply to their own output only (`stylesheets`).
* Nothing is loaded from anywhere: a URL could leak data to the outside. Links stay links.
* What needs scripts runs in a frame of its own origin, without network (`frames`).
* Widgets are those of ipywidgets itself, their traits checked (`widgets`). Others bring scripts, and are not opened.
* Terminals get colours and simple movements, no other control sequences (`terminal`).
* TeX gets no commands that make links or styles (`tex`).

`sealed_messages.Seal` puts it together, message by message. Once the person trusts a session, it is bypassed.
"""
