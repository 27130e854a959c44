"""The kernel host: one process of a user's that forks kernels. What it has imported and mapped, they have at once.

Rules that hold here:

* **It has one thread**, no socket of zmq's and no store of wasmtime's: a fork takes only the calling thread along.
* **A kernel is its requester's.** Environment, folder, standard streams, limits, umask, signals and cgroup are those of
  whoever asked (`standing`). What cannot be handed over must be the same, or the request is refused.
* **It never waits for anybody.** Requests are read by the child that was forked for them.
* **Whoever cannot get a kernel here starts one the usual way**: no host, an old one, a refusal, a host that just died.

`launcher` and `provisioner` ask for kernels; `starting` starts a host; `host_process` is one; `child` becomes a kernel.
"""
