"""Time: clocks, modelled links, the recorder, traces and pictures."""
