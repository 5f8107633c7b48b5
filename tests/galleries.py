"""Samples of every widget, by the module of browser tests that makes them."""

from browser import (
    test_widgets_alone,
    test_widgets_blocks,
    test_widgets_curves,
    test_widgets_fleet,
    test_widgets_fusing,
    test_widgets_preemption,
    test_widgets_scheduling,
    test_widgets_slo,
    test_widgets_window,
)

GALLERIES = {
    module.__name__.rsplit("_", 1)[-1]: module.every_widget
    for module in (
        test_widgets_alone,
        test_widgets_blocks,
        test_widgets_curves,
        test_widgets_fleet,
        test_widgets_fusing,
        test_widgets_preemption,
        test_widgets_scheduling,
        test_widgets_slo,
        test_widgets_window,
    )
}
