"""What goes wrong, as problem documents."""

from __future__ import annotations

import errno
import os

import pytest
from tornado import web

from wasm_kernel.host.files.folder import PathRefused
from wasm_kernel.server.problems import Problem, as_problems, document
from wasm_kernel.sessions.zip_stream import ZipTooLarge


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errno.ENOENT, 404),
        (errno.ENOTDIR, 404),
        (errno.ELOOP, 404),
        (errno.EISDIR, 409),
        (errno.EEXIST, 409),
        (errno.ENOTEMPTY, 409),
        (errno.ENAMETOOLONG, 400),
        (errno.EINVAL, 400),
        (errno.EILSEQ, 400),
        (errno.EACCES, 403),
        (errno.EPERM, 403),
        (errno.EROFS, 403),
        (errno.EFBIG, 413),
        (errno.ENOSPC, 507),
        (errno.EDQUOT, 507),
    ],
)
def test_errors_of_the_system_are_answers(error: int, status: int) -> None:
    with pytest.raises(Problem) as caught, as_problems():
        raise OSError(error, os.strerror(error), "a/b.txt")
    assert caught.value.status_code == status
    assert caught.value.detail == f"{os.strerror(error)}: 'a/b.txt'"


def test_whole_paths_of_the_server_are_not_among_them() -> None:
    with pytest.raises(Problem) as caught, as_problems():
        raise OSError(errno.ENOENT, "No such file", 7)  # a descriptor
    assert caught.value.detail == "No such file"


@pytest.mark.parametrize(("error", "status"), [(PathRefused("it leaves"), 403), (ZipTooLarge("it is too much"), 413)])
def test_refusals_are_answers(error: Exception, status: int) -> None:
    with pytest.raises(Problem) as caught, as_problems():
        raise error
    assert (caught.value.status_code, caught.value.detail) == (status, str(error))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), OSError("?"), ValueError("?"), KeyError()])
def test_other_errors_are_not_taken_for_answers(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, as_problems():
        raise error
    assert not isinstance(caught.value, Problem)


def test_a_problem_tells_all_it_knows() -> None:
    problem = Problem(413, "100% full", headers={"Retry-After": "5"}, free=0)
    assert document(413, problem) == {
        "type": "about:blank",
        "title": "Request Entity Too Large",
        "status": 413,
        "detail": "100% full",
        "free": 0,
    }
    assert problem.headers == {"Retry-After": "5"}


def test_what_is_no_answer_of_ours_is_not_told() -> None:
    secret = RuntimeError("/home/ann/.token cannot be parsed")
    assert document(500, secret)["detail"] == "Something went wrong; see the server's log."
    assert document(403, None)["detail"] == "This needs the server's token, or a login."
    assert document(404, None)["detail"] == document(404, None)["title"] == "Not Found"
    assert document(599, None) == {"type": "about:blank", "title": "Error", "status": 599, "detail": "Error"}
    assert "token cannot" not in str(document(500, secret))


def test_answers_of_the_servers_own_are_passed_on() -> None:
    assert document(400, web.HTTPError(400, "%s is wrong", "x"))["detail"] == "x is wrong"
    assert document(400, web.HTTPError(400, "100%"))["detail"] == "100%"
    assert document(405, web.HTTPError(405))["detail"] == "Method Not Allowed"
