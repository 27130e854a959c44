"""Start the kernel: `python -m wasm_kernel -f CONNECTION_FILE`."""

from ipykernel.kernelapp import IPKernelApp

from wasm_kernel.apps.kernel import WasmKernel

if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=WasmKernel)
