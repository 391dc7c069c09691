"""Groups on their way to the splitter of a cross-validated estimator: given to ``fit``, or routed by scikit-learn."""

from __future__ import annotations

from typing import Any

import sklearn
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)

from ..errors import UsageError
from .parameters import Checked


class RoutesGroups(Checked):
    """Mixin before the others: ``fit(X, y, groups=g)`` and scikit-learn's metadata routing hand groups to ``cv``."""

    # The splitter asks for groups; the estimator itself has no use for them.
    __metadata_request__fit = {"groups": UNUSED}

    cv: Any

    def get_metadata_routing(self) -> Any:
        """What goes where in ``fit``, as scikit-learn asks for it."""
        router = MetadataRouter(owner=self).add_self_request(self)
        if isinstance(self.cv, str) or self.cv is None:
            return router
        mapping = MethodMapping().add(caller="fit", callee="split")
        return router.add(splitter=check_cv(self.cv), method_mapping=mapping)

    def _groups(self, groups: Any, source: bool) -> Any:
        """The groups for the splitter, refused where nothing would look at them."""
        if groups is None:
            return None
        if source:
            raise UsageError("the groups of a source are one of its columns: give group= its name", where="groups")
        if not hasattr(self.cv, "split") or not _wants_groups(self.cv):
            raise UsageError(
                f"groups goes with a splitter that keeps groups together, as cv=GroupKFold(5); cv is {self.cv!r}",
                where="groups",
            )
        if sklearn.get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", groups=groups).splitter.split.get("groups")
        return groups


def _wants_groups(splitter: Any) -> bool:
    """Whether a splitter of scikit-learn looks at groups; of a splitter of one's own nothing is known."""
    if not hasattr(splitter, "get_metadata_routing"):
        return True
    return bool(get_routing_for_object(splitter).consumes("split", ["groups"]))
