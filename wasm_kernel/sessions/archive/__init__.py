"""Sessions as single files: `exporting` writes one to a .zip or a .tar.zst, `importing` makes a new session from such a
file. `formats` lists the formats, `zip_format` and `tar_format` write and read one each, and `members` says what an
archive contains. An archive comes from elsewhere, so nothing in it is trusted."""

from wasm_kernel.errors import BadArchive
from wasm_kernel.sessions.archive.exporting import export_session, sweep_parts, write_archive
from wasm_kernel.sessions.archive.importing import import_session

__all__ = ["BadArchive", "export_session", "import_session", "sweep_parts", "write_archive"]
