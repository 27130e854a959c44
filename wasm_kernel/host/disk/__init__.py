"""What a workspace root holds beside the guests' files: metadata, locks, packages, what is left of deleted sessions.

workspace_root/<session_id>/                 what the guest sees as /app
workspace_root/<session_id>/.metadata.json   hidden from the guest, as is every name that begins so
workspace_root/.wasm-kernel/locks/<id>       held (flock) while a sandbox of the session lives
workspace_root/.wasm-kernel/gate             shared while a lock is taken, exclusive while sessions are removed
workspace_root/.wasm-kernel/new/             sessions being made; who makes one holds its lock
workspace_root/.wasm-kernel/deleted/, pruned what is remembered of deleted sessions: `tombstones`
workspace_root/.wasm-kernel/packages/<id>/   what was installed for a session: `packages`
workspace_root/.wasm-kernel/trash/<bin>/     removed sessions on their way out; who deletes holds a lock on the bin
"""
