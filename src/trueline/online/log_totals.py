"""Places in the array ``totals`` of a mixture for log loss."""

EXAMPLES, WEIGHT, LAST, LOSS, MISTAKES, LARGEST_WEIGHT, NORM, RESTARTS = 0, 1, 2, 3, 4, 5, 6, 7
LAST_LABEL, LAST_PREDICTION, EXCESS = 8, 9, 10
TOTALS = 12
# Step members on standardised rows: constant rates, AdaGrad, diagonal Kalman filters; the last is EG±.
CONSTANT, ADAPTIVE, DIAGONAL = 2, 2, 3
