def page(a): return ""
