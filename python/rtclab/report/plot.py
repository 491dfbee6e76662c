from rtclab.report.forms import Look, Plot
