"""What is made of a claim: where it lies beside the estimate, its bar and the tolerance."""

from matplotlib import pyplot

CASES = (
    ("agrees", 0.25, 0.9, "C2"),
    ("disagrees", 0.25, 3.4, "C3"),
    ("undecided: the bar is wider than the tolerance", 2.6, 1.2, "C1"),
)
"""A word, the bar and the claim in units of the tolerance, and a colour."""

axes = pyplot.subplots(figsize=(7, 2.8))[1]
for row, (word, bar, claim, colour) in enumerate(CASES):
    axes.barh(row, 2 * (bar + 1), left=-bar - 1, height=0.3, color="0.9", label=None if row else "tolerance and bar")
    axes.errorbar(0, row, xerr=bar, fmt="o", color="black", capsize=4, label=None if row else "estimate and its bar")
    axes.plot(claim, row, "D", color=colour, label=None if row else "claim")
    axes.text(-3.6, row - 0.28, word, color=colour, va="center", fontsize=9)
axes.set(xlim=(-3.8, 4.2), ylim=(2.5, -0.6), yticks=(), xlabel="distance from the estimate, in tolerances")
axes.legend(loc="lower right", fontsize=8)
axes.spines[["left", "top", "right"]].set_visible(False)
