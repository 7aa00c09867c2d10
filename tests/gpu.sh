#!/bin/sh
# Everything that needs a GPU, as one script: what torch sees, what the doctor says, then the tests marked `gpu`.
# Each test that cannot run here is skipped with its reason, and the reasons are counted in the last lines.
set -u
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$PWD"
"$PYTHON" -c "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.device_count(), 'GPU(s)')"
"$PYTHON" -c "from harness.doctor import ranks; [print(f.state.value, f.name, f.found) for f in ranks.torch_findings()]"
exec "$PYTHON" -m pytest -p no:cacheprovider -n 0 -q -rs -m gpu \
    tests/odin/test_device_gpu.py tests/render/test_gsplat_gpu.py tests/run/test_cuda_engine.py "$@"
