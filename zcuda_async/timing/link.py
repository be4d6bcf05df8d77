"""How long transfers take: link profiles and the copy engines that serve them in order."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("LINK_PROFILES", "CopyEngine", "LinkProfile", "link_profile")

_GB: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """The modelled link between host and device.

    A copy of `size` bytes occupies its direction's copy engine for ``latency_us`` microseconds plus
    ``size / bandwidth``.  Bandwidths are in GB/s, 10^9 bytes per second, and mean what large copies
    achieve, not the wire rate.  Without `d2d_gbps`, copies inside the device are not modelled.
    """

    name: str
    h2d_gbps: float
    d2h_gbps: float
    latency_us: float
    d2d_gbps: float | None = None

    def __post_init__(self) -> None:
        """Refuse rates that make no sense."""
        for field in ("h2d_gbps", "d2h_gbps", "d2d_gbps"):
            rate = getattr(self, field)
            if rate is not None and not rate > 0:
                raise ValueError(f"{field} must be above 0 GB/s, got {rate}")
        if not self.latency_us >= 0:
            raise ValueError(f"latency_us must be at least 0, got {self.latency_us}")

    def duration_ns(self, direction: str, size: int) -> int | None:
        """How long a copy of `size` bytes takes in nanoseconds; None if `direction` is not modelled."""
        rate: float | None = {"h2d": self.h2d_gbps, "d2h": self.d2h_gbps, "d2d": self.d2d_gbps}.get(direction)
        if rate is None:
            return None
        return round(self.latency_us * 1e3 + size / (rate * _GB) * 1e9)


def _profile(name: str, h2d: float, d2h: float, latency_us: float) -> LinkProfile:
    return LinkProfile(name=name, h2d_gbps=h2d, d2h_gbps=d2h, latency_us=latency_us)


LINK_PROFILES: Final[Mapping[str, LinkProfile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            # name, host to device and back in GB/s as large pinned copies reach it, microseconds per copy
            # (pcie1-x1 is for demonstrations: a copy takes about as long as a CPU takes for its bytes' kernels)
            _profile("pcie1-x1", 0.2, 0.2, 20.0),
            _profile("pcie3-x16", 12.0, 12.5, 10.0),
            _profile("pcie4-x8", 12.0, 12.5, 8.0),
            _profile("pcie4-x16", 24.0, 25.0, 8.0),
            _profile("pcie5-x16", 48.0, 50.0, 7.0),
            _profile("nvlink-c2c", 370.0, 290.0, 4.0),
        )
    }
)
"""The built-in profiles: round numbers of the size that published bandwidth tests report."""


def link_profile(link: LinkProfile | str) -> LinkProfile:
    """The profile itself, or the built-in one of that name; ValueError if there is none."""
    if isinstance(link, LinkProfile):
        return link
    if link not in LINK_PROFILES:
        raise ValueError(
            f"no link profile is named {link!r}; choose one of {', '.join(LINK_PROFILES)}, or pass a LinkProfile"
        )
    return LINK_PROFILES[link]


class CopyEngine:
    """One direction of a link: serves copies one after another, in the order in which they ask.

    Times are modelled, so an engine is just the instant at which it is free again: a copy that asks while
    the engine is busy starts when the one before it ends, however late the event loop hears of that.
    """

    __slots__ = ("_free_at_ns", "_profile", "direction")

    def __init__(self, profile: LinkProfile, direction: str) -> None:
        self._profile = profile
        self.direction = direction
        self._free_at_ns = 0

    def reserve(self, now_ns: int, size: int) -> tuple[int, int]:
        """Take the next free time for `size` bytes; returns when the copy starts and ends, in nanoseconds."""
        duration = self._profile.duration_ns(self.direction, size)
        assert duration is not None, "an engine exists only for a modelled direction"
        start = max(now_ns, self._free_at_ns)
        self._free_at_ns = start + duration
        return start, self._free_at_ns

    def extend(self, until_ns: int) -> None:
        """Keep the engine busy until `until_ns`: the real copy took longer than the modelled one."""
        self._free_at_ns = max(self._free_at_ns, until_ns)


def copy_engines(profile: LinkProfile | None) -> dict[str, CopyEngine]:
    """A device's copy engines by direction; none without a link profile."""
    if profile is None:
        return {}
    return {
        direction: CopyEngine(profile, direction)
        for direction in ("h2d", "d2h", "d2d")
        if profile.duration_ns(direction, 0) is not None
    }
