"""The typed configuration. Constructing one is checking it: a Config that exists can be run.

The defaults here are those of `harness/conf` (a test compares the two).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from harness.config.checks import expect, expect_at_least, expect_one_of
from harness.config.committed import CLUSTERS, COMMITTED_COMPUTE, FITTED_LINKS
from harness.config.crosschecks import check_arms, check_fork, check_profiles
from harness.config.faults import check_faults
from harness.config.pipeline import Pipeline
from harness.config.sizes import read_bytes
from odin.arms import arm, require_effect
from odin.errors import InputError

PROCEDURAL_SCENES = ("city", "falsifier", "orbit", "rooms")
DEVICES = ("cpu", "cuda")
REDUCTIONS = ("native", "ordered")  # `odin.comm.transport.Reduction`, which needs torch
PAPER_COUPLING = 0.2  # limit of sas=paper where none is given
MOST_RANKS = 16
MOST_SPREAD = 64  # GPUs, on one node or several, and threads of the virtual engine
MOST_STEPS = 10_000_000  # far above any run; keeps view counts inside the int32 of a plan


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is trained on.

    path:         a folder in COLMAP layout, or a procedural scene ("rooms", "rooms?views=16&width=64")
    images:       image folder inside the scene, e.g. images_4
    test_every:   every n-th view in name order is held out; 0 trains on all views
    skip_missing: leave out views whose image file is missing, instead of refusing the scene
    """

    path: str = "rooms"
    images: str = "images"
    test_every: int = 8
    skip_missing: bool = False

    def __post_init__(self) -> None:
        expect(
            self.path != "",
            key="scene",
            value=self.path,
            expected="a folder or a scene name",
            advice=f"Give scene=PATH, or one of {', '.join(PROCEDURAL_SCENES)}.",
        )
        expect(
            self.images != "" and (not self.procedural or self.images == "images"),
            key="scene.images",
            value=self.images,
            expected="images, which is all that this scene has" if self.procedural else "a folder name",
            advice="Leave images= out, or name a captured scene with scene=PATH.",
        )
        expect(
            self.test_every == 0 or self.test_every >= 2,
            key="scene.test_every",
            value=self.test_every,
            expected="0 (train on all views) or a whole number of at least 2",
            advice="The field's convention is test_every=8; 1 would leave no view to train on.",
        )

    @property
    def procedural(self) -> bool:
        """The scene is generated here and needs no files. The name wins over a folder of that name."""
        return self.path.partition("?")[0] in PROCEDURAL_SCENES


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What runs the ranks.

    name:           process (one per rank, wall clock) or virtual (one thread per rank, computed time)
    device:         cpu (gloo, our renderer) or cuda (NCCL, gsplat, one GPU per rank)
    ranks:          W, one process or thread each
    views_per_unit: B_gpu, views that a rank trains in a step
    timeout_s:      a rank that has not answered for so long is taken for dead
    padded:         phases are padded to nominal times, so that ranks that share cores do not slow each other
    padding_reserve: what the padding factor that the warm-up asks for is multiplied with; ratios do not depend on it.
                    More than 1, because the warm-up has the initial model: densification makes transfers grow faster
                    than compute, and gloo sums them on the cores that compute
    realtime:       padded ranks take a real-time policy where the user may (as root), so that other work does not make
                    their phases late; what was taken is in the record
    reduce:         how gradients are summed over ranks: `native`, the backend's all-reduce, or `ordered`, in rank
                    order, without which exact arms of more than two ranks are not compared bit for bit (D§5)
    """

    name: str = "process"
    device: str = "cpu"
    ranks: int = 2
    views_per_unit: int = 2
    timeout_s: float = 120.0
    padded: bool = True
    padding_reserve: float = 1.4
    realtime: bool = True
    reduce: str = "native"

    def __post_init__(self) -> None:
        expect_one_of(self.name, ("process", "virtual"), key="engine.name")
        each = "a thread of this machine" if self.virtual else "a GPU" if self.cuda else "a process of this machine"
        most = MOST_RANKS if self.device == "cpu" and not self.virtual else MOST_SPREAD
        expect_at_least(1, key="engine.ranks", value=self.ranks, most=most, advice=f"Each rank is {each}.")
        expect_one_of(self.reduce, REDUCTIONS, key="engine.reduce")
        expect(
            not self.virtual or (self.reduce == "ordered" and not self.padded),
            key="engine.reduce, engine.padded",
            value=(self.reduce, self.padded),
            expected="ordered and false on the virtual engine",
            advice="Its sums are in rank order and its clock is computed, so there is nothing to pad.",
        )
        expect_one_of(self.device, DEVICES, key="engine.device")
        plain = self.name == "process" and self.reduce == "native" and not self.padded
        expect(
            not self.cuda or plain,
            key="engine.name, engine.reduce, engine.padded",
            value=(self.name, self.reduce, self.padded),
            expected="process, native and false with engine.device=cuda",
            advice="A GPU is neither shared nor emulated, so nothing is padded, and NCCL forms its own sums; "
            "write device=cuda padded=false link=none.",
        )
        views = self.views_per_unit
        expect_at_least(1, key="engine.views_per_unit", value=views, most=1024, advice="The default is 2.")
        expect(
            isfinite(self.timeout_s) and self.timeout_s > 0,
            key="engine.timeout_s",
            value=self.timeout_s,
            expected="a number of seconds above 0",
            advice="The default is timeout_s=120.",
        )
        expect(
            1.0 <= self.padding_reserve <= 10.0,
            key="engine.padding_reserve",
            value=self.padding_reserve,
            expected="a number from 1 to 10",
            advice="1 is what the warm-up asks for; the default, 1.4, leaves room for a model that grows.",
        )

    @property
    def virtual(self) -> bool:
        """Ranks are threads of one process and time is computed."""
        return self.name == "virtual"

    @property
    def cuda(self) -> bool:
        """Every rank computes on a GPU of its own."""
        return self.device == "cuda"

    @property
    def global_batch(self) -> int:
        """B, views that all ranks together train in a step."""
        return self.ranks * self.views_per_unit


@dataclass(frozen=True, kw_only=True)
class Compute:
    """What a rank computes on, for the prices of phases.

    name:             host-cpu (timed on this machine) or a committed profile of a GPU, for the virtual engine
    scale_rows:       what one row of the scene stands for, where a small scene stands for a large one
    scale_pixels:     the same of a pixel
    overlap_slowdown: how much longer compute takes while a transfer is in flight, on the virtual clock
    """

    name: str = "host-cpu"
    scale_rows: float = 1.0
    scale_pixels: float = 1.0
    overlap_slowdown: float = 1.0

    def __post_init__(self) -> None:
        expect_one_of(self.name, ("host-cpu", *COMMITTED_COMPUTE), key="compute.name")
        for key in ("scale_rows", "scale_pixels"):
            value = getattr(self, key)
            expect(
                1 <= value <= 1e6 and (self.committed or value == 1),
                key=f"compute.{key}",
                value=value,
                expected="a number from 1 to 1000000, and 1 with compute=host-cpu",
                advice="Prices of this machine are of the scene as it is; a committed profile can stand for more.",
            )
        expect(
            1 <= self.overlap_slowdown <= 2,
            key="compute.overlap_slowdown",
            value=self.overlap_slowdown,
            expected="a number from 1 to 2",
            advice="The matrix uses 1.05, with 1.0 and 1.1 beside it.",
        )

    @property
    def committed(self) -> bool:
        """Prices come from a file, not from this machine."""
        return self.name in COMMITTED_COMPUTE


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where the ranks run; `local` is this machine, the others are committed profiles for the virtual engine."""

    name: str = "local"

    def __post_init__(self) -> None:
        expect_one_of(self.name, ("local", *CLUSTERS), key="cluster.name")


@dataclass(frozen=True, kw_only=True)
class Link:
    """The emulated link between ranks (D§7).

    name:          exposed-…, solved for a share; none; cluster, the link of the cluster's profile; or a committed fit
                   to Fig. 1 (fig1-…)
    exposed_share: transfer / step of a one-bucket barrier that the bandwidth is solved for; 0 where it is not solved
    alpha_s:       latency of one hop of a solved link, seconds
    """

    name: str = "exposed-295"
    exposed_share: float = 0.295
    alpha_s: float = 0.0

    def __post_init__(self) -> None:
        expect(
            0 <= self.exposed_share < 1,
            key="link.exposed_share",
            value=self.exposed_share,
            expected="a number from 0 (unshaped) to below 1",
            advice="Fig. 1 of the paper has 0.229, 0.295 and 0.323.",
        )
        # A number never loses its label, so the label has to be true.
        if self.committed and self.exposed_share == 0:
            name = self.name
        else:
            name = f"exposed-{round(1000 * self.exposed_share):03d}" if self.exposed_share > 0 else "none"
        expect(
            self.name == name,
            key="link.name",
            value=self.name,
            expected=f"{name}, because link.exposed_share is {self.exposed_share}",
            advice=f"Choose a link by name (link=exposed-295), or give link.name={name} as well.",
        )
        expect(
            0 <= self.alpha_s < 1 and (self.exposed_share > 0 or self.alpha_s == 0),
            key="link.alpha_s",
            value=self.alpha_s,
            expected="a number of seconds from 0 to below 1, and 0 on an unshaped or committed link",
            advice="The default is alpha_s=0.",
        )

    @property
    def shaped(self) -> bool:
        """Collectives are delayed to the emulated link's time."""
        return self.exposed_share > 0 or self.committed

    @property
    def committed(self) -> bool:
        """Its constants come from a file."""
        return self.name == "cluster" or self.name in FITTED_LINKS


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How long every cell trains, in optimizer steps."""

    steps: int = 150

    def __post_init__(self) -> None:
        expect_at_least(
            1,
            key="scale.steps",
            value=self.steps,
            most=MOST_STEPS,
            advice="The headline runs steps=150.",
        )


@dataclass(frozen=True, kw_only=True)
class Study:
    """Which arms are compared, and how.

    arms:     names from `odin.arms`, in the order they run; with switches, as in quality:groups=off
    mirrored: run the arms a second time in reverse, which cancels drift and gives the noise floor
    regions:  K of the planner's partition (lowered where the scene has too few views)
    protocol: how quality is measured, `inria` or `nerf` (`harness.measure.quality`); one table has one protocol
    sas:      which windows stay blocking beside those of structural events (D§4): "default" by the memory budget,
              "paper" also above the coupling limit
    coupling_limit: of sas=paper: largest coupling that a candidate window may have; null is 0.2
    memory:   what overlap may keep alive beyond a synchronized trainer's state, e.g. 200MB; "none" is no limit
    """

    name: str = "headline"
    arms: tuple[str, ...] = ("barrier", "barrier-planned", "quality", "predicted")
    mirrored: bool = True
    regions: int = 4
    protocol: str = "inria"
    sas: str = "default"
    coupling_limit: float | None = None
    memory: str = "none"

    def __post_init__(self) -> None:
        expect_one_of(self.name, ("headline",), key="study.name")
        expect_one_of(self.protocol, ("inria", "nerf"), key="study.protocol")
        for name in self.arms:
            arm(name)
            require_effect(name)
        expect(
            0 < len(self.arms) == len(set(self.arms)),
            key="study.arms",
            value=self.arms,
            expected="at least one arm, none of them twice",
            advice="mirrored=true already runs every arm twice; for example arms=[barrier,quality].",
        )
        expect_at_least(1, key="study.regions", value=self.regions, most=4096, advice="The paper's K is 4.")
        expect_one_of(self.sas, ("default", "paper"), key="sas")
        expect(
            self.coupling_limit is None or 0 <= self.coupling_limit <= 1,
            key="coupling_limit",
            value=self.coupling_limit,
            expected="a number from 0 to 1",
            advice="It is a Jaccard similarity; 1 blocks nothing.",
        )
        if self.coupling_limit is not None and self.sas != "paper":
            raise InputError("coupling_limit is only used by sas=paper. Add sas=paper, or leave coupling_limit out.")
        read_bytes("memory", self.memory)

    @property
    def largest_coupling(self) -> float | None:
        """Coupling above which a window stays blocking; None: none is too strong."""
        if self.sas != "paper":
            return None
        return PAPER_COUPLING if self.coupling_limit is None else self.coupling_limit

    @property
    def memory_bytes(self) -> int | None:
        """Bytes that overlap may keep alive; None: no limit."""
        return read_bytes("memory", self.memory)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a study needs to run.

    seed:   drives the epoch permutation, tie-breaks, the initial subsample, split noise and phase jitter
    out:    folder for records; no number depends on it
    faults: that the run is to suffer (`harness.config.faults`); none unless the harness itself is examined
    """

    scene: Scene = field(default_factory=Scene)
    pipeline: Pipeline = field(default_factory=Pipeline)
    engine: Engine = field(default_factory=Engine)
    compute: Compute = field(default_factory=Compute)
    cluster: Cluster = field(default_factory=Cluster)
    link: Link = field(default_factory=Link)
    scale: Scale = field(default_factory=Scale)
    study: Study = field(default_factory=Study)
    seed: int = 0
    out: str = "runs"
    faults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect_at_least(0, key="seed", value=self.seed, most=2**32 - 1, advice="The default is seed=0.")
        expect(
            self.out != "",
            key="out",
            value=self.out,
            expected="a folder",
            advice="The default is out=runs.",
        )
        check_arms(self)
        check_fork(self)
        check_profiles(self)
        cells = len(self.study.arms) * (2 if self.study.mirrored else 1)
        check_faults(
            self.faults, ranks=self.engine.ranks, steps=self.scale.steps, cells=cells, virtual=self.engine.virtual
        )

    @property
    def image_budget(self) -> int:
        """Views that every cell trains: steps × B. All arms of a pair have the same budget."""
        return self.scale.steps * self.engine.global_batch
