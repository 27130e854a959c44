"""A user lays links to another's files in the own workspace, and waits for the service, which may be root.

Each attack is tried with the guards on, where it must do no harm, and with all of them off, where it must: else it
would be no attack. There are two guards: a child becomes the workspace's owner, and Landlock keeps it in there. Where
all users have one owner, only the second helps; where the system has no Landlock, only the first.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.town import Town, town_in
from tests.sessions.helpers import make_session
from wasm_kernel import create_snapshot
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces import homes, landlock
from wasm_kernel.hub.workspaces.homes import Homes

_WITHOUT = {
    "landlock": "landlock.is_available = lambda: False",
    "owner": "os.setresuid = os.setresgid = os.setgroups = lambda *ids: None",
}
ANN, BOB = 23451, 23452  # nobody's numbers
pytestmark = pytest.mark.skipif(not landlock.is_available(), reason="this system has no Landlock")


class Scene:
    """Ann, who attacks, and Bob, whose files must stay as they are."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.ann, self.bob = town.settle("ann", "bob")
        self.mine, self.his = town.root(self.ann), town.root(self.bob)
        self.old = make_session(self.mine, 1000, {"a": b"mine"})
        self.state = self.mine / ".wasm-kernel"
        self.state.mkdir()
        make_session(self.his, 1000, {"secret.txt": b"bob's"})
        for number in range(3):
            make_session(self.his, number, {"b": b"x"})
        victim = make_session(self.his, 1, {"c": b"y"})
        for _ in range(3):
            create_snapshot(victim, self.his)
        (self.his / ".wasm-kernel" / "new").mkdir()
        (self.his / ".wasm-kernel" / "new" / f"{victim}.12345678").mkdir()

    def give(self, ann: int, bob: int) -> None:
        """Let the homes belong to users of the system."""
        if os.geteuid() == 0:
            for root, owner in ((self.mine, ann), (self.his, bob)):
                for path in (root.parent, *root.parent.rglob("*")):
                    os.chown(path, owner, owner, follow_symlinks=False)

    def bobs(self) -> dict[str, bytes]:
        """All that Bob has."""
        found = (p for p in self.his.rglob("*") if not p.name.endswith((".sqlite-wal", ".sqlite-shm")))
        return {str(p): p.read_bytes() if p.is_file() else b"" for p in found}


def link_state(scene: Scene) -> None:
    scene.state.rmdir()
    scene.state.symlink_to(scene.his / ".wasm-kernel")


def link_packages(scene: Scene) -> None:
    """Whatever is there and belongs to no session of hers is swept: all of Bob's sessions."""
    (scene.state / "packages").symlink_to(scene.his)


def link_history(scene: Scene) -> None:
    (scene.state / "history").symlink_to("../../../" + scene.bob + "/ws")


def link_new(scene: Scene) -> None:
    (scene.state / "new").symlink_to(scene.his)


def link_trash(scene: Scene) -> None:
    (scene.state / "trash").symlink_to(scene.his)


def link_snapshots(scene: Scene) -> None:
    (scene.state / "snapshots").symlink_to(scene.his / ".wasm-kernel/snapshots")


def link_manifests(scene: Scene) -> None:
    (scene.state / "snapshots").mkdir()
    (scene.state / "snapshots/manifests").symlink_to(scene.his / ".wasm-kernel/snapshots/manifests")


ATTACKS = [link_state, link_packages, link_history, link_new, link_trash, link_snapshots, link_manifests]


def work(scene: Scene, place: Homes) -> list[str]:
    """All the service does in Ann's workspace; what stood in its way."""
    service, _ = scene.town.service(
        [scene.ann],
        {"max_age": "1d", "warn_before": "1ms", "snapshot_max_per_session": 1},
        workplace=place,
    )
    problems = []
    for _ in range(2):
        run = asyncio.run(service.prune("schedule"))
        problems += [*run.users[scene.ann].errors.values(), run.users[scene.ann].left_alone]
    user = HubUser(scene.ann)
    stamp = ""
    if (scene.mine / scene.old / ".metadata.json").exists():
        info = (scene.mine / scene.old / ".metadata.json").stat()
        stamp = f"{info.st_ino}-{info.st_mtime_ns}"
    for job in ("thin", "tell", "remove"):
        arguments = {
            "thin": {"policy": {"max_per_session": 1}},
            "tell": {"notices": [{"id": "1", "text": "gotcha"}]},
            "remove": {"decisions": [[scene.old, "asked for", 1, stamp]]},
        }
        problems.append(asyncio.run(place.do(user, job, archive=job == "remove", **arguments[job])).get("problem", ""))
    return [problem for problem in problems if problem]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town_in(tmp_path_factory.mktemp("town")) as town:
        for folder in (town.folder, *town.folder.parents):  # its users are to reach their homes
            if folder != Path("/tmp") and folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp"):
                folder.chmod(folder.stat().st_mode | 0o055)
        yield town


@pytest.fixture(scope="module")
def weak_homes(town: Town) -> Iterator[Callable[..., Homes]]:
    """Homes whose worker lacks guards."""
    made: dict[tuple[str, ...], Homes] = {}

    def make(*without: str) -> Homes:
        if without not in made:
            lines = "; ".join(
                [
                    "import os",
                    "from wasm_kernel.hub.workspaces import confined_worker, landlock",
                    *map(_WITHOUT.get, without),
                ]
            )  # type: ignore[arg-type]
            before, homes._WORKER = homes._WORKER, ("-c", lines + "; confined_worker.main()")  # type: ignore[assignment]
            place = made[without] = Homes(town.template, archive_folder=str(town.archives), allow_unconfined=True)
            asyncio.run(place.do(HubUser("nobody"), "look"))  # it has its worker now
            homes._WORKER = before
        return made[without]

    yield make
    for place in made.values():
        place.close()


@pytest.mark.parametrize("attack", ATTACKS)
def test_another_users_files_stay_as_they_are(town: Town, attack: Callable[[Scene], None]) -> None:
    scene = Scene(town)
    attack(scene)
    scene.give(ANN, ANN)
    before = scene.bobs()
    assert work(scene, town.homes)  # something was in the way, and is told
    assert scene.bobs() == before


@pytest.mark.parametrize("attack", ATTACKS)
def test_these_are_attacks(town: Town, weak_homes: Callable[..., Homes], attack: Callable[[Scene], None]) -> None:
    scene = Scene(town)
    attack(scene)
    before = scene.bobs()
    work(scene, weak_homes("landlock", "owner"))
    assert scene.bobs() != before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
@pytest.mark.parametrize("guard", ["landlock", "owner"])
def test_one_guard_is_enough_if_users_have_owners_of_their_own(
    town: Town, weak_homes: Callable[..., Homes], guard: str
) -> None:
    for attack in (link_packages, link_state):
        scene = Scene(town)
        attack(scene)
        scene.give(ANN, BOB)
        before = scene.bobs()
        work(scene, weak_homes(guard))
        assert scene.bobs() == before


def test_a_session_that_is_a_link_is_left_alone(town: Town) -> None:
    scene = Scene(town)
    his = next(p.name for p in scene.his.iterdir() if not p.name.startswith("."))
    (scene.mine / his).symlink_to(scene.his / his)
    before = scene.bobs()
    service, _ = town.service([scene.ann], {"max_age": "0s"})
    run = asyncio.run(service.prune("me"))
    assert run.users[scene.ann].skipped == (his,)
    asyncio.run(service.delete_sessions("me", {scene.ann: [his]}))
    assert scene.bobs() == before
    assert (scene.mine / his).is_symlink()


def test_what_a_link_points_to_is_not_archived(town: Town, tmp_path: Path) -> None:
    from wasm_kernel import import_session

    scene = Scene(town)
    secret = tmp_path / "secret.txt"
    secret.write_text("root's")
    (scene.mine / scene.old / "s").symlink_to(secret)
    (scene.mine / scene.old / "folder").symlink_to(scene.his)
    scene.give(ANN, BOB)
    service, _ = town.service([scene.ann])
    run = asyncio.run(service.archive("me", {scene.ann: [scene.old]}))
    assert run.users[scene.ann].archived, run.users[scene.ann].errors
    again = import_session(town.archives / scene.ann / f"{scene.old}.tar.zst", tmp_path / "again")
    assert {p.name for p in (tmp_path / "again" / again).iterdir()} == {"a", ".metadata.json"}


def test_metadata_that_is_a_link_is_not_read(town: Town) -> None:
    scene = Scene(town)
    his = next(p for p in scene.his.iterdir() if not p.name.startswith("."))
    metadata = scene.mine / scene.old / ".metadata.json"
    metadata.unlink()
    metadata.symlink_to(his / ".metadata.json")
    (row,) = town.do(scene.ann, "look")["sessions"]
    assert row["problem"] == "corrupted_metadata"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
def test_a_child_is_the_user_and_reaches_nothing_else(town: Town, weak_homes: Callable[..., Homes]) -> None:
    (ann,) = town.settle("ann")
    os.chown(town.root(ann), ANN, ANN)
    spy = (
        "import os; from wasm_kernel.hub.workspaces import jobs, confined_worker; os.setgroups([4, 24]);"
        "\ndef look(root):\n"
        "    found = {'ids': [*os.getresuid(), *os.getresgid(), *os.getgroups()], 'reached': []}\n"
        "    for path in ('/etc/passwd', '/etc/hostname', os.__file__):\n"
        "        try: open(path, 'rb').close(); found['reached'].append(path)\n"
        "        except OSError: pass\n"
        "    return found\n"
        "jobs.JOBS['look'] = look\n"
        "confined_worker.main()"
    )
    before, homes._WORKER = homes._WORKER, ("-c", spy)  # type: ignore[assignment]
    place = Homes(town.template)
    try:
        found = asyncio.run(place.do(HubUser(ann), "look"))
    finally:
        homes._WORKER = before
        place.close()
    assert found["ids"] == [ANN] * 6
    assert found["reached"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
def test_without_landlock_only_an_owner_of_that_name_will_do(town: Town) -> None:
    scene = Scene(town)
    scene.give(ANN, ANN)
    before, homes._WORKER = (
        homes._WORKER,
        (
            "-c",
            f"import os; from wasm_kernel.hub.workspaces import confined_worker, landlock; {_WITHOUT['landlock']}; confined_worker.main()",
        ),  # type: ignore[assignment]
    )
    place = Homes(town.template)
    try:
        found = asyncio.run(place.do(HubUser(scene.ann), "look"))
        assert "there is no Landlock here" in found["problem"]
    finally:
        homes._WORKER = before
        place.close()


def test_answers_are_not_believed(town: Town) -> None:
    """A child of the user's, or the user's own server, may say anything."""
    from datetime import UTC, datetime

    from wasm_kernel.hub.workspaces.checked_answers import BadAnswer, user_census

    good = town.do(Scene(town).ann, "look")
    now, user = datetime.now(UTC), HubUser("ann")
    assert len(user_census(user, now, json.loads(json.dumps(good))).sessions) == 1
    for field, value in {
        "session_id": "../../etc",
        "size_bytes": -1,
        "execution_count": True,
        "updated_at": "soon",
        "title": ["x"],
        "stamp": [1, "2"],
        "snapshot_count": 1 << 70,
    }.items():
        bad = json.loads(json.dumps(good))
        bad["sessions"][0][field] = value
        with pytest.raises(BadAnswer):
            user_census(user, now, bad)
    for bad in ({"sessions": {}}, {"sessions": [1]}, {"snapshot_bytes": "1"}, {"root": 1}, {"problem": []}):
        with pytest.raises(BadAnswer):
            user_census(user, now, bad)
    long = json.loads(json.dumps(good))
    long["sessions"][0]["title"] = "x" * 100_000
    assert len(user_census(user, now, long).sessions[0].title) == 300
