"""Plots that need scripts, each complete in itself.

The host shows such an output in a frame without network, where it finds neither what an earlier output loaded nor what
is on the net. So plotly and bokeh bring their script with every plot.
"""


def plotly(module):
    """Every kind of notebook gets the figure with plotly.js inside."""
    from plotly.io._base_renderers import HtmlRenderer

    complete = HtmlRenderer(connected=False, full_html=False, global_init=False)
    for name in (
        "notebook",
        "notebook_connected",
        "plotly_mimetype",
        "jupyterlab",
        "nteract",
        "vscode",
        "colab",
        "kaggle",
    ):
        module.renderers[name] = complete
    module.renderers.default = "notebook"


def bokeh(module):
    """`show` gives a whole page with BokehJS inside; there is nothing to load beforehand."""

    def load_notebook(resources=None, verbose=False, hide_banner=False, load_timeout=5000):
        if not hide_banner:
            from bokeh import __version__

            module.publish_display_data({"text/plain": f"BokehJS {__version__} comes with each plot"})

    def show_doc(obj, state, notebook_handle=None):
        from bokeh.embed import file_html
        from bokeh.layouts import column
        from bokeh.resources import INLINE

        shown = column(*obj) if isinstance(obj, list | tuple) else obj
        module.publish_display_data({"text/html": file_html(shown, INLINE, title="")})

    module.load_notebook, module.show_doc = load_notebook, show_doc
