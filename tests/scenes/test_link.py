"""Tracks from inconsistent models against a brute-force reading of both files."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scenes.colmap.link import link_tracks
from harness.scenes.colmap.model import Model, ModelImage, Observations, PointTable

IMAGE_IDS = st.sampled_from([[1, 2, 3], [5, 900, 7], [4_000_000_000, 3, 50], [-1, 3, 5]])
POINT_IDS = (2, 30, 31, 700)
OBSERVED = st.lists(st.lists(st.sampled_from([-1, 5, *POINT_IDS]), max_size=5), min_size=3, max_size=3)
TRACK = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6)


def make_model(ids: list[int], observed: list[list[int]], tracks: list[list[tuple[int, int]]]) -> Model:
    known = [*ids, 77_777]
    elements = np.array([(known[image], index) for track in tracks for image, index in track], np.int64)
    elements = elements.reshape(-1, 2)
    images = tuple(
        ModelImage(image_id=key, camera_id=1, name=f"{key}.png", quaternion=(1, 0, 0, 0), translation=(0, 0, 0))
        for key in ids
    )
    return Model(
        folder=Path("model"),
        cameras=(),
        images=images,
        observations=Observations(
            offsets=np.cumsum([0, *map(len, observed)]),
            point_ids=np.array([point for row in observed for point in row], np.int64),
        ),
        points=PointTable(
            ids=np.array(POINT_IDS, np.int64),
            xyz=np.zeros((4, 3)),
            rgb=np.zeros((4, 3), np.uint8),
            offsets=np.cumsum([0, *map(len, tracks)]),
            image_ids=elements[:, 0].copy(),
            observation=elements[:, 1].copy(),
        ),
    )


@settings(max_examples=150, deadline=None)
@given(IMAGE_IDS, OBSERVED, st.lists(TRACK, min_size=4, max_size=4))
def test_a_track_element_counts_when_the_image_lists_the_point(
    ids: list[int], observed: list[list[int]], tracks: list[list[tuple[int, int]]]
) -> None:
    # One observation that agrees, since a model without any is refused as a whole (tested in test_checks).
    observed[0].append(POINT_IDS[0])
    tracks[0].append((0, len(observed[0]) - 1))
    rank = np.array([2, 0, 1], np.int32)
    linked = link_tracks(make_model(ids, observed, tracks), rank)
    expected = [
        [rank[image] for image, _ in track if image < 3 and point in observed[image]]
        for point, track in zip(POINT_IDS, tracks, strict=True)
    ]
    offsets, views = linked.tracks.offsets, linked.tracks.views
    assert [list(views[a:b]) for a, b in itertools.pairwise(offsets)] == expected
    everything = [element for track in tracks for element in track]
    assert linked.unregistered == sum(image == 3 for image, _ in everything)
    assert linked.unlisted == len(everything) - linked.unregistered - sum(map(len, expected))


def test_stripped_observation_lists_leave_the_decision_to_the_points() -> None:
    tracks: list[list[tuple[int, int]]] = [[(0, 4), (1, 2), (3, 0)], [], [(2, 0), (2, 1)], []]
    linked = link_tracks(make_model([1, 2, 3], [[], [], []], tracks), np.arange(3, dtype=np.int32))
    assert list(linked.tracks.views) == [0, 1, 2, 2]
    assert (linked.unregistered, linked.unlisted) == (1, 0)


def test_lists_that_say_no_point_was_found_leave_no_tracks() -> None:
    tracks: list[list[tuple[int, int]]] = [[(0, 0), (1, 0)], [], [], []]
    linked = link_tracks(make_model([1, 2, 3], [[-1], [-1], [-1]], tracks), np.arange(3, dtype=np.int32))
    assert linked.tracks.track_count == 0
    assert linked.unlisted == 2
