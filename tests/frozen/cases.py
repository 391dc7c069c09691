"""The cases of the frozen suite that go through the command line and the service, by table."""

from __future__ import annotations

from frozen.kinds import Case, Compare, Fit, Python, Serve, Stream
from frozen.library import LIBRARY

EVERY = "sql python c json onnx"
NEWTON = 1e-7  # solvers that stop at a certified gap: relative to the spread of predictions, or a standard error
PATH = 1e-6  # penalties that are chosen on a grid
GAP = 1e-4  # corners: a relative gap of 1e-6 settles predictions no better

_MODEL = {
    "name": "m", "target": "y", "features": {"a": "number", "b": "number", "town": {"category": ["Bern", "Basel", "Ulm"]}},
}  # fmt: skip

COMMANDS: dict[str, list[Case]] = {
    "titanic": [
        Fit("logistic", "-t survived --features passage,sex,age", tolerance=NEWTON, exports=EVERY, evaluate=True, load=True),
        Fit("lasso", "-t survived --features passage,sex,age --penalty lasso", tolerance=GAP),
        Fit("lasso at 0.01", "-t survived --features passage,sex,age --penalty lasso --alpha 0.01", tolerance=GAP),
        Fit("ridge", "-t survived --features passage,sex,age --penalty ridge", tolerance=PATH),
        Fit("squares", "-t saved --features passage,sex,age --loss squared", exports="sql c"),
        Fit("holdout", "-t survived --features sex --holdout 0.3", tolerance=NEWTON, predict=None),
        Compare("compare", "-t survived --features passage,sex,age"),
        Stream("stream", "-t survived --features passage,sex,age"),
    ],
    "ab_test": [
        Fit("logistic", "-t bought", tolerance=NEWTON, exports="sql python"),
        Fit("lasso", "-t bought --penalty lasso", tolerance=GAP),
        Fit("squares", "-t bought --loss squared"),
        Compare("compare", "-t bought"),
        Stream("stream", "-t bought"),
    ],
    "ratings": [
        Fit("squares", "-t stars", exports=EVERY, evaluate=True),
        Fit("lasso", "-t stars --penalty lasso", tolerance=PATH),
        Fit("ridge", "-t stars --penalty ridge", tolerance=PATH),
        Fit("poisson", "-t stars --loss poisson", tolerance=NEWTON),
        Compare("compare", "-t stars"),
    ],
    "mtcars": [
        Fit("two columns", "-t mpg --features wt,hp", exports=EVERY, load=True, evaluate=True, predict_options="--interval 0.95"),
        Fit("formula", "--formula 'mpg ~ wt + log(hp) + wt:hp'"),
        Fit("formula with target", "-t mpg --formula 'mpg ~ wt'"),
        Fit("formula without its target", "-t mpg --formula 'wt + C(cyl)'"),
        Fit("contradictory target", "-t qsec --formula 'mpg ~ wt'"),
        Fit("category", "--formula 'mpg ~ C(cyl) * wt'"),
        Fit("all but one", "--formula 'mpg ~ . - make - carb'"),
        Fit("no intercept", "--formula 'mpg ~ wt - 1'", exports="sql"),
        Fit("no intercept by zero", "--formula 'mpg ~ 0 + wt + hp'"),
        Fit("no intercept, levels", "--formula 'mpg ~ make - 1'"),
        Fit("no intercept, levels and slope", "--formula 'mpg ~ make + wt + 0'"),
        Fit("intercept removed and put back", "--formula 'mpg ~ wt - 1 + 1'"),
        Fit("no intercept by option", "-t mpg --features wt --no-intercept"),
        Fit("all", "-t mpg", exports="python"),
        Fit("ridge", "-t mpg --penalty ridge", tolerance=PATH),
        Fit("lasso", "-t mpg --penalty lasso", tolerance=PATH),
        Fit("elastic net at 0.5", "-t mpg --penalty elastic --alpha 0.5", tolerance=PATH),
        Fit("derived and filtered", "-t mpg --derive lwt=ln(wt) --features lwt,hp --where 'cyl > 4'", exports="sql"),
        Fit("manual", "-t am --features wt", tolerance=NEWTON, exports=EVERY),
        Fit("huber", "-t mpg --features wt,hp --loss huber", tolerance=NEWTON),
        Fit("absolute", "-t mpg --features wt,hp --loss absolute", tolerance=1e-3),
        Fit("unknown target", "-t miles"),
        Fit("unknown feature", "-t mpg --features weight"),
        Fit("unknown function", "--formula 'mpg ~ splines(wt)'"),
        Fit("unknown penalty", "-t mpg --penalty rigde"),
        Fit("unknown option", "-t mpg --penlaty ridge"),
        Stream("stream without intercept", "-t mpg --features wt --learner gradient --rate 0.01 --no-intercept", predictions=True),
        Compare("compare", "-t mpg --features wt,hp,qsec"),
    ],
    "longley": [
        Fit("squares", "-t TOTEMP", tolerance=1e-7, exports="sql json"),
        Fit("ridge", "-t TOTEMP --penalty ridge", tolerance=PATH),
        Compare("compare", "-t TOTEMP", tolerance=1e-5),
    ],
    "spector": [
        Fit("logit", "-t GRADE", tolerance=NEWTON, exports=EVERY, evaluate=True),
        Fit("lasso", "-t GRADE --penalty lasso --alpha 0.05", tolerance=GAP),
        Fit("hinge", "-t GRADE --loss hinge --penalty ridge --alpha 0.1", tolerance=1e-3),
        Stream("stream", "-t GRADE"),
    ],
    "iris": [
        Fit("softmax", "-t flower --penalty ridge --alpha 0.1", tolerance=PATH, exports=EVERY, evaluate=True, load=True),
        Fit("two of three", "-t flower --where \"flower <> 'setosa'\"", tolerance=1e-6),
        Fit("lasso", "-t flower --penalty lasso --alpha 0.05", tolerance=GAP),
        Stream("stream", "-t flower"),
    ],
    "diabetes": [
        Fit("squares", "-t progress", exports=EVERY, evaluate=True, predict_options="--interval 0.9"),
        Fit("ridge", "-t progress --penalty ridge", tolerance=PATH),
        Fit("lasso", "-t progress --penalty lasso", tolerance=PATH, exports="sql"),
        Fit("elastic net", "-t progress --penalty elastic", tolerance=PATH),
        Fit("ten folds", "-t progress --folds 10", predict=None),
        Compare("compare", "-t progress"),
    ],
    "counts": [
        Fit("poisson", "-t executions --features income,perpoverty,south,degree --loss poisson", tolerance=NEWTON, exports=EVERY),
        Fit("weighted", "-t executions --features south,degree --loss poisson --weights weight", tolerance=NEWTON),
    ],
    "grunfeld": [
        Fit("firms", "-t invest --features value,capital,firm", exports="sql"),
        Fit("year as a category", "--formula 'invest ~ value + C(year)'"),
    ],
    "dependent": [
        Fit("squares", "-t y --features a,b,c,d"),
        Fit("levels that settle levels", "-t y --features a,town,country"),
        Fit("ridge", "-t y --features a,b,c,d --penalty ridge", tolerance=PATH),
        Fit("lasso at 0.1", "-t y --features a,b,c,d --penalty lasso --alpha 0.1", tolerance=PATH, unique=False),
        Compare("compare", "-t y --features a,b,c,d"),
        Stream("stream", "-t y --features a,b,c,d"),
    ],
    "constant": [
        Fit("constant column", "-t y --features x,unit --where 'y is not null'"),
        Fit("emptied level", "-t y --features x,order --missing drop"),
        Fit("emptied column", "-t y --features x,still --missing drop"),
    ],
    "missing": [
        Fit("refuse", "-t rent"),
        Fit("drop", "-t rent --missing drop"),
        Fit("drop, then predict the features", "-t rent --missing drop", predict="features.csv"),
        Fit("mean", "-t rent --missing mean --where 'rent is not null'", predict="features.csv", exports="sql python"),
        Fit("indicator", "-t rent --missing indicator --where 'rent is not null'", predict="features.csv", exports="sql"),
        Fit("ridge with means", "-t rent --missing mean --penalty ridge --where 'rent is not null'", tolerance=PATH, predict="features.csv"),
        Stream("stream", "-t rent --missing drop"),
    ],
    "dates": [
        Fit("day", "-t y --features day", tolerance=1e-8),
        Fit("moment", "-t y --features moment", tolerance=1e-8),
        Fit("ambiguous", "-t y", data="slashes.csv", tolerance=1e-8),
        Fit("month first", "-t y", data="american.csv", tolerance=1e-8),
        Stream("stream", "-t y --features day"),
    ],
    "words": [
        Fit("odd names", "-t y --features \"co l'or,ok,2nd\"", exports="sql python json onnx", load=True),
        Fit("codes", "--formula 'y ~ C(code) + ok'"),
        Fit("plain names", "-t y", data="plain.csv", exports=EVERY),
        Fit("two words", "-t says --features 2nd,ok", tolerance=NEWTON),
        Fit("unseen level", "-t y --features colour", data="plain.csv", predict="data.csv"),
        Stream("stream", "-t y --features colour,x", data="plain.csv"),
    ],
    "identifier": [
        Fit("name and number", "-t y"),
        Fit("number", "-t y --features x"),
    ],
    "wide": [
        Fit("squares", "-t y", tolerance=1e-8),
        Fit("ridge at 1", "-t y --penalty ridge --alpha 1", tolerance=1e-8),
        Fit("lasso", "-t y --penalty lasso", tolerance=PATH),
        Fit("logistic ridge", "-t sign --penalty ridge --alpha 0.1", tolerance=PATH),
        Stream("stream", "-t y"),
    ],
    "sparse": [
        Stream("svmlight", "", data="data.svm"),
        Stream("svmlight, classes", "", data="labels.svm"),
        Stream("svmlight, widrow-hoff", "--learner gradient --rate 0.05", data="data.svm", predictions=True),
        Stream("svmlight, predicted", "--learner gradient --rate 0.05", data="data.svm", predict="data.svm"),
        Stream("large numbers", "--learner gradient --rate 0.1", data="large.svm", predictions=True),
        Stream("shifted lines", "--learner gradient --rate 0.1", data="shifted.svm", predictions=True),
    ],
    "vw": [
        Stream("squares", "", data="data.vw"),
        Stream("gradient", "--learner gradient --rate 0.05", data="data.vw", predictions=True),
        Stream("resumed", "--learner gradient --rate 0.05", data="data.vw", then="mixed.vw", predictions=True),
        Stream("mixed", "--learner gradient --rate 0.05", data="mixed.vw", predictions=True),
        Stream("predicted", "--learner gradient --rate 0.05", data="data.vw", predict="unlabelled.vw"),
        Stream("anonymous features", "--learner gradient --rate 0.01", data="anonymous.vw", predictions=True),
        Stream("numeric tags", "--learner gradient --rate 0.01", data="tags.vw", predictions=True),
        Stream("base", "--learner gradient --rate 0.01", data="base.vw", predictions=True),
        Stream("two colons", "--learner gradient --rate 0.01", data="colons.vw", predictions=True),
        Stream("broken", "", data="broken.vw"),
    ],
    "far": [
        Fit("squares", "-t arrive --features km", tolerance=1e-7, exports="sql python c"),
        Fit("absolute", "-t arrive --features km --loss absolute", tolerance=1e-3),
        Fit("absolute, near", "-t late --features km --loss absolute", tolerance=1e-3),
        Fit("huber", "-t arrive --features km --loss huber", tolerance=GAP),
        Fit("huber at a million", "-t far --features km --loss huber", tolerance=GAP),
        Fit("ridge at 1", "-t arrive --features km --penalty ridge --alpha 1", tolerance=1e-7),
        Fit("lasso at 1", "-t arrive --features km --penalty lasso --alpha 1", tolerance=1e-6),
        Stream("stream", "-t far --features km"),
    ],
    "few": [
        Fit("three rows", "-t y --features x,z"),
        Fit("one column", "-t y --features x"),
        Fit("constant target", "-t same --features x,z"),
        Fit("one row", "-t y", data="one.csv"),
        Fit("two rows", "-t y --features x", data="two.csv"),
        Stream("stream", "-t y --features x", data="two.csv"),
    ],
    "weighted": [
        Fit("squares", "-t y --features x,z --weights w", exports="sql"),
        Fit("logistic", "-t label --features x,z --weights w", tolerance=NEWTON),
        Fit("lasso at 0.1", "-t y --features x,z --weights w --penalty lasso --alpha 0.1", tolerance=PATH),
        Fit("negative", "-t y --weights w", data="negative.csv"),
        Stream("gradient", "-t y --features x,z --weights w --learner gradient --rate 0.01", predictions=True),
    ],
    "separable": [
        Fit("unpenalised", "-t side", tolerance=0.1, predict=None),
        Fit("ridge at 0.1", "-t side --penalty ridge --alpha 0.1", tolerance=PATH, exports="c"),
        Stream("perceptron", "-t side --learner perceptron", predictions=True),
    ],
    "waves": [
        Fit("polynomial", "--formula 'y ~ poly(x, 5)'", tolerance=1e-8),
        Fit("spline", "--formula 'y ~ spline(x, 6)'", tolerance=1e-8),
        Fit("gaussians", "--formula 'y ~ gaussian(x, 6)'", tolerance=1e-6),
        Fit("two widths", "--formula 'y ~ gaussian(x, 5, width=0.1) + gaussian(x, 3, width=0.5)'", tolerance=1e-5),
        Fit("two sigmoids", "--formula 'y ~ sigmoid(x, 1, slope=1) + sigmoid(x, 1, slope=5)'", tolerance=1e-7),
        Fit("sines", "--formula 'y ~ sin(x) + cos(x) + x:z'", tolerance=1e-7),
        Fit("level for each city", "--formula 'rent ~ x + city - 1'"),
    ],
    "outliers": [
        Fit("huber", "-t y --features x,z --loss huber", tolerance=NEWTON),
        Fit("absolute", "-t y --features x,z --loss absolute", tolerance=1e-3),
        Fit("quantile", "-t y --features x,z --loss quantile", tolerance=1e-3),
        Fit("squared hinge", "-t up --features x,z --loss squared_hinge --penalty ridge --alpha 0.01", tolerance=PATH),
    ],
    "engel": [
        Fit("median", "-t foodexp --loss quantile", tolerance=1e-3),
    ],
    "trump": [
        Stream("mixture", "-t approval"),
        Stream("recursive", "-t approval --learner recursive", predictions=True, tolerance=1e-6),
        Stream("normalised", "-t approval --learner normalised --rate 0.5", predictions=True),
    ],
    "phishing": [
        Stream("mixture", "-t bad"),
        Stream("logistic gradient", "-t bad --learner gradient --rate 0.1", predictions=True),
        Stream("perceptron", "-t bad --learner perceptron", predictions=True),
    ],
    "drifting": [
        Stream("mixture", "-t y --features a,b,c"),
        Stream("mixture, resumed", "-t y --features a,b,c", data="first.csv", then="second.csv"),
        Stream("gradient", "-t y --features a,b,c --learner gradient --rate 0.05", predictions=True, predict="data.csv"),
        Stream("gradient, resumed", "-t y --features a,b,c --learner gradient --rate 0.05", data="first.csv", then="second.csv", predictions=True),
        Stream("implicit", "-t y --features a,b,c --learner implicit --rate 0.3", predictions=True),
        Stream("adagrad", "-t y --features a,b,c --learner adagrad --rate 0.5", predictions=True),
        Stream("exponentiated", "-t y --features a,b,c --learner exponentiated --rate 0.01", predictions=True),
        Stream("absolute", "-t y --features a,b,c --learner gradient --rate 0.05 --loss absolute", predictions=True),
        Stream("widrow-hoff", "-t y --features a,b,c --learner widrow-hoff --rate 0.05", predictions=True),
        Stream("widrow-hoff at many rates", "-t y --features a,b,c --learner widrow-hoff"),
        Stream("three classes", "-t kind --features a,b,c"),
        Stream("winnow", "-t up", data="votes.csv", predictions=False),
        Stream("two epochs", "-t y --features a,b,c --learner gradient --rate 0.05 --epochs 2"),
        Stream("rate beyond its range", "-t y --features a,b,c --learner gradient --rate -1"),
    ],
    "prices": [
        Fit("lags", "--formula 'price ~ lags(price, 2) + lag(other, 2)'", predict=None, tolerance=1e-8),
    ],
    "served": [
        Serve("gradient", {**_MODEL, "task": "regression", "learner": {"geometry": "additive", "rate": 0.05}}, kill=True),
        Serve("mixture", {**_MODEL, "task": "regression"}),
        Serve("classes", {**_MODEL, "task": "classification", "learner": {"geometry": "additive", "rate": 0.1}}, lambda y: int(y > 0)),
    ],
    "formats": [
        *[Fit(name, "-t y", data=f"data.{name}", predict="data.csv") for name in ("csv", "tsv", "csv.gz", "parquet", "arrow", "ndjson")],
        Fit("decimal comma", "-t y --separator ; --decimal ,", data="comma.csv", predict="data.csv"),
        *[Fit(name, "-t y", data=f"{name}.csv") for name in ("ragged", "word", "infinite", "twice", "header", "quote", "empty", "hole", "notutf8", "absent", "beyond")],
        Fit("repeated keys", "-t y", data="keys.ndjson"),
        Fit("cut short", "-t y", data="cut.parquet"),
    ],
}  # fmt: skip

CASES: dict[str, list[Case]] = {
    name: [
        *COMMANDS.get(name, []),
        *[Python(f"library: {case}", *call) for case, call in LIBRARY.get(name, {}).items()],
    ]
    for name in {**COMMANDS, **LIBRARY}
}
