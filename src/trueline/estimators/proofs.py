"""The warning that a result is not proven: the same class from every estimator, and one of scikit-learn's own."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..certificates.certificate import Status
from ..errors import warn_caller


class NotProvenWarning(ConvergenceWarning):
    """The result is the best found, but what its certificate shows is short of the tolerance asked for.

    Examples
    --------
    >>> import warnings, numpy as np, trueline as tl
    >>> X, y = np.array([[0.0], [1.0], [2.0], [4.0]]), [0, 1, 0, 1]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = tl.LogisticRegression(solver="gradient", max_iter=1).fit(X, y)
    >>> issubclass(caught[0].category, tl.NotProvenWarning), model.certificate_.proven
    (True, False)
    """


def warn_unproven(certificate: Any, name: str = "") -> None:
    """Warn of a certificate that proves nothing, or not as much as was asked for; a gap that was asked for is no news."""
    status = getattr(certificate, "status", None)
    if status is Status.NOT_PROVEN and getattr(certificate, "reached", False):
        return
    if status in (Status.NOT_PROVEN, Status.DEGENERATE):
        warn_caller(f"{name}: {certificate}" if name else certificate.advice or str(certificate), NotProvenWarning)
