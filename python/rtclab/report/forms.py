"""Temporary: forms of plots until the renderer lands."""
from functools import partial
from rtclab.report.bars import Bars, draw_bars
from rtclab.report.draw import Curve, Distribution, Look, Panel, Points, draw_distributions, draw_panels, draw_repeats
from rtclab.report.figure import Plot
def over_time(name,title,caption,panels,unit,range_label=""):
    return Plot(name,title,caption,len(panels),partial(draw_panels,panels,unit,""))
def distributions(name,title,caption,panels,unit):
    return Plot(name,title,caption,len(panels),partial(draw_distributions,panels,unit))
def per_repeat(name,title,caption,series,numbers,unit):
    return Plot(name,title,caption,1,partial(draw_repeats,series,numbers,unit))
def bars(name,title,caption,series,groups,unit):
    return Plot(name,title,caption,1,partial(draw_bars,series,groups,unit))
