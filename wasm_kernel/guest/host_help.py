"""The help of the magics that the host carries out. Guest and host both load it."""

HELP = {
    "session": """The session behind this notebook: its files, limits, snapshots and permissions.

    %session                       show what it is and how much it uses
    %session help                  list these commands
    %session info                  the same; `s = %session info` gives a dict
    %session list                  list all sessions
    %session files [FOLDER]        browse the files in /app (a table where widgets are not available)
    %session add PATH …            copy files or folders from the notebook's folder into /app
    %session mount [FOLDER]        show the notebook's folder, or one in it, at /data, read-only; --off ends that
    %session download PATH … [--zip]   links to files; --zip for folders, or for several files in one
    %session limits [NAME=VALUE …]   show or change limits: memory=2G timeout=60 disk=5G files=10000 output=20M
    %session watch on|off          show after each cell which files it created, changed or deleted
    %session undo [N]              undo the last cell, or the last N: variables and files
    %session redo                  redo what was undone
    %session log                   show what each cell did, and when
    %session snapshot [LABEL]      take a snapshot: variables and files
    %session snapshots             list the snapshots
    %session restore LABEL|ID      go back to a snapshot
    %session diff A [B]            compare two snapshots, or one with the last cell
    %session fork [--notebook NAME] [LABEL|ID]   start a new session from here, or from a snapshot
    %session reset                 start a fresh interpreter; files stay
    %session new                   give this notebook a new, empty session
    %session attach ID             continue in another session
    %session rename NAME           give the session a title
    %session delete [ID] --yes     delete a session and its files
    %session export FILE           write the session to FILE (.zip or .tar.zst) next to the notebook
    %session trust on|off          show outputs unsealed, scripts included; off: sealed, the default
    %session allow [HOST …]        let cells connect to hosts, such as api.github.com or *.data.gov.uk:443; or list them
    %session deny HOST … | --all   take hosts back
    %session cluster [ADDRESS]     run workers on a Dask cluster, such as tcp://scheduler:8786; off: here again
    %session secret [NAME [HOST]]   ask for a secret that the host puts into requests to one host; or list them
    %session grants                list what this session's cells may do beyond the session
    %session revoke NAME           take back one of these permissions

    The host runs these commands, and only those written in the cell itself. A command that replaces
    the interpreter (undo, redo, restore, reset, new, attach, mount) must be the cell's last line.
    A command that reaches beyond this session (add, mount, trust, attach, delete, export, prune, cluster, or
    a list of sessions handed to code) needs your permission: you are asked once per session.
    """,
    "prune": """Delete sessions that have not been used for a while; without --yes, only list them.

    %prune [--older-than 24h] [--max-sessions N] [--dry-run] [--yes]

    Never deletes this notebook's session, or one that is in use.
    """,
    "pip": """Install pure-Python packages into this session. The host fetches them.

    %pip install NAME[==VERSION] …     %pip list     %pip uninstall NAME …
    """,
}
