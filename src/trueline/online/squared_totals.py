"""Places in the array ``totals`` of a mixture for squared loss."""

EXAMPLES, WEIGHT, LOW, HIGH, ORIGIN, LAST, MEAN, SQUARES = 0, 1, 2, 3, 4, 5, 6, 7
GAP_STATIC, GAP_SHARE, GAP_TOP = 8, 9, 10
LOSS, FIRST_LOSS, OVERSHOOT, CAPPED_EXCESS, CAPPED, RESTARTS, LARGEST_WEIGHT, NORM = 11, 12, 13, 14, 15, 16, 17, 18
LAST_LABEL, LAST_PREDICTION, MARGIN_LOW, MARGIN_HIGH, MARGIN_WORST = 19, 20, 21, 22, 23
TOTALS = 24
# Step members on standardised rows: normalised with falling steps, AdaGrad, constant fractions of ‖z‖²; the rest are
# diagonal filters.
NORMALISED, ADAPTIVE, CONSTANT = 1, 3, 3
LEVELS = 4  # static, fixed share, recent, pool (a file from before the pool has three)
