"""The operators' page in a real hub and a real browser: who sees it, what it shows, and what is done by it."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect

from tests.browser.test_sessions import CONTRAST
from tests.hub import proxy
from tests.hub.hub import Hub, running_hub
from tests.sessions.helpers import make_session
from wasm_kernel import create_snapshot, list_snapshots

LogIn = Callable[[str], BrowserContext]
DAY = 24.0
EVIL = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def admin(hub: Hub, browser: Browser) -> Iterator[Page]:
    """An administrator's browser, with no session of anybody's yet."""
    context = hub.log_in(browser, "admin")
    yield context.new_page()
    context.close()


def _make(hub: Hub, user: str, days: float, notebook: str, size: int = 10, **extra: str) -> str:
    path = str(hub.home(user) / f"{notebook}.ipynb")
    return make_session(hub.sessions(user), days * DAY, {"data.bin": bytes(size)}, notebook=path, **extra)


def _exists(hub: Hub, user: str, session_id: str) -> bool:
    return (hub.sessions(user) / session_id).is_dir()


def _names(page: Page) -> list[str]:
    return page.locator("tbody .name").all_inner_texts()


def test_only_operators_see_it(hub: Hub, browser: Browser, log_in: LogIn) -> None:
    _make(hub, "ann", 1, "private matters")
    paths = (
        "",
        "users",
        "policy",
        "audit",
        "warnings",
        "snapshots",
        "snapshots?user=ann",
        "snapshot?user=ann&snapshot=x",
    )
    for user, status in (("ann", 403), ("eve", 403), ("olga", 200), ("admin", 200)):
        context = log_in(user)
        page = context.new_page()
        for path in paths if status == 403 else paths[:1]:
            answer = page.goto(hub.page + path)
            assert answer is not None
            assert answer.status == status, (user, path)
            assert ("private matters" in page.content()) == (status == 200)
        token = hub.api(f"users/{user}/tokens", "POST", {"note": "tests"})["token"]
        assert context.request.get(hub.page, headers={"Authorization": f"token {token}"}).status == status
    stranger = browser.new_context()
    page = stranger.new_page()
    page.goto(hub.page)
    assert "/hub/login" in page.url
    stranger.close()


def test_sessions_are_searched_sorted_and_paged(hub: Hub, admin: Page) -> None:
    for n in range(60):
        _make(hub, "olga", n % 20, f"series-{n:02}", size=1000 * n)
    _make(hub, "olga", 2, "another", title="A report for the board")
    admin.goto(f"{hub.page}?user=olga&fresh=1")
    expect(admin.get_by_role("heading", level=1)).to_have_text("olga")
    expect(admin.locator("tbody tr")).to_have_count(50)
    admin.get_by_role("link", name="Next").click()
    expect(admin.locator("tbody tr")).to_have_count(11)
    admin.get_by_role("link", name="Size").click()
    assert _names(admin)[:2] == ["series-59.ipynb", "series-58.ipynb"]
    expect(admin.locator("tbody tr").first).to_contain_text(re.compile(r"57\.\d KB"))
    admin.get_by_role("link", name="Size").click()
    assert _names(admin)[0] in ("series-00.ipynb", "A report for the board")
    admin.get_by_label("Search").fill("SERIES-4")
    admin.get_by_role("button", name="Search").click()
    assert sorted(_names(admin)) == [f"series-{n}.ipynb" for n in range(40, 50)]
    admin.get_by_label("Search").fill("board olga")
    admin.get_by_label("Search").press("Enter")
    assert _names(admin) == ["A report for the board"]
    admin.goto(f"{hub.page}?user=olga&state=live")
    expect(admin.locator("main")).to_contain_text("No sessions match this search")
    admin.goto(f"{hub.page}?user=olga&page=999999&sort=nonsense&path=x&self=y&page=%00")
    assert _names(admin)


def test_a_policy_is_tried_and_then_carried_out(hub: Hub, admin: Page) -> None:
    old = [_make(hub, "eve", 20 + n, f"forgotten {n}", size=5000 + 20 * n) for n in range(3)]
    young = _make(hub, "eve", 1, "current")
    admin.goto(f"{hub.page}policy")
    admin.get_by_label("Longest time unused").fill("soon")
    admin.get_by_role("button", name="See what this").click()
    expect(admin.get_by_role("alert")).to_contain_text("'soon' is not a duration")
    admin.get_by_label("Longest time unused").fill("2w")
    admin.get_by_label("Users").fill("eve")
    admin.get_by_role("button", name="See what this").click()
    expect(admin.get_by_role("heading", level=2)).to_contain_text(re.compile(r"3 sessions would be deleted, 15\.\d KB"))
    assert all(_exists(hub, "eve", name) for name in (*old, young))
    with admin.expect_download() as waiting:
        admin.get_by_role("link", name="Download as CSV").click()
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text().splitlines()))
    assert {row["session_id"] for row in rows} == set(old)
    sizes = [int(row["size_bytes"]) + int(row["snapshot_bytes"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    assert _names(admin) == [f"forgotten {n}.ipynb" for n in (2, 1, 0)]  # what frees most comes first
    expect(admin.locator("tbody tr", has_text="forgotten 0")).to_contain_text("20 days")
    again = hub.sessions("eve") / old[0] / ".metadata.json"  # meanwhile, eve uses one
    again.write_text(json.dumps(json.loads(again.read_text()) | {"updated_at": "2199-01-01T00:00:00.000000Z"}))
    unseen = _make(hub, "eve", 30, "not on the page that was agreed to")
    admin.get_by_role("button", name="Prune…").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("Delete 3 sessions?")
    assert all(_exists(hub, "eve", name) for name in old)
    admin.get_by_role("button", name="Delete 3 sessions").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("2 sessions deleted")
    assert [_exists(hub, "eve", name) for name in (*old, young, unseen)] == [True, False, False, True, True]
    admin.get_by_role("link", name="Audit log").first.click()
    run = admin.locator("details.run", has=admin.locator(f'code[title="{old[1]}"]'))
    expect(run).to_have_count(1)  # one line for the run, and its sessions inside
    expect(run.locator("summary")).to_contain_text("admin")
    expect(run.locator("summary")).to_contain_text("sessions deleted: 2")
    expect(run.locator("tbody")).not_to_be_visible()
    run.locator("summary").click()
    for session_id in old[1:]:
        expect(run.locator("tbody tr", has=admin.locator(f'code[title="{session_id}"]'))).to_contain_text("eve")


def test_sessions_are_archived_and_snapshots_deleted(hub: Hub, admin: Page) -> None:
    root = hub.sessions("bob")
    kept, gone = _make(hub, "bob", 3, "kept"), _make(hub, "bob", 3, "archived")
    labels = [create_snapshot(kept, root, label=label).snapshot_id for label in (f"first {EVIL}", "second")]
    admin.goto(f"{hub.page}?user=bob&fresh=1")
    admin.get_by_role("checkbox", name="archived.ipynb").check()
    expect(admin.locator("[data-chosen]")).to_contain_text("1 selected")
    admin.get_by_role("button", name="Archive…").click()
    expect(admin.locator("main")).to_contain_text("archived.ipynb")
    admin.get_by_role("button", name="Archive and delete 1 session").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("1 session archived and deleted")
    assert not _exists(hub, "bob", gone)
    assert [path for path in (hub.archives / "bob").iterdir() if gone in path.name]
    admin.goto(f"{hub.page}?user=bob&fresh=1")
    admin.locator("tr", has_text="kept.ipynb").get_by_role("link", name="2").click()
    expect(admin.locator("tbody tr")).to_have_count(2)
    admin.locator("tr", has_text="second").get_by_role("checkbox").check()
    admin.get_by_role("button", name="Delete…").click()
    admin.get_by_role("button", name="Delete 1 snapshot").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("1 snapshot deleted")
    assert [s.snapshot_id for s in list_snapshots(root, kept)] == labels[:1]


def test_everybodys_snapshots_in_one_list(hub: Hub, admin: Page) -> None:
    made = {}
    for user, label in (("bob", f"the good one {EVIL}"), ("olga", "before lunch")):
        session_id = _make(hub, user, 3, f"snapped-{user}")
        made[user] = create_snapshot(session_id, hub.sessions(user), label=label)
    admin.goto(f"{hub.page}?fresh=1")
    admin.get_by_role("banner").get_by_role("link", name="Snapshots").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("Snapshots")
    rows = admin.locator("tbody tr")
    for word, count in (
        ("snapped", 2),
        ("LUNCH", 1),
        ("bob good", 1),
        (made["olga"].session_id[:13], 1),
        ("nowhere", 0),
    ):
        admin.get_by_label("Search").fill(word)
        admin.get_by_role("button", name="Search").click()
        expect(rows).to_have_count(count)
    expect(admin.locator("main")).to_contain_text("No snapshots match this search")
    admin.goto(f"{hub.page}snapshots?search=snapped&trigger=session_close")
    expect(rows).to_have_count(0)
    admin.goto(f"{hub.page}snapshots?search=snapped&sort=user")
    assert rows.all_inner_texts()[0].find("bob") > 0
    admin.get_by_role("link", name="the good one").click()
    expect(admin.get_by_role("heading", level=1)).to_contain_text(EVIL)
    for text in ("by hand", "bob", "snapped-bob.ipynb", made["bob"].snapshot_id):
        expect(admin.locator(".details")).to_contain_text(text)
    before = {path.name for path in hub.sessions("bob").iterdir()}
    admin.get_by_role("button", name="Create a session from this…").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("Create 1 session from this snapshot?")
    assert {path.name for path in hub.sessions("bob").iterdir()} == before, "not before it is confirmed"
    admin.get_by_role("button", name="Create 1 session").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("1 session created")
    (new,) = {path.name for path in hub.sessions("bob").iterdir()} - before
    assert (hub.sessions("bob") / new / "data.bin").read_bytes() == bytes(10)
    assert admin.request.get(f"{hub.page}snapshot?user=bob&snapshot={made['olga'].snapshot_id}").status == 404
    assert admin.request.get(f"{hub.page}snapshots?user={EVIL}").status == 404


def test_stop_and_snapshot(hub: Hub, admin: Page) -> None:
    root = hub.sessions("bob")
    session_id = _make(hub, "bob", 3, "to be stopped")
    admin.goto(f"{hub.page}?user=bob&fresh=1")
    admin.get_by_role("checkbox", name="to be stopped.ipynb").check()
    admin.get_by_role("button", name="Stop and snapshot…").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("Stop, save and delete 1 session?")
    assert _exists(hub, "bob", session_id) and not list_snapshots(root, session_id)
    admin.get_by_role("button", name="Stop, save and delete 1 session").click()
    expect(admin.get_by_role("heading", level=1)).to_have_text("1 session saved and deleted")
    (last,) = list_snapshots(root, session_id)
    assert last.trigger == "session_close" and not _exists(hub, "bob", session_id)
    admin.get_by_role("link", name=last.snapshot_id[:8]).click()
    expect(admin.locator(".details")).to_contain_text("deleted session")
    admin.goto(f"{hub.page}audit?action=stop")
    expect(admin.locator("details.run tbody").first).to_contain_text(session_id[:8])


def test_the_way_back_to_the_hub_and_out(hub: Hub, browser: Browser) -> None:
    context = hub.log_in(browser, "olga")
    page = context.new_page()
    page.goto(hub.page)
    page.get_by_role("link", name="Hub").click()
    assert urlparse(page.url).path == "/hub/home"
    page.goto(hub.page)
    page.get_by_role("link", name="Log out").click()
    page.goto(hub.page)
    assert "/hub/login" in page.url
    context.close()


def test_lists_as_csv(hub: Hub, admin: Page) -> None:
    session_id = _make(hub, "bob", 3, "=HYPERLINK(1)", title=f"=1+1{EVIL}\n")
    create_snapshot(session_id, hub.sessions("bob"), label="@first")
    for path, column in (
        ("sessions.csv?fresh=1&search=1%2B1", "title"),
        ("snapshots.csv?user=bob&search=@first", "label"),
    ):
        answer = admin.request.get(hub.page + path)
        assert (
            answer.headers["content-type"].startswith("text/csv")
            and "attachment" in answer.headers["content-disposition"]
        )
        (row,) = csv.DictReader(answer.text().splitlines())
        assert row["session_id"] == session_id and row[column].startswith("'")
    lines = admin.request.get(f"{hub.page}audit.csv?action=stop").text().splitlines()
    assert {row["result"] for row in csv.DictReader(lines)} <= {"begun", "done", "finished"}
    assert admin.request.get(f"{hub.page}policy.csv?plan=nonsense").status == 400
    eve = browser_of_eve(hub, admin)
    assert eve.request.get(f"{hub.page}sessions.csv").status == 403
    eve.close()


def browser_of_eve(hub: Hub, page: Page) -> BrowserContext:
    """Somebody who may not see the page."""
    browser = page.context.browser
    assert browser is not None
    return hub.log_in(browser, "eve")


def test_what_changes_something_needs_the_token(hub: Hub, admin: Page) -> None:
    session_id = _make(hub, "bob", 3, "wanted")
    admin.goto(f"{hub.page}?fresh=1&search=wanted")
    token = admin.locator("input[name=_xsrf]").first.input_value()
    form = {"action": "delete", "item": f"{session_id}:bob"}
    post = admin.request.post
    assert post(f"{hub.page}do", form=form).status == 403
    assert post(f"{hub.page}do", form=form | {"_xsrf": "x" + token}).status == 403
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert post(f"{hub.page}do", form=form | {"_xsrf": token}, headers=foreign).status == 403
    assert admin.request.get(f"{hub.page}do?action=delete&item={session_id}:bob&_xsrf={token}").status == 405
    for wrong in ({"action": "explode"}, {"item": "../../etc:bob"}, {"item": session_id}, {"item": f"{session_id}:"}):
        assert post(f"{hub.page}do", form=form | {"_xsrf": token} | wrong).status == 400
    assert post(f"{hub.page}do", form=form | {"_xsrf": token, "item": f"{session_id}:nobody"}).status == 400
    forgotten = {"action": "prune", "plan": "0123456789abcdef", "_xsrf": token}
    assert "try the policy once more" in post(f"{hub.page}do", form=forgotten).text()
    assert "nothing is selected" in post(f"{hub.page}confirm", form={"action": "delete", "_xsrf": token}).text()
    ours = [c for c in admin.context.cookies() if c["path"].startswith("/services/wasm-kernel-hub")]
    assert any(c["sameSite"] == "Lax" and c["httpOnly"] for c in ours)
    assert _exists(hub, "bob", session_id)
    assert post(f"{hub.page}do", form=form | {"_xsrf": token}).status == 200
    assert not _exists(hub, "bob", session_id)


def test_users_are_warned_and_it_is_shown(hub: Hub, admin: Page) -> None:
    session_id = _make(hub, "sam", 40, "homework")
    row = admin.locator("tr", has_text="homework.ipynb")
    hub.wait_until(lambda: admin.goto(f"{hub.page}warnings") and row.count(), "the page says that sam was told")
    assert (hub.sessions("sam") / ".wasm-kernel" / "notices.json").exists()
    expect(row).to_contain_text("sam")
    expect(row).to_contain_text(re.compile(r"in [67] days"))
    assert _exists(hub, "sam", session_id)


def test_names_do_nothing(hub: Hub, admin: Page) -> None:
    """Names of users' own, on every page: text, and nothing else; and nothing comes from elsewhere."""
    made = [
        _make(hub, "bob", 300, EVIL, title=""),
        _make(hub, "bob", 40, "x", title=f'"><script>window.hacked=2</script>{EVIL}\u202e\x00\n'),
        _make(
            hub, "bob", 40, "');window.hacked=3;('", title="</td></table><a href=javascript:window.hacked=4>here</a>"
        ),
    ]
    make_session(hub.sessions("bob"), 40 * DAY, notebook=["not", "text"], title={"a": EVIL}, execution_count=EVIL)
    hosts: set[str] = set()
    said: list[str] = []
    admin.on("request", lambda request: hosts.add(urlparse(request.url).netloc))
    admin.on("console", lambda message: said.append(message.text))
    admin.on("dialog", lambda dialog: said.append("a dialog"))

    def check() -> None:
        assert admin.locator("img[src=x], main script, a[href^=javascript]").count() == 0
        assert admin.evaluate("() => window.hacked") is None
        assert "\u202e" not in admin.inner_text("body")

    for path in (
        "?fresh=1&user=bob",
        f"?search={EVIL}",
        "users",
        f"?user={EVIL}",
        "snapshots?user=bob",
        "snapshots",
        "warnings",
    ):
        admin.goto(hub.page + path)
        check()
    for path in (f"policy?policy=this&max_age={EVIL}&users={EVIL}", "policy?policy=this&max_age=14d&users=bob"):
        admin.goto(hub.page + path)
        check()
    expect(admin.locator("tbody .name", has_text=EVIL).first).to_be_visible()
    admin.get_by_role("button", name="Prune…").click()
    check()
    admin.goto(f"{hub.page}?user=bob")
    admin.get_by_label("All on this page").check()
    admin.get_by_role("button", name="Delete…").click()
    check()
    expect(admin.locator("main")).to_contain_text(EVIL)
    admin.get_by_role("button", name="Delete").click()
    check()
    admin.goto(f"{hub.page}audit")
    check()
    assert not any(_exists(hub, "bob", session_id) for session_id in made)
    assert hosts == {urlparse(hub.url).netloc}
    assert not [text for text in said if "status of 40" not in text], said


def test_a_page_runs_nothing_but_its_own_script(hub: Hub, log_in: LogIn) -> None:
    """Whatever got into a page: it would not run, load or send anything, nor be shown in a frame."""
    page = log_in("admin").new_page()
    page.goto(hub.page)
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.evaluate(
        """() => {
            const add = (name, values) => document.body.append(Object.assign(document.createElement(name), values));
            add('script', {textContent: 'window.hacked = 1'});
            add('script', {src: 'data:text/javascript,window.hacked=2'});
            add('div', {innerHTML: '<img src="http://127.0.0.1:9/x" onerror="window.hacked=3">'});
            add('iframe', {src: location.href});
        }"""
    )
    expect(page.locator("iframe")).to_have_count(1)
    hub.wait_until(lambda: page.wait_for_timeout(100) or len(blocked) >= 4, "four things were blocked")
    assert all("Content Security Policy" in text for text in blocked), blocked
    assert page.evaluate("() => window.hacked") is None


@pytest.mark.parametrize(("look", "width"), [("light", 1280), ("dark", 1280), ("light", 600)])
def test_it_is_readable(hub: Hub, browser: Browser, shots: Path, look: str, width: int) -> None:
    session_id = _make(hub, "olga", 50, "A long name of a notebook that somebody wrote late at night")
    taken = create_snapshot(session_id, hub.sessions("olga"), label="before the big change")
    detail = f"snapshot?user=olga&snapshot={taken.snapshot_id}"
    context = hub.log_in(browser, "admin", color_scheme=look)
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    tried = "policy?policy=this&max_age=14d&users=olga"
    for name in ("?fresh=1", "users", "?user=olga", tried, "warnings", "audit", "snapshots", detail):
        page.goto(hub.page + name)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), name
        ratio, text = page.locator("body").evaluate(CONTRAST)
        assert ratio >= 4.5, f"{name}: {text!r} has a contrast of {ratio:.1f}"
        title = re.sub(r"\W.*", "", name.removeprefix("?user=")) or "sessions"
        if name == "audit":
            page.locator("details.run summary").first.click()
        page.screenshot(path=shots / f"hub_{title}_{look}_{width}.png")
    context.close()


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing: tens of thousands of files are made and deleted in no time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="wasm-kernel-tests-") as folder:
        yield Path(folder)


def test_ten_thousand_sessions(
    browser: Browser, shots: Path, quick_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = proxy.find()
    if commands is None:
        pytest.skip(proxy.MISSING)
    names = [f"user{n:02}" for n in range(50)]
    with running_hub(quick_folder, commands, shots / "hub_large.log", interval="") as hub:
        hub.api("users", "POST", {"usernames": names})
        for name in names:
            for n in range(200):
                make_session(hub.sessions(name), n * 5.0, notebook=f"/home/{name}/{uuid.uuid4()}.ipynb")
        context = hub.log_in(browser, "admin")
        page = context.new_page()
        took = {}

        def show(path: str, name: str) -> None:
            begun = time.monotonic()
            page.goto(hub.page + path)
            took[name] = f"{time.monotonic() - begun:.2f} s"
            assert name in ("first", "plan") or time.monotonic() - begun < 30  # 1 s where nothing else runs

        show("", "first")  # looks at them all
        expect(page.locator(".found")).to_contain_text("10,000 sessions")
        show("", "page")
        show("?sort=notebook&page=100", "sorted")
        show("?search=user49+a&sort=-size", "searched")
        show("users", "users")
        expect(page.locator("tbody tr")).to_have_count(50)
        show("policy?policy=this&max_age=20d", "plan")  # answered at once: how far it is, then the plan
        seen = set()
        while page.get_by_role("heading", level=2).count() == 0:
            with contextlib.suppress(Error):  # it shows another page just now
                seen.add(page.evaluate("() => document.querySelector('.working p')?.innerText ?? ''"))
                if ": " in "".join(seen) and not (shots / "hub_planning.png").exists():
                    page.screenshot(path=shots / "hub_planning.png")
            page.wait_for_timeout(200)
        seen.discard("")
        expect(page.get_by_role("heading", level=2)).to_contain_text("5,200 sessions would be deleted", timeout=60_000)
        assert all(re.fullmatch(r"[^:]+(: \d+ of 56)? …", text) for text in seen), seen  # whichever steps were seen
        assert len(seen) < 3 or any(" of 56" in text for text in seen), seen
        begun = time.monotonic()
        page.get_by_role("link", name="Next").click()  # the plan that was shown, not another one
        expect(page.locator(".paging").last).to_contain_text("51–100 of 5,200")
        took["next page of the plan"] = f"{time.monotonic() - begun:.2f} s"
        context.close()
    with capsys.disabled():
        print("\n10,000 sessions:", took)
