"""A model fitted to a whole table, served for prediction: the parts of a learner that the service asks for, without learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..model.linear import LinearModel


class Fitted:
    """A LinearModel that answers as a learner does, and never changes."""

    kind = "linear"
    examples = 0

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self.coef, self.intercept = model.coef, model.intercept
        self.probabilistic = model.link in ("logistic", "softmax")

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Numbers: values, P(second class), or one probability or score a class."""
        if not self.model.classes:
            made = np.asarray(self.model.predict(X))
        elif self.probabilistic:
            made = self.model.probabilities(X)
            made = made[:, 1] if len(self.model.classes) == 2 else made
        else:
            made = self.model.score(X)
        return made.ravel() if made.ndim == 2 and made.shape[1] == 1 else made

    def certificate(self) -> Certificate:
        """What the fit proved."""
        return self.model.certificate or Certificate()

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return self.model.to_state()
