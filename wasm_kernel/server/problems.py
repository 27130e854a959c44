"""Errors as problem documents (RFC 9457): one sentence for a person, and the status for a program."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from tornado import web

from wasm_kernel.errors import PathRefused
from wasm_kernel.sessions.zip_stream import ZipTooLarge

MEDIA_TYPE = "application/problem+json"

_BY_ERRNO = {
    errno.ENOENT: 404,
    errno.ENOTDIR: 404,
    errno.ELOOP: 404,
    errno.EISDIR: 409,
    errno.EEXIST: 409,
    errno.ENOTEMPTY: 409,
    errno.ENAMETOOLONG: 400,
    errno.EINVAL: 400,  # a folder moved into itself
    errno.EILSEQ: 400,  # macOS file systems take only UTF-8
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.EROFS: 403,
    errno.EFBIG: 413,
    errno.ENOSPC: 507,
    errno.EDQUOT: 507,
}


class Problem(web.HTTPError):
    """An error as an answer. ``more`` goes into the document beside title, status and detail."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, detail)
        self.detail, self.headers, self.more = detail, headers or {}, more


@contextlib.contextmanager
def as_problems() -> Iterator[None]:
    """Turn errors of working with a session's files into answers."""
    try:
        yield
    except PathRefused as e:
        raise Problem(403, str(e)) from None
    except ZipTooLarge as e:
        raise Problem(413, str(e)) from None
    except OSError as e:
        status = _BY_ERRNO.get(e.errno or 0)
        if status is None:
            raise
        named = f": {e.filename!r}" if isinstance(e.filename, str) else ""
        raise Problem(status, f"{e.strerror or e}{named}") from None


def document(status: int, error: BaseException | None) -> dict[str, Any]:
    """The document for an error. Unexpected errors are not disclosed."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    detail, more = title, {}
    if isinstance(error, Problem):
        detail, more = error.detail, error.more
    elif isinstance(error, web.HTTPError) and error.log_message:
        detail = error.log_message % error.args if error.args else error.log_message.replace("%%", "%")
    elif status == 403:
        detail = "This needs the server's token, or a login."
    elif status == 500:
        detail = "Something went wrong; see the server's log."
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
