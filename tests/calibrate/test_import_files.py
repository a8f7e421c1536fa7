"""Do the parsers find what the files of other tools say, and say what is wrong with a file, where and what to do?"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpuplan.calibrate.imports.formats import parser_of, text_of
from gpuplan.calibrate.imports.parsed import ImportHints
from gpuplan.calibrate.imports.serving import runs_text
from gpuplan.errors import UsageError
from gpuplan.files.progress import watching
from tests.files.watcher import Kept

NCCL = """\
# nccl-tests version 2.17.6 nccl-headers=22808 nccl-library=22808
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 52 on node-a device  0 [0000:18:00] NVIDIA H200
#  Rank  1 Group  0 Pid 52 on node-a device  1 [0000:67:00] NVIDIA H200
#  Rank  2 Group  0 Pid 52 on node-a device  2 [0000:68:00] NVIDIA H200
#  Rank  3 Group  0 Pid 52 on node-a device  3 [0000:69:00] NVIDIA H200
NCCL version 2.28.8+cuda13.0
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.50    0.05    0.07       0    21.50    0.05    0.07       0
        2048           512     float     sum      -1    21.50    0.10    0.14       3    21.60    0.10    0.14       0
        4096          1024     float     sum      -1    22.50    0.18    0.27     N/A    22.70    0.18    0.27     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.16
"""
NVBANDWIDTH = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 12080
Driver Version: 570.86.15

Device 0: NVIDIA H200 (00000000:18:00)
Device 1: NVIDIA H200 (00000000:67:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.40     20.00
 1     20.00     55.20

SUM host_to_device_memcpy_ce 150.60

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     52.00     N/A

SUM device_to_host_memcpy_ce 52.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    276.07
 1    276.19       N/A
"""
MAMF = """\
** Command line:
python mamf-finder.py --m_range 1024 4096 1024 --n 4096 --k 4096 --dtype bfloat16
     1 |  253.2 TFLOPS @ 1024x4096x4096       | best:  253.2 TFLOPS @ 1024x4096x4096 (MxNxK)\r\
     2 |  601.3 TFLOPS @ 2048x4096x4096       | best:  601.3 TFLOPS @ 2048x4096x4096 (MxNxK)
     3 |  610.1(mean)  612.5(median)  640.0(max) @ 3072x4096x4096 | best: 610.1 TFLOPS
The best outcome was 612.5TFLOPS @ 3072x4096x4096 (MxNxK) (tried 3 shapes)
"""


def test_nccl_tests_out_of_place() -> None:
    found = parser_of("nccl-tests")(NCCL, "a.txt", ImportHints())
    assert [(point.probe.name, point.probe.shape, point.seconds, point.line) for point in found.points] == [
        ("all_reduce", {"size": 1024.0, "group": 4.0}, pytest.approx(20.5e-6), 15),
        ("all_reduce", {"size": 4096.0, "group": 4.0}, pytest.approx(22.5e-6), 17),
    ]
    assert found.devices == ("NVIDIA H200",)
    assert found.software == "NCCL 2.28.8+cuda13.0"
    assert found.left_out == ("a.txt:16: 3 wrong results",)


@pytest.mark.parametrize(
    "tag",
    [
        "[1,0]<stdout>:", "[1,0]<stderr>:", "Sun Nov 22 13:00:00 2026[1,0]<stdout>:", "[prterun-node-7-4711@1,0]<stdout>: ", "0: ",
        "  0: ", "12: ", "[default0]:", "[0] ",
    ],
)  # fmt: skip
def test_nccl_tests_under_a_launcher_that_tags_its_lines(tag: str) -> None:
    parse = parser_of("nccl-tests")
    tagged = "\n".join(f"{tag}{line}" for line in NCCL.splitlines())
    assert parse(tagged, "a.txt", ImportHints()) == parse(NCCL, "a.txt", ImportHints())


def test_nccl_tests_of_several_programs_and_hosts() -> None:
    uneven = NCCL + NCCL.replace("all_reduce_perf", "alltoall_perf").replace(
        "Pid 52 on node-a device  3", "Pid 52 on node-b device  3"
    )
    found = parser_of("nccl-tests")(uneven, "a.txt", ImportHints())
    assert {point.probe.name for point in found.points} == {"all_reduce"}
    assert any("2 hosts with 1 and 3 of them" in text for text in found.left_out)
    even = NCCL
    for rank in (2, 3):
        even = re.sub(rf"(Rank  {rank} .* on) node-a", r"\1 node-b", even)
    found = parser_of("nccl-tests")(even, "a.txt", ImportHints())
    assert [point.near for point in found.points] == [2, 2]
    assert not [text for text in found.left_out if "hosts" in text]


def test_nccl_tests_faults() -> None:
    parse = parser_of("nccl-tests")
    with pytest.raises(UsageError, match=r"a\.txt: it holds no table"):
        parse("nothing", "a.txt", ImportHints())
    with pytest.raises(UsageError, match=r"a\.txt:15: the row has 12 columns, its header 13"):  # in the midst, not the last row
        parse(NCCL.replace("21.50    0.05    0.07       0\n", "21.50    0.05    0.07\n", 1), "a.txt", ImportHints())
    bare = "\n".join(line for line in NCCL.splitlines() if "Rank" not in line and "nThread" not in line)
    with pytest.raises(UsageError, match="--ranks N"):
        parse(bare, "a.txt", ImportHints())
    assert parse(bare, "a.txt", ImportHints(ranks=8)).points[0].probe.shape["group"] == 8


def test_nccl_tests_that_was_stopped_in_a_row() -> None:
    parse, end = parser_of("nccl-tests"), NCCL.index("    N/A    22.70")
    for text in (NCCL[:end], NCCL[:end] + "\nslurmstepd: error: *** STEP 7.0 ON n1 CANCELLED DUE TO TIME LIMIT ***\n"):
        found = parse(text, "a.txt", ImportHints())
        assert [point.line for point in found.points] == [15]
        assert found.left_out == ("a.txt:16: 3 wrong results", "a.txt:17: the last row is cut")
    again = parse(NCCL[:end] + "\n" + NCCL, "a.txt", ImportHints())
    assert len(again.points) == 3, "a run that was stopped, and started again into the same file"


def unnamed(redop: str, root: int, algbw: float, busbw: float) -> str:
    """A table of a program that does not name itself, as those before 2.17."""
    lines = [line for line in NCCL.splitlines() if "_perf" not in line][:-5]
    return "\n".join([*lines, f"1073741824 268435456 float {redop} {root} 5000.0 {algbw} {busbw} 0 5000.0 {algbw} {busbw} 0"])


@pytest.mark.parametrize(
    ("redop", "root", "ratio", "kind"),
    [
        ("sum", -1, 1.5, "all_reduce"), ("sum", -1, 0.75, "reduce_scatter"), ("none", 0, 1.0, "all_gather"), ("none", -1, 1.0, ""),
        ("none", -1, 0.75, None), ("sum", 0, 1.0, None),
    ],
)  # fmt: skip
def test_nccl_tests_whose_program_only_the_columns_tell(redop: str, root: int, ratio: float, kind: str | None) -> None:
    found = parser_of("nccl-tests")(unnamed(redop, root, 214.75, 214.75 * ratio), "a.txt", ImportHints())
    assert [point.probe.name for point in found.points] == ([] if kind is None else [kind])
    if kind is None:
        assert "put its name into the file's" in found.left_out[0]
    named = parser_of("nccl-tests")(unnamed(redop, root, 214.75, 214.75 * ratio), "alltoall.txt", ImportHints())
    assert named.points[0].probe.name == "all_to_all"
    echoed = parser_of("nccl-tests")(
        "+ mpirun -np 4 ./build/all_gather_perf -b 1G\n" + unnamed(redop, root, 9, 9), "a", ImportHints()
    )
    assert echoed.points[0].probe.name == "all_gather"


def test_small_messages_of_a_program_that_larger_ones_tell_are_kept() -> None:
    large = unnamed("sum", -1, 214.75, 214.75 * 1.5)
    small = next(line for line in NCCL.splitlines() if line.split()[:1] == ["1024"])
    lines = large.splitlines()
    found = parser_of("nccl-tests")("\n".join([*lines[:-1], small, lines[-1]]), "a.txt", ImportHints())
    assert [(point.probe.name, point.probe.shape["size"]) for point in found.points] == [
        ("all_reduce", 1024),
        ("all_reduce", 2**30),
    ]
    other = lines[-1].replace("322.125", "161.06")
    found = parser_of("nccl-tests")("\n".join([*lines[:-1], small, lines[-1], other]), "a.txt", ImportHints())
    assert not found.points, "rows that tell of two programs tell of none"


def test_nccl_tests_broadcast_is_the_all_gather_that_brings_as_much() -> None:
    found = parser_of("nccl-tests")(NCCL.replace("all_reduce_perf", "broadcast_perf"), "a.txt", ImportHints())
    assert found.points[0].probe.name == "all_gather"
    assert found.points[0].probe.shape == {"size": pytest.approx(1024 * 4 / 3), "group": 4.0}


def test_nccl_tests_with_times_of_day_and_of_the_host() -> None:
    parse = parser_of("nccl-tests")
    stamped = [
        f"{line}  timestamp" if "algbw" in line else f"{line}  2026-11-22 13:00:00" if re.match(r" +\d{4} ", line) else line
        for line in NCCL.splitlines()
    ]
    assert parse("\n".join(stamped), "a.txt", ImportHints()) == parse(NCCL, "a.txt", ImportHints())
    host = parse(NCCL.replace("    time ", " cputime "), "a.txt", ImportHints())
    assert not host.points
    assert "its times are those of the host" in host.left_out[0]


def test_nccl_tests_json() -> None:
    """The keys of version 2, of a build with MPI; of others the devices hold the first of a process only."""
    ranks = [
        {"rank": rank, "group": 0, "pid": 1, "hostname": "a", "device": rank, "device_info": "NVIDIA H200"} for rank in range(4)
    ]
    body = {"time": 20.5, "alg_bw": 0.05, "bus_bw": 0.07, "nwrong": 0.0}
    results = [
        {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": body, "in_place": body},
        {"size": 2048, "count": 512, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": {**body, "nwrong": 3.0}},
        {"size": 4096, "count": 1024, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": None, "in_place": body},
    ]
    data: dict[str, Any] = {
        "version": 2, "args": ["./build/all_reduce_perf", "-g", "4"], "nccl_version": 22808,
        "config": {"nthreads": 1, "ngpus": 4, "devices": ranks}, "results": results,
    }  # fmt: skip
    parse = parser_of("nccl-tests")
    found = parse(json.dumps(data), "a.json", ImportHints())
    assert [(one.probe.name, one.probe.shape, one.seconds) for one in found.points] == [
        ("all_reduce", {"size": 1024.0, "group": 4.0}, pytest.approx(20.5e-6))
    ]
    assert (found.devices, found.software) == (("NVIDIA H200",), "NCCL 2.28.8")
    assert len(found.left_out) == 2
    one = {**data, "config": {**data["config"], "devices": ranks[:1]}}
    assert parse(json.dumps(one), "a.json", ImportHints()).points == found.points
    for wrong in ({}, {"results": []}, [1]):
        with pytest.raises(UsageError):
            parse(json.dumps(wrong), "a.json", ImportHints())


def test_nvbandwidth_takes_the_near_memory_of_each_device() -> None:
    found = parser_of("nvbandwidth")(NVBANDWIDTH, "b.txt", ImportHints())
    assert found.rates == {"host_to_device": pytest.approx(55.3e9), "device_to_host": pytest.approx(52e9)}
    assert found.devices == ("NVIDIA H200",)
    assert "device_to_device_memcpy_read_ce" in found.left_out[0]
    data = {"nvbandwidth": {"Version": "v0.8", "GPU Device List": ["0: NVIDIA H200 (00000000:18:00)"], "testcases": [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.4", "N/A"]], "sum": 55.4},
        {"name": "device_to_host_memcpy_sm", "status": "Waived"}]}}  # fmt: skip
    found = parser_of("nvbandwidth")(json.dumps(data), "b.json", ImportHints())
    assert found.rates == {"host_to_device": pytest.approx(55.4e9)}
    assert found.devices == ("NVIDIA H200",)


def test_nvbandwidth_faults() -> None:
    parse = parser_of("nvbandwidth")
    with pytest.raises(UsageError, match=r"b\.txt:13: the row does not hold 2 rates"):
        parse(NVBANDWIDTH.replace(" 0     55.40     20.00", " 0     55.40     ???"), "b.txt", ImportHints())
    with pytest.raises(UsageError, match="holds no result of host_to_device"):
        parse("Running something_else.\n", "b.txt", ImportHints())
    with pytest.raises(UsageError, match="no `nvbandwidth` with `testcases`"):
        parse("{}", "b.json", ImportHints())


def test_mamf_finder_of_both_versions() -> None:
    found = parser_of("mamf-finder")(MAMF, "m.txt", ImportHints())
    rates = {point.probe.shape["m"]: 2 * 4096 * 4096 * point.probe.shape["m"] / point.seconds / 1e12 for point in found.points}
    assert rates == {1024.0: pytest.approx(253.2), 2048.0: pytest.approx(601.3), 3072.0: pytest.approx(612.5)}
    assert {point.probe.dtype for point in found.points} == {"bf16"}
    told = parser_of("mamf-finder")("2048x2048x13312 | 707.1 TFLOPS\n", "m.txt", ImportHints(dtype="fp8"))
    assert told.points[0].probe.key() == "matmul:fp8:batch=1,k=13312,m=2048,n=2048"


def test_mamf_finder_says_its_type_and_device_in_its_head() -> None:
    # The head that the script writes, https://github.com/stas00/ml-engineering/pull/60
    head = (
        "** Command line:\n/usr/bin/python ./mamf-finder.py --m_range 0 20480 256 --output_file=out.txt\n\n"
        "** Dtype: torch.bfloat16\n\n** Platform/Device info:\n"
        "_CudaDeviceProperties(name='NVIDIA GH200 480GB', major=9, minor=0, total_memory=96768MB, multi_processor_count=132)\n\n"
        "** Critical software versions:\ntorch=2.4.0a0+f70bd71a48.nv24.06\ncuda=12.5\n\n"
    )
    row = "     1 |  512.3(mean)  515.1(median)  520.0(max) @ 1024x2048x4096       | best:  512.3(mean) TFLOPS\n"
    found = parser_of("mamf-finder")(head + row, "m.txt", ImportHints())
    assert [point.probe.dtype for point in found.points] == ["bf16"]
    assert found.devices == ("NVIDIA GH200 480GB",)
    assert found.software == "mamf-finder, torch 2.4.0a0+f70bd71a48.nv24.06"


def test_mamf_finder_faults() -> None:
    parse = parser_of("mamf-finder")
    with pytest.raises(UsageError, match="--dtype"):
        parse("  1 | 253.2 TFLOPS @ 1024x4096x4096", "m.txt", ImportHints())
    with pytest.raises(UsageError, match="holds no line"):
        parse("nothing", "m.txt", ImportHints(dtype="bf16"))
    with pytest.raises(UsageError, match=r"m\.txt:1: a shape or a rate of zero"):
        parse("  1 | 0.0 TFLOPS @ 1024x4096x4096", "m.txt", ImportHints(dtype="bf16"))


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    names = {"external": "External id", "dims": "Input Dims", "types": "Input type", "concrete": "Concrete Inputs"}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "ts": ts,
        "dur": dur,
        "tid": 1,
        "args": {names.get(k, k): v for k, v in args.items()},
    }


def trace() -> dict[str, Any]:
    bf16 = "c10::BFloat16"
    return {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "traceEvents": [
            event("cpu_op", "aten::addmm", 0, 10, external=1, dims=[[64], [32, 128], [128, 64]], types=[bf16] * 3),
            event("kernel", "gemm", 20, 8, external=1, correlation=11),
            event("kernel", "splitk_reduce", 28, 2, external=1, correlation=12),
            event("cpu_op", "aten::addmm", 30, 10, external=2, dims=[[64], [32, 128], [128, 64]], types=[bf16] * 3),
            event("kernel", "gemm", 50, 12, external=2, correlation=13),
            event("cpu_op", "aten::bmm", 60, 10, dims=[[4, 32, 16], [4, 16, 8]], types=["c10::Half"] * 2),
            event("cuda_runtime", "cudaLaunchKernel", 62, 3, correlation=14),
            event("kernel", "bmm", 80, 5, correlation=14),
            event("cpu_op", "aten::mm", 90, 10, external=4, dims=[[8, 8], [8, 8]], types=["float", "float"]),
            event("kernel", "sgemm", 95, 5, external=4, correlation=15),
            event("cpu_op", "aten::_scaled_dot_product_flash_attention", 100, 10, external=5,
                  dims=[[2, 8, 256, 64], [2, 2, 256, 64], [2, 2, 256, 64]], types=[bf16] * 3, concrete=["", "", "", "0.", "True"]),
            event("kernel", "flash_fwd", 105, 7, external=5, correlation=16),
            event("user_annotation", "step", 0, 200),
        ],
    }  # fmt: skip


def test_torch_traces_tie_kernels_to_operators(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace()).encode()))
    found = parser_of("torch-trace")(text_of(path), path.name, ImportHints())
    assert {point.probe.key(): point.seconds for point in found.points} == {
        "matmul:bf16:batch=1,k=128,m=32,n=64": pytest.approx(11e-6),
        "matmul:fp16:batch=4,k=16,m=32,n=8": pytest.approx(5e-6),
        "prefill:bf16:heads=8,k_dim=64,kv_heads=2,kv_len=256,q_len=256,sequences=2,v_dim=64,window=0": pytest.approx(7e-6),
    }
    assert found.devices == ("NVIDIA H200",)
    assert found.left_out == (
        "trace.json.gz: 1 x aten::mm of float, which may have run in tf32 (say --dtype fp32 or --dtype tf32)",
    )


def test_a_trace_tells_how_much_of_it_is_read() -> None:
    kept = Kept()
    with watching(kept):
        parser_of("torch-trace")(json.dumps(trace()), "t.json", ImportHints())
    kernels = sum(one["cat"] == "kernel" for one in trace()["traceEvents"])
    assert kept.done["kernels of the trace"] == [(at, kernels) for at in range(kernels)]
    assert kept.ended == ["kernels of the trace", "matmuls and attentions of t.json"]


def test_32_bit_floats_are_taken_once_somebody_says_what_multiplied_them() -> None:
    parse = parser_of("torch-trace")
    floats = json.loads(json.dumps(trace()).replace("c10::BFloat16", "float").replace("c10::Half", "float"))
    with pytest.raises(UsageError, match="say --dtype fp32 or --dtype tf32"):
        parse(json.dumps(floats), "t.json", ImportHints())
    assert {point.probe.dtype for point in parse(json.dumps(floats), "t.json", ImportHints(dtype="tf32")).points} == {"tf32"}
    none = {"traceEvents": [one for one in floats["traceEvents"] if not one["name"].startswith("aten::")]}
    with pytest.raises(UsageError, match="none of its operators is a matmul"):
        parse(json.dumps(none), "t.json", ImportHints())


def test_torch_trace_faults(tmp_path: Path) -> None:
    parse = parser_of("torch-trace")
    with pytest.raises(UsageError, match="no `traceEvents`"):
        parse("{}", "t.json", ImportHints())
    without = {"traceEvents": [one for one in trace()["traceEvents"] if one["cat"] != "kernel"]}
    with pytest.raises(UsageError, match=r"ProfilerActivity\.CUDA"):
        parse(json.dumps(without), "t.json", ImportHints())
    shapeless = json.loads(json.dumps(trace()).replace("Input Dims", "Nothing"))
    with pytest.raises(UsageError, match="record_shapes=True"):
        parse(json.dumps(shapeless), "t.json", ImportHints())
    with pytest.raises(UsageError, match=r"t\.json:1: it is no JSON"):
        parse('{"traceEvents": [', "t.json", ImportHints())
    broken = tmp_path / "half.json.gz"
    broken.write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(UsageError, match="cannot read"):
        text_of(broken)


SERVED = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 100,
    "request_rate": "inf", "max_concurrency": 16,
    "duration": 50.0, "completed": 100, "total_input_tokens": 102400, "total_output_tokens": 12800, "request_throughput": 2.0,
    "output_throughput": 256.0, "total_token_throughput": 2304.0, "mean_ttft_ms": 80.5, "mean_tpot_ms": 12.5, "mean_itl_ms": 12.4,
}  # fmt: skip


def test_serving_benchmarks_become_rows() -> None:
    given = ImportHints(accelerator="h100-sxm-80gb", count=2, tp=2, weights="fp8")
    row = parser_of("vllm")(json.dumps(SERVED), "v.json", given).runs[0]
    assert row["run"] == {"mode": "server", "concurrency": 16, "input_len": 1024, "output_len": 128, "tp": 2, "weights": "fp8"}
    assert row["measured"]["output_tokens_per_s_per_accelerator"] == 128.0
    assert row["measured"]["ttft_ms"] == 80.5
    assert row["hardware"] == {"accelerator": "h100-sxm-80gb", "count": 2}
    batches = "\n".join(
        json.dumps({"run_name": "a", "batch_size": size, "input_len": 256, "output_len": 32, "prefill_latency": 0.02,
                    "prefill_throughput": 12800.0, "median_decode_latency": 0.01, "median_decode_throughput": 100.0 * size,
                    "total_latency": 0.34, "model_path": "llama-3.1-8b"})
        for size in (1, 8)
    )  # fmt: skip
    rows = parser_of("sglang")(batches, "s.jsonl", ImportHints(accelerator="h100-sxm-80gb")).runs
    assert [row["run"]["batch"] for row in rows] == [1, 8]
    assert rows[1]["measured"]["tpot_ms"] == 10.0
    latency = parser_of("vllm")(
        '{"avg_latency": 1.5, "latencies": [1.5]}', "l.json", ImportHints(accelerator="t4", model="opt-125m")
    ).runs[0]
    assert latency["measured"] == {"latency_ms": 1500.0}
    assert "nobody said it" in latency["note"]
    offline = {
        "elapsed_time": 10.0,
        "num_requests": 100,
        "total_num_tokens": 50000,
        "requests_per_second": 10.0,
        "tokens_per_second": 5000,
    }
    assert (
        parser_of("vllm")(json.dumps(offline), "o.json", ImportHints(accelerator="t4", model="opt-125m")).runs[0]["measured"][
            "total_tokens_per_s"
        ]
        == 5000
    )


def test_a_run_at_a_rate_says_how_many_requests_were_there_at_once() -> None:
    # One of the runs that https://github.com/datacrunch-research/h200-benchmarks published: SGLang 0.4, Llama 3.3 70B.
    told = {
        "backend": "sglang", "dataset_name": "random", "request_rate": 1.0, "max_concurrency": None, "total_input_tokens": 152612,
        "total_output_tokens": 160347, "mean_e2e_latency_ms": 7840.616, "median_ttft_ms": 85.745, "median_itl_ms": 13.639,
        "output_throughput": 537.414, "duration": 298.368, "completed": 300,
    }  # fmt: skip
    given = ImportHints(accelerator="h200-sxm-141gb", count=4)
    with pytest.raises(UsageError, match=r"(?s)which model ran.*--model"):
        parser_of("sglang")(json.dumps(told), "s.jsonl", given)
    row = parser_of("sglang")(json.dumps(told), "s.jsonl", given.replaced(model="llama-3.3-70b")).runs[0]
    assert row["model"]["id"] == "llama-3.3-70b"
    assert row["run"]["concurrency"] == 8, "300 / 298.4 s x 7.84 s"
    assert row["run"]["request_rate"] == 1.0
    parted = {key: value for key, value in told.items() if "e2e" not in key} | {"mean_ttft_ms": 90.0, "mean_tpot_ms": 14.5}
    row = parser_of("sglang")(json.dumps(parted), "s.jsonl", given.replaced(model="llama-3.3-70b")).runs[0]
    assert row["run"]["concurrency"] == 8, "0.09 s and 533 further tokens of 14.5 ms each"


def test_serving_faults() -> None:
    with pytest.raises(UsageError, match="--accelerator"):
        parser_of("vllm")(json.dumps(SERVED), "v.json", ImportHints())
    with pytest.raises(UsageError, match="no throughput or latency"):
        parser_of("sglang")('{"a": 1}', "v.json", ImportHints(accelerator="t4"))
    with pytest.raises(UsageError, match=r"v\.json:2: the line is no JSON"):
        parser_of("vllm")(json.dumps(SERVED) + '\n{"backend":\n', "v.json", ImportHints(accelerator="t4"))


GENAI_PERF = {
    "time_to_first_token": {"unit": "ms", "avg": 60.0, "p50": 55.0}, "inter_token_latency": {"unit": "us", "avg": 8100.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 952.5}, "request_throughput": {"unit": "requests/sec", "avg": 3.7},
    "input_sequence_length": {"unit": "tokens", "avg": 1024.2}, "output_sequence_length": {"unit": "tokens", "avg": 256.0},
    "input_config": {"model": ["meta-llama/Llama-3.1-8B"], "perf_analyzer": {"stimulus": {"concurrency": 8}}},
}  # fmt: skip
AIPERF = """\
Metric,avg,min,max,p99
Time to First Token (ms),60.00,40,90,88
Inter Token Latency (ms),8.10,7.9,9,8.9
"Output Sequence Length (tokens)",256.00,256,256,256
Input Sequence Length (tokens),"1,024.20",1024,1025,1025

Metric,Value
Output Token Throughput (tokens/sec),952.50
Request Throughput (requests/sec),3.70
"""


def test_clients_of_any_engine_become_rows() -> None:
    given = ImportHints(accelerator="h100-sxm-80gb", engine="vllm")
    row = parser_of("genai-perf")(json.dumps(GENAI_PERF), "g.json", given).runs[0]
    assert row["engine"] == "vllm"
    assert row["model"]["id"] == "meta-llama/Llama-3.1-8B"
    assert row["run"] == {"mode": "server", "input_len": 1024, "output_len": 256, "concurrency": 8, "tp": 1}
    assert row["measured"] == {
        "ttft_ms": 60.0, "tpot_ms": 8.1, "output_tokens_per_s": 952.5, "requests_per_s": 3.7,
        "output_tokens_per_s_per_accelerator": 952.5,
    }  # fmt: skip
    other = parser_of("aiperf")(AIPERF, "a.csv", given.replaced(model="meta-llama/Llama-3.1-8B", concurrency=8)).runs[0]
    assert (other["run"], other["measured"]) == (row["run"], row["measured"])


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (json.dumps(GENAI_PERF), {"engine": None}, "which engine answered"),
        (json.dumps(GENAI_PERF), {"accelerator": None}, "on which accelerator"),
        (AIPERF, {}, "how many requests were in flight"),
        (AIPERF, {"concurrency": 8}, "which model ran"),
        ("{}", {}, "no throughput or latency"),
        ("", {}, "no throughput or latency"),
        ('{"a": ', {}, "no JSON"),
        ("Metric,avg\nTime to First Token (ms),N/A\n", {}, "no throughput or latency"),
    ],
)
def test_faults_of_clients(text: str, more: dict[str, Any], said: str) -> None:
    given = ImportHints(accelerator="h100-sxm-80gb", engine="vllm").replaced(**more)
    with pytest.raises(UsageError, match=said):
        parser_of("aiperf")(text, "a.csv", given)


def test_llama_bench_becomes_rows() -> None:
    about = {"model_filename": "models/Meta-Llama-3-8B.Q4_K_M.gguf", "build_number": 4753}
    tests = [
        {**about, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 6900.0},
        {**about, "n_prompt": 0, "n_gen": 128, "n_depth": 4096, "avg_ts": 125.0},
        {**about, "n_prompt": 512, "n_gen": 128, "avg_ts": 300.0},
    ]
    given = ImportHints(accelerator="rtx-4090")
    found = parser_of("llama-bench")(json.dumps(tests), "b.json", given)
    prompt, answer = found.runs
    assert prompt["run"] == {"mode": "single-stream", "batch": 1, "input_len": 512, "output_len": 0, "weights": "q4_k_m"}
    assert prompt["measured"] == {"prompt_tokens_per_s": 6900.0}
    assert answer["run"]["input_len"] == 4096
    assert answer["measured"]["tpot_ms"] == 8.0
    assert (answer["engine"], answer["model"]["id"]) == ("llama.cpp", "Meta-Llama-3-8B")
    assert found.left_out == ("b.json:3: it times a prompt and an answer together, or nothing",)
    lines = "\n".join(json.dumps(one) for one in tests[:2])
    assert parser_of("llama-bench")(lines, "b.json", given).runs == found.runs
    with pytest.raises(UsageError, match="no `avg_ts`"):
        parser_of("llama-bench")('[{"completed": 80}]', "v.json", given)


def test_a_count_that_is_a_word_is_no_result() -> None:
    said = {"completed": "eighty", "output_throughput": 900.0, "model_id": "llama-3.1-8b"}
    with pytest.raises(UsageError, match="no throughput or latency"):
        parser_of("vllm")(json.dumps(said), "v.json", ImportHints(accelerator="h100-sxm-80gb"))


def test_rows_of_runs_replace_those_of_the_same_id_and_can_be_read(tmp_path: Path) -> None:
    from gpuplan.accuracy.rows import read_rows

    given = ImportHints(accelerator="h100-sxm-80gb", tp=1)
    first = parser_of("vllm")(json.dumps(SERVED), "v.json", given).runs
    other = parser_of("vllm")(json.dumps(SERVED), "w.json", given).runs
    path = tmp_path / "runs.yaml"
    path.write_text(runs_text(first, runs_text(other, runs_text(first, ""))))
    rows = read_rows([path])
    assert sorted(row.id for row in rows) == sorted(str(one[0]["id"]) for one in (first, other))
    assert rows[0].task == "inference"


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="did you mean `nccl-tests`"):
        parser_of("nccl-test")
