"""What settings of different sections say of each other: Config's own checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.checks import expect
from harness.config.committed import CLUSTERS, COMMITTED_COMPUTE
from odin.arms import MIXED, Waits, arm
from odin.device.objection import device_objection
from pipelines.adapters.pins import HOST_ONLY

if TYPE_CHECKING:
    from harness.config.schema import Config


def check_arms(config: Config) -> None:
    """The arms are those of the engine, its device and the pipeline."""
    expect(
        not (config.engine.cuda and config.link.shaped),
        key="link",
        value=config.link.name,
        expected="link=none with engine.device=cuda",
        advice="Collectives between GPUs take the time that they take; no link is emulated there.",
    )
    refused = {name: reason for name in config.study.arms if (reason := device_objection(arm(name)))}
    expect(
        not (config.engine.cuda and refused),
        key="study.arms",
        value=tuple(refused),
        expected="arms that run on a device",
        advice=" ".join(f"{name}: {reason}." for name, reason in refused.items()),
    )
    expect(
        not config.engine.cuda or config.pipeline.balance in (None, "views"),
        key="pipeline.balance",
        value=config.pipeline.balance,
        expected="views with engine.device=cuda",
        advice="Views are cut by what their rows cost, which the host would have to read off the device in every step.",
    )
    expect(
        config.engine.ranks > 1 or all(arm(name).waits is not Waits.DDP for name in config.study.arms),
        key="study.arms",
        value=config.study.arms,
        expected="arms that one rank can run (engine.ranks=1)",
        advice="ddp needs a process group, which one rank does not have; use ranks=2, or leave it out: on one rank "
        "it would do what barrier does.",
    )

    alien = tuple(name for name in config.study.arms if config.pipeline.sharded and arm(name).waits not in MIXED)
    expect(
        not alien,
        key="study.arms",
        value=alien,
        expected=f"arms of mixed parallelism with pipeline={config.pipeline.name}",
        advice="Owners exchange projected rows, not gradients of a whole table; use barrier, barrier-planned, "
        "quality, throughput or predicted.",
    )
    expect(
        not config.pipeline.sharded or config.study.memory_bytes is None,
        key="memory",
        value=config.study.memory,
        expected=f"memory=none with pipeline={config.pipeline.name}",
        advice="What overlap keeps alive is known for a whole table on every rank, not for the shard of an owner.",
    )


def check_fork(config: Config) -> None:
    """A fork is driven as far as it can be."""
    fork, engine = config.pipeline.source == "fork", config.engine
    expect(
        not fork or not engine.virtual,
        key="engine.name",
        value=engine.name,
        expected="process with source=fork",
        advice="A fork's modules are those of one process; engine=process gives every rank its own.",
    )
    expect(
        not fork or engine.cuda or not (engine.padded or config.link.shaped),
        key="engine.padded, link.name",
        value=(engine.padded, config.link.name),
        expected="false and none with source=fork device=cpu",
        advice="Without a GPU stand-ins take the place of the fork's kernels, and their times say nothing of it; "
        "write padded=false link=none to check what it computes.",
    )
    expect(
        not (fork and engine.cuda) or config.pipeline.name not in HOST_ONLY,
        key="engine.device",
        value=engine.device,
        expected=f"cpu with source=fork pipeline={config.pipeline.name}",
        advice="On a GPU the forks of 3dgs, 2dgs, taminggs and dashgs can be driven so far.",
    )


def check_profiles(config: Config) -> None:
    """Prices, link and cluster belong together."""
    committed = config.compute.committed
    expect(
        config.engine.virtual or (not committed and config.compute.overlap_slowdown == 1),
        key="compute.name, compute.overlap_slowdown",
        value=(config.compute.name, config.compute.overlap_slowdown),
        expected="host-cpu and 1 on the process engine",
        advice="Profiles of other hardware and slowed compute need a computed clock: engine=virtual.",
    )
    expect(
        committed or not config.link.committed,
        key="link.name",
        value=config.link.name,
        expected="exposed-… or none with compute=host-cpu",
        advice=f"A committed link belongs to a committed profile: compute={COMMITTED_COMPUTE[0]}.",
    )
    expect(
        (config.link.name == "cluster") == (config.cluster.name != "local"),
        key="cluster.name, link.name",
        value=(config.cluster.name, config.link.name),
        expected="link=cluster with a cluster of GPUs, and with no other",
        advice=f"For example cluster={CLUSTERS[0]} link=cluster compute={COMMITTED_COMPUTE[0]}.",
    )
