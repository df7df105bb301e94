"""The tabletop's model as MJCF text: original geometry, primitive shapes, no files.

World frame: table top at z = 0, x away from the robot towards the scene camera, y to the
basket; metres, kilograms, seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BASKET_CENTER = (0.02, 0.29)
BASKET_INNER_HALF = 0.085
BASKET_WALL_HEIGHT = 0.12
SHELF_CENTER = (0.02, -0.30)
SHELF_HALF = (0.13, 0.09)
SHELF_TOP = 0.12
FINGER_TRAVEL = 0.04
"""Each finger opens this far from the middle: an 80 mm gripper."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One graspable object.

    Attributes:
        half_extents: Half sizes of its upright bounding box; its frame is the box centre.
        radius: Of the circle around it seen from above.
        geoms: MJCF of its geometry, without the body around it.
    """

    category: str
    half_extents: tuple[float, float, float]
    radius: float
    mass: float
    geoms: str


def _ring(radius: float, *, half_height: float, thickness: float, panels: int, rgba: str) -> str:
    """A wall of flat panels around the z axis."""
    half_width = radius * math.tan(math.pi / panels) + thickness
    parts = []
    for index in range(panels):
        angle = 2 * math.pi * index / panels
        x, y = radius * math.cos(angle), radius * math.sin(angle)
        parts.append(
            f'<geom type="box" size="{thickness:.4f} {half_width:.4f} {half_height:.4f}" '
            f'pos="{x:.5f} {y:.5f} 0.0005" euler="0 0 {math.degrees(angle):.3f}" rgba="{rgba}"/>'
        )
    return "".join(parts)


def _vessel(radius: float, *, half_height: float, panels: int, rgba: str) -> str:
    """A round open container: a ring with a floor."""
    thickness, foot = 0.002, 0.001
    floor = (
        f'<geom type="cylinder" size="{radius:.4f} 0.003" '
        f'pos="0 0 {0.003 - half_height:.4f}" rgba="{rgba}"/>'
    )
    # The wall ends above the floor's underside, so that only the floor touches what it stands on.
    wall = _ring(
        radius - thickness,
        half_height=half_height - foot / 2,
        thickness=thickness,
        panels=panels,
        rgba=rgba,
    )
    return f"{floor}{wall}"


def _box(half_extents: Sequence[float], rgba: str) -> str:
    size = " ".join(f"{half:.4f}" for half in half_extents)
    return f'<geom type="box" size="{size}" rgba="{rgba}"/>'


def _bottle() -> str:
    return (
        '<geom type="cylinder" size="0.027 0.052" pos="0 0 -0.023" rgba="0.20 0.55 0.25 1"/>'
        '<geom type="cylinder" size="0.013 0.020" pos="0 0 0.049" rgba="0.20 0.55 0.25 1"/>'
        '<geom type="cylinder" size="0.015 0.003" pos="0 0 0.072" rgba="0.90 0.90 0.85 1"/>'
    )


SHAPES = (
    Shape(
        "can",
        (0.033, 0.033, 0.050),
        0.033,
        0.35,
        '<geom type="cylinder" size="0.033 0.050" rgba="0.80 0.15 0.12 1"/>',
    ),
    Shape(
        "box",
        (0.048, 0.029, 0.062),
        0.057,
        0.30,
        _box((0.048, 0.029, 0.062), "0.95 0.75 0.15 1"),
    ),
    Shape("bottle", (0.027, 0.027, 0.075), 0.027, 0.40, _bottle()),
    Shape(
        "slab",
        (0.046, 0.030, 0.009),
        0.055,
        0.22,
        _box((0.046, 0.030, 0.009), "0.85 0.85 0.95 1"),
    ),
    Shape(
        "bowl",
        (0.060, 0.060, 0.024),
        0.060,
        0.20,
        _vessel(0.060, half_height=0.024, panels=16, rgba="0.15 0.35 0.80 1"),
    ),
    Shape(
        "cup",
        (0.034, 0.034, 0.045),
        0.034,
        0.16,
        _vessel(0.034, half_height=0.045, panels=12, rgba="0.55 0.25 0.65 1"),
    ),
)

SHAPE_BY_CATEGORY = {shape.category: shape for shape in SHAPES}


def _objects() -> str:
    parts = []
    for shape in SHAPES:
        name = f"{shape.category}_1"
        inertia = " ".join(
            f"{shape.mass / 3 * (sum(h * h for h in shape.half_extents) - half * half):.7f}"
            for half in shape.half_extents
        )
        parts.append(
            f'<body name="{name}" pos="0 0 {shape.half_extents[2]}">'
            f'<freejoint name="{name}"/>'
            f'<inertial pos="0 0 0" mass="{shape.mass}" diaginertia="{inertia}"/>'
            f"{shape.geoms}</body>"
        )
    return "".join(parts)


def _basket() -> str:
    x, y = BASKET_CENTER
    half, wall, height = BASKET_INNER_HALF, 0.004, BASKET_WALL_HEIGHT
    outer = half + 2 * wall
    rgba = "0.55 0.38 0.22 1"
    sides = "".join(
        f'<geom type="box" size="{sx:.4f} {sy:.4f} {height / 2:.4f}" '
        f'pos="{px:.4f} {py:.4f} {height / 2:.4f}" rgba="{rgba}"/>'
        for sx, sy, px, py in (
            (wall, outer, half + wall, 0.0),
            (wall, outer, -half - wall, 0.0),
            (half, wall, 0.0, half + wall),
            (half, wall, 0.0, -half - wall),
        )
    )
    floor = f'<geom type="box" size="{half} {half} 0.002" pos="0 0 0.002" rgba="{rgba}"/>'
    return f'<body name="basket_1" pos="{x} {y} 0">{floor}{sides}</body>'


def _shelf() -> str:
    x, y = SHELF_CENTER
    half_x, half_y = SHELF_HALF
    board, rgba = 0.006, "0.75 0.70 0.62 1"
    legs = "".join(
        f'<geom type="box" size="{board} {half_y} {(SHELF_TOP - 2 * board) / 2:.4f}" '
        f'pos="{side * (half_x - board):.4f} 0 {(SHELF_TOP - 2 * board) / 2:.4f}" rgba="{rgba}"/>'
        for side in (-1, 1)
    )
    return (
        f'<body name="shelf_1" pos="{x} {y} 0">{legs}'
        f'<geom name="shelf_board" type="box" size="{half_x} {half_y} {board}" '
        f'pos="0 0 {SHELF_TOP - board:.4f}" rgba="{rgba}"/></body>'
    )


def _finger(side: str, direction: int) -> str:
    """A finger whose inner pad surface is at y = 0 when closed."""
    return (
        f'<body name="{side}_finger" pos="0 0 0">'
        f'<joint name="{side}_finger" type="slide" axis="0 {direction} 0" '
        f'range="0 {FINGER_TRAVEL}" damping="4" armature="0.05"/>'
        f'<geom class="pad" pos="0 {direction * 0.006:.4f} -0.011"/></body>'
    )


def _gantry() -> str:
    slides = "".join(
        f'<joint name="gantry_{axis}" type="slide" axis="{vector}" range="{low} {high}" '
        'damping="8"/>'
        for axis, vector, low, high in (
            ("x", "1 0 0", -0.40, 0.40),
            ("y", "0 1 0", -0.50, 0.50),
            ("z", "0 0 1", 0.0, 0.60),
        )
    )
    # One body, so the hinges turn in order: yaw about world z, then pitch, then roll.
    hinges = "".join(
        f'<joint name="gantry_{name}" type="hinge" axis="{vector}" range="{-limit} {limit}" '
        'damping="0.4" armature="0.01"/>'
        for name, vector, limit in (
            ("yaw", "0 0 1", 360),
            ("pitch", "0 1 0", 70),
            ("roll", "1 0 0", 70),
        )
    )
    return (
        f'<body name="gantry" pos="0 0 0" gravcomp="1">{slides}{hinges}'
        '<inertial pos="0 0 0.06" mass="1.0" diaginertia="0.004 0.004 0.003"/>'
        '<body name="hand" quat="0 1 0 0" gravcomp="1">'
        '<site name="grip" size="0.004" rgba="0 0 0 0"/>'
        '<camera name="wrist" pos="0.07 0 -0.075" xyaxes="0 -1 0 -0.94 0 -0.34" fovy="75"/>'
        '<geom type="box" size="0.022 0.075 0.020" pos="0 0 -0.051" rgba="0.90 0.90 0.92 1"/>'
        '<geom type="cylinder" size="0.026 0.05" pos="0 0 -0.121" rgba="0.30 0.30 0.33 1"/>'
        f"{_finger('left', 1)}{_finger('right', -1)}"
        "</body></body>"
    )


def _actuators() -> str:
    slides = "".join(
        f'<position name="gantry_{axis}" joint="gantry_{axis}" kp="2500" dampratio="1" '
        f'forcerange="-40 40"/>'
        for axis in "xyz"
    )
    hinges = "".join(
        f'<position name="gantry_{name}" joint="gantry_{name}" kp="40" dampratio="1" '
        f'forcerange="-6 6"/>'
        for name in ("yaw", "pitch", "roll")
    )
    fingers = "".join(
        f'<position name="{side}_finger" joint="{side}_finger" kp="700" dampratio="1" '
        f'forcerange="-14 14"/>'
        for side in ("left", "right")
    )
    return slides + hinges + fingers


def scene_xml() -> str:
    """The whole model, the same for every task, so one compiled model serves them all.

    The robot comes first: its joints are the first eight entries of qpos and of ctrl.
    """
    return f"""
<mujoco model="tabletop">
  <compiler angle="degree" autolimits="true"/>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic" impratio="10"/>
  <visual>
    <map znear="0.01" zfar="40"/>
    <headlight ambient="0.35 0.35 0.35" diffuse="0.45 0.45 0.45" specular="0.1 0.1 0.1"/>
  </visual>
  <statistic extent="1" center="0 0 0.1"/>
  <default>
    <geom condim="4" friction="0.55 0.005 0.0002" solref="0.006 1" margin="0"/>
    <default class="pad">
      <geom type="box" size="0.010 0.006 0.020" mass="0.03" priority="1" condim="4"
            friction="0.6 0.01 0.0004" rgba="0.25 0.25 0.28 1"/>
    </default>
  </default>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.85 0.90 0.95"
             rgb2="0.55 0.60 0.65" width="64" height="64"/>
    <texture name="wood" type="2d" builtin="checker" rgb1="0.62 0.56 0.48" rgb2="0.58 0.52 0.45"
             width="128" height="128"/>
    <material name="wood" texture="wood" texrepeat="6 6" texuniform="true" reflectance="0.05"/>
  </asset>
  <worldbody>
    <light pos="0.4 -0.3 1.5" dir="-0.25 0.2 -1" directional="true" castshadow="true"
           diffuse="0.5 0.5 0.5"/>
    <camera name="agentview" pos="0.86 0 0.70" xyaxes="0 1 0 -0.60 0 0.80" fovy="46"/>
    <body name="table">
      <geom name="table" type="box" size="0.60 0.70 0.02" pos="0 0 -0.02" material="wood"/>
    </body>
    {_gantry()}
    {_basket()}
    {_shelf()}
    {_objects()}
  </worldbody>
  <contact>
    <exclude body1="left_finger" body2="right_finger"/>
    <exclude body1="hand" body2="left_finger"/>
    <exclude body1="hand" body2="right_finger"/>
  </contact>
  <actuator>{_actuators()}</actuator>
</mujoco>
"""
