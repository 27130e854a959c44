"""Run code you do not trust, within limits, and look at what it did.

python examples/untrusted.py
"""

import tempfile

from wasm_kernel import ExecutionPolicy, create_sandbox

PROGRAMS = {
    "honest": "import statistics\nprint('mean', statistics.mean([1, 2, 3, 10]))\nopen('report.txt', 'w').write('done')",
    "curious": "print(open('/etc/passwd').read())",
    "talkative": "while True: print('buy now! ' * 100)",
    "greedy": "x = []\nwhile True: x.append(bytearray(10_000_000))",
    "endless": "while True: pass",
    "sleepy": "import time; time.sleep(3600)",
    "hoarder": "open('fill', 'wb').write(bytes(500_000_000))",
    "online": "import urllib.request; urllib.request.urlopen('https://example.com')",
    "violent": "import os; os.abort()",
}

policy = ExecutionPolicy(
    timeout_seconds=2,
    memory_bytes=512 << 20,
    workspace_bytes=50 << 20,
    stdout_max_bytes=10_000,
    interrupt_grace_seconds=1,
)

with tempfile.TemporaryDirectory() as folder, create_sandbox(policy=policy, workspace=folder) as sandbox:
    for name, code in PROGRAMS.items():
        sandbox.reset()
        result = sandbox.execute(code)
        error = f"{result.error.name}: {result.error.value}" if result.error else ""
        said = error[:70] or result.stdout[:70].strip()
        print(f"{name:10} {result.outcome.kind:12} {result.duration_seconds:5.2f} s  {said}")
